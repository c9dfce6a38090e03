package io.crore.android;

import io.crore.transport.Transport;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import okhttp3.Dispatcher;
import okhttp3.OkHttpClient;
import okhttp3.Request;

/**
 * WebSockets of OkHttp, for Android and every other platform without {@code java.net.http}.
 *
 * <pre>{@code
 * Crore crore = Crore.builder("wss://example.com").transport(new OkHttpTransport()).build();
 * }</pre>
 */
public final class OkHttpTransport implements Transport {
  private static final long OPEN_SECONDS_MAX = 10;
  private static final long IDLE_SECONDS = 10;

  /** What all clients share that do not bring their own. */
  private static final class Shared {
    static final OkHttpClient CLIENT = new OkHttpClient();
  }

  /** Cancels sockets and looks at queues; its thread ends while there is nothing to do. */
  static final ScheduledThreadPoolExecutor LATER = later();

  private final OkHttpClient client;

  /** With settings of OkHttp's own. */
  public OkHttpTransport() {
    this(Shared.CLIENT);
  }

  /**
   * With the settings of an application's client: its certificates, proxy, DNS and interceptors.
   *
   * @param client a client, which is not changed
   */
  public OkHttpTransport(OkHttpClient client) {
    this.client =
        client
            .newBuilder()
            .dispatcher(dispatcher())
            .connectTimeout(OPEN_SECONDS_MAX, TimeUnit.SECONDS)
            .readTimeout(OPEN_SECONDS_MAX, TimeUnit.SECONDS)
            .pingInterval(0, TimeUnit.SECONDS)
            // The client of Crore itself decides what is tried again.
            .retryOnConnectionFailure(false)
            .followRedirects(false)
            .build();
  }

  /** OkHttp's own accepts 64 WebSockets, and holds the program's end up. */
  private static Dispatcher dispatcher() {
    ThreadPoolExecutor threads =
        new ThreadPoolExecutor(
            0,
            Integer.MAX_VALUE,
            IDLE_SECONDS,
            TimeUnit.SECONDS,
            new SynchronousQueue<Runnable>(),
            named("crore-socket"));
    Dispatcher dispatcher = new Dispatcher(threads);
    dispatcher.setMaxRequests(Integer.MAX_VALUE);
    dispatcher.setMaxRequestsPerHost(Integer.MAX_VALUE);
    return dispatcher;
  }

  private static ScheduledThreadPoolExecutor later() {
    ScheduledThreadPoolExecutor later = new ScheduledThreadPoolExecutor(1, named("crore-socket-timer"));
    later.setRemoveOnCancelPolicy(true);
    later.setKeepAliveTime(IDLE_SECONDS, TimeUnit.SECONDS);
    later.allowCoreThreadTimeOut(true);
    return later;
  }

  private static ThreadFactory named(String name) {
    return task -> {
      Thread thread = new Thread(task, name);
      thread.setDaemon(true);
      return thread;
    };
  }

  @Override
  public Connection connect(String url, Events events) {
    OkHttpConnection connection = new OkHttpConnection(events);
    try {
      Request request = new Request.Builder().url(url).header("Sec-WebSocket-Protocol", SUBPROTOCOL).build();
      connection.begin(client.newWebSocket(request, connection));
    } catch (IllegalArgumentException malformed) {
      LATER.execute(() -> events.failed(-1, -1));
    }
    return connection;
  }
}
