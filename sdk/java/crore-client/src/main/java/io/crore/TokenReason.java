package io.crore;

/** Why a source of tokens is called. */
public enum TokenReason {
  /** The client has no token yet. */
  FIRST,
  /** Its token expires soon, or has expired. */
  EXPIRES,
  /** The server has refused its token. */
  REFUSED
}
