/** T: the token, the calls of its source, and the renewal on the wire. */

/** Why the source is called. */
export type TokenReason = "first" | "expires" | "refused";

const SOURCE_MS_MAX = 10_000; // T9

interface Asked {
  id: number;
  reason: TokenReason;
  /** The next attempt waits for it. */
  forAttempt: boolean;
  until: number;
}

export class Tokens {
  /** Why the next attempt needs a token. */
  needed: TokenReason | undefined;
  asked: Asked | undefined;
  /** The renewal on the wire. */
  request: number | undefined;
  /** A newer token waits for the wire. */
  isDue = false;
  /** When the source is called again for a renewal. */
  retryAt: number | undefined;
  failures = 0;
  private lastId = 0;
  private wasRefused = false;

  constructor(
    public token: string | undefined,
    private readonly hasSource: boolean,
  ) {
    if (hasSource && token === undefined) this.needed = "first";
  }

  /** Takes a token; false if it is the one that the client has. */
  take(token: string): boolean {
    if (token === this.token) return false;
    this.token = token;
    return true;
  }

  /** Calls the source; 0 if a call is in progress. */
  ask(now: number, reason: TokenReason, forAttempt: boolean): number {
    if (this.asked && !forAttempt) return 0;
    const id = ++this.lastId;
    this.asked = { id, reason, forAttempt, until: now + SOURCE_MS_MAX };
    this.needed = undefined;
    return id;
  }

  /** The call with this id, if its result is still of use. */
  answered(id: number): Asked | undefined {
    const asked = this.asked?.id === id ? this.asked : undefined;
    if (asked) this.asked = undefined;
    return asked;
  }

  accepted(): void {
    this.wasRefused = false;
    this.failures = 0;
  }

  /** T7: whether the source gets one more chance. */
  refusedOnce(): boolean {
    if (!this.hasSource || this.wasRefused) return false;
    return (this.wasRefused = true);
  }

  /** The answer to a renewal; false if there is none. */
  settled(request: number): boolean {
    if (this.request !== request) return false;
    this.request = undefined;
    return true;
  }

  connectionLost(): void {
    this.request = this.retryAt = undefined;
    this.isDue = false;
    if (this.asked && !this.asked.forAttempt) this.asked = undefined;
  }
}
