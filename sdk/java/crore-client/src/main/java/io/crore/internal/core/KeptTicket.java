package io.crore.internal.core;

import io.crore.internal.codec.Place;
import java.util.Map;

/** R11: a ticket that outlives the program, with what it holds. A bearer's secret. */
public final class KeptTicket {
  public final byte[] ticket;
  /** By the server's clock; -1 if it did not say so. */
  public final long expiresMs;
  /** Its subscriptions by their numbers: filter and options. */
  public final Map<Long, String> covers;
  /**
   * By their numbers: the cursors behind everything that had come, by partition. The server goes on at
   * the newer of the ticket's cursor and the client's own, so all of that must be processed.
   */
  public final Map<Long, Map<Long, Place>> places;

  public KeptTicket(
      byte[] ticket, long expiresMs, Map<Long, String> covers, Map<Long, Map<Long, Place>> places) {
    this.places = places;
    this.ticket = ticket;
    this.expiresMs = expiresMs;
    this.covers = covers;
  }
}
