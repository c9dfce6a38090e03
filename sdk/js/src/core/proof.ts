/**
 * The proof of no loss (`spec/protocol.md`, section 6).
 *
 * For a plain topic the cursor is the place up to which everything is settled. A message continues
 * it without a hole if and only if its `prev` is at or below the cursor; the distance of offsets
 * means nothing. A filter has a cursor for each partition (section 6.1).
 */

import type { Place } from "../codec/position.js";

/** A hole that was never announced: after the first place, up to the second. */
export type Hole = [from: Place, to: Place];

/** The proof of a plain topic. */
export interface Proof {
  /** Everything up to here is settled. */
  settled?: Place;
  /** The position before a gap that the server has not announced yet. */
  due?: Place;
  /** The lineage of the frame that is taken. */
  lineage?: Lineage;
  /** The newest message handed on: whatever the server sends, none comes twice on one epoch. */
  handed?: Place;
}

/** The position to resume from: while a gap is due, the one before it. */
export const cursorOf = (proof: Proof): Place | undefined => proof.due ?? proof.settled;

/** The option: a list of one byte, or of none for a MESSAGE without it. */
export type Lineage = Uint8Array | "";

/** The epoch from this one on whose low byte is the lineage: P16. */
export const inLineage = (epoch: string, lineage?: Lineage): string =>
  // The text of a list of one number is the number's.
  lineage ? String(BigInt(epoch) + ((BigInt(lineage as any) - BigInt(epoch)) & BigInt(255))) : epoch;

/** Makes the cursor settled: P9. */
export const rewind = (proof: Proof): void => {
  proof.settled = cursorOf(proof);
  proof.due = undefined;
};

/** SUBSCRIBED. After a resume that is not continued the cursor moves only with the gap: P7, P8. */
export const begin = (proof: Proof, through: Place, continued: boolean): void => {
  const at = proof.settled;
  proof.due = proof.lineage = undefined;
  if (at && continued && through.upTo <= at.upTo) proof.settled = { inEpoch: through.inEpoch, upTo: at.upTo };
  else {
    proof.due = at;
    if (at?.inEpoch !== through.inEpoch) proof.settled = through;
  }
};

/** MESSAGE: false if it was settled before, true if it is next, or the hole before it. */
export const advance = (proof: Proof, prev: number, offset: number): boolean | Hole => {
  const { settled: at, handed, due } = proof;
  // Without an answer to the subscribe there is no proof; it begins here.
  const epoch = at ? at.inEpoch : "0";
  if (at && (offset <= at.upTo || (handed && handed.inEpoch === epoch && offset <= handed.upTo))) return false;
  proof.due = undefined;
  const inEpoch = inLineage(epoch, proof.lineage);
  proof.handed = proof.settled = { inEpoch, upTo: offset };
  if (!at) return true;
  if (due && due.inEpoch !== epoch) return [due, { inEpoch, upTo: Math.max(prev, at.upTo) }];
  return prev <= at.upTo || [at, { inEpoch, upTo: prev }];
};

/** GAP: the cursor moves to its end, even down. Returns where it begins. */
export const announced = (proof: Proof, end: Place): Place | undefined => {
  const from = cursorOf(proof);
  proof.due = undefined;
  proof.settled = end;
  return from;
};

/** SKIPPED: returns the hole before it. */
export const leftOut = (proof: Proof, from: number, through: number): Hole | undefined => {
  const at = proof.settled!;
  proof.settled = further(at, through, proof.lineage);
  return from > at.upTo ? [at, { inEpoch: at.inEpoch, upTo: from }] : undefined;
};

/** CAUGHT_UP: returns the hole in place of a gap that never came. */
export const caughtUp = (proof: Proof, through: number): Hole | undefined => {
  const { due } = proof;
  proof.settled = further(proof.settled!, through, proof.lineage);
  proof.due = undefined;
  return due && [due, proof.settled!];
};

/** The cursor once everything up to an offset is settled. */
export const further = (at: Place, through: number, lineage?: Lineage): Place => ({
  inEpoch: inLineage(at.inEpoch, lineage),
  upTo: Math.max(at.upTo, through),
});

/** A filter's cursors, by partition. */
export type Cursors = Map<number, Place>;

/** A partition of SUBSCRIBED. */
export const beginPartition = (cursors: Cursors, partition: number, through: Place, continued: boolean): void => {
  const at = cursors.get(partition);
  if (!at) cursors.set(partition, through);
  else if (continued) cursors.set(partition, { inEpoch: through.inEpoch, upTo: at.upTo });
};

/** NAMED_MESSAGE: false if settled before, true if new, or the hole before a new epoch: P10, P16. */
export const advancePartition = (
  cursors: Cursors,
  partition: number,
  epoch: string,
  offset: number,
  prev: number,
  lineage?: Lineage,
): boolean | Hole => {
  const at = cursors.get(partition);
  const isSame = !at || inLineage(at.inEpoch, lineage) === epoch;
  if (at && isSame && offset <= at.upTo) return false;
  cursors.set(partition, { inEpoch: epoch, upTo: offset });
  return isSame || [at, { inEpoch: epoch, upTo: prev }];
};

/** SKIPPED of a partition. */
export const leftOutOfPartition = (cursors: Cursors, partition: number, through: Place): void => {
  const at = cursors.get(partition);
  if (at?.inEpoch !== through.inEpoch || at.upTo < through.upTo) cursors.set(partition, through);
};
