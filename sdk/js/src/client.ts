import { placeOf, show } from "./codec/position.js";
import { gapCause, type HistoryPage } from "./codec/server.js";
import { expire, expired, history, publish, type Call, type PublishInput, type Published } from "./core/calls.js";
import { after, close, connect } from "./core/connection.js";
import { inspect } from "./core/inspect.js";
import type { HistoryOptions, SubscribeOptions } from "./core/options.js";
import { start, subscribe } from "./core/subscriptions.js";
import { renew } from "./core/tokens.js";
import { GapError, closedBy, type CroreError } from "./errors.js";
import type { Gap } from "./items.js";
import type { Message, Tag } from "./message.js";
import type { Data, Options, Persisted, PublishOptions, Resumed } from "./options.js";
import { binary, newShell, type Shell } from "./shell.js";
import type { State } from "./state.js";
import { Subscription } from "./subscription.js";

/** One page of a topic's history. */
export interface Page {
  messages: Message[];
  /** Further messages follow in this direction. */
  more: boolean;
  /** A range before the first message that is gone. */
  gap: Gap | undefined;
}

/** Numbers of the rules; they are inlined. */
const enum Limit {
  DrainMs = 5_000,
}

/**
 * A client of Crore. It connects at once, and comes back by itself for as long as that makes sense;
 * subscriptions and `once` publications outlive connections.
 */
export class Crore {
  private readonly shell: Shell;
  private readonly persisted: Persisted | undefined;
  private readonly resumed: Resumed | undefined;

  /** `urls`: one or several nodes, such as `wss://example.com`. */
  constructor(urls: string | readonly string[], options: Options = {}) {
    const shell = (this.shell = newShell(urls, options, () => this.persisted?.release()));
    this.persisted = options.persist?.(shell, (input, signal) => this.send(input, signal));
    const begin = () => shell.act(() => connect(shell.core));
    this.resumed = options.resume?.(shell, begin);
    if (!this.resumed) begin();
  }

  /** The state of the connection. */
  get state(): State {
    return this.shell.core.shown;
  }

  /** Calls back at each change of the state; returns what ends that. */
  onState(listener: (state: State) => void): () => void {
    return added(this.shell.onState, listener);
  }

  /** Calls back for refusals that belong to no call, such as that of a renewed token. */
  onError(listener: (error: CroreError) => void): () => void {
    return added(this.shell.onError, listener);
  }

  /** Resolves when the client is live; rejects only if it never will be. */
  async ready(): Promise<void> {
    const reached = await this.reached("live");
    if (reached.state === "closed") throw closedBy(reached);
  }

  /**
   * Subscribes to a topic or filter, connected or not. Throws `InvalidArgument`,
   * `AlreadySubscribed` and `Closed`; a refusal of the server is thrown by the reader.
   */
  subscribe(topic: string, options: SubscribeOptions = {}): Subscription {
    const { name } = options;
    const { core, act } = this.shell;
    const it = act(() => subscribe(core, topic, options, () => subscription.notify()));
    const progress = name === undefined ? name : this.resumed?.begin(it, name);
    const subscription = new Subscription(it, this.shell, progress);
    if (!progress) act(() => start(core, it));
    return subscription;
  }

  /** Publishes one message; resolves with its position in the log. */
  async publish(topic: string, data: Data, options: PublishOptions = {}): Promise<Published> {
    const { signal, key, ...rest } = options;
    const { once, tags = [] } = rest;
    const [payload, contentType] = payloadOf(data);
    const input = {
      ...rest,
      contentType: rest.contentType ?? contentType,
      topic,
      payload,
      tags: Array.isArray(tags) ? (tags as readonly Tag[]) : Object.entries(tags),
      once: key === undefined ? once : binary(key),
    };
    if (this.persisted && input.once === true) return this.persisted.publish(input, signal);
    return this.send(input, signal);
  }

  private send(input: PublishInput, signal?: AbortSignal): Promise<Published> {
    return this.call((settle) => publish(this.shell.core, input, settle), signal);
  }

  /** The messages of a topic's log, page by page. */
  async *history(topic: string, options: HistoryOptions = {}): AsyncGenerator<Message, void, void> {
    let { after, limit = Infinity } = options;
    while (limit > 0) {
      const { messages, gap, more } = await this.historyPage(topic, { ...options, after, limit });
      if (gap && options.gaps !== "report") throw new GapError(gap.from, gap.to, gap.cause, undefined);
      yield* messages;
      limit -= messages.length;
      if (!more || !messages.length) return;
      after = messages[messages.length - 1]!.position;
    }
  }

  /** One page of a topic's log. */
  async historyPage(topic: string, options: HistoryOptions = {}): Promise<Page> {
    const place = options.after === undefined ? undefined : placeOf(options.after);
    const page = await this.call<HistoryPage>((settle) => history(this.shell.core, topic, place, options, settle));
    const [, flags, , epoch, , from, to, reason, , messages] = page;
    const at = (offset: number) => show({ inEpoch: epoch, upTo: offset });
    const gap: Gap | undefined =
      from === undefined
        ? from
        : { kind: "gap", from: at(from), to: at(to!), cause: gapCause(reason!), partition: undefined };
    return { messages, more: !!(flags & 2), gap };
  }

  /** Continues with another token of the same subject. */
  renew(token: string): void {
    const { core, act } = this.shell;
    act(() => renew(core, token));
  }

  /** State, subscriptions, queue, counters and the last 64 events; no token and no payload. */
  inspect(): Record<string, unknown> {
    return inspect(this.shell.core);
  }

  /** Waits for open calls (at most `drain` milliseconds, 5,000), then leaves for good. */
  async close(options: { drain?: number } = {}): Promise<void> {
    const { core, act } = this.shell;
    await this.persisted?.idle();
    act(() => close(core, options.drain ?? Limit.DrainMs));
    await this.reached("closed");
    await this.resumed?.idle();
    await this.persisted?.idle();
  }

  /** Waits for a state, or for the end. */
  private reached(wanted: string): Promise<State> {
    return new Promise((resolve) => {
      const check = (state: State) => {
        if (state.state !== wanted && state.state !== "closed") return;
        stop();
        resolve(state);
      };
      const stop = this.onState(check);
      check(this.state);
    });
  }

  private call<T>(begin: (settle: (error?: CroreError, value?: any) => void) => Call, signal?: AbortSignal): Promise<T> {
    const { core, act } = this.shell;
    return new Promise((resolve, reject) => {
      if (signal?.aborted) throw expired();
      const abandon = () =>
        act(() => {
          expire(core, call);
          after(core);
        });
      const call = act(() =>
        begin((error, value) => {
          signal?.removeEventListener("abort", abandon);
          if (error) reject(error);
          else resolve(value);
        }),
      );
      if (call.settle) signal?.addEventListener("abort", abandon);
    });
  }
}

/** Adds to a set; returns what takes it out again. */
const added = <T>(set: Set<T>, it: T): (() => void) => {
  set.add(it);
  return () => set.delete(it);
};

const payloadOf = (data: Data): [payload: Uint8Array, contentType?: string] => {
  if (typeof data === "string" || data instanceof Uint8Array) return [binary(data)];
  if (data instanceof ArrayBuffer) return [new Uint8Array(data)];
  return [binary(JSON.stringify(data)), "application/json"];
};
