package io.crore.bench;

import io.crore.Crore;
import io.crore.Subscription;
import io.crore.internal.codec.ClientFrames;
import io.crore.internal.codec.ClientFrames.SubscribeItem;
import io.crore.internal.codec.ClientFrames.WireStart;
import io.crore.support.Node;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.WebSocket;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * Heap of an idle client with one subscription, beside a bare WebSocket of the JDK: both connect to a
 * real node. Argument: how many.
 */
public final class Idle {
  private Idle() {}

  public static void main(String[] arguments) throws Exception {
    int count = arguments.length > 0 ? Integer.parseInt(arguments[0]) : 1_000;
    try (Node node = Node.start("")) {
      // What is loaded once does not count.
      clients(node, 10);
      long empty = used();
      List<WebSocket> sockets = bare(node, count);
      long withSockets = used();
      System.out.printf("bare WebSocket: %,d bytes of heap for each of %d%n", (withSockets - empty) / count, sockets.size());
      List<Crore> clients = clients(node, count);
      System.out.printf("client: %,d bytes of heap for each of %d%n", (used() - withSockets) / count, clients.size());
      node.kill();
      Runtime.getRuntime().halt(0);
    }
  }

  private static long used() throws InterruptedException {
    for (int at = 0; at < 4; at++) {
      System.gc();
      Thread.sleep(200);
    }
    return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
  }

  /** Sends and receives what a client does. */
  private static List<WebSocket> bare(Node node, int count) throws Exception {
    HttpClient http = HttpClient.newHttpClient();
    URI url = URI.create(node.url() + "/crore");
    List<WebSocket> sockets = new ArrayList<>();
    for (int at = 0; at < count; at++) {
      CountDownLatch granted = new CountDownLatch(2);
      WebSocket.Listener listener =
          new WebSocket.Listener() {
            @Override
            public CompletionStage<?> onBinary(WebSocket socket, ByteBuffer data, boolean isLast) {
              granted.countDown();
              return WebSocket.Listener.super.onBinary(socket, data, isLast);
            }
          };
      WebSocket socket = http.newWebSocketBuilder().subprotocols("crore.v1").buildAsync(url, listener).join();
      byte[] hello = ClientFrames.hello(null, null, null, List.of(), 0);
      socket.sendBinary(ByteBuffer.wrap(hello), true).join();
      SubscribeItem item = new SubscribeItem(1, "bare/" + at, WireStart.LIVE, false, -1, -1);
      socket.sendBinary(ByteBuffer.wrap(ClientFrames.subscribe(List.of(item))), true).join();
      granted.await();
      sockets.add(socket);
    }
    return sockets;
  }

  private static List<Crore> clients(Node node, int count) throws Exception {
    List<Crore> clients = new ArrayList<>();
    for (int at = 0; at < count; at++) {
      Crore client = Crore.connect(node.url());
      Subscription subscription = client.subscribe("idle/" + at);
      if (subscription.next(60, TimeUnit.SECONDS) == null) throw new AssertionError("not granted");
      clients.add(client);
    }
    return clients;
  }
}
