package io.crore.transport;

import io.crore.internal.shell.JdkOnly;
import java.io.ByteArrayOutputStream;
import java.net.http.HttpResponse;
import java.net.http.WebSocket;
import java.net.http.WebSocketHandshakeException;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/** One WebSocket of the JDK, which accepts one message at a time. */
@JdkOnly
final class JdkConnection implements Transport.Connection, WebSocket.Listener {
  /** A message that is longer is no frame of the protocol. */
  private static final int MESSAGE_BYTES_MAX = 64 << 20;
  private static final long UNSENT_MAX = 1 << 20;
  private static final long CLOSE_SECONDS_MAX = 5;

  private final Transport.Events events;
  private final ArrayDeque<byte[]> unsent = new ArrayDeque<>();
  /** Changed under the lock. */
  private volatile long unsentBytes;
  /** The client may wait for `drained`. */
  private boolean isFull;
  private boolean isSending;
  private WebSocket socket;
  private int closeCode = -1;
  private boolean isOver;
  /** The beginning of a message in several parts. */
  private ByteArrayOutputStream begun;

  private final EndWatch watch = new EndWatch(() -> over(1006));

  /** The thread that begins the handshake, until it is done with that. */
  private volatile Thread beginning;

  JdkConnection(Transport.Events events) {
    this.events = events;
  }

  /** Begins the handshake. */
  void begin(Supplier<CompletableFuture<WebSocket>> handshake) {
    beginning = Thread.currentThread();
    try {
      handshake
          .get()
          .whenComplete(
              (it, error) -> {
                if (error != null) outside(() -> failed(error));
              });
    } finally {
      beginning = null;
    }
  }

  /** A quick handshake ends inside of the call that begins it; its events must not come there. */
  private void outside(Runnable event) {
    if (Thread.currentThread() != beginning) {
      event.run();
      return;
    }
    Thread thread = new Thread(event, "crore-socket");
    thread.setDaemon(true);
    thread.start();
  }

  private void failed(Throwable error) {
    Throwable cause = error instanceof CompletionException ? error.getCause() : error;
    int status = -1;
    long retryAfterS = -1;
    if (cause instanceof WebSocketHandshakeException) {
      HttpResponse<?> response = ((WebSocketHandshakeException) cause).getResponse();
      if (response != null) {
        status = response.statusCode();
        retryAfterS = seconds(response.headers().firstValue("retry-after").orElse(""));
      }
    }
    events.failed(status, retryAfterS);
  }

  private static long seconds(String text) {
    try {
      return Long.parseLong(text.trim());
    } catch (NumberFormatException e) {
      return -1;
    }
  }

  @Override
  public void onOpen(WebSocket opened) {
    synchronized (this) {
      socket = opened;
      if (closeCode == 1006) opened.abort();
    }
    outside(
        () -> {
          events.opened();
          watch.begin(opened);
          // The client bounds what waits for a reader, so that the socket never has to be paused.
          opened.request(Long.MAX_VALUE);
        });
  }

  @Override
  public CompletionStage<?> onBinary(WebSocket socket, ByteBuffer data, boolean isLast) {
    watch.heard();
    if (begun == null && isLast) {
      byte[] message = new byte[data.remaining()];
      data.get(message);
      events.received(message);
      return null;
    }
    if (begun == null) begun = new ByteArrayOutputStream();
    byte[] part = new byte[data.remaining()];
    data.get(part);
    begun.write(part, 0, part.length);
    if (begun.size() > MESSAGE_BYTES_MAX) {
      socket.abort();
      over(1006);
    } else if (isLast) {
      byte[] message = begun.toByteArray();
      begun = null;
      events.received(message);
    }
    return null;
  }

  @Override
  public CompletionStage<?> onText(WebSocket socket, CharSequence data, boolean isLast) {
    if (isLast) events.receivedText();
    return null;
  }

  @Override
  public CompletionStage<?> onPong(WebSocket socket, ByteBuffer data) {
    watch.answered();
    return null;
  }

  @Override
  public CompletionStage<?> onClose(WebSocket socket, int code, String reason) {
    over(code);
    return null;
  }

  @Override
  public void onError(WebSocket socket, Throwable error) {
    over(1006);
  }

  private void over(int code) {
    synchronized (this) {
      if (isOver) return;
      isOver = true;
      watch.over();
      if (socket != null && code == 1006) socket.abort();
      unsent.clear();
      unsentBytes = 0;
    }
    // Not here: a send that fails ends the socket inside of the caller's `send`.
    CompletableFuture.runAsync(() -> events.closed(code));
  }

  @Override
  public synchronized void send(byte[] message) {
    if (isOver || closeCode >= 0) return;
    unsent.add(message);
    unsentBytes += message.length;
    isFull |= unsentBytes > UNSENT_MAX;
    sendNext();
  }

  @Override
  public long unsentBytes() {
    return unsentBytes;
  }

  @Override
  public synchronized void close(int code) {
    if (closeCode >= 0) return;
    closeCode = code;
    watch.over();
    if (socket == null) closeCode = 1006;
    else if (code == 1006) socket.abort();
    else sendNext();
  }

  /** Sends what waits, one message after the other, and the close frame behind them. */
  private synchronized void sendNext() {
    while (!isSending && !isOver && socket != null) {
      byte[] message = unsent.poll();
      if (message == null) {
        if (closeCode >= 0) sendClose();
        return;
      }
      isSending = true;
      CompletableFuture<WebSocket> sent = socket.sendBinary(ByteBuffer.wrap(message), true);
      if (sent.isDone()) sent(message);
      else sent.whenComplete((it, error) -> sentLater(message));
    }
  }

  private void sentLater(byte[] message) {
    synchronized (this) {
      sent(message);
      sendNext();
      if (!isFull || unsentBytes > UNSENT_MAX / 2) return;
      isFull = false;
    }
    // Not here: a caller of `send` may hold this lock and the client's.
    CompletableFuture.runAsync(events::drained);
  }

  private void sent(byte[] message) {
    isSending = false;
    unsentBytes = Math.max(0, unsentBytes - message.length);
  }

  private void sendClose() {
    isSending = true;
    WebSocket closing = socket;
    closing.sendClose(closeCode == 1002 ? 3500 : closeCode, "");
    // A peer that does not answer must not hold the socket.
    CompletableFuture.delayedExecutor(CLOSE_SECONDS_MAX, TimeUnit.SECONDS).execute(closing::abort);
  }
}
