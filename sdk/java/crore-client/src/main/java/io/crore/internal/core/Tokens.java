package io.crore.internal.core;

import io.crore.TokenReason;

/** T: the token, the calls of its source, and the renewal on the wire. */
final class Tokens {
  private static final long SOURCE_MS_MAX = 10_000; // T9

  /** A call of the source that is in progress. */
  static final class Asked {
    final long id;
    final TokenReason reason;
    /** The next attempt waits for it. */
    final boolean isForAttempt;
    final long until;

    Asked(long id, TokenReason reason, boolean isForAttempt, long until) {
      this.id = id;
      this.reason = reason;
      this.isForAttempt = isForAttempt;
      this.until = until;
    }
  }

  private final boolean hasSource;
  private String token;
  private long lastId;
  private boolean wasRefused;
  /** Why the next attempt needs a token; null if it does not. */
  TokenReason needed;
  Asked asked;
  /** The renewal on the wire, or 0. */
  long request;
  /** A newer token waits for the wire. */
  boolean isDue;
  /** When the source is called again for a renewal. */
  long retryAt = Core.NEVER;
  int failures;

  Tokens(String token, boolean hasSource) {
    this.token = token;
    this.hasSource = hasSource;
    if (hasSource && token == null) needed = TokenReason.FIRST;
  }

  String token() {
    return token;
  }

  boolean hasSource() {
    return hasSource;
  }

  /** T3: takes a token; false if it is the one that the client has, or none. */
  boolean take(String newer) {
    if (newer == null || newer.equals(token)) return false;
    token = newer;
    return true;
  }

  /** Begins a call of the source; 0 if one is in progress. */
  long ask(long now, TokenReason reason, boolean isForAttempt) {
    if (asked != null && !isForAttempt) return 0;
    asked = new Asked(++lastId, reason, isForAttempt, now + SOURCE_MS_MAX);
    needed = null;
    return asked.id;
  }

  /** The call with this id, if its result is still of use; else null. */
  Asked answered(long id) {
    if (asked == null || asked.id != id) return null;
    Asked it = asked;
    asked = null;
    return it;
  }

  /** WELCOME. */
  void accepted() {
    wasRefused = false;
    failures = 0;
  }

  /** T7: whether the source gets one more chance. */
  boolean refusedOnce() {
    if (!hasSource || wasRefused) return false;
    wasRefused = true;
    return true;
  }

  /** The answer to a renewal; false if it is about another request. */
  boolean settled(long id) {
    if (request == 0 || request != id) return false;
    request = 0;
    return true;
  }

  void connectionLost() {
    request = 0;
    retryAt = Core.NEVER;
    isDue = false;
    if (asked != null && !asked.isForAttempt) asked = null;
  }
}
