/**
 * All subscriptions of the core: their numbers and aliases, their frames, and their buffers.
 *
 * Subscriptions outlive connections; aliases and grants do not.
 */

import { encodeCredit, encodeSubscribe, encodeUnsubscribe, type SubscribeItem } from "../codec/client.js";
import { show, type Place } from "../codec/position.js";
import type { ServerFrame } from "../codec/server.js";
import { hasLength, matches } from "../codec/topics.js";
import { CroreError, invalid } from "../errors.js";
import type { Gap, Item } from "../items.js";
import type { Message } from "../message.js";
import type { Hole } from "./proof.js";
import { CoreSubscription, type SubscribeOptions } from "./subscription.js";
import type { Tickets } from "./tickets.js";

const RETRY_MS = 1_000; // S6
const RETRY_MS_MAX = 60_000;
const SUBSCRIBE_BYTES = 12 * 1024; // C2
/** Codes of `spec/codes.toml` that the rules name. */
const UNSUPPORTED_START = 113;
const ALREADY_SUBSCRIBED = 120;
const POSITION_UNAVAILABLE = 400;

interface Counters {
  messages: number;
  duplicates: number;
  unexpected: number;
  gaps: number;
  skips: number;
}

interface Host {
  /** Whether SUBSCRIBE may go out. */
  canAsk: () => boolean;
  send: (bytes: Uint8Array) => void;
  items: (of: CoreSubscription) => void;
  note: (now: number, level: "debug" | "warn", event: string, fields?: Record<string, unknown>) => void;
}

export class Subscriptions {
  readonly byNumber = new Map<number, CoreSubscription>();
  readonly byFilter = new Map<string, CoreSubscription>();
  private readonly byAlias = new Map<number, CoreSubscription>();
  private lastNumber = 0;

  constructor(
    private readonly itemsMax: number,
    private readonly bytesMax: number,
    private readonly tickets: Tickets,
    private readonly counters: Counters,
    private readonly host: Host,
  ) {}

  /** Refuses what cannot be subscribed: S3, S4. */
  check(filter: string): void {
    if (!hasLength(filter)) throw invalid("a topic has 1 to 255 bytes");
    if (this.byFilter.has(filter)) {
      throw new CroreError("AlreadySubscribed", `there is a subscription to ${filter}`);
    }
  }

  add(now: number, filter: string, options: SubscribeOptions): CoreSubscription {
    const it = new CoreSubscription(filter, options, this.itemsMax, this.bytesMax);
    this.byFilter.set(filter, it);
    this.number(it);
    if (this.host.canAsk()) this.ask([it]);
    this.tickets.changed(now);
    return it;
  }

  /** The end that the application asks for: S5. */
  end(now: number, it: CoreSubscription, isConnected: boolean): void {
    const { number, isPaused } = it;
    this.remove(it, undefined);
    it.clear();
    if (isConnected && !isPaused) this.host.send(encodeUnsubscribe([number]));
    this.tickets.changed(now);
  }

  endAll(error: CroreError | undefined): void {
    for (const it of Array.from(this.byFilter.values())) this.remove(it, error);
  }

  connectionLost(): void {
    this.byAlias.clear();
    for (const it of this.byFilter.values()) it.connectionLost();
  }

  takeOne(now: number, it: CoreSubscription): Item | undefined {
    const item = it.take();
    this.taken(now, it);
    return item;
  }

  take(now: number, it: CoreSubscription, max: number): Item[] {
    const items: Item[] = [];
    while (max > 0) {
      const item = it.take();
      if (!item) break;
      items.push(item);
      if (item.kind !== "caught_up") max--;
    }
    this.taken(now, it);
    return items;
  }

  private taken(now: number, it: CoreSubscription): void {
    if (it.isEmpty) it.isAnnounced = false;
    if (!it.end) this.refill(now, it);
  }

  /** C9 */
  unexpected(now: number, type: string): void {
    this.counters.unexpected++;
    this.host.note(now, "debug", "unexpected_frame", { type });
  }

  /** All that shall be held, in the order of their requests. */
  active(): CoreSubscription[] {
    return Array.from(this.byFilter.values()).filter((it) => !it.isPaused);
  }

  private number(it: CoreSubscription): void {
    this.byNumber.delete(it.number);
    it.number = ++this.lastNumber;
    this.byNumber.set(it.number, it);
  }

  /** SUBSCRIBE, in as few frames as possible. */
  ask(list: readonly CoreSubscription[]): void {
    let items: SubscribeItem[] = [];
    let bytes = 0;
    for (const it of list) {
      const size = it.filter.length * 3 + 32 + it.cursors.places.size * 24;
      if (items.length && bytes + size > SUBSCRIBE_BYTES) {
        this.host.send(encodeSubscribe(items));
        items = [];
        bytes = 0;
      }
      it.asked();
      items.push(it.item());
      bytes += size;
    }
    if (items.length) this.host.send(encodeSubscribe(items));
  }

  private remove(it: CoreSubscription, error: CroreError | undefined): void {
    this.byFilter.delete(it.filter);
    this.byNumber.delete(it.number);
    if (it.alias !== undefined && this.byAlias.get(it.alias) === it) this.byAlias.delete(it.alias);
    it.end = { error };
    it.isGranted = false;
    this.host.items(it);
  }

  private push(now: number, it: CoreSubscription, item: Item): void {
    it.push(item);
    if (!it.isAnnounced) {
      it.isAnnounced = true;
      this.host.items(it);
    }
    if (!it.options.skips && it.isGranted && it.isFull) this.pause(now, it);
  }

  /** B1 */
  private pause(now: number, it: CoreSubscription): void {
    this.host.note(now, "warn", "buffer_full", { topic: it.filter });
    const number = it.number;
    if (it.alias !== undefined && this.byAlias.get(it.alias) === it) this.byAlias.delete(it.alias);
    it.connectionLost();
    it.isPaused = it.usesCredit = true;
    // What is on its way has the old number, or none.
    this.number(it);
    this.host.send(encodeUnsubscribe([number]));
  }

  /** B2, B3 */
  private refill(now: number, it: CoreSubscription): void {
    if (it.isPaused) {
      if (!it.isHalfEmpty) return;
      it.isPaused = false;
      if (this.host.canAsk()) this.ask([it]);
      this.tickets.changed(now);
    } else if (it.usesCredit && this.host.canAsk()) {
      const credit = it.takeCredit();
      if (credit) this.host.send(encodeCredit(it.number, credit));
    }
  }

  private report(now: number, it: CoreSubscription, hole: Hole, partition?: number): void {
    this.pushGap(now, it, hole.from, hole.to, "unannounced", partition);
  }

  private pushGap(
    now: number,
    it: CoreSubscription,
    from: Place | undefined,
    to: Place | undefined,
    cause: string,
    partition?: number,
  ): void {
    this.counters.gaps++;
    const gap: Gap = { kind: "gap", from: from && show(from), to: to && show(to), cause, partition };
    this.host.note(now, "warn", "gap", { topic: it.filter, from: gap.from, to: gap.to, cause, partition });
    this.push(now, it, gap);
  }

  private pushCaughtUp(now: number, it: CoreSubscription, place: Place, partition?: number): void {
    this.push(now, it, { kind: "caught_up", position: show(place), partition });
  }

  private caughtUpIfDue(now: number, it: CoreSubscription): void {
    if (!it.caughtUpDue) return;
    it.caughtUpDue = false;
    this.pushCaughtUp(now, it, it.proof.cursor!);
  }

  subscribed(now: number, frame: ServerFrame & { type: "subscribed" }): void {
    const it = this.byNumber.get(frame.subscription);
    if (!it || it.isPaused || it.isFilter !== (frame.alias === undefined)) {
      // R8
      if (this.tickets.wasPresented) this.host.send(encodeUnsubscribe([frame.subscription]));
      else this.unexpected(now, frame.type);
      return;
    }
    it.refusals = 0; // S8
    it.retryAt = undefined;
    it.isGranted = true;
    const isBlind = it.isFilter && it.wasGranted && it.cursors.places.size === 0;
    it.wasGranted = true;
    it.replaying.clear();
    for (const { partition, replaying } of frame.beginnings) if (replaying) it.replaying.add(partition ?? 0);
    if (!it.replaying.size) it.usesCredit = false;
    this.host.note(now, "debug", "subscribed", { topic: it.filter });
    if (frame.alias === undefined) {
      for (const { partition, epoch, through, continued } of frame.beginnings) {
        it.cursors.subscribed(partition!, { epoch, offset: through }, continued);
      }
      if (isBlind) this.pushGap(now, it, undefined, undefined, "reconnected"); // P11
      return;
    }
    // S11
    const old = this.byAlias.get(frame.alias);
    if (old) old.alias = undefined;
    if (it.alias !== undefined && this.byAlias.get(it.alias) === it) this.byAlias.delete(it.alias);
    this.byAlias.set(frame.alias, it);
    it.alias = frame.alias;
    const { epoch, through, replaying, continued } = frame.beginnings[0]!;
    const cursor = it.proof.cursor;
    let offset = through;
    // A ticket's cursor may be ahead of this one if the topic has no messages in between: R9.
    if (continued && cursor && this.tickets.brings(it.number)) offset = Math.min(offset, cursor.offset);
    it.proof.subscribed({ epoch, offset }, continued);
    if (replaying) return;
    it.caughtUpDue = it.proof.isGapDue;
    if (!it.caughtUpDue) this.caughtUp(now, frame.subscription, undefined, through);
  }

  message(now: number, alias: number, message: Message): void {
    const it = this.byAlias.get(alias);
    if (!it) return this.unexpected(now, "message");
    const verdict = it.proof.message(message.prev, message.offset);
    if (verdict === false) {
      this.counters.duplicates++;
      return;
    }
    if (verdict !== true) this.report(now, it, verdict);
    if (it.caughtUpDue) this.caughtUpIfDue(now, it);
    message.topic = it.filter;
    message.epoch = it.proof.epoch;
    this.counters.messages++;
    this.push(now, it, message);
  }

  /** S9, P10 */
  named(now: number, number: number | undefined, message: Message): void {
    const { topic, epoch, offset, prev } = message;
    const partition = message.partition!;
    let isUnexpected = true;
    for (const it of number === undefined ? this.byFilter.values() : [this.byNumber.get(number)]) {
      if (!it?.isFilter || !it.isGranted || (number === undefined && !matches(it.filter, topic))) continue;
      isUnexpected = false;
      const verdict = it.cursors.message(partition, { epoch, offset }, prev);
      if (verdict === false) {
        this.counters.duplicates++;
        continue;
      }
      if (verdict !== true) this.report(now, it, verdict, partition);
      this.counters.messages++;
      this.push(now, it, message);
    }
    if (isUnexpected) this.unexpected(now, "named_message");
  }

  private granted(number: number, partition: number | undefined): CoreSubscription | undefined {
    const it = this.byNumber.get(number);
    return it && it.isGranted && it.isFilter === (partition !== undefined) ? it : undefined;
  }

  caughtUp(now: number, number: number, partition: number | undefined, through: number): void {
    const it = this.granted(number, partition);
    if (!it) return this.unexpected(now, "caught_up");
    it.replaying.delete(partition ?? 0);
    if (!it.replaying.size) it.usesCredit = false;
    if (partition !== undefined) {
      const place = it.cursors.caughtUp(partition, through);
      if (place) this.pushCaughtUp(now, it, place, partition);
      return;
    }
    it.caughtUpDue = false;
    const hole = it.proof.caughtUp(through);
    if (hole) this.report(now, it, hole);
    this.pushCaughtUp(now, it, it.proof.cursor!);
  }

  gap(now: number, frame: ServerFrame & { type: "gap" }): void {
    const { partition, epoch, to, reason } = frame;
    const it = this.granted(frame.subscription, partition);
    if (!it) return this.unexpected(now, "gap");
    const end = { epoch, offset: to };
    const from = partition === undefined ? it.proof.gap(end) : it.cursors.gap(partition, end);
    this.pushGap(now, it, from, end, reason, partition);
    this.caughtUpIfDue(now, it);
  }

  skipped(now: number, frame: ServerFrame & { type: "skipped" }): void {
    const { partition, from, through, reason } = frame;
    const it = this.granted(frame.subscription, partition);
    if (!it) return this.unexpected(now, "skipped");
    if (partition !== undefined) it.cursors.skipped(partition, { epoch: frame.epoch!, offset: through });
    else {
      const hole = it.proof.skipped(from, through);
      if (hole) this.report(now, it, hole);
    }
    this.counters.skips++;
    this.host.note(now, "warn", "skipped", { topic: it.filter, from, through, reason, partition });
    this.push(now, it, { kind: "skipped", from, through, reason, partition });
  }

  /** S6, S7, P11, R6 */
  refused(now: number, number: number, error: CroreError): void {
    const it = this.byNumber.get(number);
    if (!it) return this.unexpected(now, "error");
    const code = error.code!;
    if (code === ALREADY_SUBSCRIBED && this.tickets.wasPresented) {
      // Its grant is on its way, or the one in its place is being unsubscribed.
      if (!it.isGranted) it.retryAt = now + RETRY_MS;
      return;
    }
    it.isGranted = false;
    const isOfStart =
      code === UNSUPPORTED_START || (code === POSITION_UNAVAILABLE && !it.options.failOnGap);
    if (isOfStart && it.cursors.places.size) {
      it.cursors.places.clear();
      it.wasGranted = true;
      if (this.host.canAsk()) this.ask([it]);
      return;
    }
    if (error.temporary) {
      it.connectionLost();
      it.retryAt = now + Math.min(RETRY_MS * 2 ** it.refusals++, RETRY_MS_MAX);
      return;
    }
    this.host.note(now, "warn", "ended", { topic: it.filter, code });
    this.remove(it, error);
    this.tickets.changed(now);
  }
}
