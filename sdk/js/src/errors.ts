import { errorName } from "./codes.js";
import type { State } from "./state.js";

/** The client's own errors; they have no number. */
export type OwnErrorName =
  | "Unknown"
  | "Expired"
  | "QueueFull"
  | "Closed"
  | "InvalidArgument"
  | "AlreadySubscribed"
  | "Fenced"
  | "Unauthorized"
  | "GapError";

/** The one type of errors: refusals of the server, and the client's own. */
export class CroreError extends Error {
  constructor(
    /** The name of the code, or of the client's own error. */
    override readonly name: OwnErrorName | (string & {}),
    message: string,
    /** The server's number; undefined for the client's own errors. */
    readonly code?: number,
    /** Whether the same request may succeed later. */
    readonly temporary = false,
    /** The position to continue from, or the log's epoch and head. */
    readonly restart?: string,
    /** The limit that the request would have exceeded. */
    readonly limit?: number,
  ) {
    super(message);
  }
}

/** Messages of a subscription are missing: thrown in place of the gap. Iterate again to go on. */
export class GapError extends CroreError {
  constructor(
    /** The last settled position before the gap, if known. */
    readonly from: string | undefined,
    /** Everything up to and including this position is lost or unknown, if known. */
    readonly to: string | undefined,
    /** The cause. */
    readonly gapCause: string,
    /** The partition, for a filter. */
    readonly partition: number | undefined,
  ) {
    super("GapError", `messages are missing: ${gapCause}`);
  }
}

/** The error of a code; an unknown code keeps its number. */
export const refusal = (code: number, temporary: boolean, message: string, restart?: string, limit?: number): CroreError => new CroreError(errorName(code) || "error_" + code, message, code, temporary, restart, limit);

export const invalid = (message: string): CroreError => new CroreError("InvalidArgument", message);

/** Refuses what has not 1 to `max` bytes: S3, U4. */
export const checkSize = (what: string, { length }: Uint8Array, max: number): void => {
  if (!length || length > max) throw invalid(`${what} has 1 to ${max} bytes`);
};

/** Why the client is closed. */
export const closedBy = (state: State): CroreError => {
  const why = state.code ?? state.status;
  return new CroreError("Closed", `the client is closed: ${state.reason}${why ? ` (${why})` : ""}`);
};
