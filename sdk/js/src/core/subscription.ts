/** One subscription of the core: what it asks for, its proof, its report and its buffer. */

import type { SubscribeItem, WireStart } from "../codec/client.js";
import { show, type Place } from "../codec/position.js";
import { isWild } from "../codec/topics.js";
import type { CroreError } from "../errors.js";
import type { Gap, Item, Report, Skipped } from "../items.js";
import { Cursors, Proof } from "./proof.js";

const GAPS_MAX = 16;
const SETTLING_MAX = 256;

export interface SubscribeOptions {
  start: WireStart;
  failOnGap: boolean;
  policy: number | undefined;
  /** Drop the oldest items of a full buffer, in place of pausing. */
  skips: boolean;
}

export class CoreSubscription {
  /** Its number on the wire; 0 without one. */
  number = 0;
  readonly isFilter: boolean;
  readonly proof: Proof;
  readonly cursors = new Cursors();
  /** The present connection has granted it. */
  isGranted = false;
  /** It was granted once, so that a filter's new grant may mean a gap. */
  wasGranted = false;
  alias: number | undefined;
  refusals = 0;
  retryAt: number | undefined;
  /** The caught-up item follows the gap that is due. */
  caughtUpDue = false;
  /** Unsubscribed until the reader has taken half of the buffer. */
  isPaused = false;
  /** The next SUBSCRIBE asks for a replay by credit. */
  usesCredit = false;
  /** Partitions that replay; 0 for a topic. */
  readonly replaying = new Set<number>();
  /** Items of the replay that the reader has taken since the last CREDIT. */
  private replayed = 0;
  /** Buffered items that are older than the replay. */
  private older = 0;
  /** Set at its end: the server's error, or nothing if the application has ended it. */
  end: { error: CroreError | undefined } | undefined;

  private readonly items: Item[] = [];
  private head = 0;
  private readonly skips = new Map<number, Skipped>();
  /** Buffered items that count. */
  count = 0;
  bytes = 0;
  /** Whether the shell knows that there are items. */
  isAnnounced = false;

  private gaps = 0;
  private readonly newest: Gap[] = [];
  private skipsCount = 0;
  private messages = 0;
  /** The offset, by partition, of the last item that left the buffer. */
  private readonly left = new Map<number, Place>();

  constructor(
    readonly filter: string,
    readonly options: SubscribeOptions,
    readonly itemsMax: number,
    readonly bytesMax: number,
  ) {
    this.isFilter = isWild(filter);
    const start = options.start;
    this.proof = new Proof(start.kind === "since" ? { epoch: start.epoch, offset: start.offset } : undefined);
    if (start.kind === "since_each") {
      for (const it of start.positions) this.cursors.places.set(it.partition, { epoch: it.epoch, offset: it.offset });
    }
  }

  connectionLost(): void {
    this.alias = undefined;
    this.isGranted = this.caughtUpDue = false;
    this.retryAt = undefined;
    this.replaying.clear();
    this.proof.connectionLost();
  }

  /** The item of SUBSCRIBE: from the cursor, if there is one. */
  item(): SubscribeItem {
    const cursor = this.proof.cursor;
    const positions = Array.from(this.cursors.places, ([partition, place]) => ({ partition, ...place }));
    let start = this.options.start;
    if (cursor) start = { kind: "since", ...cursor };
    else if (positions.length) start = { kind: "since_each", positions };
    else if (this.wasGranted) start = { kind: "live" };
    const { failOnGap, policy } = this.options;
    const replayCredit = this.usesCredit ? Math.max(1, this.itemsMax - this.count) : undefined;
    return { subscription: this.number, filter: this.filter, start, failOnGap, policy, replayCredit };
  }

  /** SUBSCRIBE goes out: what is in the buffer is not of the replay. */
  asked(): void {
    this.replayed = 0;
    this.older = this.count;
  }

  /** B3: what of the replay was taken and not granted again, in halves of the buffer. */
  takeCredit(): number {
    const half = Math.ceil(this.itemsMax / 2);
    const credit = this.replayed - (this.replayed % half);
    this.replayed -= credit;
    return credit;
  }

  get isFull(): boolean {
    // A replay by credit fills the buffer on purpose; a server that sends more is stopped.
    const factor = this.usesCredit ? 2 : 1;
    return this.count >= this.itemsMax * factor || this.bytes >= this.bytesMax * factor;
  }

  get isHalfEmpty(): boolean {
    return this.count * 2 <= this.itemsMax && this.bytes * 2 <= this.bytesMax;
  }

  push(item: Item): void {
    if (item.kind === "gap") {
      this.gaps++;
      this.newest.push(item);
      if (this.newest.length > GAPS_MAX) this.newest.shift();
    } else if (item.kind === "skipped") this.skipsCount++;
    else if (item.kind === "message") this.messages++;
    else {
      // They do not count, so of too many the older one of the same partition goes.
      if (this.items.length - this.head - this.count > SETTLING_MAX) {
        const at = this.items.findIndex((it) => it?.kind === "caught_up" && it.partition === item.partition);
        if (at >= 0) this.items.splice(at, 1);
      }
    }
    this.items.push(item);
    this.weigh(item, 1);
    if (this.options.skips) {
      while ((this.count > this.itemsMax || this.bytes > this.bytesMax) && this.dropOldest());
    }
  }

  private weigh(item: Item, sign: 1 | -1): void {
    if (item.kind !== "caught_up") this.count += sign;
    if (item.kind === "message") this.bytes += sign * item.bytes.length;
  }

  /** Drops the oldest message but the newest one, and counts it in a skipped item. */
  private dropOldest(): boolean {
    if (this.items.length - this.head < 2) return false;
    const item = this.shift();
    if (!item) return false;
    const place = placeOf(item);
    const partition = item.kind === "message" || item.kind === "gap" ? item.partition ?? 0 : 0;
    const from = this.left.get(partition);
    this.leave(item);
    if (item.kind !== "message" || !place) return true;
    this.messages--;
    const skip = this.skips.get(partition);
    if (skip) skip.through = place.offset;
    else {
      this.skipsCount++;
      const begin = from && from.epoch === place.epoch ? from.offset : item.prev;
      this.skips.set(partition, {
        kind: "skipped",
        from: begin,
        through: place.offset,
        reason: "overflow",
        partition: item.partition,
      });
    }
    return true;
  }

  private shift(): Item | undefined {
    const item = this.items[this.head];
    if (!item) return undefined;
    this.items[this.head++] = undefined as unknown as Item;
    if (this.head === this.items.length) this.items.length = this.head = 0;
    else if (this.head > 1024) {
      this.items.splice(0, this.head);
      this.head = 0;
    }
    this.weigh(item, -1);
    return item;
  }

  /** Takes the oldest item out of the buffer. */
  take(): Item | undefined {
    for (const [partition, skip] of this.skips) {
      this.skips.delete(partition);
      return skip;
    }
    const item = this.shift();
    if (item) this.leave(item);
    return item;
  }

  private leave(item: Item): void {
    if (item.kind !== "caught_up") {
      if (this.older > 0) this.older--;
      else this.replayed++;
    }
    const place = placeOf(item);
    if (place) this.left.set(item.partition ?? 0, place);
    else if (item.kind === "skipped" && item.reason !== "overflow") {
      const at = this.left.get(item.partition ?? 0);
      if (at && item.through > at.offset) this.left.set(item.partition ?? 0, { epoch: at.epoch, offset: item.through });
    }
  }

  get isEmpty(): boolean {
    return this.skips.size === 0 && this.head === this.items.length;
  }

  clear(): void {
    this.items.length = this.head = this.count = this.bytes = 0;
    this.skips.clear();
  }

  /** Where the first items begin: what leaves the buffer later is behind it. */
  begin(partition: number, place: Place): void {
    if (!this.left.has(partition)) this.left.set(partition, place);
  }

  /** The positions that the reader has processed, by partition; 0 for a topic. */
  get processed(): ReadonlyMap<number, Place> {
    return this.left;
  }

  report(): Report {
    const positions: Record<number, string> = {};
    for (const [partition, place] of this.cursors.places) positions[partition] = show(place);
    const cursor = this.proof.cursor;
    return {
      complete: this.gaps === 0 && this.skipsCount === 0,
      basis: this.isFilter ? "announced" : "proved",
      gaps: this.gaps,
      newest: this.newest.slice(),
      skips: this.skipsCount,
      messages: this.messages,
      position: cursor && show(cursor),
      positions,
    };
  }
}

/** The position that is settled once an item has been processed. */
function placeOf(item: Item): Place | undefined {
  if (item.kind === "message") return { epoch: item.epoch, offset: item.offset };
  const text = item.kind === "gap" ? item.to : item.kind === "caught_up" ? item.position : undefined;
  if (!text) return undefined;
  const colon = text.indexOf(":");
  return { epoch: text.slice(0, colon), offset: Number(text.slice(colon + 1)) };
}
