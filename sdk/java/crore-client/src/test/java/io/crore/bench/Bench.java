package io.crore.bench;

import com.sun.management.OperatingSystemMXBean;
import com.sun.management.ThreadMXBean;
import io.crore.Crore;
import io.crore.Item;
import io.crore.Subscription;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.WebSocket;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * Messages of 100 bytes each second: a bare loop over the JDK's WebSocket, and the client, in turn, in
 * one run. The server is a process of its own. Arguments: rounds, messages of each.
 */
public final class Bench {
  private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();
  private static final OperatingSystemMXBean SYSTEM =
      (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
  private static final HttpClient HTTP = HttpClient.newHttpClient();

  private Bench() {}

  /** Receives so many messages of a new connection. */
  private interface Side {
    void receive(String url, int count) throws Exception;
  }

  /** Messages each second; bytes allocated, and processor time of all threads, for each. */
  private static final class Rate {
    final double messages;
    final double bytes;
    final double nanos;

    Rate(double messages, double bytes, double nanos) {
      this.messages = messages;
      this.bytes = bytes;
      this.nanos = nanos;
    }
  }

  public static void main(String[] arguments) throws Exception {
    int rounds = arguments.length > 0 ? Integer.parseInt(arguments[0]) : 5;
    int count = arguments.length > 1 ? Integer.parseInt(arguments[1]) : 500_000;
    String classPath = System.getProperty("java.class.path");
    String java = System.getProperty("java.home") + File.separator + "bin" + File.separator + "java";
    Process server =
        new ProcessBuilder(java, "-cp", classPath, "io.crore.bench.ReplayServer", "" + count)
            .redirectError(ProcessBuilder.Redirect.INHERIT)
            .start();
    try {
      int port = Integer.parseInt(new BufferedReader(new InputStreamReader(server.getInputStream())).readLine());
      String url = "ws://127.0.0.1:" + port + "/crore";
      // To warm both up.
      for (int round = 0; round < 2; round++) {
        measure(Bench::bare, url, count);
        measure(Bench::client, url, count);
      }
      List<Double> ratios = new ArrayList<>();
      List<Double> processor = new ArrayList<>();
      List<Rate> bare = new ArrayList<>();
      List<Rate> ours = new ArrayList<>();
      for (int round = 0; round < rounds; round++) {
        bare.add(measure(Bench::bare, url, count));
        ours.add(measure(Bench::client, url, count));
        ratios.add(ours.get(round).messages / bare.get(round).messages);
        processor.add(bare.get(round).nanos / ours.get(round).nanos);
      }
      Collections.sort(ratios);
      Collections.sort(processor);
      print("bare loop", bare);
      print("client", ours);
      System.out.printf(
          "ratio: %.0f %% (of %d rounds: %.0f to %.0f), by processor time %.0f %%%n",
          ratios.get(rounds / 2) * 100,
          rounds,
          ratios.get(0) * 100,
          ratios.get(rounds - 1) * 100,
          processor.get(rounds / 2) * 100);
    } finally {
      server.destroy();
    }
  }

  private static void print(String name, List<Rate> rates) {
    rates.sort((a, b) -> Double.compare(a.messages, b.messages));
    Rate it = rates.get(rates.size() / 2);
    System.out.printf(
        "%s: %,.0f messages/s; for each %.0f bytes allocated, %.0f ns of processor time%n",
        name, it.messages, it.bytes, it.nanos);
  }

  private static Rate measure(Side side, String url, int count) throws Exception {
    System.gc();
    long bytes = allocated();
    long processor = SYSTEM.getProcessCpuTime();
    long begin = System.nanoTime();
    side.receive(url, count);
    double seconds = (System.nanoTime() - begin) / 1e9;
    double nanos = (double) (SYSTEM.getProcessCpuTime() - processor) / count;
    return new Rate(count / seconds, (double) (allocated() - bytes) / count, nanos);
  }

  private static long allocated() {
    long sum = 0;
    for (long bytes : THREADS.getThreadAllocatedBytes(THREADS.getAllThreadIds())) sum += Math.max(0, bytes);
    return sum;
  }

  /** Counts messages whose bytes are in an array of their own, as every application needs them. */
  private static void bare(String url, int count) throws Exception {
    class Bare implements WebSocket.Listener {
      final CountDownLatch done = new CountDownLatch(1);
      private int received;
      private long bytes;

      @Override
      public void onOpen(WebSocket opened) {
        opened.request(Long.MAX_VALUE);
      }

      @Override
      public CompletionStage<?> onBinary(WebSocket from, ByteBuffer data, boolean isLast) {
        byte[] message = new byte[data.remaining()];
        data.get(message);
        bytes += message.length;
        // Before them come WELCOME and SUBSCRIBED.
        if (++received == count + 2) done.countDown();
        return null;
      }
    }
    Bare bare = new Bare();
    WebSocket socket =
        HTTP.newWebSocketBuilder().subprotocols("crore.v1").buildAsync(URI.create(url), bare).join();
    // HELLO, and SUBSCRIBE of nothing.
    socket.sendBinary(ByteBuffer.wrap(new byte[] {1, 0, 1, 0}), true).join();
    socket.sendBinary(ByteBuffer.wrap(new byte[] {2, 0, 0}), true).join();
    bare.done.await();
    socket.abort();
    if (bare.bytes < count * 100L) throw new AssertionError(bare.bytes);
  }

  /** Decoding, proof, buffer, and a reader in a thread of its own. */
  private static void client(String url, int count) throws Exception {
    // The buffer is wide, for this server has no log.
    try (Crore client = Crore.builder(url).buffer(Integer.MAX_VALUE, Long.MAX_VALUE).build()) {
      Subscription subscription = client.subscribe("t");
      for (int received = 0; received < count; ) {
        Item item = subscription.next(90, TimeUnit.SECONDS);
        if (item == null) throw new AssertionError(received + " received: " + client.inspect());
        if (item.kind() == Item.Kind.MESSAGE) received++;
      }
      if (!subscription.report().complete()) throw new AssertionError(subscription.report());
    }
  }
}
