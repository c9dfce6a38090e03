package io.crore.android;

import io.crore.transport.Transport;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import okhttp3.Response;
import okhttp3.WebSocket;
import okhttp3.WebSocketListener;
import okio.ByteString;

/** One WebSocket of OkHttp, whose queue has no event for its end: it is looked at now and then. */
final class OkHttpConnection extends WebSocketListener implements Transport.Connection {
  private static final int CLOSE_WITHOUT_CODE = 1005;
  private static final int CLOSE_ABNORMAL = 1006;
  private static final long CLOSE_SECONDS_MAX = 5;
  private static final long UNSENT_MAX = 1 << 20;
  private static final long LOOK_MS = 20;

  private final Transport.Events events;
  private WebSocket socket;
  private boolean isOpen;
  private boolean isOver;
  private boolean isClosing;
  private boolean isLooking;
  private Future<?> cancelling;

  OkHttpConnection(Transport.Events events) {
    this.events = events;
  }

  synchronized void begin(WebSocket begun) {
    socket = begun;
    // Events come from another thread, perhaps before this.
    notifyAll();
  }

  /** The socket, which the thread that connects has or gets at once. */
  private synchronized WebSocket socket() {
    boolean wasInterrupted = false;
    while (socket == null) {
      try {
        wait();
      } catch (InterruptedException e) {
        wasInterrupted = true;
      }
    }
    if (wasInterrupted) Thread.currentThread().interrupt();
    return socket;
  }

  @Override
  public void onOpen(WebSocket opened, Response response) {
    socket();
    synchronized (this) {
      isOpen = true;
    }
    events.opened();
  }

  @Override
  public void onMessage(WebSocket from, ByteString bytes) {
    events.received(bytes.toByteArray());
  }

  @Override
  public void onMessage(WebSocket from, String text) {
    events.receivedText();
  }

  @Override
  public void onClosing(WebSocket from, int code, String reason) {
    from.close(code == CLOSE_WITHOUT_CODE ? 1000 : code, null);
    over(code);
  }

  @Override
  public void onClosed(WebSocket from, int code, String reason) {
    synchronized (this) {
      if (cancelling != null) cancelling.cancel(false);
    }
    over(code);
  }

  @Override
  public void onFailure(WebSocket from, Throwable error, Response response) {
    boolean wasOpen;
    synchronized (this) {
      wasOpen = isOpen;
      if (cancelling != null) cancelling.cancel(false);
    }
    if (wasOpen) over(CLOSE_ABNORMAL);
    else if (response == null) failed(-1, -1);
    else failed(response.code(), seconds(response.header("Retry-After")));
  }

  private static long seconds(String text) {
    try {
      return text == null ? -1 : Long.parseLong(text.trim());
    } catch (NumberFormatException e) {
      return -1;
    }
  }

  private void failed(int status, long retryAfterS) {
    socket();
    if (isFirstEnd()) events.failed(status, retryAfterS);
  }

  private void over(int code) {
    if (isFirstEnd()) events.closed(code);
  }

  private synchronized boolean isFirstEnd() {
    boolean isFirst = !isOver;
    isOver = true;
    return isFirst;
  }

  @Override
  public void send(byte[] message) {
    synchronized (this) {
      if (isClosing || isOver) return;
    }
    WebSocket to = socket();
    // Above 16 MiB OkHttp ends the connection, and tells it as the peer's end.
    to.send(ByteString.of(message));
    if (to.queueSize() > UNSENT_MAX) look();
  }

  @Override
  public long unsentBytes() {
    return socket().queueSize();
  }

  /** Looks again until less than half of the bound waits. */
  private synchronized void look() {
    if (isLooking) return;
    isLooking = true;
    OkHttpTransport.LATER.schedule(this::looks, LOOK_MS, TimeUnit.MILLISECONDS);
  }

  private void looks() {
    boolean isDrained = socket().queueSize() <= UNSENT_MAX / 2;
    synchronized (this) {
      isLooking = false;
      if (isOver || isClosing) return;
      if (!isDrained) look();
    }
    if (isDrained) events.drained();
  }

  @Override
  public void close(int code) {
    WebSocket closing = socket();
    synchronized (this) {
      if (isClosing) return;
      isClosing = true;
      if (!isOpen || code == CLOSE_ABNORMAL) {
        isOver = true;
      } else {
        // A peer that does not answer must not hold the socket.
        cancelling = OkHttpTransport.LATER.schedule(closing::cancel, CLOSE_SECONDS_MAX, TimeUnit.SECONDS);
      }
    }
    if (cancelling == null) closing.cancel();
    else closing.close(code, null);
  }
}
