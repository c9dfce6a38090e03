package io.crore.internal.core;

import java.util.function.DoubleSupplier;

/** C4: random waits between attempts. */
public final class Backoff {
  private final long baseMs;
  private final long maxMs;
  private final long resetAfterMs;
  private final DoubleSupplier random;
  private int attempts;

  /** {@code resetAfterMs}: a connection that lasted so long resets the waits. */
  public Backoff(long baseMs, long maxMs, long resetAfterMs, DoubleSupplier random) {
    this.baseMs = baseMs;
    this.maxMs = maxMs;
    this.resetAfterMs = resetAfterMs;
    this.random = random;
  }

  /** The wait after a connection that lasted so long; 0 if it was none. */
  long next(long lastedMs) {
    if (lastedMs >= resetAfterMs) attempts = 0;
    return delay(attempts++);
  }

  /** A random wait before attempt n. */
  long delay(int n) {
    double bound = Math.min(baseMs * Math.pow(2, Math.min(n, 30)), maxMs);
    return (long) Math.floor(random.getAsDouble() * bound);
  }
}
