import { reportOf, type CoreSubscription } from "./core/subscription.js";
import { takeOne, unsubscribe } from "./core/subscriptions.js";
import { CroreError, GapError } from "./errors.js";
import type { Item, Report } from "./items.js";
import type { Message } from "./message.js";
import type { Shell } from "./shell.js";
import type { Progress } from "./options.js";

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
  private wakes: (() => void)[] = [];

  /** @internal */
  constructor(
    private readonly core: CoreSubscription,
    private readonly shell: Shell,
    private readonly progress?: Progress,
  ) {}

  /** The topic or filter. */
  get topic(): string {
    return this.core.pattern;
  }

  /** There are items, or it has ended. @internal */
  notify(): void {
    this.progress?.begun();
    for (let wake; (wake = this.wakes.shift()); ) wake();
  }

  /** The next item: `undefined` after the end. Throws if the server or the client has ended it. */
  async next(): Promise<Item | undefined> {
    for (;;) {
      const item = this.take();
      if (item) return item;
      const { end } = this.core;
      if (end?.error) throw end.error;
      if (end) return undefined;
      await this.news();
    }
  }

  /**
   * Resolves when the server has granted it for the first time: from then on it misses nothing.
   * Throws if it ends before.
   */
  async ready(): Promise<void> {
    for (const { core } = this; !core.hasBegun; await this.news()) {
      if (core.end) throw core.end.error ?? new CroreError("Closed", "it has ended");
    }
  }

  /** The reader asks for an item: P14. */
  private take(): Item | undefined {
    this.progress?.asked();
    return takeOne(this.shell.core, this.core);
  }

  private news(): Promise<void> {
    return new Promise((resolve) => this.wakes.push(resolve));
  }

  [Symbol.asyncIterator](): AsyncIterator<Item> {
    return this.iterate(() => true);
  }

  /** Only the messages. A gap throws `GapError` in its place; iterate again to go on. */
  messages(options: MessagesOptions = {}): AsyncIterableIterator<Message> {
    return this.iterate((item) => {
      if (item.kind === "gap" && options.gaps !== "report") {
        throw new GapError(item.from, item.to, item.cause, item.partition);
      }
      return item.kind === "message";
    });
  }

  /** An iterator over the items that `accepts` wants. It takes all buffered items at once, like `each`. */
  private iterate<T extends Item>(accepts: (item: Item) => boolean): AsyncIterableIterator<T> {
    const it: AsyncIterableIterator<T> = {
      next: async () => {
        for (;;) {
          const value = this.take() ?? (await this.next());
          if (!value || accepts(value)) return { done: !value, value } as IteratorResult<T>;
        }
      },
      [Symbol.asyncIterator]: () => it,
    };
    return it;
  }

  /**
   * Calls back for each item, one after the other: the next one when the callback has returned, and
   * its promise is fulfilled. A callback that throws is logged, and harms nobody else. Resolves at
   * the end.
   */
  async each(callback: (item: Item) => unknown): Promise<void> {
    // What is there is taken at once: a promise for each item would cost more than all the rest.
    for (let item; (item = this.take() ?? (await this.next())); ) {
      try {
        const done = callback(item);
        if (done) await done;
      } catch (error) {
        this.shell.blame(error);
      }
    }
  }

  /** Whether everything has come so far, and what has not. */
  report(): Report {
    return reportOf(this.core);
  }

  /** Ends it: no item comes afterwards. */
  close(): void {
    const { core, act } = this.shell;
    act(() => unsubscribe(core, this.core));
  }
}
