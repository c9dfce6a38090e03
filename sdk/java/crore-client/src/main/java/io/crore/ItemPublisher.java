package io.crore;

import io.crore.internal.shell.JdkOnly;
import java.util.concurrent.Flow;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;

/**
 * The items of a subscription for one subscriber of reactive streams, which gets as many as it has
 * requested. What it has not requested waits in the log of the server. On Android this class needs
 * version 11 (API 30).
 */
@JdkOnly
public final class ItemPublisher implements Flow.Publisher<Item> {
  private final Subscription items;
  private final AtomicBoolean isTaken = new AtomicBoolean();

  /**
   * A publisher.
   *
   * @param subscription is read by the publisher only, and closed when its subscriber cancels
   */
  public ItemPublisher(Subscription subscription) {
    items = subscription;
  }

  @Override
  public void subscribe(Flow.Subscriber<? super Item> subscriber) {
    if (isTaken.compareAndSet(false, true)) {
      Link link = new Link(items, subscriber);
      subscriber.onSubscribe(link);
      items.listen(link, link::wants);
    } else {
      subscriber.onSubscribe(new Nothing());
      subscriber.onError(new IllegalStateException("the subscription has a subscriber"));
    }
  }

  @JdkOnly
  private static final class Nothing implements Flow.Subscription {
    @Override
    public void request(long count) {}

    @Override
    public void cancel() {}
  }

  @JdkOnly
  private static final class Link implements Flow.Subscription, Listener {
    private final Subscription items;
    private final Flow.Subscriber<? super Item> subscriber;
    private final AtomicLong demand = new AtomicLong();
    private volatile Throwable wrong;
    private volatile boolean isCancelled;

    Link(Subscription items, Flow.Subscriber<? super Item> subscriber) {
      this.items = items;
      this.subscriber = subscriber;
    }

    boolean wants() {
      return demand.get() > 0;
    }

    @Override
    public void request(long count) {
      if (count < 1) {
        wrong = new IllegalArgumentException("a request is for one item at least");
        items.close();
        return;
      }
      demand.accumulateAndGet(count, (had, more) -> had + more < 0 ? Long.MAX_VALUE : had + more);
      items.wanted();
    }

    @Override
    public void cancel() {
      isCancelled = true;
      items.close();
    }

    @Override
    public void item(Item item) {
      if (isCancelled || wrong != null) return;
      demand.getAndUpdate(had -> had == Long.MAX_VALUE ? had : had - 1);
      subscriber.onNext(item);
    }

    @Override
    public void ended(CroreException error) {
      if (isCancelled) return;
      if (wrong != null) subscriber.onError(wrong);
      else if (error != null) subscriber.onError(error);
      else subscriber.onComplete();
    }
  }
}
