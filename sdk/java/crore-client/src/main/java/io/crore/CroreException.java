package io.crore;

/**
 * The one type of errors: refusals of the server, which have a {@link #code()}, and the client's
 * own, which have only a {@link #name()}.
 */
public class CroreException extends RuntimeException {
  private static final long serialVersionUID = 1;

  /** The request was sent, but its answer never came: it may have been carried out. */
  public static final String UNKNOWN = "Unknown";
  /** The timeout came before the request was sent: it never will be. */
  public static final String EXPIRED = "Expired";
  /** Too many publications wait for their answers. */
  public static final String QUEUE_FULL = "QueueFull";
  /** The client is closed, or was closed before the request was sent. */
  public static final String CLOSED = "Closed";
  /** An argument is wrong; nothing was sent. */
  public static final String INVALID_ARGUMENT = "InvalidArgument";
  /** There is a subscription to this topic or filter. */
  public static final String ALREADY_SUBSCRIBED = "AlreadySubscribed";
  /** Another client publishes under this producer's id. */
  public static final String FENCED = "Fenced";
  /** A source of tokens throws it to end the client. */
  public static final String UNAUTHORIZED = "Unauthorized";
  /** Messages are missing: see {@link GapException}. */
  public static final String GAP = "GapError";

  private final String name;
  private final long code;
  private final boolean temporary;
  private final String restart;
  private final long limit;

  /**
   * An error.
   *
   * @param name its name
   * @param message a text for people
   * @param code the server's number, or -1
   * @param temporary whether the same request may succeed later
   * @param restart a position to continue from, or null
   * @param limit the exceeded limit, or -1
   */
  public CroreException(String name, String message, long code, boolean temporary, String restart, long limit) {
    super(name + ": " + message);
    this.name = name;
    this.code = code;
    this.temporary = temporary;
    this.restart = restart;
    this.limit = limit;
  }

  /**
   * An error of the client itself.
   *
   * @param name its name
   * @param message a text for people
   */
  public CroreException(String name, String message) {
    this(name, message, -1, false, null, -1);
  }

  /** @return the name of the server's code, or of the client's own error */
  public String name() {
    return name;
  }

  /** @return the server's number; -1 for the client's own errors */
  public long code() {
    return code;
  }

  /** @return whether the same request may succeed later */
  public boolean temporary() {
    return temporary;
  }

  /** @return the position to continue from, or the log's epoch and head; null without one */
  public String restart() {
    return restart;
  }

  /** @return the limit that the request would have exceeded; -1 without one */
  public long limit() {
    return limit;
  }
}
