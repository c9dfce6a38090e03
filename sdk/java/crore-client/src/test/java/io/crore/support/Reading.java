package io.crore.support;

import io.crore.Crore;
import io.crore.HistoryOptions;
import io.crore.Item;
import io.crore.Message;
import io.crore.Published;
import io.crore.Subscription;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** Waits that have an end. */
public final class Reading {
  private static final long SECONDS = 90;

  private Reading() {}

  /** The next item but those that only say how far everything is settled. */
  public static Item next(Subscription subscription) throws InterruptedException {
    for (; ; ) {
      Item item = subscription.next(SECONDS, TimeUnit.SECONDS);
      if (item == null) throw new AssertionError("nothing came of " + subscription.topic());
      if (item.kind() != Item.Kind.CAUGHT_UP) return item;
    }
  }

  /** The texts of the next messages; another item fails. */
  public static List<String> texts(Subscription subscription, int count) throws InterruptedException {
    List<String> texts = new ArrayList<>();
    while (texts.size() < count) texts.add(((Message) next(subscription)).text());
    return texts;
  }

  /** Waits until the server has granted a subscription of a topic without history. */
  public static void granted(Subscription subscription) throws InterruptedException {
    Item item = subscription.next(SECONDS, TimeUnit.SECONDS);
    if (item == null || item.kind() != Item.Kind.CAUGHT_UP) throw new AssertionError("came " + item);
  }

  /** The answer to a publication. */
  public static Published answer(CompletableFuture<Published> call) throws Exception {
    return call.get(SECONDS, TimeUnit.SECONDS);
  }

  /** The texts of a topic's log. */
  public static List<String> history(Crore client, String topic, HistoryOptions options) {
    List<String> texts = new ArrayList<>();
    for (Message it : client.history(topic, options)) texts.add(it.text());
    return texts;
  }
}
