/** One subscription of the core: what it asks for, its proof, its report and its buffer. */

import { placed, subscribeItem } from "../codec/client.js";
import type { Part } from "../codec/bytes.js";
import { parse, placeOf, show, type Place } from "../codec/position.js";
import { isWild } from "../codec/topics.js";
import type { CroreError } from "../errors.js";
import type { Item, Report, Skipped } from "../items.js";
import type { Start, SubscribeOptions } from "./options.js";
import { cursorOf, further, rewind, type Cursors, type Proof } from "./proof.js";

/** Numbers of the rules; they are inlined. */
const enum Limit {
  GapsMax = 16,
  SettlingMax = 256,
}

export interface CoreSubscription extends Proof {
  /** Its number on the wire; 0 without one. */
  number: number;
  readonly pattern: string;
  readonly isFilter: boolean;
  readonly wanted: SubscribeOptions;
  start?: Start;
  /** There are items for the reader, or it has ended. */
  readonly wake: () => void;
  readonly itemsMax: number;
  readonly bytesMax: number;
  readonly cursors: Cursors;
  /** The present connection has granted it. */
  isGranted?: boolean;
  /** It was granted once, so that a filter's new grant may mean a gap. */
  wasGranted?: boolean;
  /** S12 */
  hasBegun?: boolean;
  alias?: number;
  /** S6 */
  refusals: number;
  retryAt: number;
  /** The caught-up item follows the gap that is due. */
  caughtUpDue?: boolean;
  /** Not subscribed until the reader has taken half of the buffer, or until its begin. */
  isPaused: boolean;
  /** The next SUBSCRIBE asks for a replay by credit. */
  usesCredit?: boolean;
  /** Partitions that replay; 0 for a topic. */
  readonly replaying: Set<number>;
  /** Items of the replay that the reader has taken since the last CREDIT. */
  replayed: number;
  /** Buffered items that are older than the replay. */
  older: number;
  /** Set at its end: the server's error, or nothing if the application has ended it. */
  end?: { error: CroreError | undefined };

  heldItems: Item[];
  readonly skipped: Map<number, Skipped>;
  /** Buffered items that count, and the bytes of their payloads. */
  count: number;
  heldBytes: number;

  /** The part of its report that is counted. */
  readonly told: Pick<Report, "basis" | "gaps" | "newest" | "skips" | "messages">;
  /** The place, by partition, of the last item that left the buffer: what the reader has processed. */
  readonly processed: Map<number, Place>;
}

export const newSubscription = (
  filter: string,
  wanted: SubscribeOptions,
  wake: () => void,
  itemsMax: number,
  bytesMax: number,
): CoreSubscription => {
  const isFilter = isWild(filter);
  return {
    pattern: filter,
    wanted,
    wake,
    itemsMax,
    bytesMax,
    isFilter,
    told: { basis: isFilter ? "announced" : "proved", gaps: 0, newest: [], skips: 0, messages: 0 },
    isPaused: true,
    cursors: new Map(),
    replaying: new Set(),
    skipped: new Map(),
    processed: new Map(),
    heldItems: [],
    retryAt: Infinity,
    number: 0,
    refusals: 0,
    replayed: 0,
    older: 0,
    count: 0,
    heldBytes: 0,
  };
};

/** Begins: with a start of its own, or from a stored one. */
export const startAt = (it: CoreSubscription, start: Start): void => {
  it.start = start;
  if (typeof start === "string") return;
  if ("since" in start) it.settled = placeOf(start.since);
  if (!("sinceEach" in start)) return;
  for (const [partition, position] of Object.entries(start.sinceEach)) it.cursors.set(Number(partition), placeOf(position));
};

/** The connection, or its part in it, has ended. */
export const detach = (it: CoreSubscription): void => {
  it.alias = undefined;
  it.isGranted = it.caughtUpDue = false;
  it.retryAt = Infinity;
  it.replaying.clear();
  rewind(it);
};

/** The item of SUBSCRIBE: from the cursor, if there is one. What is in the buffer is not of its replay. */
export const askItem = (it: CoreSubscription): Part[] => {
  it.replayed = 0;
  it.older = it.count;
  const { start, wanted, cursors } = it;
  const cursor = cursorOf(it);
  const credit = it.usesCredit ? Math.max(1, it.itemsMax - it.count) : undefined;
  let from: Part[] = [0];
  if (cursor) from = [1, ...placed(cursor)];
  else if (cursors.size) from = [4, cursors.size, ...[...cursors].flatMap(([partition, place]) => [partition, ...placed(place)])];
  else if (!it.wasGranted) {
    if (start === "snapshot") from = [3];
    else if (typeof start === "object" && "last" in start) from = [2, start.last];
  }
  return subscribeItem(it.number, it.pattern, from, wanted, credit);
};

/** Whether the buffer is filled to so many times its bounds. */
export const isFilled = (it: CoreSubscription, times: number): boolean => it.count >= it.itemsMax * times || it.heldBytes >= it.bytesMax * times;

export const pushItem = (it: CoreSubscription, item: Item): void => {
  const { told } = it;
  if (item.kind === "gap") {
    told.gaps++;
    told.newest = [...told.newest, item].slice(-Limit.GapsMax);
  } else if (item.kind === "skipped") told.skips++;
  else if (item.kind === "message") told.messages++;
  else if (it.heldItems.length - it.count > Limit.SettlingMax) {
    // They do not count, so of too many none is kept.
    it.heldItems = it.heldItems.filter((older) => older.kind !== "caught_up");
  }
  it.heldItems.push(item);
  weigh(it, item, 1);
  // B4: the newest one stays.
  while (skips(it) && it.heldItems.length > 1 && (it.count > it.itemsMax || it.heldBytes > it.bytesMax)) dropOldest(it);
};

/** Whether the oldest items of a full buffer go, in place of pausing. */
export const skips = (it: CoreSubscription): boolean => it.wanted.overflow === "skip";

const weigh = (it: CoreSubscription, item: Item, sign: 1 | -1): void => {
  if (item.kind !== "caught_up") it.count += sign;
  if (item.kind === "message") it.heldBytes += sign * item.bytes.length;
};

/** Drops the oldest item; a message is counted in a skipped item. */
const dropOldest = (it: CoreSubscription): void => {
  const item = it.heldItems[0]!;
  const partition = item.partition ?? 0;
  const from = { ...it.processed.get(partition) };
  shiftItem(it);
  if (item.kind !== "message") return;
  const { epoch, offset, prev } = item;
  it.told.messages--;
  const skip = it.skipped.get(partition);
  if (skip) skip.through = offset;
  else {
    it.told.skips++;
    it.skipped.set(partition, {
      kind: "skipped",
      from: from.inEpoch === epoch ? from.upTo! : prev,
      through: offset,
      reason: "overflow",
      partition: item.partition,
    });
  }
};

/** Takes the oldest item out of the buffer; it counts as processed when the next one is taken. */
export const takeItem = (it: CoreSubscription): Item | undefined => {
  if (it.skipped.size) {
    for (const [partition, skip] of it.skipped) {
      it.skipped.delete(partition);
      return skip;
    }
  }
  return shiftItem(it);
};

const shiftItem = (it: CoreSubscription): Item | undefined => {
  const item = it.heldItems.shift();
  if (!item) return undefined;
  weigh(it, item, -1);
  const partition = item.partition ?? 0;
  const at = it.processed.get(partition);
  if (item.kind !== "caught_up") {
    if (it.older) it.older--;
    else it.replayed++;
  }
  let place = at;
  if (item.kind === "message") {
    place ??= {} as Place;
    place.inEpoch = item.epoch;
    place.upTo = item.offset;
  } else if (item.kind !== "skipped") place = parse(item.kind === "gap" ? item.to : item.position);
  else if (at) place = further(at, item.through);
  if (place) it.processed.set(partition, place);
  return item;
};

export const reportOf = (it: CoreSubscription): Report => {
  const { told } = it;
  const cursor = cursorOf(it);
  const positions: Record<number, string> = {};
  it.cursors.forEach((place, partition) => (positions[partition] = show(place)));
  return { ...told, complete: !told.gaps && !told.skips, position: cursor && show(cursor), positions };
};
