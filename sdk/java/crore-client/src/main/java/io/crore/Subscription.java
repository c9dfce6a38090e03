package io.crore;

import io.crore.internal.core.CoreSubscription;
import io.crore.internal.shell.Processed;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.function.BooleanSupplier;

/**
 * A subscription, which outlives connections. It is read in one way: by {@link #next()} or {@link
 * #nextAsync()}, by a loop over it or over {@link #messages()}, by a {@link Listener}, or by an {@link
 * ItemPublisher}.
 */
public final class Subscription implements Iterable<Item>, AutoCloseable {
  private static final int BATCH = 64;
  private static final int YIELDS_MAX = 20;

  private final Crore client;
  private final CoreSubscription core;
  private final Condition changed;
  private Listener listener;
  /** Whether the listener wants an item now. */
  private BooleanSupplier demand;
  private boolean isListening;
  /** Who waits for the next item without a thread. */
  private CompletableFuture<Item> waiting;
  /** What the one who waited did not take. */
  private Item returned;
  private boolean isEndTold;
  private boolean hasBegun;
  /** Who waits for the begin; null if nobody does. */
  private CompletableFuture<Void> begun;
  /** Null without a name. */
  private final Processed processed;
  /** What the reader processes now: P14. */
  private Item delivered;

  Subscription(Crore client, CoreSubscription core, Condition changed, Processed processed) {
    this.client = client;
    this.core = core;
    this.changed = changed;
    this.processed = processed;
  }

  /** @return the topic or filter */
  public String topic() {
    return core.filter();
  }

  /**
   * Waits for the next item.
   *
   * @return the item; null once the application has ended the subscription
   * @throws CroreException if the server has ended the subscription, or the client is closed for good
   * @throws InterruptedException if the thread is interrupted
   */
  public Item next() throws InterruptedException {
    return next(Long.MAX_VALUE, TimeUnit.NANOSECONDS);
  }

  /**
   * Waits for the next item, for some time.
   *
   * @param timeout how long
   * @param unit the unit of it
   * @return the item; null after this time, and once the application has ended the subscription
   * @throws CroreException if the server has ended the subscription, or the client is closed for good
   * @throws InterruptedException if the thread is interrupted
   */
  public Item next(long timeout, TimeUnit unit) throws InterruptedException {
    long left = unit.toNanos(timeout);
    client.lock.lockInterruptibly();
    int mayYield = delivered == null ? 0 : YIELDS_MAX;
    try {
      settle();
      for (; ; ) {
        Item item = takeNext();
        if (item != null) return item;
        if (core.isEnded()) {
          if (core.endError() != null) throw core.endError();
          return null;
        }
        if (left <= 0) return null;
        // In a stream of messages the next one is near: to sleep and be woken for each costs more.
        if (mayYield-- > 0) giveWay();
        else left = changed.awaitNanos(left);
      }
    } finally {
      client.lock.unlock();
    }
  }

  /**
   * The next item, without a thread that waits.
   *
   * @return completes on the client's executor with the item, or with null once the application has
   *     ended the subscription; or with a {@link CroreException} if the server has ended it. To cancel
   *     it loses no item.
   */
  public CompletableFuture<Item> nextAsync() {
    CompletableFuture<Item> future = new CompletableFuture<>();
    client.lock.lock();
    try {
      if (waiting != null && !waiting.isDone()) throw new IllegalStateException("somebody waits for the next item");
      settle();
      waiting = future;
      answerWaiting();
    } finally {
      client.lock.unlock();
    }
    return future;
  }

  /** Under the lock: passes an item, or the end, to who waits for it. */
  private void answerWaiting() {
    CompletableFuture<Item> future = waiting;
    if (future == null || future.isDone() || (core.isEmpty() && returned == null && !core.isEnded())) return;
    waiting = null;
    client.executor.execute(() -> answer(future));
  }

  private void answer(CompletableFuture<Item> future) {
    Item item;
    CroreException error;
    client.lock.lock();
    try {
      if (future.isDone()) return;
      item = takeNext();
      error = core.endError();
    } finally {
      client.lock.unlock();
    }
    boolean isTaken;
    if (item == null && error != null) isTaken = future.completeExceptionally(error);
    else isTaken = future.complete(item);
    if (isTaken || item == null) return;
    client.lock.lock();
    try {
      returned = item;
      delivered = null;
      answerWaiting();
    } finally {
      client.lock.unlock();
    }
  }

  /** Under the lock: the next item, or null. */
  private Item takeNext() {
    Item item = returned == null ? client.take(core) : returned;
    returned = null;
    delivered = item;
    return item;
  }

  /** Lets others have the processor and the lock, which this thread holds. */
  private void giveWay() {
    client.lock.unlock();
    try {
      Thread.yield();
    } finally {
      client.lock.lock();
    }
  }

  /**
   * The begin.
   *
   * @return completes when the server has granted the subscription for the first time: from then on it
   *     misses nothing. Fails if it ends before.
   */
  public CompletableFuture<Void> ready() {
    client.lock.lock();
    try {
      if (begun == null) begun = new CompletableFuture<>();
      CompletableFuture<Void> future = begun.thenApply(it -> it);
      answerBegun();
      return future;
    } finally {
      client.lock.unlock();
    }
  }

  /** Under the lock: tells who waits for the begin. */
  private void answerBegun() {
    CompletableFuture<Void> future = begun;
    if (future == null || !(hasBegun || core.isEnded())) return;
    begun = null;
    CroreException error = core.endError();
    CroreException ended =
        error != null || hasBegun ? error : new CroreException(CroreException.CLOSED, "the subscription has ended");
    client.executor.execute(
        () -> {
          if (hasBegun) future.complete(null);
          else future.completeExceptionally(ended);
        });
  }

  /** @return whether it has ended, by the application or by the server */
  public boolean isEnded() {
    return client.locked(core::isEnded);
  }

  /**
   * All items, for a loop that ends with the subscription. The iterator's methods throw as {@link
   * #next()} does, and end when the thread is interrupted.
   */
  @Override
  public Iterator<Item> iterator() {
    return new Items();
  }

  /**
   * The messages. In place of a gap the loop throws a {@link GapException}; another loop goes on
   * behind it.
   *
   * @return the messages, for a loop
   */
  public Iterable<Message> messages() {
    return () -> new Messages(new Items(), true);
  }

  /**
   * The messages, for those who do not mind gaps: {@link #report()} counts them.
   *
   * @return the messages, for a loop
   */
  public Iterable<Message> messagesDespiteGaps() {
    return () -> new Messages(new Items(), false);
  }

  /**
   * Passes all items to a listener from now on.
   *
   * @param handler the listener
   */
  public void listen(Listener handler) {
    listen(handler, () -> true);
  }

  /** Passes items only while the listener wants them. */
  void listen(Listener handler, BooleanSupplier wants) {
    client.lock.lock();
    try {
      if (listener != null) throw new IllegalStateException("the subscription has a listener");
      listener = handler;
      demand = wants;
      notifyListener();
    } finally {
      client.lock.unlock();
    }
  }

  /** The listener may want items again. */
  void wanted() {
    client.lock.lock();
    try {
      notifyListener();
    } finally {
      client.lock.unlock();
    }
  }

  /** @return what was received since the subscription's begin, over all connections */
  public Report report() {
    return client.locked(core::report);
  }

  /** Ends the subscription: no item comes any more. */
  @Override
  public void close() {
    client.unsubscribe(core);
  }

  /** The server has granted it: under the lock of the client. */
  void begin() {
    hasBegun = true;
    answerBegun();
    if (processed != null) processed.begin(core.places());
  }

  /** The reader asks for the next item, so it has processed the last one. */
  private void settle() {
    if (processed != null && delivered != null) processed.settle(delivered);
    delivered = null;
  }

  /** There are items, or the end: under the lock of the client. */
  void signal() {
    changed.signalAll();
    answerBegun();
    notifyListener();
    answerWaiting();
  }

  private void notifyListener() {
    if (listener == null || isListening) return;
    isListening = true;
    client.executor.execute(this::passOn);
  }

  /** Passes some items on, so that others get their turn on the executor. */
  private void passOn() {
    for (int count = 0; count < BATCH; count++) {
      Item item;
      boolean isEnd;
      client.lock.lock();
      try {
        settle();
        item = demand.getAsBoolean() ? client.take(core) : null;
        isEnd = item == null && core.isEnded() && core.isEmpty() && !isEndTold;
        isEndTold |= isEnd;
        isListening = item != null || isEnd;
        if (!isListening) return;
      } finally {
        client.lock.unlock();
      }
      try {
        if (isEnd) listener.ended(core.endError());
        else {
          listener.item(item);
          delivered = item;
        }
      } catch (Throwable e) {
        client.callbackFailed(e);
      }
    }
    client.executor.execute(this::passOn);
  }

  private final class Items implements Iterator<Item> {
    private Item next;

    @Override
    public boolean hasNext() {
      try {
        if (next == null) next = Subscription.this.next();
        return next != null;
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        return false;
      }
    }

    @Override
    public Item next() {
      if (!hasNext()) throw new NoSuchElementException();
      Item item = next;
      next = null;
      return item;
    }
  }

  private static final class Messages implements Iterator<Message> {
    private final Iterator<Item> items;
    private final boolean throwsGaps;
    private Message next;

    Messages(Iterator<Item> items, boolean throwsGaps) {
      this.items = items;
      this.throwsGaps = throwsGaps;
    }

    @Override
    public boolean hasNext() {
      while (next == null && items.hasNext()) {
        Item item = items.next();
        if (item instanceof Message) next = (Message) item;
        else if (item instanceof Gap && throwsGaps) throw new GapException((Gap) item);
      }
      return next != null;
    }

    @Override
    public Message next() {
      if (!hasNext()) throw new NoSuchElementException();
      Message message = next;
      next = null;
      return message;
    }
  }
}
