/**
 * All subscriptions of the core: their numbers and aliases, their frames, and their buffers.
 *
 * Subscriptions outlive connections; aliases and grants do not.
 */

import { pack } from "../codec/bytes.js";
import { Plain, plain } from "../codec/client.js";
import { show, type Place } from "../codec/position.js";
import { Begin, Type, gapCause, skipReason, type Frame, type Options } from "../codec/server.js";
import { checkLength, matches } from "../codec/topics.js";
import { CroreError } from "../errors.js";
import type { Item } from "../items.js";
import type { Message } from "../message.js";
import type { SubscribeOptions } from "./options.js";
import { advance, advancePartition, announced, begin, beginPartition, caughtUp, cursorOf, further, leftOut, leftOutOfPartition, type Hole, type Lineage } from "./proof.js";
import { Phase, checkOpen, doubled, mayAsk, note, send, unexpected, type Core } from "./state.js";
import {
  askItem,
  detach,
  isFilled,
  newSubscription,
  pushItem,
  skips,
  startAt,
  takeItem,
  type CoreSubscription,
} from "./subscription.js";
import { brings, ticketChanged } from "./tickets.js";

/** Numbers of the rules; they are inlined. */
const enum Limit {
  RetryMs = 1_000, // S6
  RetryMsMax = 60_000,
  SubscribeBytes = 12 * 1024, // C2
}

/** Codes of `spec/codes.toml` that the rules name. */
const enum Code {
  UnsupportedStart = 113,
  AlreadySubscribed = 120,
  PositionUnavailable = 400,
}

/** Refuses what cannot be subscribed: S3, S4. What it returns waits for `start`. */
export const subscribe = (core: Core, filter: string, wanted: SubscribeOptions, wake: () => void): CoreSubscription => {
  checkOpen(core);
  checkLength(filter);
  if (core.byFilter.has(filter)) throw new CroreError("AlreadySubscribed", `${filter} has a subscription`);
  const { items = 1_024, bytes = 1024 * 1024 } = core.options.buffer ?? {};
  const it = newSubscription(filter, wanted, wake, items, bytes);
  startAt(it, wanted.start ?? "live");
  core.byFilter.set(filter, it);
  giveNumber(core, it);
  return it;
};

/** Begins a subscription. */
export const start = (core: Core, it: CoreSubscription): void => {
  if (it.end) return;
  it.isPaused = false;
  ask(core, [it]);
  ticketChanged(core);
};

/** The end that the application asks for: S5. */
export const unsubscribe = (core: Core, it: CoreSubscription): void => {
  if (it.end) return;
  if (core.phase >= Phase.Greeting && !it.isPaused) send(core, Plain.Unsubscribe, 1, it.number);
  it.heldItems = [];
  it.skipped.clear();
  it.count = it.heldBytes = 0;
  remove(core, it, undefined);
};

/** Takes it out of all tables, and tells its reader why. */
export const remove = (core: Core, it: CoreSubscription, error: CroreError | undefined): void => {
  core.byFilter.delete(it.pattern);
  core.byNumber.delete(it.number);
  dropAlias(core, it);
  it.end = { error };
  it.isGranted = false;
  it.wake();
  ticketChanged(core);
};

/** The oldest item of a subscription's buffer. */
export const takeOne = (core: Core, it: CoreSubscription): Item | undefined => {
  const item = takeItem(it);
  // B2, B3
  if (it.end || !item) return item;
  if (it.isPaused) {
    if (it.count * 2 <= it.itemsMax && it.heldBytes * 2 <= it.bytesMax) {
      it.isPaused = false;
      ask(core, [it]);
      ticketChanged(core);
    }
  } else if (it.usesCredit && mayAsk(core)) {
    // What was taken and not granted again, in halves of the buffer.
    const credit = it.replayed - (it.replayed % Math.ceil(it.itemsMax / 2));
    it.replayed -= credit;
    if (credit) send(core, Plain.Credit, it.number, credit);
  }
  return item;
};

/** All that shall be held, in the order of their requests. */
export const active = (core: Core): CoreSubscription[] => [...core.byFilter.values()].filter((it) => !it.isPaused);

const giveNumber = (core: Core, it: CoreSubscription): void => {
  core.byNumber.delete(it.number);
  it.number = ++core.lastNumber;
  core.byNumber.set(it.number, it);
};

const dropAlias = (core: Core, it: CoreSubscription): void => {
  if (core.byAlias.get(it.alias!) === it) core.byAlias.delete(it.alias!);
};

/** SUBSCRIBE, in as few frames as possible. */
export const requests = (list: readonly CoreSubscription[]): Uint8Array[] => {
  const frames: Uint8Array[][] = [];
  let items: Uint8Array[];
  let bytes = Infinity;
  for (const it of list) {
    const item = pack(askItem(it));
    bytes += item.length;
    if (bytes > Limit.SubscribeBytes) {
      frames.push((items = []));
      bytes = item.length;
    }
    items!.push(item);
  }
  return frames.map((items) => plain(Plain.Subscribe, items.length, ...items));
};

/** SUBSCRIBE, if it may go out. */
export const ask = (core: Core, list: readonly CoreSubscription[]): void => {
  if (mayAsk(core)) requests(list).forEach(core.transmit);
};

const push = (core: Core, it: CoreSubscription, item: Item): void => {
  pushItem(it, item);
  it.wake();
  // A replay by credit fills the buffer on purpose; a server that sends more is stopped.
  if (it.isGranted && !skips(it) && isFilled(it, it.usesCredit ? 2 : 1)) pause(core, it);
};

/** B1 */
const pause = (core: Core, it: CoreSubscription): void => {
  note(core, "buffer_full", { topic: it.pattern }, "warn");
  send(core, Plain.Unsubscribe, 1, it.number);
  dropAlias(core, it);
  detach(it);
  it.isPaused = it.usesCredit = true;
  // What is on its way has the old number, or none.
  giveNumber(core, it);
};

const pushGap = (
  core: Core,
  it: CoreSubscription,
  from: Place | undefined,
  to: Place | undefined,
  cause: string,
  partition?: number,
): void => {
  core.counters.gaps++;
  const gap = { from: from && show(from), to: to && show(to), cause, partition };
  note(core, "gap", { topic: it.pattern, ...gap }, "warn");
  push(core, it, { kind: "gap", ...gap });
};

const pushCaughtUp = (core: Core, it: CoreSubscription, place: Place, partition?: number): void => {
  it.caughtUpDue = false;
  push(core, it, { kind: "caught_up", position: show(place), partition });
};

/** The caught-up item that waited for a gap. */
const caughtUpIfDue = (core: Core, it: CoreSubscription): void => {
  if (it.caughtUpDue) pushCaughtUp(core, it, cursorOf(it)!);
};

/** Hands a message on, behind the hole before it; a repeat is dropped. */
const deliver = (core: Core, it: CoreSubscription, message: Message, verdict: boolean | Hole, partition?: number): void => {
  if (!verdict) core.counters.duplicates++;
  else {
    if (verdict !== true) pushGap(core, it, ...verdict, "unannounced", partition);
    caughtUpIfDue(core, it);
    core.counters.messages++;
    push(core, it, message);
  }
};

type Of<T extends Type> = Extract<Frame, { 0: T }>;

export const subscribed = (core: Core, [type, , number, alias, beginnings]: Of<Type.Subscribed>): void => {
  const it = core.byNumber.get(number);
  if (!it || it.isPaused || it.isFilter !== (alias === undefined)) {
    // R8
    if (core.wasPresented) send(core, Plain.Unsubscribe, 1, number);
    else unexpected(core, type);
    return;
  }
  const isBlind = it.isFilter && it.wasGranted && !it.cursors.size;
  it.refusals = 0; // S8
  it.retryAt = Infinity;
  it.isGranted = it.wasGranted = it.hasBegun = true;
  it.replaying.clear();
  for (const [flags, partition] of beginnings) if (flags & Begin.Replaying) it.replaying.add(partition);
  if (!it.replaying.size) it.usesCredit = false;
  note(core, "subscribed", { topic: it.pattern });
  if (alias === undefined) {
    for (const [flags, partition, epoch, offset] of beginnings) {
      beginPartition(it.cursors, partition, { inEpoch: epoch, upTo: offset }, !!(flags & Begin.Continued));
    }
    it.wake();
    if (isBlind) pushGap(core, it, undefined, undefined, "reconnected"); // P11
    return;
  }
  // S11
  dropAlias(core, it);
  core.byAlias.set(alias, it);
  it.alias = alias;
  const [flags, , epoch, through] = beginnings[0]!;
  const continued = !!(flags & Begin.Continued);
  const cursor = cursorOf(it);
  // A ticket's cursor may be ahead of this one if the topic has no messages in between: R9.
  const offset = continued && cursor && brings(core, number) ? Math.min(through, cursor.upTo) : through;
  begin(it, { inEpoch: epoch, upTo: offset }, continued);
  it.wake();
  if (flags & Begin.Replaying) return;
  it.caughtUpDue = !!it.due;
  if (!it.due) settledUpTo(core, it, through);
};

/** CAUGHT_UP of a topic. */
const settledUpTo = (core: Core, it: CoreSubscription, through: number): void => {
  const hole = caughtUp(it, through);
  it.caughtUpDue = false;
  if (hole) pushGap(core, it, ...hole, "unannounced");
  pushCaughtUp(core, it, it.settled!);
};

export const message = (core: Core, alias: number, message: Message): void => {
  const it = core.byAlias.get(alias);
  if (!it) return unexpected(core, Type.Message);
  it.lineage = message.epoch as any;
  const verdict = advance(it, message.prev, message.offset);
  message.topic = it.pattern;
  message.epoch = it.settled!.inEpoch;
  deliver(core, it, message, verdict);
};

/** S9, P10 */
export const named = (core: Core, number: number | undefined, lineage: Lineage | undefined, message: Message): void => {
  const partition = message.partition!;
  let isUnexpected = true;
  for (const it of number === undefined ? core.byFilter.values() : [core.byNumber.get(number)]) {
    if (!it?.isFilter || !it.isGranted || (number === undefined && !matches(it.pattern, message.topic))) continue;
    isUnexpected = false;
    const { epoch, offset, prev } = message;
    deliver(core, it, message, advancePartition(it.cursors, partition, epoch, offset, prev, lineage), partition);
  }
  if (isUnexpected) unexpected(core, Type.NamedMessage);
};

/** CAUGHT_UP, GAP and SKIPPED of a subscription that this connection has granted. */
export const progress = (core: Core, frame: Of<Type.CaughtUp | Type.Gap | Type.Skipped>): void => {
  const [type, , number, partition] = frame;
  const it = core.byNumber.get(number);
  if (!it?.isGranted || it.isFilter !== (partition !== undefined)) return unexpected(core, type);
  const { cursors, isFilter } = it;
  // The options are behind the other fields.
  it.lineage = ((frame[8] ?? frame[5]) as Options)[18];
  switch (frame[0]) {
    case Type.CaughtUp: {
      const through = frame[4];
      it.replaying.delete(partition ?? 0);
      if (!it.replaying.size) it.usesCredit = false;
      if (!isFilter) return settledUpTo(core, it, through);
      const at = cursors.get(partition!);
      if (!at) return;
      const place = further(at, through, it.lineage);
      cursors.set(partition!, place);
      return pushCaughtUp(core, it, place, partition);
    }
    case Type.Gap: {
      // P4
      const end = { inEpoch: frame[4], upTo: frame[6] };
      const from = isFilter ? cursors.get(partition!) : announced(it, end);
      if (isFilter) cursors.set(partition!, end);
      pushGap(core, it, from, end, gapCause(frame[7]), partition);
      return caughtUpIfDue(core, it);
    }
    case Type.Skipped: {
      // P5
      const [, , , , epoch, from, through, number] = frame;
      if (isFilter) leftOutOfPartition(cursors, partition!, { inEpoch: epoch!, upTo: through });
      else {
        const hole = leftOut(it, from, through);
        if (hole) pushGap(core, it, ...hole, "unannounced");
      }
      core.counters.skips++;
      const skip = { from, through, reason: skipReason(number), partition };
      note(core, "skipped", { topic: it.pattern, ...skip }, "warn");
      push(core, it, { kind: "skipped", ...skip });
    }
  }
};

/** S6, S7, P11, R6 */
export const refused = (core: Core, number: number, error: CroreError): void => {
  const it = core.byNumber.get(number);
  if (!it) return unexpected(core, Type.Error);
  const { code } = error;
  const { cursors, wanted } = it;
  if (code === Code.AlreadySubscribed && core.wasPresented) {
    // Its grant is on its way, or the one in its place is being unsubscribed.
    if (!it.isGranted) it.retryAt = core.nowMs + Limit.RetryMs;
    return;
  }
  it.isGranted = false;
  const isOfStart = code === Code.UnsupportedStart || (code === Code.PositionUnavailable && !wanted.failOnGap);
  if (isOfStart && cursors.size) {
    cursors.clear();
    it.wasGranted = true;
    ask(core, [it]);
  } else if (error.temporary) {
    dropAlias(core, it); // S11
    detach(it);
    it.retryAt = core.nowMs + doubled(Limit.RetryMs, it.refusals++, Limit.RetryMsMax);
  } else {
    note(core, "ended", { topic: it.pattern, code }, "warn");
    remove(core, it, error);
  }
};
