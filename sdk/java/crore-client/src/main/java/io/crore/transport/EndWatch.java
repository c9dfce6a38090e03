package io.crore.transport;

import io.crore.internal.shell.JdkOnly;
import java.net.http.WebSocket;
import java.nio.ByteBuffer;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;

/**
 * Finds the end of a connection that the JDK has missed: if the peer's FIN comes while a message is
 * being read, the JDK (17, for one) never reads again, and tells nobody. So the first quiet half
 * second behind messages brings a ping of WebSocket. If its pong does not come either, the next ping
 * fails at the socket, and that is the end.
 */
@JdkOnly
final class EndWatch {
  private static final long QUIET_MS = 500;
  private static final Executor LATER = CompletableFuture.delayedExecutor(QUIET_MS, TimeUnit.MILLISECONDS);

  private final Runnable ended;
  private WebSocket socket;
  private volatile boolean isWatching;
  private volatile boolean wasHeard;
  private int pings;
  private boolean isOver;
  private boolean isPlanned;

  EndWatch(Runnable ended) {
    this.ended = ended;
  }

  synchronized void begin(WebSocket opened) {
    socket = opened;
    heard();
  }

  /** A message came. */
  void heard() {
    // In a stream of messages nothing changes by one more.
    if (!wasHeard || !isWatching) begin();
  }

  private synchronized void begin() {
    wasHeard = true;
    if (isWatching || isOver) return;
    isWatching = true;
    pings = 0;
    plan();
  }

  private void plan() {
    if (isPlanned) return;
    isPlanned = true;
    LATER.execute(this::look);
  }

  /** A pong came: the JDK reads, and the next message begins the watch again. */
  synchronized void answered() {
    if (!wasHeard) isWatching = false;
  }

  synchronized void over() {
    isOver = true;
  }

  private synchronized void look() {
    isPlanned = false;
    if (isOver || !isWatching) return;
    if (wasHeard) {
      wasHeard = false;
      pings = 0;
    } else {
      pings++;
      socket
          .sendPing(ByteBuffer.allocate(0))
          .whenComplete(
              (it, error) -> {
                if (error != null) LATER.execute(ended);
              });
      // A slow network is not an end: the client's own deadline decides.
      if (pings == 4) {
        isWatching = false;
        return;
      }
    }
    plan();
  }
}
