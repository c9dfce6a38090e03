package io.crore.transport;

/**
 * Opens WebSockets for a client. {@link JdkTransport} is the usual one; Android has its own.
 *
 * <p>No method blocks or throws.
 */
public interface Transport {
  /** The subprotocol that the handshake must offer. */
  String SUBPROTOCOL = "crore.v1";

  /**
   * Begins to open a WebSocket.
   *
   * @param url a URL that begins with {@code ws:} or {@code wss:}
   * @param events gets what happens, never during this call, and one event at a time
   * @return the connection, which may not be open yet
   */
  Connection connect(String url, Events events);

  /** One WebSocket. */
  interface Connection {
    /**
     * Sends a binary message after all earlier ones.
     *
     * @param message the message
     */
    void send(byte[] message);

    /** @return how many bytes wait to be sent */
    long unsentBytes();

    /**
     * Closes the WebSocket after everything was sent.
     *
     * @param code the close code; 1006: at once and without a close frame
     */
    void close(int code);
  }

  /** What happens to one WebSocket. No event comes inside of a call of {@link Connection}. */
  interface Events {
    /** It is open. */
    void opened();

    /**
     * It could not be opened.
     *
     * @param status the HTTP status, or -1 without an answer
     * @param retryAfterS the seconds of {@code Retry-After}, or -1
     */
    void failed(int status, long retryAfterS);

    /**
     * A whole binary message came.
     *
     * @param message the message, which the receiver keeps
     */
    void received(byte[] message);

    /** A text message came. */
    void receivedText();

    /** More than 1 MiB waited to be sent, and now it is less than half of that. */
    void drained();

    /**
     * It has ended.
     *
     * @param code the peer's close code; 1006 without one
     */
    void closed(int code);
  }
}
