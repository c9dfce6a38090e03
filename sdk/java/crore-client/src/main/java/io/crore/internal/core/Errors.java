package io.crore.internal.core;

import io.crore.CroreException;
import io.crore.internal.codec.Codes;
import io.crore.internal.codec.ServerFrame.ErrorFrame;

/** E: makes errors. */
public final class Errors {
  private Errors() {}

  /** E1: a refusal of the server keeps its number, also an unknown one. */
  static CroreException refusal(long code, boolean temporary, String message, String restart, long limit) {
    String name = Codes.error(code);
    return new CroreException(name == null ? "error_" + code : name, message, code, temporary, restart, limit);
  }

  static CroreException refusal(ErrorFrame it) {
    String restart = it.restart == null ? null : it.restart.toString();
    return refusal(it.code, it.temporary, it.message, restart, it.limit);
  }

  public static CroreException invalid(String message) {
    return new CroreException(CroreException.INVALID_ARGUMENT, message);
  }

  static CroreException unknown() {
    return new CroreException(
        CroreException.UNKNOWN, "the answer never came: the request may have been carried out");
  }

  public static CroreException queueFull(String message) {
    return new CroreException(CroreException.QUEUE_FULL, message, -1, true, null, -1);
  }

  public static CroreException closed(String message) {
    return new CroreException(CroreException.CLOSED, message);
  }
}
