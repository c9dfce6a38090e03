package io.crore.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.crore.Crore;
import io.crore.CroreException;
import io.crore.HistoryOptions;
import io.crore.Item;
import io.crore.Message;
import io.crore.PublishOptions;
import io.crore.Published;
import io.crore.State;
import io.crore.SubscribeOptions;
import io.crore.Subscription;
import io.crore.support.Node;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The client and a real node. */
@Timeout(400)
class ServerTest {
  private static final long SECONDS = 90;

  @Test
  void messagesReachTopicsFiltersAndHistory() throws Exception {
    try (Node node = Node.start(Node.ON_DISK);
        Crore client = Crore.builder(node.url()).name("java").build()) {
      Subscription topic = client.subscribe("rooms/1");
      Subscription filter = client.subscribe("rooms/+");
      PublishOptions options = PublishOptions.none().contentType("text/plain").tag("from", "ada");
      Published published = client.publish("rooms/1", "hello", options).get(SECONDS, TimeUnit.SECONDS);
      for (Subscription subscription : List.of(topic, filter)) {
        Message message = nextMessage(subscription);
        assertEquals("hello", message.text());
        assertEquals("rooms/1", message.topic());
        assertEquals("ada", message.tag("from"));
        assertEquals("text/plain", message.contentType());
        assertEquals(published.position(), message.position());
      }
      List<String> texts = new ArrayList<>();
      for (Message message : client.history("rooms/1", HistoryOptions.all())) texts.add(message.text());
      assertEquals(List.of("hello"), texts);
      assertTrue(topic.report().complete() && topic.report().proved());
    }
  }

  @Test
  void s12ASubscriptionIsReadyWhenItIsGrantedAndFailsIfItEndsBefore() throws Exception {
    try (Node node = Node.start(Node.ON_DISK);
        Crore client = builder(node).build();
        Crore other = builder(node).build()) {
      Subscription filter = client.subscribe("a/#");
      filter.ready().get(SECONDS, TimeUnit.SECONDS);
      // Another client's message comes after the begin, so it comes.
      other.publish("a/b", "1").get(SECONDS, TimeUnit.SECONDS);
      assertEquals("1", nextMessage(filter).text());
      Subscription refused = client.subscribe("b/+", SubscribeOptions.last(3));
      assertEquals("unsupported_start", failure(refused.ready()).name());
      assertEquals("unsupported_start", failure(refused.ready()).name());
      node.kill();
      Subscription never = client.subscribe("c");
      CompletableFuture<Void> ready = never.ready();
      assertFalse(ready.isDone());
      never.close();
      assertEquals(CroreException.CLOSED, failure(ready).name());
      filter.ready().get(SECONDS, TimeUnit.SECONDS);
    }
  }

  private static CroreException failure(CompletableFuture<Void> future) {
    ExecutionException error = assertThrows(ExecutionException.class, () -> future.get(SECONDS, TimeUnit.SECONDS));
    return (CroreException) error.getCause();
  }

  @Test
  void nothingIsLostOrDoubledOverKills() throws Exception {
    int count = 600;
    try (Node node = Node.start(Node.ON_DISK);
        Crore client = builder(node).build();
        Crore reader = builder(node).build()) {
      Subscription subscription = reader.subscribe("orders");
      client.ready().get(SECONDS, TimeUnit.SECONDS);
      subscription.ready().get(SECONDS, TimeUnit.SECONDS);
      client.publish("orders", "begin").get(SECONDS, TimeUnit.SECONDS);
      assertEquals("begin", nextMessage(subscription).text());
      List<CompletableFuture<Published>> calls = new ArrayList<>();
      for (int at = 0; at < count; at++) {
        calls.add(client.publish("orders", "order " + at, PublishOptions.none().once()));
        if (at % 200 == 100) {
          calls.get(at - 50).get(SECONDS, TimeUnit.SECONDS);
          node.kill();
          node.start();
        }
      }
      for (CompletableFuture<Published> call : calls) call.get(SECONDS, TimeUnit.SECONDS);
      for (int at = 0; at < count; at++) assertEquals("order " + at, nextMessage(subscription).text());
      assertTrue(subscription.report().complete(), subscription.report()::toString);
    }
  }

  @Test
  void aDrainIsFollowedAsTheNodeSays() throws Exception {
    LinkedBlockingQueue<State> states = new LinkedBlockingQueue<>();
    try (Node node = Node.start(Node.ON_DISK);
        Crore client = builder(node).onState(states::add).build()) {
      Subscription subscription = client.subscribe("a");
      client.publish("a", "1").get(SECONDS, TimeUnit.SECONDS);
      node.drain();
      State state = states.poll(SECONDS, TimeUnit.SECONDS);
      while (state != null && state.kind() != State.Kind.WAITING) state = states.poll(SECONDS, TimeUnit.SECONDS);
      assertEquals("go_away", state == null ? null : state.reason());
      node.start();
      client.publish("a", "2", PublishOptions.none().once()).get(SECONDS, TimeUnit.SECONDS);
      assertEquals("1", nextMessage(subscription).text());
      assertEquals("2", nextMessage(subscription).text());
      assertTrue(subscription.report().complete());
    }
  }

  @Test
  void x3CloseIsSafeTwiceAndCallsAfterItFail() throws Exception {
    try (Node node = Node.start(Node.ON_DISK)) {
      Crore client = Crore.connect(node.url());
      Subscription subscription = client.subscribe("a");
      client.close();
      client.close();
      // The subscription may have been granted before the close.
      Item item = subscription.next();
      while (item != null && item.kind() == Item.Kind.CAUGHT_UP) item = subscription.next();
      assertNull(item);
      assertTrue(subscription.isEnded());
      assertEquals(State.Kind.CLOSED, client.state().kind());
      CroreException error = assertThrows(CroreException.class, () -> client.subscribe("b"));
      assertEquals(CroreException.CLOSED, error.name());
      assertTrue(client.publish("a", "1").isCompletedExceptionally());
    }
  }

  @Test
  void x5AListenerThatThrowsHarmsNobodyAndMayCallTheClient() throws Exception {
    LinkedBlockingQueue<String> events = new LinkedBlockingQueue<>();
    LinkedBlockingQueue<String> texts = new LinkedBlockingQueue<>();
    try (Node node = Node.start(Node.ON_DISK);
        Crore client =
            Crore.builder(node.url())
                .log((level, event, fields) -> events.add(event))
                .build()) {
      client
          .subscribe("in")
          .listen(
              item -> {
                if (!(item instanceof Message)) return;
                texts.add(((Message) item).text());
                // A call that waits for its answer, inside of a handler.
                client.publish("out", "answer").get(SECONDS, TimeUnit.SECONDS);
                throw new IllegalStateException("planned");
              });
      Subscription out = client.subscribe("out");
      for (String text : List.of("1", "2")) client.publish("in", text).get(SECONDS, TimeUnit.SECONDS);
      assertEquals("answer", nextMessage(out).text());
      assertEquals("answer", nextMessage(out).text());
      assertEquals(List.of("1", "2"), new ArrayList<>(texts));
      String event = events.poll(SECONDS, TimeUnit.SECONDS);
      while (event != null && !event.equals("callback_failed")) event = events.poll(SECONDS, TimeUnit.SECONDS);
      assertEquals("callback_failed", event);
    }
  }

  @Test
  void t11NoTokenIsShown() throws Exception {
    LinkedBlockingQueue<String> events = new LinkedBlockingQueue<>();
    try (Node node = Node.start(Node.ON_DISK);
        Crore client =
            Crore.builder(node.url())
                .token("secret-1")
                .log((level, event, fields) -> events.add(event + fields))
                .build()) {
      client.ready().get(SECONDS, TimeUnit.SECONDS);
      client.renew("secret-2");
      client.publish("a", "1").get(SECONDS, TimeUnit.SECONDS);
      assertFalse(client.inspect().toString().contains("secret"));
      assertFalse(events.toString().contains("secret"));
    }
  }

  private static io.crore.CroreBuilder builder(Node node) {
    return Crore.builder(node.url()).backoff(20, 200, 10_000, TimeUnit.MILLISECONDS);
  }

  /** The next message; a gap fails. */
  private static Message nextMessage(Subscription subscription) throws InterruptedException {
    for (; ; ) {
      Item item = subscription.next(SECONDS, TimeUnit.SECONDS);
      if (item instanceof Message) return (Message) item;
      if (item == null || item.kind() != Item.Kind.CAUGHT_UP) throw new AssertionError("came " + item);
    }
  }
}
