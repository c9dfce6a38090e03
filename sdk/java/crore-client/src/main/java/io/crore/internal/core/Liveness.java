package io.crore.internal.core;

import io.crore.internal.codec.ClientFrames;

/** L: signs of life. */
final class Liveness {
  private static final long MARGIN_MS = 10_000;

  /** L2: the longest silence; 0 for none. */
  private long silenceMs;
  private long lastReceived;
  /** When the PING without an answer was sent, or -1. */
  private long pingedAt = -1;
  /** When the connection that is probed is given up. */
  private long probeUntil = Core.NEVER;
  private long roundTripMs = -1;

  /** The last measured round trip, or -1. */
  long roundTripMs() {
    return roundTripMs;
  }

  void begin(long now) {
    lastReceived = now;
    pingedAt = -1;
    probeUntil = Core.NEVER;
  }

  void end() {
    silenceMs = 0;
    pingedAt = -1;
    probeUntil = Core.NEVER;
  }

  void welcomed(long tookMs, long intervalS) {
    roundTripMs = tookMs;
    silenceMs = intervalS == 0 ? 0 : intervalS * 1_000 + MARGIN_MS;
  }

  /** L3 */
  void heard(long now) {
    lastReceived = now;
    if (pingedAt < 0) return;
    roundTripMs = now - pingedAt;
    pingedAt = -1;
    probeUntil = Core.NEVER;
  }

  void probe(long now, long patienceMs, Outputs outputs) {
    if (probeUntil != Core.NEVER) return;
    probeUntil = now + patienceMs;
    ping(now, outputs);
  }

  long wakeAt() {
    if (silenceMs == 0) return probeUntil;
    return Math.min(probeUntil, (pingedAt < 0 ? lastReceived : pingedAt) + silenceMs);
  }

  /** Whether nothing came for too long; sends PING before that. */
  boolean isDead(long now, Outputs outputs) {
    if (now >= probeUntil) return true;
    if (silenceMs == 0) return false;
    long since = now - (pingedAt < 0 ? lastReceived : pingedAt);
    if (since < silenceMs) return false;
    // L5: a timer that slept grants a whole deadline, since the answer may wait behind it.
    boolean isLate = since > 2 * silenceMs;
    if (pingedAt >= 0 && !isLate) return true;
    ping(now, outputs);
    return false;
  }

  private void ping(long now, Outputs outputs) {
    pingedAt = now;
    outputs.send(ClientFrames.ping(now));
  }
}
