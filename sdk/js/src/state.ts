/** What a client shows of its state; nothing here imports anything. */

/** The state of the client. */
export interface State {
  state: "connecting" | "live" | "waiting" | "closed";
  /** Of `waiting` and `closed`. */
  reason?: string;
  /** The close code, if the server gave one. */
  code?: number;
  /** The HTTP status of a refused handshake, where the platform shows it. */
  status?: number;
  /** `waiting`: when the next attempt begins, by the clock of the calls. */
  until?: number;
}

export type Level = "debug" | "info" | "warn" | "error";

/** Why the source of tokens is called. */
export type TokenReason = "first" | "expires" | "refused";
