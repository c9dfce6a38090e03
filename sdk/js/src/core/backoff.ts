/** C4: random waits between attempts. */

export interface BackoffSettings {
  baseMs: number;
  maxMs: number;
  /** A connection that lasted so long resets the waits. */
  resetAfterMs: number;
}

export class Backoff {
  private attempts = 0;

  constructor(
    private readonly settings: BackoffSettings,
    private readonly random: () => number,
  ) {}

  /** The wait after a connection that lasted so long; 0 if it was none. */
  next(lastedMs: number): number {
    if (lastedMs >= this.settings.resetAfterMs) this.attempts = 0;
    return this.delay(this.attempts++);
  }

  /** A random wait before attempt `n`. */
  delay(n: number): number {
    const { baseMs, maxMs } = this.settings;
    return Math.floor(this.random() * Math.min(baseMs * 2 ** Math.min(n, 30), maxMs));
  }
}
