import type { CoreSubscription } from "./core/subscription.js";
import { show } from "./codec/position.js";
import { CroreError, GapError } from "./errors.js";
import type { Item, Report } from "./items.js";
import type { Message } from "./message.js";
import { Saver } from "./storage.js";

/** What a subscription needs of its client. @internal */
export interface Keeper {
  take(it: CoreSubscription): Item | undefined;
  end(it: CoreSubscription): void;
  failed(error: unknown): void;
}

/** What `messages()` does with a gap. */
export interface MessagesOptions {
  /** `"throw"` (default): `GapError` in place of the gap; iterate again to go on. */
  gaps?: "throw" | "report";
}

/**
 * The items of one topic or filter, over all connections, in the log's order. It has one reader: an
 * item counts as processed when the reader asks for the next one.
 */
export class Subscription implements AsyncIterable<Item> {
  private core: CoreSubscription | undefined;
  private readonly saver: Saver | undefined;
  private saved = "";
  private wake: (() => void)[] = [];
  /** An end without the core: refused at the call, or before the stored position was read. */
  private ended: { error: CroreError | undefined } | undefined;

  /** @internal */
  constructor(
    /** The topic or filter. */
    readonly topic: string,
    private readonly keeper: Keeper,
    saver?: Saver,
  ) {
    this.saver = saver;
  }

  /** @internal */
  begin(core: CoreSubscription): void {
    this.core = core;
    this.notify();
  }

  /** @internal */
  get isEnded(): boolean {
    return this.ended !== undefined;
  }

  /** @internal */
  fail(error: CroreError | undefined): void {
    this.ended ??= { error };
    this.notify();
  }

  /** There are items, or it has ended. @internal */
  notify(): void {
    const waiting = this.wake;
    this.wake = [];
    for (const wake of waiting) wake();
  }

  /** The next item: `undefined` after the end. Throws if the server or the client has ended it. */
  async next(): Promise<Item | undefined> {
    if (this.saver) this.store();
    for (;;) {
      const item = this.core && this.keeper.take(this.core);
      if (item) return item;
      const end = this.core?.end ?? this.ended;
      if (end?.error) throw end.error;
      if (end) return undefined;
      await new Promise<void>((resolve) => this.wake.push(resolve));
    }
  }

  [Symbol.asyncIterator](): AsyncIterator<Item> {
    const next = async (): Promise<IteratorResult<Item>> => {
      const value = await this.next();
      return value ? { done: false, value } : { done: true, value: undefined };
    };
    return { next };
  }

  /** Only the messages. A gap throws `GapError` in its place; iterate again to go on. */
  messages(options: MessagesOptions = {}): AsyncIterableIterator<Message> {
    const next = async (): Promise<IteratorResult<Message>> => {
      for (;;) {
        const value = await this.next();
        if (!value) return { done: true, value: undefined };
        if (value.kind === "message") return { done: false, value };
        if (value.kind === "gap" && options.gaps !== "report") {
          throw new GapError(value.from, value.to, value.cause, value.partition);
        }
      }
    };
    const iterator: AsyncIterableIterator<Message> = { next, [Symbol.asyncIterator]: () => iterator };
    return iterator;
  }

  /**
   * Calls back for each item, one after the other: the next one when the callback has returned, and
   * its promise is fulfilled. A callback that throws is logged, and harms nobody else. Resolves at
   * the end.
   */
  async each(callback: (item: Item) => unknown): Promise<void> {
    for (;;) {
      const item = await this.next();
      if (!item) return;
      try {
        await callback(item);
      } catch (error) {
        this.keeper.failed(error);
      }
    }
  }

  /** Whether everything has come so far, and what has not. */
  report(): Report {
    return (
      this.core?.report() ?? {
        complete: true,
        basis: "announced",
        gaps: 0,
        newest: [],
        skips: 0,
        messages: 0,
        position: undefined,
        positions: {},
      }
    );
  }

  /** Ends it: no item comes afterwards. */
  close(): void {
    if (this.core) this.keeper.end(this.core);
    this.fail(undefined);
  }

  /** Resolves when the processed position is stored. */
  async flush(): Promise<void> {
    await this.saver?.idle();
  }

  /** P14: stores what the reader has processed. */
  private store(): void {
    if (!this.core) return;
    const positions: Record<string, string> = {};
    for (const [partition, place] of this.core.processed) positions[partition] = show(place);
    const text = JSON.stringify(positions);
    if (text === this.saved || text === "{}") return;
    this.saved = text;
    this.saver!.save(text);
  }
}
