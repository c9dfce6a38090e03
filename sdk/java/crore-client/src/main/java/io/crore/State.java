package io.crore;

/** The state of a client's connection. */
public final class State {
  /** The states. */
  public enum Kind {
    /** An attempt is in progress. */
    CONNECTING,
    /** The server has accepted the client. */
    LIVE,
    /** The client waits for its next attempt. */
    WAITING,
    /** For good: by the application, or because coming back is pointless. */
    CLOSED
  }

  private final Kind kind;
  private final String reason;
  private final long code;
  private final int status;

  /**
   * A state.
   *
   * @param kind which one
   * @param reason why, or null
   * @param code the close code, or -1
   * @param status the HTTP status, or -1
   */
  public State(Kind kind, String reason, long code, int status) {
    this.kind = kind;
    this.reason = reason;
    this.code = code;
    this.status = status;
  }

  /** @return which state it is */
  public Kind kind() {
    return kind;
  }

  /**
   * Why the client waits or is closed: {@code closed}, {@code refused}, {@code network}, {@code idle},
   * {@code timeout}, {@code go_away}, {@code protocol}, {@code unsupported}, {@code token},
   * {@code requested}.
   *
   * @return the reason, or null
   */
  public String reason() {
    return reason;
  }

  /** @return the close code, if the server gave one; else -1 */
  public long code() {
    return code;
  }

  /** @return the HTTP status of a refused handshake; else -1 */
  public int status() {
    return status;
  }

  @Override
  public String toString() {
    StringBuilder text = new StringBuilder(kind.name().toLowerCase(java.util.Locale.ROOT));
    if (reason != null) text.append(": ").append(reason);
    if (code >= 0) text.append(" (").append(code).append(')');
    if (status >= 0) text.append(" (HTTP ").append(status).append(')');
    return text.toString();
  }
}
