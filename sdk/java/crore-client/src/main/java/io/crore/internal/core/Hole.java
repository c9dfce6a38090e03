package io.crore.internal.core;

import io.crore.internal.codec.Place;

/** A range that is missing and was never announced. */
public final class Hole {
  public final Place from;
  public final Place to;

  Hole(Place from, Place to) {
    this.from = from;
    this.to = to;
  }
}
