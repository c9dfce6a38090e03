/** The options that the core reads. */

import type { TokenReason } from "../state.js";

/**
 * Returns the newest token, or nothing if there is no new one. An error with the name
 * `Unauthorized` ends the client; after any other one the source is called again.
 */
export type TokenSource = (
  reason: TokenReason,
  signal: AbortSignal | undefined,
) => string | undefined | Promise<string | undefined>;

/** Options of a client, as far as they concern the core. */
export interface CoreOptions {
  /** A fixed token, or the source of tokens. */
  token?: string | TokenSource;
  /** A name for the logs of the node. */
  name?: string;
  /**
   * The first frames, with the token, go with the handshake, which saves a round trip. What is on
   * the way has to take a head of 12 KiB, and must not log it. If such a handshake fails, the next
   * one goes without.
   */
  handshakeFrames?: boolean;
  /** The waits between attempts, in milliseconds. */
  backoff?: { base?: number; max?: number; resetAfter?: number };
  /** The bound of what waits for a subscription's reader. */
  buffer?: { items?: number; bytes?: number };
}

/** Where a subscription begins. */
export type Start =
  | "live"
  /** The retained message or the newest one, then live. */
  | "snapshot"
  /** All messages behind a position, then live. */
  | { since: string }
  /** For filters: all messages behind a position of each partition, then live. */
  | { sinceEach: Record<number, string> }
  /** The newest messages, then live. */
  | { last: number };

export interface SubscribeOptions {
  start?: Start;
  /** Ends with an error that has `restart`, in place of a gap at the start. */
  failOnGap?: boolean;
  /** What the server does when this subscription lags. */
  policy?: "replay" | "conflate" | "drop" | "disconnect";
  /** What the client does when the reader is slow: pause at the server's log, or skip the oldest. */
  overflow?: "pause" | "skip";
  /** With `resume`: the position is stored by this name, and the next program goes on from it. */
  name?: string;
}

export interface HistoryOptions {
  /** Messages behind this position; with `reverse` before it. */
  after?: string;
  /** The newest first. */
  reverse?: boolean;
  /** At most so many messages. */
  limit?: number;
  /** `"throw"` (default): a range that is gone throws `GapError`. */
  gaps?: "throw" | "report";
  timeout?: number;
}
