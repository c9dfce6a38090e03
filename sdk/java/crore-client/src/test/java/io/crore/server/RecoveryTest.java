package io.crore.server;

import static io.crore.support.Reading.answer;
import static io.crore.support.Reading.granted;
import static io.crore.support.Reading.history;
import static io.crore.support.Reading.next;
import static io.crore.support.Reading.texts;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.crore.Crore;
import io.crore.CroreBuilder;
import io.crore.CroreException;
import io.crore.Gap;
import io.crore.GapException;
import io.crore.HistoryOptions;
import io.crore.Message;
import io.crore.Page;
import io.crore.PublishOptions;
import io.crore.Published;
import io.crore.SubscribeOptions;
import io.crore.Subscription;
import io.crore.support.Events;
import io.crore.support.Node;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Ends of nodes and connections, gaps, and history, with a real node. */
@Timeout(400)
class RecoveryTest {
  private static final PublishOptions ONCE = PublishOptions.none().once();

  private static CroreBuilder builder(Node node) {
    return Crore.builder(node.url()).backoff(20, 200, 10_000, TimeUnit.MILLISECONDS);
  }

  @Test
  void onceIsExactlyOnceOverKillsAndDrains() throws Exception {
    try (Node node = Node.start(Node.ON_DISK);
        Crore client = builder(node).build()) {
      List<CompletableFuture<Published>> calls = new ArrayList<>();
      List<String> texts = new ArrayList<>();
      for (int round = 0; round < 4; round++) {
        for (int at = 0; at < 100; at++) {
          texts.add(round + "." + at);
          calls.add(client.publish("once", round + "." + at, ONCE));
        }
        // Some are answered, some are on their way, some wait.
        answer(calls.get(calls.size() - 90));
        if (round % 2 == 0) node.kill();
        else node.drain();
        node.start();
      }
      for (CompletableFuture<Published> call : calls) answer(call);
      assertEquals(texts, history(client, "once", HistoryOptions.all()));
    }
  }

  @Test
  void aSubscriptionSurvivesKillsAndDrainsWithoutAGapOrARepeat() throws Exception {
    Events events = new Events();
    try (Node node = Node.start(Node.ON_DISK);
        Crore reader = builder(node).log(events).build();
        Crore writer = builder(node).build()) {
      Subscription subscription = reader.subscribe("a");
      granted(subscription);
      for (int round = 0; round < 4; round++) {
        List<String> texts = new ArrayList<>();
        for (int at = 0; at < 30; at++) {
          texts.add(round + "." + at);
          answer(writer.publish("a", round + "." + at, ONCE));
          if (at != 20) continue;
          if (round % 2 == 0) node.kill();
          else node.drain();
          node.start();
        }
        assertEquals(texts, texts(subscription, texts.size()));
      }
      assertTrue(subscription.report().complete());
      assertEquals(120, subscription.report().messages());
      events.await("go_away");
    }
  }

  @Test
  void ticketsResumeASessionInOneFrame() throws Exception {
    Events events = new Events();
    try (Node node = Node.start(Node.ON_DISK);
        Crore client = builder(node).log(events).build()) {
      Subscription topic = client.subscribe("a");
      Subscription filter = client.subscribe("b/#");
      events.await("ticket");
      answer(client.publish("a", "1"));
      node.kill();
      node.start();
      answer(client.publish("a", "2", ONCE));
      answer(client.publish("b/c", "3", ONCE));
      assertEquals(List.of("1", "2"), texts(topic, 2));
      assertEquals(List.of("3"), texts(filter, 1));
      assertTrue(topic.report().complete() && filter.report().complete());
      assertEquals(0, events.count("ticket_refused"));
    }
  }

  @Test
  void historyComesPageByPage() throws Exception {
    try (Node node = Node.start(Node.ON_DISK);
        Crore client = builder(node).build()) {
      List<String> texts = new ArrayList<>();
      List<String> positions = new ArrayList<>();
      for (int at = 0; at < 25; at++) {
        texts.add("" + at);
        positions.add(answer(client.publish("h", "" + at)).position());
      }
      assertEquals(texts, history(client, "h", HistoryOptions.all()));
      List<String> reversed = new ArrayList<>(texts);
      Collections.reverse(reversed);
      assertEquals(reversed, history(client, "h", HistoryOptions.all().newestFirst()));
      HistoryOptions part = HistoryOptions.all().from(positions.get(9)).limit(3);
      assertEquals(texts.subList(10, 13), history(client, "h", part));
      Page page = client.historyPage("h", null, false, 10).get(90, TimeUnit.SECONDS);
      assertEquals(10, page.messages().size());
      assertTrue(page.more());
      assertTrue(page.messages().get(0).time() > 0);
    }
  }

  @Test
  void p13AGapIsThrownInItsPlaceAndReadingGoesOnBehindIt() throws Exception {
    try (Node node = Node.start(Node.ON_DISK);
        Crore client = builder(node).build()) {
      String first = answer(client.publish("g", "first")).position();
      answer(client.publish("g", "second"));
      // A position of an epoch that never was.
      String strange = "1" + first.substring(first.indexOf(':'));
      Subscription subscription = client.subscribe("g", SubscribeOptions.since(strange));
      Iterator<Message> messages = subscription.messages().iterator();
      GapException error = assertThrows(GapException.class, messages::next);
      assertEquals(strange, error.gap().from());
      assertEquals(CroreException.GAP, error.name());
      answer(client.publish("g", "third"));
      assertEquals("third", last(subscription.messages(), "third"));
      assertFalse(subscription.report().complete());
      assertEquals(1, subscription.report().gaps());
      subscription.close();

      Subscription counting = client.subscribe("g", SubscribeOptions.since(strange));
      answer(client.publish("g", "fourth"));
      assertEquals("fourth", last(counting.messagesDespiteGaps(), "fourth"));
      assertEquals(1, counting.report().gaps());
      counting.close();

      Subscription items = client.subscribe("g", SubscribeOptions.since(strange));
      assertInstanceOf(Gap.class, next(items));
      items.close();

      Subscription strict = client.subscribe("g", SubscribeOptions.since(strange).failOnGap());
      CroreException refused = assertThrows(CroreException.class, () -> strict.next(90, TimeUnit.SECONDS));
      assertEquals("position_unavailable", refused.name());
      assertTrue(refused.restart().contains(":"));
    }
  }

  private static String last(Iterable<Message> messages, String text) {
    for (Message it : messages) if (it.text().equals(text)) return text;
    return null;
  }

  @Test
  void b5ASlowReaderStopsNobody() throws Exception {
    try (Node node = Node.start(Node.ON_DISK);
        Crore client = builder(node).buffer(16, 1 << 20).build();
        Crore writer = builder(node).build()) {
      Subscription slow = client.subscribe("slow");
      Subscription quick = client.subscribe("quick");
      granted(slow);
      granted(quick);
      List<String> texts = new ArrayList<>();
      for (int at = 0; at < 200; at++) {
        texts.add("" + at);
        answer(writer.publish("slow", "" + at));
        answer(writer.publish("quick", "" + at));
        assertEquals(List.of("" + at), texts(quick, 1));
      }
      assertEquals(texts, texts(slow, 200));
      assertTrue(slow.report().complete());
    }
  }

  @Test
  void x6InspectShowsWhatAPersonAsksFor() throws Exception {
    try (Node node = Node.start(Node.ON_DISK);
        Crore client = builder(node).build()) {
      Subscription subscription = client.subscribe("x");
      granted(subscription);
      String position = answer(client.publish("x", "1")).position();
      texts(subscription, 1);
      Map<String, Object> shown = client.inspect();
      assertEquals("live", shown.get("state"));
      assertTrue((long) shown.get("round_trip_ms") >= 0);
      Map<?, ?> topic = (Map<?, ?>) ((List<?>) shown.get("subscriptions")).get(0);
      assertEquals("x", topic.get("topic"));
      assertEquals(true, topic.get("granted"));
      assertEquals(0, topic.get("buffered"));
      assertEquals(position, topic.get("position"));
      assertEquals(Map.of("waiting", 0, "sent", 0, "once", 0), shown.get("queue"));
      assertEquals(1L, ((Map<?, ?>) shown.get("counters")).get("messages"));
      List<Object> names = new ArrayList<>();
      for (Object it : (List<?>) shown.get("events")) names.add(((Map<?, ?>) it).get("event"));
      // A second later there may be a ticket.
      assertEquals(List.of("connecting", "connected", "subscribed"), names.subList(0, 3));
    }
  }
}
