import type { Message } from "./message.js";

/** Messages of this subscription are missing. */
export interface Gap {
  readonly kind: "gap";
  /** The last settled position before the gap, if known. */
  readonly from: string | undefined;
  /** Everything up to and including this position is lost or unknown, if known. */
  readonly to: string | undefined;
  /**
   * `evicted`, `unknown_epoch`, `beyond_head`, `history_limit`, `damaged`, `other`: announced by
   * the server. `unannounced`: found by the proof. `reconnected`: a filter began anew.
   */
  readonly cause: string;
  /** The partition, for a filter. */
  readonly partition: number | undefined;
}

/** Messages that were left out on purpose: after `from`, up to and including `through`. */
export interface Skipped {
  readonly kind: "skipped";
  readonly from: number;
  through: number;
  /** `conflated`, `dropped`, `other`: by the server. `overflow`: by this client. */
  readonly reason: string;
  readonly partition: number | undefined;
}

/** Everything up to `position` is delivered or reported; live from here. */
export interface CaughtUp {
  readonly kind: "caught_up";
  readonly position: string;
  readonly partition: number | undefined;
}

/** What a subscription's reader gets, in the log's order. */
export type Item = Message | Gap | Skipped | CaughtUp;

/** The state of a subscription since its begin, over all connections. */
export interface Report {
  /** No gap and no skip. For a topic this is proved, for a filter announced: see `basis`. */
  complete: boolean;
  basis: "proved" | "announced";
  gaps: number;
  /** The newest gaps, at most 16. */
  newest: Gap[];
  skips: number;
  messages: number;
  /** The settled position of a topic. */
  position: string | undefined;
  /** The settled positions of a filter, by partition. */
  positions: Record<number, string>;
}
