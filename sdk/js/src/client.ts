import { Core, type Output, type State } from "./core/core.js";
import type { Call, Published } from "./core/calls.js";
import type { CoreSubscription } from "./core/subscription.js";
import type { WireStart } from "./codec/client.js";
import { parse, type Place } from "./codec/position.js";
import type { HistoryPage } from "./codec/server.js";
import { isWild } from "./codec/topics.js";
import { encodeUtf8 } from "./codec/utf8.js";
import { CroreError, GapError, invalid } from "./errors.js";
import type { Gap } from "./items.js";
import type { Message, Tag } from "./message.js";
import type { Data, HistoryOptions, Options, Persisted, PublishOptions, Start, SubscribeOptions, TokenSource } from "./options.js";
import { clock, consoleLog, platform, randomBytes, socketUrl, type SocketLike } from "./platform.js";
import { Saver } from "./storage.js";
import { Subscription } from "./subscription.js";

/** One page of a topic's history. */
export interface Page {
  messages: Message[];
  /** Further messages follow in this direction. */
  more: boolean;
  /** A range before the first message that is gone. */
  gap: Gap | undefined;
}

const POLICIES = ["replay", "conflate", "drop", "disconnect"];
const UNSENT_MAX = 1024 * 1024; // U15
const UNSENT_CHECK_MS = 20;
const PROBE_MS = 3_000;
const DRAIN_MS = 5_000;
/** The longest wait of the platforms' timers. */
const TIMER_MS_MAX = 0x7fffffff;

interface Waiter {
  resolve: (value: any) => void;
  reject: (error: CroreError) => void;
}

/**
 * A client of Crore. It connects at once, and comes back by itself for as long as that makes sense;
 * subscriptions and `once` publications outlive connections.
 */
export class Crore {
  private readonly core: Core;
  private readonly tokenSource: TokenSource | undefined;
  private readonly log: Options["log"];
  private readonly subscriptions = new Map<CoreSubscription, Subscription>();
  private readonly named = new Set<Subscription>();
  private readonly waiters = new Map<Call, Waiter>();
  private readonly stateListeners = new Set<(state: State) => void>();
  private readonly errorListeners = new Set<(error: CroreError) => void>();
  private readonly stops: (() => void)[] = [];
  private readonly persisted: Persisted | undefined;
  private tokenCall: AbortController | undefined;
  private socket: SocketLike | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private timerAt = Infinity;
  private unsentTimer: ReturnType<typeof setTimeout> | undefined;
  private isFlushing = false;
  private isFlushPlanned = false;
  private hiddenFailures = 0;

  /** `urls`: one or several nodes, such as `wss://example.com`. */
  constructor(urls: string | readonly string[], private readonly options: Options = {}) {
    const list = (typeof urls === "string" ? [urls] : urls).map(socketUrl);
    if (!list.length) throw invalid("there is no URL");
    if (!options.webSocket && !platform.WebSocket) throw invalid("this platform has no WebSocket: give `webSocket`");
    const { token, name, producerId, backoff = {}, buffer = {} } = options;
    this.tokenSource = typeof token === "function" ? token : undefined;
    this.log = options.log ?? consoleLog();
    const id = typeof producerId === "string" ? encodeUtf8(producerId) : producerId;
    if (id && (id.length < 1 || id.length > 64)) throw invalid("a producer's id has 1 to 64 bytes");
    this.core = new Core({
      urls: list,
      token: typeof token === "string" ? token : undefined,
      hasTokenSource: this.tokenSource !== undefined,
      name,
      producerId: id ?? randomBytes(16),
      backoff: {
        baseMs: backoff.base ?? 500,
        maxMs: backoff.max ?? 30_000,
        resetAfterMs: backoff.resetAfter ?? 10_000,
      },
      bufferItems: buffer.items ?? 1_024,
      bufferBytes: buffer.bytes ?? 1024 * 1024,
      random: Math.random,
      logs: this.log !== undefined,
    });
    this.persisted = options.persist?.({
      publish: (input) => this.call(() => this.core.publish(clock(), input)),
      producer: (id) => this.core.setProducer(id),
      isClosed: () => this.state.state === "closed",
      failed: (error) => this.callbackFailed(error),
    });
    this.listen();
    this.core.start(clock());
    this.flush();
  }

  /** The state of the connection. */
  get state(): State {
    return this.core.state;
  }

  /** Calls back at each change of the state; returns what ends that. */
  onState(listener: (state: State) => void): () => void {
    this.stateListeners.add(listener);
    return () => void this.stateListeners.delete(listener);
  }

  /** Calls back for refusals that belong to no call, such as that of a renewed token. */
  onError(listener: (error: CroreError) => void): () => void {
    this.errorListeners.add(listener);
    return () => void this.errorListeners.delete(listener);
  }

  /** Resolves when the client is live; rejects only if it never will be. */
  ready(): Promise<void> {
    return new Promise((resolve, reject) => {
      const check = (state: State) => {
        if (state.state === "live") resolve();
        else if (state.state === "closed") reject(closedBy(state));
        else return false;
        return true;
      };
      if (check(this.state)) return;
      const stop = this.onState((state) => {
        if (check(state)) stop();
      });
    });
  }

  /**
   * Subscribes to a topic or filter, connected or not. Throws `InvalidArgument`,
   * `AlreadySubscribed` and `Closed`; a refusal of the server is thrown by the reader.
   */
  subscribe(topic: string, options: SubscribeOptions = {}): Subscription {
    const start = startOf(options.start ?? "live");
    const { failOnGap = false, policy, overflow } = options;
    const number = policy === undefined ? undefined : POLICIES.indexOf(policy);
    const begin = (start: WireStart) =>
      this.core.subscribe(clock(), topic, { start, failOnGap, policy: number, skips: overflow === "skip" });
    const { storage } = this.options;
    const keeper = {
      take: (it: CoreSubscription) => {
        const item = this.core.takeOne(clock(), it);
        if (this.core.outputs.length) this.planFlush();
        return item;
      },
      end: (it: CoreSubscription) => {
        const subscription = this.subscriptions.get(it);
        if (subscription) this.named.delete(subscription);
        this.core.unsubscribe(clock(), it);
        this.flush();
      },
      failed: (error: unknown) => this.callbackFailed(error),
    };
    if (options.name === undefined || !storage) {
      const it = begin(start);
      const subscription = new Subscription(topic, keeper);
      this.adopt(it, subscription);
      return subscription;
    }
    this.core.check(topic);
    const key = `crore:position:${options.name}`;
    const saver = new Saver(storage, key, (error) => this.callbackFailed(error));
    const subscription = new Subscription(topic, keeper, saver);
    this.named.add(subscription);
    void this.stored(key, topic).then((stored) => {
      if (subscription.isEnded) return;
      try {
        this.adopt(begin(stored ?? start), subscription);
      } catch (error) {
        subscription.fail(error as CroreError);
      }
    });
    return subscription;
  }

  /** Publishes one message; resolves with its position in the log. */
  async publish(topic: string, data: Data, options: PublishOptions = {}): Promise<Published> {
    const { signal, tags = [], key } = options;
    const { payload, contentType } = payloadOf(data);
    const input = {
      topic,
      payload,
      retain: options.retain ?? false,
      contentType: options.contentType ?? contentType,
      tags: Array.isArray(tags) ? (tags as readonly Tag[]) : Object.entries(tags),
      expectedEpoch: options.expectedEpoch,
      once: key === undefined ? options.once ?? false : typeof key === "string" ? encodeUtf8(key) : key,
      timeoutMs: options.timeout,
    };
    if (signal?.aborted) throw new CroreError("Expired", "the call was given up before it was sent");
    if (this.persisted && input.once === true) return this.persisted.publish(input);
    return this.call(() => this.core.publish(clock(), input), signal);
  }

  /** The messages of a topic's log, page by page. */
  async *history(topic: string, options: HistoryOptions = {}): AsyncGenerator<Message, void, void> {
    let { after, limit = Infinity } = options;
    while (limit > 0) {
      const page = await this.historyPage(topic, { ...options, after, limit });
      if (page.gap && options.gaps !== "report") {
        throw new GapError(page.gap.from, page.gap.to, page.gap.cause, undefined);
      }
      yield* page.messages;
      limit -= page.messages.length;
      const last = page.messages[page.messages.length - 1];
      if (!page.more || !last) return;
      after = last.position;
    }
  }

  /** One page of a topic's log. */
  async historyPage(topic: string, options: HistoryOptions = {}): Promise<Page> {
    const { after, reverse = false, limit = 0, timeout } = options;
    const position = after === undefined ? undefined : placeOf(after);
    const count = limit === Infinity ? 0 : limit;
    const page = await this.call<HistoryPage>(() =>
      this.core.history(clock(), topic, position, reverse, count, timeout),
    );
    const { epoch, gap } = page;
    return {
      messages: page.messages,
      more: page.more,
      gap: gap && {
        kind: "gap",
        from: `${epoch}:${gap.from}`,
        to: `${epoch}:${gap.to}`,
        cause: gap.reason,
        partition: undefined,
      },
    };
  }

  /** Continues with another token of the same subject. */
  renew(token: string): void {
    this.core.renew(token);
    this.flush();
  }

  /** State, subscriptions, queue, counters and the last 64 events; no token and no payload. */
  inspect(): Record<string, unknown> {
    return this.core.inspect();
  }

  /** Waits for open calls (at most `drain` milliseconds, 5,000), then leaves for good. */
  async close(options: { drain?: number } = {}): Promise<void> {
    const end = new Promise<void>((resolve) => {
      if (this.state.state === "closed") return resolve();
      const stop = this.onState((state) => {
        if (state.state !== "closed") return;
        stop();
        resolve();
      });
    });
    await this.persisted?.idle();
    this.core.close(clock(), options.drain ?? DRAIN_MS);
    this.flush();
    await end;
    for (const it of this.named) await it.flush();
    await this.persisted?.idle();
  }

  private adopt(it: CoreSubscription, subscription: Subscription): void {
    this.subscriptions.set(it, subscription);
    subscription.begin(it);
    this.flush();
  }

  /** The stored start of a named subscription. */
  private async stored(key: string, topic: string): Promise<WireStart | undefined> {
    try {
      const text = await this.options.storage!.get(key);
      if (!text) return undefined;
      const positions = JSON.parse(text) as Record<number, string>;
      return startOf(isWild(topic) ? { sinceEach: positions } : { since: positions[0]! });
    } catch (error) {
      this.callbackFailed(error);
      return undefined;
    }
  }

  private call<T>(begin: () => Call, signal?: AbortSignal): Promise<T> {
    return new Promise((resolve, reject) => {
      this.checkUnsent();
      const call = begin();
      const abandon = () => {
        this.core.abandon(clock(), call);
        this.flush();
      };
      const stop = signal ? () => signal.removeEventListener("abort", abandon) : () => {};
      signal?.addEventListener("abort", abandon);
      this.waiters.set(call, {
        resolve: (value) => (stop(), resolve(value)),
        reject: (error) => (stop(), reject(error)),
      });
      this.planFlush();
    });
  }

  // The shell: outputs of the core become acts, and events of the platform inputs.

  /** U15: writes of one turn leave together. */
  private planFlush(): void {
    if (this.isFlushPlanned) return;
    this.isFlushPlanned = true;
    void Promise.resolve().then(() => {
      this.isFlushPlanned = false;
      this.flush();
    });
  }

  private flush(): void {
    if (this.isFlushing) return;
    this.isFlushing = true;
    while (this.core.outputs.length) {
      const outputs = this.core.outputs;
      this.core.outputs = [];
      for (const output of outputs) this.carryOut(output);
    }
    this.isFlushing = false;
    this.setTimer();
  }

  private carryOut(output: Output): void {
    switch (output.do) {
      case "send":
        try {
          this.socket?.send(output.bytes);
        } catch {
          // The socket has ended, and its event is on its way.
        }
        return;
      case "items": {
        const subscription = this.subscriptions.get(output.of);
        if (output.of.end) this.subscriptions.delete(output.of);
        return subscription?.notify();
      }
      case "settle": {
        const waiter = this.waiters.get(output.call);
        this.waiters.delete(output.call);
        if (output.error) waiter?.reject(output.error);
        else waiter?.resolve(output.value);
        return;
      }
      case "connect":
        return this.open(output.url);
      case "close":
        return this.leave(output.code);
      case "token":
        return this.askForToken(output.id, output.reason);
      case "state":
        if (output.state.state === "closed") this.stop();
        for (const listener of Array.from(this.stateListeners)) this.safely(() => listener(output.state));
        return;
      case "refused":
        for (const listener of Array.from(this.errorListeners)) this.safely(() => listener(output.error));
        return;
      case "log":
        this.safely(() => this.log!(output.level, output.event, output.fields));
    }
  }

  /** X5: a callback that throws harms nobody else. */
  private safely(act: () => void): void {
    try {
      act();
    } catch (error) {
      this.callbackFailed(error);
    }
  }

  private callbackFailed(error: unknown): void {
    try {
      this.log?.("error", "callback_failed", { error: String(error) });
    } catch {
      // The log itself has thrown.
    }
  }

  private open(url: string): void {
    const Socket = this.options.webSocket ?? platform.WebSocket!;
    let socket: SocketLike;
    try {
      socket = new Socket(url, ["crore.v1"]);
    } catch (error) {
      this.callbackFailed(error);
      this.core.failed(clock());
      return;
    }
    this.socket = socket;
    socket.binaryType = "arraybuffer";
    let isOpen = false;
    const mine = (act: () => void) => {
      if (this.socket !== socket) return;
      act();
      this.flush();
    };
    const ended = (code: number, status?: number) =>
      mine(() => {
        this.socket = undefined;
        if (isOpen) return this.core.closed(clock(), code);
        if (status === undefined && ++this.hiddenFailures === 3) {
          // Browsers do not show why a handshake was refused.
          this.safely(() => this.log?.("warn", "lost", { hint: "see the server's log: origin, subprotocol or token" }));
        }
        this.core.failed(clock(), status);
      });
    socket.onopen = () =>
      mine(() => {
        isOpen = true;
        this.hiddenFailures = 0;
        this.core.opened(clock());
      });
    socket.onmessage = ({ data }: { data: ArrayBuffer | string }) =>
      mine(() => this.core.received(clock(), typeof data === "string" ? data : new Uint8Array(data)));
    // Deno says 0 for a connection that was cut.
    socket.onclose = ({ code }: { code?: number }) => ended(code || 1006);
    // Node closes no socket that has never been open. `ws` tells the status of a handshake here.
    socket.onerror = (event: { message?: string }) => {
      const match = /response: (\d{3})/.exec(event.message ?? "");
      if (!isOpen) ended(1006, match ? Number(match[1]) : undefined);
    };
  }

  private leave(code: number): void {
    const socket = this.socket;
    this.socket = undefined;
    if (!socket) return;
    try {
      if (code !== 1006) socket.close(code);
      else if (socket.terminate) socket.terminate();
      else socket.close();
    } catch {
      // Browsers do not permit 1002: this is the protocol's own code for the same.
      socket.close(3500);
    }
  }

  /** T9 */
  private askForToken(id: number, reason: Parameters<TokenSource>[0]): void {
    this.tokenCall?.abort();
    const controller = platform.AbortController ? new platform.AbortController() : undefined;
    this.tokenCall = controller;
    void Promise.resolve()
      .then(() => this.tokenSource!(reason, controller?.signal))
      .then(
        (token) => this.core.token(clock(), id, token ?? undefined),
        (error) => {
          this.callbackFailed(error);
          this.core.tokenFailed(clock(), id, error?.name === "Unauthorized");
        },
      )
      .then(() => this.flush());
  }

  private setTimer(): void {
    const at = this.core.wakeAt ?? Infinity;
    // A timer that fires too early only looks again.
    if (this.timer !== undefined && at >= this.timerAt) return;
    if (this.timer !== undefined) clearTimeout(this.timer);
    this.timer = undefined;
    this.timerAt = at;
    if (at === Infinity) return;
    const wait = Math.min(Math.max(0, Math.ceil(at - clock())), TIMER_MS_MAX);
    this.timer = setTimeout(() => {
      this.timer = undefined;
      this.core.tick(clock());
      this.flush();
    }, wait);
  }

  /** U15: above 1 MiB of unsent bytes publications wait; no event tells when there is room again. */
  private checkUnsent(): void {
    const isBlocked = (this.socket?.bufferedAmount ?? 0) > UNSENT_MAX;
    if (isBlocked === this.core.isBlocked) return;
    this.core.isBlocked = isBlocked;
    if (!isBlocked || this.unsentTimer !== undefined) return;
    this.unsentTimer = setTimeout(() => this.unsentAgain(), UNSENT_CHECK_MS);
  }

  private unsentAgain(): void {
    this.unsentTimer = undefined;
    if (!this.core.isBlocked) return;
    this.core.isBlocked = false;
    if ((this.socket?.bufferedAmount ?? 0) > UNSENT_MAX) return this.checkUnsent();
    this.core.tick(clock());
    this.flush();
  }

  /** Events after which the connection may be dead, or a network be there again. */
  private listen(): void {
    const probe = () => {
      this.core.probe(clock(), PROBE_MS);
      this.flush();
    };
    const on = (target: any, type: string, listener: (event: any) => void) => {
      if (!target?.addEventListener) return;
      target.addEventListener(type, listener);
      this.stops.push(() => target.removeEventListener(type, listener));
    };
    const { document } = platform;
    if (document) {
      on(document, "visibilitychange", () => {
        if (document.visibilityState === "visible") probe();
      });
      on(platform, "pageshow", probe);
      // An open socket keeps a page out of the back and forward cache.
      on(platform, "pagehide", () => {
        if (!this.socket) return;
        this.leave(1000);
        this.core.suspend(clock());
        this.flush();
      });
      on(platform, "online", probe);
    }
    const app = this.options.appState?.addEventListener("change", (state) => {
      if (state === "active") probe();
    });
    if (app) this.stops.push(() => app.remove());
  }

  /** The client has ended: nothing of it stays behind. */
  private stop(): void {
    for (const stop of this.stops.splice(0)) stop();
    if (this.unsentTimer !== undefined) clearTimeout(this.unsentTimer);
    this.unsentTimer = undefined;
    this.tokenCall?.abort();
    this.persisted?.release();
  }
}

/** Why the client is closed. */
function closedBy(state: State): CroreError {
  const why = state.code ?? state.status;
  return new CroreError("Closed", `the client is closed: ${state.reason}${why ? ` (${why})` : ""}`);
}

function placeOf(position: string): Place {
  const place = parse(position);
  if (!place) throw invalid(`${position} is not a position`);
  return place;
}

function startOf(start: Start): WireStart {
  if (typeof start === "string") return { kind: start };
  if ("since" in start) return { kind: "since", ...placeOf(start.since) };
  if ("last" in start) return { kind: "last", count: start.last };
  const positions = Object.entries(start.sinceEach).map(([partition, position]) => ({
    partition: Number(partition),
    ...placeOf(position),
  }));
  return { kind: "since_each", positions };
}

function payloadOf(data: Data): { payload: Uint8Array; contentType: string | undefined } {
  if (typeof data === "string") return { payload: encodeUtf8(data), contentType: undefined };
  if (data instanceof Uint8Array) return { payload: data, contentType: undefined };
  if (data instanceof ArrayBuffer) return { payload: new Uint8Array(data), contentType: undefined };
  return { payload: encodeUtf8(JSON.stringify(data)), contentType: "application/json" };
}
