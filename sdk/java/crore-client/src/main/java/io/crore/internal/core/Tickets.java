package io.crore.internal.core;

import io.crore.internal.codec.ClientFrames.Cursor;
import io.crore.internal.codec.Place;
import io.crore.internal.codec.ServerFrame.ErrorFrame;
import io.crore.internal.codec.ServerFrame.Welcome;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.LongFunction;
import java.util.function.Supplier;

/** R3 to R10: resume tickets. A ticket only saves time: the cursors decide what is a repeat. */
final class Tickets {
  private static final long ASK_DELAY_MS = 1_000;
  private static final long RETRY_DELAY_MS = 60_000;
  private static final int CURSORS_MAX = 250; // R10: HELLO stays below 32 KiB with ticket and token
  private static final int TICKET_BYTES_MAX = 16 * 1024;

  /** A ticket with the numbers of its subscriptions. */
  static final class Held {
    final byte[] ticket;
    final long expiresAt;
    final long renewAt;
    final Set<Long> covers;
    /** By the server's clock, or -1. */
    long expiresMs = -1;

    Held(byte[] ticket, long expiresAt, long renewAt, Set<Long> covers) {
      this.ticket = ticket;
      this.expiresAt = expiresAt;
      this.renewAt = renewAt;
      this.covers = covers;
    }
  }

  private Held held;
  /** The request on the wire, or 0. */
  private long asked;
  private long askAt = Core.NEVER;
  private boolean wasPresented;
  private long lifetimeMs;
  private long notBefore;
  /** The server's clock minus the own one. */
  private long clockMs;

  /** When the next request is due, at the earliest. */
  long askAt() {
    return askAt;
  }

  /** Whether this connection began with the ticket. */
  boolean wasPresented() {
    return wasPresented;
  }

  /** Whether this connection's ticket has brought the subscription. */
  boolean brings(long number) {
    return wasPresented && held != null && held.covers.contains(number);
  }

  void connectionLost() {
    asked = 0;
    askAt = Core.NEVER;
    lifetimeMs = notBefore = 0;
    wasPresented = false;
  }

  /** R4, R7, R10: the ticket that may hold, or null; {@code cursors} gets what goes with it. */
  Held present(long now, LongFunction<CoreSubscription> byNumber, List<Cursor> cursors) {
    if (held == null) return null;
    for (long number : held.covers) {
      CoreSubscription it = byNumber.apply(number);
      if (it == null || it.isPaused || now >= held.expiresAt) {
        held = null;
        cursors.clear();
        return null;
      }
      Place cursor = it.proof.cursor();
      if (cursor != null) cursors.add(new Cursor(number, -1, cursor));
      for (Map.Entry<Long, Place> entry : it.cursors.places().entrySet()) {
        cursors.add(new Cursor(number, entry.getKey(), entry.getValue()));
      }
    }
    if (cursors.size() > CURSORS_MAX || now >= held.expiresAt) {
      cursors.clear();
      return null;
    }
    wasPresented = true;
    return held;
  }

  /** WELCOME: the numbers to ask for although the ticket should hold them; null for none. */
  Set<Long> welcomed(long now, Welcome frame) {
    lifetimeMs = Math.max(0, frame.ticketLifetimeS) * 1_000;
    clockMs = frame.timeMs - now;
    if (!wasPresented || held == null) return null;
    Set<Long> covers = held.covers;
    if (frame.resumed < 0) held = null; // R5
    else if (frame.resumed == covers.size()) return null; // R6
    return covers;
  }

  /** The application has changed its subscriptions. */
  void changed(long now) {
    if (askAt != Core.NEVER) askAt = now + ASK_DELAY_MS;
  }

  /** R3: plans the next request. */
  void plan(long now, Supplier<List<CoreSubscription>> all) {
    if (lifetimeMs == 0 || asked != 0 || askAt <= now + ASK_DELAY_MS) return;
    List<CoreSubscription> active = all.get();
    if (active.isEmpty()) return;
    boolean isCovered = held != null && held.covers.size() == active.size();
    if (isCovered) {
      for (CoreSubscription it : active) isCovered &= held.covers.contains(it.number);
    }
    long at = Math.max(isCovered ? held.renewAt : 0, Math.max(now + ASK_DELAY_MS, notBefore));
    askAt = Math.min(askAt, at);
  }

  /** Whether the planned time has come; then nothing is planned. */
  boolean isDue(long now) {
    if (now < askAt) return false;
    askAt = Core.NEVER;
    return true;
  }

  void asked(long request) {
    asked = request;
  }

  /** TICKET_ISSUED: false if nobody asked. */
  boolean issued(
      long now, long request, long serverExpiresMs, byte[] ticket, Collection<CoreSubscription> active) {
    if (asked == 0 || asked != request) return false;
    // R7
    if (hold(now, ticket, serverExpiresMs - clockMs, granted(active))) held.expiresMs = serverExpiresMs;
    return true;
  }

  /** R11: the ticket, for a storage; null if there is none, or one of its subscriptions has ended. */
  KeptTicket kept(LongFunction<CoreSubscription> byNumber) {
    if (held == null) return null;
    Map<Long, String> covers = new LinkedHashMap<>();
    Map<Long, Map<Long, Place>> places = new LinkedHashMap<>();
    for (long number : held.covers) {
      CoreSubscription it = byNumber.apply(number);
      if (it == null) return null;
      covers.put(number, it.cover());
      places.put(number, it.places());
    }
    return new KeptTicket(held.ticket, held.expiresMs, covers, places);
  }

  /** R11: a ticket of an earlier program; {@code clock} is the present time since 1970. */
  void restore(long now, long clock, KeptTicket kept) {
    long expiresAt = kept.expiresMs < 0 ? Core.NEVER : now + kept.expiresMs - clock;
    held = new Held(kept.ticket, expiresAt, 0, kept.covers.keySet());
    held.expiresMs = kept.expiresMs;
  }

  /** G5: the ticket of GO_AWAY, which does not say when it expires. */
  void leaving(long now, byte[] ticket, Collection<CoreSubscription> active) {
    hold(now, ticket, Core.NEVER, granted(active));
  }

  private static Set<Long> granted(Collection<CoreSubscription> active) {
    Set<Long> numbers = new HashSet<>();
    for (CoreSubscription it : active) if (it.isGranted) numbers.add(it.number);
    return numbers;
  }

  /** R10: false if the ticket is too long; an older one stays. */
  private boolean hold(long now, byte[] ticket, long expiresAt, Set<Long> covers) {
    asked = 0;
    if (ticket.length > TICKET_BYTES_MAX) return false;
    long renewAt = expiresAt == Core.NEVER ? 0 : now + Math.max(0, expiresAt - now) / 2;
    held = new Held(ticket, expiresAt, renewAt, covers);
    return true;
  }

  /** Whether an error refuses the request for a ticket. */
  boolean refused(long now, ErrorFrame frame) {
    if (asked == 0 || asked != frame.id) return false;
    asked = 0;
    if (frame.temporary) notBefore = now + RETRY_DELAY_MS;
    else lifetimeMs = 0;
    return true;
  }
}
