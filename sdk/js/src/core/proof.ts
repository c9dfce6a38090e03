/**
 * The proof of no loss for one plain topic (`spec/protocol.md`, section 6).
 *
 * The cursor is the place up to which everything is settled. A message continues it without a hole
 * if and only if its `prev` is at or below the cursor; the distance of offsets means nothing.
 */

import type { Place } from "../codec/position.js";

/** A hole that was never announced. */
export interface Hole {
  from: Place;
  to: Place;
}

export class Proof {
  private at: Place | undefined;
  /** The position before a gap that the server has not announced yet. */
  private due: Place | undefined;
  /** The newest message handed on: whatever the server sends, none comes twice on one epoch. */
  private handed: Place | undefined;

  constructor(start?: Place) {
    this.at = start;
  }

  /** The position to resume from: while a gap is due, the one before it. */
  get cursor(): Place | undefined {
    return this.due ?? this.at;
  }

  get isGapDue(): boolean {
    return this.due !== undefined;
  }

  /** The epoch of the messages to come. */
  get epoch(): string {
    return this.at?.epoch ?? "0";
  }

  connectionLost(): void {
    this.at = this.cursor;
    this.due = undefined;
  }

  /** SUBSCRIBED. After a resume that is not continued the cursor moves only with the gap. */
  subscribed(through: Place, continued: boolean): void {
    this.due = undefined;
    const at = this.at;
    if (!at) this.at = through;
    else if (continued && through.offset <= at.offset) this.at = { epoch: through.epoch, offset: at.offset };
    else {
      this.due = at;
      if (at.epoch !== through.epoch) this.at = through;
    }
  }

  /** MESSAGE: false if it was settled before, true if it is next, or the hole before it. */
  message(prev: number, offset: number): boolean | Hole {
    const at = this.at;
    if (!at) {
      // Without an answer to the subscribe there is no proof; it begins here.
      this.handed = this.at = { epoch: "0", offset };
      return true;
    }
    const handed = this.handed;
    if (offset <= at.offset || (handed && handed.epoch === at.epoch && offset <= handed.offset)) return false;
    const due = this.due;
    this.due = undefined;
    let hole: Hole | undefined;
    if (due && due.epoch !== at.epoch) hole = { from: due, to: { epoch: at.epoch, offset: Math.max(prev, at.offset) } };
    else if (prev > at.offset) hole = { from: at, to: { epoch: at.epoch, offset: prev } };
    this.handed = this.at = { epoch: at.epoch, offset };
    return hole ?? true;
  }

  /** GAP: the cursor moves to its end, even down. Returns where it begins. */
  gap(to: Place): Place | undefined {
    const from = this.cursor;
    this.due = undefined;
    this.at = to;
    return from;
  }

  /** SKIPPED: returns the hole before it. */
  skipped(from: number, through: number): Hole | undefined {
    const at = this.at;
    if (!at) return undefined;
    this.settle(through);
    return from > at.offset ? { from: at, to: { epoch: at.epoch, offset: from } } : undefined;
  }

  /** CAUGHT_UP: returns the hole in place of a gap that never came. */
  caughtUp(through: number): Hole | undefined {
    if (!this.at) return undefined;
    this.settle(through);
    const due = this.due;
    this.due = undefined;
    return due && { from: due, to: this.at };
  }

  private settle(through: number): void {
    const { epoch, offset } = this.at!;
    if (through > offset) this.at = { epoch, offset: through };
  }
}

/** The cursors of a filter, by partition (section 6.1). */
export class Cursors {
  readonly places = new Map<number, Place>();

  subscribed(partition: number, through: Place, continued: boolean): void {
    const at = this.places.get(partition);
    if (!at) this.places.set(partition, through);
    else if (continued) this.places.set(partition, { epoch: through.epoch, offset: at.offset });
  }

  /** NAMED_MESSAGE: false if settled before, true if new, or the hole before a new epoch. */
  message(partition: number, to: Place, prev: number): boolean | Hole {
    const at = this.places.get(partition);
    if (at && at.epoch === to.epoch && to.offset <= at.offset) return false;
    this.places.set(partition, to);
    if (!at || at.epoch === to.epoch) return true;
    return { from: at, to: { epoch: to.epoch, offset: prev } };
  }

  gap(partition: number, to: Place): Place | undefined {
    const from = this.places.get(partition);
    this.places.set(partition, to);
    return from;
  }

  skipped(partition: number, through: Place): void {
    const at = this.places.get(partition);
    if (!at || at.epoch !== through.epoch || at.offset < through.offset) this.places.set(partition, through);
  }

  /** CAUGHT_UP: the cursor, or nothing for an unknown partition. */
  caughtUp(partition: number, through: number): Place | undefined {
    const at = this.places.get(partition);
    if (!at) return undefined;
    const place = { epoch: at.epoch, offset: Math.max(at.offset, through) };
    this.places.set(partition, place);
    return place;
  }
}
