package io.crore.server;

import static io.crore.support.Reading.answer;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.crore.Crore;
import io.crore.CroreException;
import io.crore.Item;
import io.crore.ItemPublisher;
import io.crore.Message;
import io.crore.SubscribeOptions;
import io.crore.Subscription;
import io.crore.support.Node;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Flow;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Readers without a thread of their own. */
@Timeout(400)
class AsynchronousTest {
  /** Keeps what it gets, and requests when the test says so. */
  private static final class Subscriber implements Flow.Subscriber<Item> {
    final LinkedBlockingQueue<Object> got = new LinkedBlockingQueue<>();
    Flow.Subscription link;

    @Override
    public void onSubscribe(Flow.Subscription subscription) {
      link = subscription;
    }

    @Override
    public void onNext(Item item) {
      got.add(item instanceof Message ? ((Message) item).text() : item.kind());
    }

    @Override
    public void onError(Throwable error) {
      got.add(error);
    }

    @Override
    public void onComplete() {
      got.add("complete");
    }

    Object next() throws InterruptedException {
      return got.poll(90, TimeUnit.SECONDS);
    }
  }

  @Test
  void aPublisherPassesAsManyAsAreRequested() throws Exception {
    try (Node node = Node.start(Node.ON_DISK);
        Crore client = Crore.connect(node.url())) {
      Subscriber subscriber = new Subscriber();
      Subscription subscription = client.subscribe("a");
      ItemPublisher publisher = new ItemPublisher(subscription);
      publisher.subscribe(subscriber);
      subscriber.link.request(1);
      assertEquals(Item.Kind.CAUGHT_UP, subscriber.next());
      for (int at = 0; at < 5; at++) answer(client.publish("a", "" + at));
      subscriber.link.request(2);
      assertEquals("0", subscriber.next());
      assertEquals("1", subscriber.next());
      // A round trip later no other one has come.
      answer(client.publish("a", "5"));
      assertTrue(subscriber.got.isEmpty());
      subscriber.link.request(Long.MAX_VALUE);
      for (int at = 2; at < 6; at++) assertEquals("" + at, subscriber.next());
      Subscriber second = new Subscriber();
      publisher.subscribe(second);
      assertInstanceOf(IllegalStateException.class, second.next());
      subscription.close();
      assertEquals("complete", subscriber.next());
    }
  }

  @Test
  void aPublisherTellsARefusalAndAWrongRequest() throws Exception {
    try (Node node = Node.start(Node.ON_DISK);
        Crore client = Crore.connect(node.url())) {
      Subscriber refused = new Subscriber();
      new ItemPublisher(client.subscribe("a/+", SubscribeOptions.last(3))).subscribe(refused);
      assertInstanceOf(CroreException.class, refused.next());
      Subscriber wrong = new Subscriber();
      new ItemPublisher(client.subscribe("b")).subscribe(wrong);
      wrong.link.request(0);
      assertInstanceOf(IllegalArgumentException.class, wrong.next());
    }
  }

  @Test
  void theNextItemIsAFutureToo() throws Exception {
    try (Node node = Node.start(Node.ON_DISK);
        Crore client = Crore.connect(node.url())) {
      Subscription subscription = client.subscribe("a");
      assertEquals(Item.Kind.CAUGHT_UP, subscription.nextAsync().get(90, TimeUnit.SECONDS).kind());
      List<String> texts = new ArrayList<>();
      for (int at = 0; at < 20; at++) {
        CompletableFuture<Item> next = subscription.nextAsync();
        // Given up before and while an item comes: it is the next reader's.
        if (at % 2 == 0) next.cancel(false);
        answer(client.publish("a", "" + at));
        if (at % 4 == 3) next.cancel(false);
        if (next.isCancelled()) next = subscription.nextAsync();
        texts.add(((Message) next.get(90, TimeUnit.SECONDS)).text());
      }
      for (int at = 0; at < 20; at++) assertEquals("" + at, texts.get(at));
      CompletableFuture<Item> last = subscription.nextAsync();
      subscription.close();
      assertNull(last.get(90, TimeUnit.SECONDS));
    }
  }
}
