package io.crore.transport;

import io.crore.internal.shell.JdkOnly;
import java.net.URI;
import java.net.http.HttpClient;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;

/**
 * The JDK's own WebSocket. It cannot send the close code 1002, so that 3500 is sent in its place.
 */
@JdkOnly
public final class JdkTransport implements Transport {
  private static final Duration CONNECT_TIMEOUT = Duration.ofSeconds(10);

  /** One for all clients that do not bring their own. */
  @JdkOnly
  private static final class Shared {
    static final HttpClient CLIENT = HttpClient.newBuilder().connectTimeout(CONNECT_TIMEOUT).build();
  }

  private final HttpClient client;

  /** With a client of HTTP that all instances share. */
  public JdkTransport() {
    this(Shared.CLIENT);
  }

  /**
   * With a client of HTTP, for a proxy or certificates of one's own.
   *
   * @param client the client of HTTP
   */
  public JdkTransport(HttpClient client) {
    this.client = client;
  }

  @Override
  public Connection connect(String url, Events events) {
    JdkConnection connection = new JdkConnection(events);
    try {
      URI place = URI.create(url);
      connection.begin(
          () ->
              client
                  .newWebSocketBuilder()
                  .subprotocols(SUBPROTOCOL)
                  .connectTimeout(CONNECT_TIMEOUT)
                  .buildAsync(place, connection));
    } catch (IllegalArgumentException malformed) {
      CompletableFuture.runAsync(() -> events.failed(-1, -1));
    }
    return connection;
  }
}
