package io.crore.internal.core;

import static io.crore.internal.codec.Place.above;

import io.crore.internal.codec.Place;
import java.util.Map;
import java.util.TreeMap;

/** P10: the cursors of a filter, by partition. */
final class Cursors {
  private final Map<Long, Place> places = new TreeMap<>();
  private Hole hole;

  Map<Long, Place> places() {
    return places;
  }

  /** The hole before what was handed on last; then there is none. */
  Hole takeHole() {
    Hole taken = hole;
    hole = null;
    return taken;
  }

  void subscribed(long partition, Place through, boolean continued) {
    Place at = places.get(partition);
    if (at == null) places.put(partition, through);
    else if (continued) places.put(partition, new Place(through.epoch, at.offset));
  }

  /** NAMED_MESSAGE: false if it was settled before. */
  boolean message(long partition, Place to, long previous, int lineage) {
    Place at = places.get(partition);
    boolean isSame = at == null || Place.advanced(at.epoch, lineage) == to.epoch;
    if (at != null && isSame && !above(to.offset, at.offset)) return false;
    places.put(partition, to);
    if (!isSame) hole = new Hole(at, new Place(to.epoch, previous));
    return true;
  }

  /** GAP: returns where it begins, or null. */
  Place gap(long partition, Place to) {
    return places.put(partition, to);
  }

  void skipped(long partition, Place through) {
    Place at = places.get(partition);
    if (at == null || at.epoch != through.epoch || above(through.offset, at.offset)) places.put(partition, through);
  }

  /** CAUGHT_UP: the cursor, or null for an unknown partition. */
  Place caughtUp(long partition, long through, int lineage) {
    Place at = places.get(partition);
    if (at == null) return null;
    Place place = new Place(Place.advanced(at.epoch, lineage), Place.max(at.offset, through));
    places.put(partition, place);
    return place;
  }
}
