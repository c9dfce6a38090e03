package io.crore.internal.core;

import java.util.Map;

/** R11: a ticket that outlives the program, with what it holds. A bearer's secret. */
public final class KeptTicket {
  public final byte[] ticket;
  /** By the server's clock; -1 if it did not say so. */
  public final long expiresMs;
  /** Its subscriptions by their numbers: filter and options. */
  public final Map<Long, String> covers;

  public KeptTicket(byte[] ticket, long expiresMs, Map<Long, String> covers) {
    this.ticket = ticket;
    this.expiresMs = expiresMs;
    this.covers = covers;
  }
}
