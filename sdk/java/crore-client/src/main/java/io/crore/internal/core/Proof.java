package io.crore.internal.core;

import static io.crore.internal.codec.Place.above;

import io.crore.internal.codec.Place;

/**
 * P: the proof of no loss for one topic (section 6 of the protocol).
 *
 * <p>The cursor is the place up to which everything is settled. A message continues it without a
 * hole if and only if its {@code prev} is at or below the cursor; distances mean nothing.
 */
public final class Proof {
  private boolean isSet;
  private long epoch;
  private long offset;
  /** The position before a gap that the server has not announced yet. */
  private Place due;
  /** The newest message handed on: P15. */
  private boolean isHanded;
  private long handedEpoch;
  private long handedOffset;
  private Hole hole;

  /** {@code start}: the position that the application has, or null. */
  public Proof(Place start) {
    if (start != null) set(start);
  }

  /** The position to resume from: while a gap is due, the one before it. Null for none. */
  public Place cursor() {
    if (due != null) return due;
    return isSet ? new Place(epoch, offset) : null;
  }

  boolean isGapDue() {
    return due != null;
  }

  /** The epoch of the messages to come. */
  long epoch() {
    return epoch;
  }

  /** The hole before what was handed on last; then there is none. */
  public Hole takeHole() {
    Hole taken = hole;
    hole = null;
    return taken;
  }

  /** P9: the end of the connection. */
  void connectionLost() {
    if (due != null) set(due);
    due = null;
  }

  /** SUBSCRIBED. After a resume that is not continued the cursor moves only with the gap: P7, P8. */
  public void subscribed(Place through, boolean continued) {
    due = null;
    if (!isSet) set(through);
    else if (continued && !above(through.offset, offset)) epoch = through.epoch;
    else {
      due = new Place(epoch, offset);
      if (epoch != through.epoch) set(through);
    }
  }

  /**
   * MESSAGE: false if it was settled before. Else {@link #takeHole} has the hole before it, if any. A
   * lineage advances the epoch: P16.
   */
  public boolean message(long previous, long to, int lineage) {
    long next = Place.advanced(epoch, lineage);
    if (isSet) {
      boolean wasHanded = isHanded && handedEpoch == epoch && !above(to, handedOffset);
      if (!above(to, offset) || wasHanded) return false;
      if (due != null && due.epoch != epoch) hole = new Hole(due, new Place(next, Place.max(previous, offset)));
      else if (above(previous, offset)) hole = new Hole(new Place(epoch, offset), new Place(next, previous));
    }
    due = null;
    isSet = isHanded = true;
    handedEpoch = epoch = next;
    handedOffset = offset = to;
    return true;
  }

  /** GAP: the cursor moves to its end, even down: P4. Returns where it begins, or null. */
  public Place gap(Place to) {
    Place from = cursor();
    due = null;
    set(to);
    return from;
  }

  /** SKIPPED: P5. */
  public void skipped(long from, long through, int lineage) {
    if (!isSet) return;
    if (above(from, offset)) hole = new Hole(new Place(epoch, offset), new Place(epoch, from));
    settle(through, lineage);
  }

  /** CAUGHT_UP: P6, P7. */
  public void caughtUp(long through, int lineage) {
    if (!isSet) return;
    settle(through, lineage);
    if (due != null) hole = new Hole(due, new Place(epoch, offset));
    due = null;
  }

  private void settle(long through, int lineage) {
    epoch = Place.advanced(epoch, lineage);
    offset = Place.max(offset, through);
  }

  private void set(Place place) {
    isSet = true;
    epoch = place.epoch;
    offset = place.offset;
  }
}
