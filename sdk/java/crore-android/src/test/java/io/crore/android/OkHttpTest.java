package io.crore.android;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.crore.Crore;
import io.crore.Message;
import io.crore.PublishOptions;
import io.crore.Subscription;
import io.crore.support.Leaks;
import io.crore.support.Node;
import io.crore.support.Reading;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestMethodOrder;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.parallel.Isolated;

/** The client over OkHttp, and a real node. */
@Timeout(900)
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
@Isolated
class OkHttpTest {
  @Test
  @Order(1) // before others leave threads that are idle for a while
  void closedClientsLeaveNothing() throws Exception {
    try (Node node = Node.start(Node.ON_DISK)) {
      Leaks.check(node, new OkHttpTransport());
    }
  }

  @Test
  void moreThan64ClientsAreLive() throws Exception {
    OkHttpTransport transport = new OkHttpTransport();
    List<Crore> clients = new ArrayList<>();
    try (Node node = Node.start(Node.ON_DISK)) {
      for (int at = 0; at < 100; at++) clients.add(Crore.builder(node.url()).transport(transport).build());
      for (Crore it : clients) it.ready().get(90, TimeUnit.SECONDS);
      for (Crore it : clients) it.close();
    }
  }

  @Test
  void largePublicationsWaitForTheSocketAndNothingIsLostOverAKill() throws Exception {
    int count = 40;
    try (Node node = Node.start(Node.ON_DISK);
        Crore client =
            Crore.builder(node.url())
                .transport(new OkHttpTransport())
                .backoff(20, 200, 10_000, TimeUnit.MILLISECONDS)
                .build()) {
      Subscription subscription = client.subscribe("large");
      Reading.granted(subscription);
      for (int at = 0; at < count; at++) {
        // At most 4 MiB of them are kept.
        List<Integer> sizes = List.of(100, 900_000, 1_000_000);
        byte[] payload = new byte[sizes.get(at % 3)];
        payload[0] = (byte) at;
        if (at % 3 == 2) Reading.answer(client.publish("large", payload, PublishOptions.none().once()));
        else client.publish("large", payload, PublishOptions.none().once());
        if (at != 20) continue;
        node.kill();
        node.start();
      }
      for (int at = 0; at < count; at++) {
        assertEquals(at, ((Message) Reading.next(subscription)).bytes()[0]);
      }
      assertTrue(subscription.report().complete());
    }
  }
}
