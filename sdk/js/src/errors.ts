import { errorName } from "./codes.js";
import type { ErrorFrame } from "./codec/server.js";
import { show } from "./codec/position.js";

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
  /** The server's number; undefined for the client's own errors. */
  readonly code: number | undefined;
  /** The name of the code, or of the client's own error. */
  override readonly name: string;
  /** Whether the same request may succeed later. */
  readonly temporary: boolean;
  /** The position to continue from, or the log's epoch and head. */
  readonly restart: string | undefined;
  /** The limit that the request would have exceeded. */
  readonly limit: number | undefined;

  constructor(
    name: OwnErrorName | (string & {}),
    message: string,
    code?: number,
    temporary = false,
    restart?: string,
    limit?: number,
  ) {
    super(message);
    this.name = name;
    this.code = code;
    this.temporary = temporary;
    this.restart = restart;
    this.limit = limit;
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
    super("GapError", `messages after ${from ?? "?"} up to ${to ?? "?"} are missing: ${gapCause}`);
  }
}

/** The error of a code; an unknown code keeps its number. */
export function refusal(
  code: number,
  temporary: boolean,
  message: string,
  restart?: string,
  limit?: number,
): CroreError {
  return new CroreError(errorName(code) ?? "error_" + code, message, code, temporary, restart, limit);
}

/** The error of an ERROR frame. */
export function refused(frame: ErrorFrame): CroreError {
  const restart = frame.restart && show(frame.restart);
  return refusal(frame.code, frame.temporary, frame.message, restart, frame.limit);
}

export function invalid(message: string): CroreError {
  return new CroreError("InvalidArgument", message);
}
