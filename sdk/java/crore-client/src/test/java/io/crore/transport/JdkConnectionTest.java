package io.crore.transport;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.http.WebSocket;
import java.nio.ByteBuffer;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class JdkConnectionTest {
  /** Keeps events, and whether they came inside of a thread's call. */
  private static final class Told implements Transport.Events {
    private final Thread caller;
    private final LinkedBlockingQueue<String> events;

    Told(Thread caller, LinkedBlockingQueue<String> events) {
      this.caller = caller;
      this.events = events;
    }

    private void add(String event) {
      events.add(event + (Thread.currentThread() == caller ? " inside" : ""));
    }

    @Override
    public void opened() {
      add("opened");
    }

    @Override
    public void failed(int status, long retryAfterS) {
      add("failed");
    }

    @Override
    public void received(byte[] message) {}

    @Override
    public void receivedText() {}

    @Override
    public void drained() {}

    @Override
    public void closed(int code) {
      add("" + code);
    }
  }

  /** A socket whose peer has gone: the JDK reports that inside of the call that sends. */
  private static final class Gone implements WebSocket {
    private final Listener listener;

    Gone(Listener listener) {
      this.listener = listener;
    }

    private CompletableFuture<WebSocket> failed() {
      IOException error = new IOException("broken pipe");
      listener.onError(this, error);
      return CompletableFuture.failedFuture(error);
    }

    @Override
    public CompletableFuture<WebSocket> sendText(CharSequence data, boolean last) {
      return failed();
    }

    @Override
    public CompletableFuture<WebSocket> sendBinary(ByteBuffer data, boolean last) {
      return failed();
    }

    @Override
    public CompletableFuture<WebSocket> sendPing(ByteBuffer message) {
      return failed();
    }

    @Override
    public CompletableFuture<WebSocket> sendPong(ByteBuffer message) {
      return failed();
    }

    @Override
    public CompletableFuture<WebSocket> sendClose(int statusCode, String reason) {
      return failed();
    }

    @Override
    public void request(long n) {}

    @Override
    public String getSubprotocol() {
      return Transport.SUBPROTOCOL;
    }

    @Override
    public boolean isOutputClosed() {
      return false;
    }

    @Override
    public boolean isInputClosed() {
      return false;
    }

    @Override
    public void abort() {}
  }

  /** Otherwise the client, which does not know its connection yet, would drop the event. */
  @Test
  void aHandshakeThatEndsAtOnceIsToldOutsideOfTheCall() throws Exception {
    Thread caller = Thread.currentThread();
    LinkedBlockingQueue<String> told = new LinkedBlockingQueue<>();
    Transport.Events events = new Told(caller, told);
    JdkConnection opened = new JdkConnection(events);
    opened.begin(
        () -> {
          WebSocket socket = new Gone(opened);
          opened.onOpen(socket);
          return CompletableFuture.completedFuture(socket);
        });
    assertEquals("opened", told.poll(90, TimeUnit.SECONDS));
    JdkConnection failed = new JdkConnection(events);
    failed.begin(() -> CompletableFuture.failedFuture(new IOException("refused")));
    assertEquals("failed", told.poll(90, TimeUnit.SECONDS));
  }

  /** Otherwise the client, in the middle of a call, would learn of an end that takes the call along. */
  @Test
  void theEndOfASocketIsNoPartOfASend() throws Exception {
    Thread sender = Thread.currentThread();
    LinkedBlockingQueue<String> ends = new LinkedBlockingQueue<>();
    JdkConnection connection = new JdkConnection(new Told(sender, ends));
    connection.onOpen(new Gone(connection));
    connection.send(new byte[1]);
    assertEquals("opened inside", ends.poll(90, TimeUnit.SECONDS));
    assertEquals("1006", ends.poll(90, TimeUnit.SECONDS));
    assertTrue(ends.isEmpty());
  }
}
