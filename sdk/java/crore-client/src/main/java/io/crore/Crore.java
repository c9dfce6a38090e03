package io.crore;

import io.crore.internal.codec.ClientFrames.Publication;
import io.crore.internal.codec.ClientFrames.WireStart;
import io.crore.internal.codec.Place;
import io.crore.internal.codec.Topics;
import io.crore.internal.core.Call;
import io.crore.internal.core.Core;
import io.crore.internal.core.CoreSubscription;
import io.crore.internal.core.Errors;
import io.crore.internal.core.KeptTicket;
import io.crore.internal.core.Outputs;
import io.crore.internal.core.Settings;
import io.crore.internal.shell.Alarm;
import io.crore.internal.shell.Persistence;
import io.crore.internal.shell.Processed;
import io.crore.internal.shell.Serial;
import io.crore.internal.shell.StoredTicket;
import io.crore.internal.shell.Vault;
import io.crore.transport.Transport;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;
import java.util.function.Supplier;

/**
 * A client of Crore. It connects at once, and comes back by itself for as long as that makes sense.
 * Subscriptions and {@code once} publications outlive connections.
 *
 * <p>All methods may be called by any thread, also by handlers. Handlers and the stages behind
 * futures run on the client's executor, and no lock is held meanwhile.
 */
public final class Crore implements AutoCloseable {
  private static final long DRAIN_MS = 5_000;
  private static final long UNSENT_MAX = 1 << 20; // U15

  /** Guards the core, the connection and the tables below. */
  final ReentrantLock lock = new ReentrantLock();
  final Executor executor;

  private final Core core;
  private final Transport transport;
  private final TokenSource tokenSource;
  private final Log log;
  /** Handlers of states, errors and the log, in their order. */
  private final Serial handlers;
  private final Alarm alarm = new Alarm(this::rung);
  private final Map<CoreSubscription, Subscription> subscriptions = new HashMap<>();
  private final Map<Call, CompletableFuture<Object>> waiting = new HashMap<>();
  private final CopyOnWriteArrayList<Consumer<State>> stateHandlers = new CopyOnWriteArrayList<>();
  private final CopyOnWriteArrayList<Consumer<CroreException>> errorHandlers = new CopyOnWriteArrayList<>();
  private final CompletableFuture<Void> ready = new CompletableFuture<>();
  private final CountDownLatch closed = new CountDownLatch(1);
  private final CompletableFuture<Void> closing = new CompletableFuture<>();
  private Transport.Connection connection;
  /** Null without a storage. */
  private final Vault vault;
  /** Null unless tickets are stored: R11. */
  private final StoredTicket storedTicket;
  /** Null unless publications are stored: U13. */
  private final Persistence persistence;
  /** The application has asked for the end, and what it published before is still being stored. */
  private volatile boolean isClosing;

  Crore(CroreBuilder builder) {
    executor = builder.executor();
    transport = builder.transport();
    tokenSource = builder.tokenSource();
    log = builder.log();
    handlers = new Serial(executor, this::callbackFailed);
    Settings settings = builder.settings();
    core = new Core(settings, new Shell());
    byte[] producerId = settings.producerId;
    stateHandlers.addAll(builder.stateHandlers());
    vault = builder.storage() == null ? null : new Vault(builder.storage(), this::callbackFailed);
    storedTicket = builder.storesTickets() ? new StoredTicket(vault, builder.name()) : null;
    if (storedTicket != null) restore();
    act(() -> core.start(Alarm.now()));
    persistence = builder.persists() ? persistence(builder, producerId) : null;
  }

  private void restore() {
    KeptTicket ticket = null;
    try {
      ticket = storedTicket.load();
    } catch (RuntimeException e) {
      // Without it everything is subscribed as usual.
      callbackFailed(e);
    }
    if (ticket != null) core.restore(Alarm.now(), System.currentTimeMillis(), ticket);
  }

  private Persistence persistence(CroreBuilder builder, byte[] id) {
    Persistence.Host host =
        new Persistence.Host() {
          @Override
          public void producer(byte[] stored) {
            act(() -> core.producer(stored));
          }

          @Override
          public CompletableFuture<Published> send(Publication publication, long timeoutMs) {
            return call(() -> core.publish(Alarm.now(), publication, true, timeoutMs));
          }

          @Override
          public boolean isClosed() {
            return state().kind() == State.Kind.CLOSED;
          }
        };
    return new Persistence(vault, builder.name(), id, builder.hasProducerId(), host);
  }

  /**
   * Begins to describe a client.
   *
   * @param urls one or several nodes of one server, such as {@code wss://example.com}
   * @return what builds the client
   */
  public static CroreBuilder builder(String... urls) {
    return new CroreBuilder(urls);
  }

  /**
   * A client with the usual options.
   *
   * @param urls one or several nodes of one server
   * @return the client, which connects in the background
   */
  public static Crore connect(String... urls) {
    return builder(urls).build();
  }

  /**
   * Subscribes to messages from now on, connected or not.
   *
   * @param topic a topic, or a filter with the wildcards {@code +} and {@code #}
   * @return the subscription
   */
  public Subscription subscribe(String topic) {
    return subscribe(topic, SubscribeOptions.live());
  }

  /**
   * Subscribes, connected or not. A refusal of the server is thrown by the subscription's reader.
   *
   * @param topic a topic, or a filter with the wildcards {@code +} and {@code #}
   * @param options where it begins, and how it behaves
   * @return the subscription
   * @throws CroreException if the topic is malformed, or subscribed already, or the client is closed
   * @throws IllegalStateException if the subscription has a name and the storage cannot be read
   */
  public Subscription subscribe(String topic, SubscribeOptions options) {
    CoreSubscription.Request request = options.request(topic);
    Processed processed = null;
    if (options.name() != null) {
      if (vault == null) throw Errors.invalid("a name of a subscription needs a storage");
      processed = new Processed(vault, options.name());
      WireStart start = processed.start(Topics.isFilter(topic));
      if (start != null) request.start = start;
    }
    lock.lock();
    try {
      if (isClosing) throw Errors.closed("the client is closed");
      CoreSubscription it = core.subscribe(Alarm.now(), request);
      Subscription subscription = new Subscription(this, it, lock.newCondition(), processed);
      subscriptions.put(it, subscription);
      return subscription;
    } finally {
      followUp();
    }
  }

  /**
   * Publishes a text.
   *
   * @param topic the topic
   * @param text the payload
   * @return completes with the position in the log, or with a {@link CroreException}
   */
  public CompletableFuture<Published> publish(String topic, String text) {
    return publish(topic, text, PublishOptions.none());
  }

  /**
   * Publishes a text.
   *
   * @param topic the topic
   * @param text the payload
   * @param options how
   * @return completes with the position in the log, or with a {@link CroreException}
   */
  public CompletableFuture<Published> publish(String topic, String text, PublishOptions options) {
    return publish(topic, text.getBytes(StandardCharsets.UTF_8), options);
  }

  /**
   * Publishes bytes.
   *
   * @param topic the topic
   * @param payload the payload, which must not be changed any more
   * @return completes with the position in the log, or with a {@link CroreException}
   */
  public CompletableFuture<Published> publish(String topic, byte[] payload) {
    return publish(topic, payload, PublishOptions.none());
  }

  /**
   * Publishes bytes. To cancel the future gives the publication up: not sent yet, it never will be.
   *
   * @param topic the topic
   * @param payload the payload, which must not be changed any more
   * @param options how
   * @return completes with the position in the log, or with a {@link CroreException}
   */
  public CompletableFuture<Published> publish(String topic, byte[] payload, PublishOptions options) {
    Publication publication = options.publication(topic, payload);
    if (isClosing) return failed(Errors.closed("the client is closed"));
    if (persistence != null && options.isOnce() && publication.key == null) {
      return persistence.publish(publication, options.timeoutMs());
    }
    return call(() -> core.publish(Alarm.now(), publication, options.isOnce(), options.timeoutMs()));
  }

  /**
   * The messages of a topic's log, fetched page by page; a loop over it may wait, and throws {@link
   * CroreException}.
   *
   * @param topic the topic
   * @param options which part
   * @return the messages, for a loop
   */
  public Iterable<Message> history(String topic, HistoryOptions options) {
    return () -> new History(this, topic, options);
  }

  /**
   * One page of a topic's log.
   *
   * @param topic the topic
   * @param position messages behind this position (or before it), or null for all
   * @param newestFirst whether the newest come first
   * @param limit at most so many messages; 0 for the server's limit
   * @return completes with the page, or with a {@link CroreException}
   */
  public CompletableFuture<Page> historyPage(String topic, String position, boolean newestFirst, int limit) {
    return call(
        () -> {
          Place place = position == null ? null : SubscribeOptions.place(position);
          return core.history(Alarm.now(), topic, place, newestFirst, limit, -1);
        });
  }

  /**
   * Continues with another token of the same subject, on this connection and all further ones.
   *
   * @param token the token
   */
  public void renew(String token) {
    act(() -> core.renew(token));
  }

  /** @return the state of the connection */
  public State state() {
    return locked(core::state);
  }

  /**
   * Calls a handler at each change of the state.
   *
   * @param handler the handler
   * @return takes the handler away when it is run
   */
  public Runnable onState(Consumer<State> handler) {
    stateHandlers.add(handler);
    return () -> stateHandlers.remove(handler);
  }

  /**
   * Calls a handler for refusals that belong to no call, such as that of a renewed token.
   *
   * @param handler the handler
   * @return takes the handler away when it is run
   */
  public Runnable onError(Consumer<CroreException> handler) {
    errorHandlers.add(handler);
    return () -> errorHandlers.remove(handler);
  }

  /** @return completes when the client is live for the first time; fails if it never will be */
  public CompletableFuture<Void> ready() {
    return ready.thenApply(it -> it);
  }

  /** @return state, subscriptions, queue, counters and the last 64 events; no token, no payload */
  public Map<String, Object> inspect() {
    return locked(core::inspect);
  }

  /**
   * The platform woke up or is online again: checks at once whether the connection is still there, or
   * connects.
   */
  public void probe() {
    act(() -> core.probe(Alarm.now(), 3_000));
  }

  /** Waits for open calls, at most five seconds, and leaves for good. */
  @Override
  public void close() {
    closeAsync(DRAIN_MS, TimeUnit.MILLISECONDS);
    boolean wasInterrupted = false;
    for (; ; ) {
      try {
        closed.await();
        break;
      } catch (InterruptedException e) {
        wasInterrupted = true;
      }
    }
    try {
      if (vault != null && !wasInterrupted) vault.await();
    } catch (InterruptedException e) {
      wasInterrupted = true;
    }
    if (wasInterrupted) Thread.currentThread().interrupt();
  }

  /**
   * Leaves for good once all open calls are answered.
   *
   * @param drain at most so long
   * @param unit the unit of it
   * @return completes at the end
   */
  public CompletableFuture<Void> closeAsync(long drain, TimeUnit unit) {
    isClosing = true;
    Runnable close = () -> act(() -> core.close(Alarm.now(), unit.toMillis(drain)));
    if (persistence == null) close.run();
    else vault.execute(close);
    return closing.thenApply(it -> it);
  }

  // For subscriptions.

  /** Under the lock: the next item, or null. */
  Item take(CoreSubscription it) {
    Item item = core.take(it);
    // The time is not asked for each message of a stream.
    if (item == null || !core.mayRefill(it)) return item;
    core.refill(Alarm.now(), it);
    ring();
    return item;
  }

  void unsubscribe(CoreSubscription it) {
    act(() -> core.unsubscribe(Alarm.now(), it));
  }

  <T> T locked(Supplier<T> get) {
    lock.lock();
    try {
      return get.get();
    } finally {
      lock.unlock();
    }
  }

  /** X5 */
  void callbackFailed(Throwable error) {
    try {
      log.event(Level.ERROR, "callback_failed", Collections.singletonMap("error", String.valueOf(error)));
    } catch (RuntimeException e) {
      // The log itself has failed.
    }
  }

  // The shell.

  private void act(Runnable input) {
    lock.lock();
    try {
      input.run();
    } finally {
      followUp();
    }
  }

  /** Ends every input: the next timer is planned, and the lock is free. */
  private void followUp() {
    try {
      // U15
      if (connection != null && connection.unsentBytes() > UNSENT_MAX) core.blocked(Alarm.now(), true);
      ring();
    } finally {
      lock.unlock();
    }
  }

  private void ring() {
    long at = core.wakeAt();
    if (at != Core.NEVER) alarm.ringAt(at);
  }

  private void rung() {
    act(
        () -> {
          alarm.rung();
          core.tick(Alarm.now());
        });
  }

  private <T> CompletableFuture<T> call(Supplier<Call> begin) {
    CompletableFuture<Object> future = new CompletableFuture<>();
    lock.lock();
    try {
      Call call = begin.get();
      waiting.put(call, future);
      future.whenComplete(
          (value, error) -> {
            if (future.isCancelled()) act(() -> core.abandon(Alarm.now(), call));
          });
    } catch (CroreException e) {
      future.completeExceptionally(e);
    } finally {
      followUp();
    }
    @SuppressWarnings("unchecked")
    CompletableFuture<T> typed = (CompletableFuture<T>) future;
    return typed;
  }

  private static <T> CompletableFuture<T> failed(CroreException error) {
    CompletableFuture<T> future = new CompletableFuture<>();
    future.completeExceptionally(error);
    return future;
  }

  private void askForToken(long id, TokenReason reason) {
    String token;
    try {
      token = tokenSource.token(reason);
    } catch (Throwable e) {
      boolean isUnauthorized =
          e instanceof CroreException && ((CroreException) e).name().equals(CroreException.UNAUTHORIZED);
      if (!isUnauthorized) callbackFailed(e);
      act(() -> core.tokenFailed(Alarm.now(), id, isUnauthorized));
      return;
    }
    act(() -> core.token(Alarm.now(), id, token));
  }

  private void changed(State state) {
    if (state.kind() == State.Kind.LIVE) executor.execute(() -> ready.complete(null));
    if (state.kind() == State.Kind.CLOSED) {
      alarm.cancel();
      closed.countDown();
      executor.execute(
          () -> {
            ready.completeExceptionally(Errors.closed("the client is " + state));
            closing.complete(null);
          });
    }
    if (stateHandlers.isEmpty()) return;
    handlers.execute(() -> each(stateHandlers, state));
  }

  private <T> void each(Iterable<Consumer<T>> all, T value) {
    for (Consumer<T> handler : all) {
      try {
        handler.accept(value);
      } catch (Throwable e) {
        callbackFailed(e);
      }
    }
  }

  /** Carries out what the core wants; always under the lock. */
  private final class Shell implements Outputs {
    @Override
    public void connect(String url) {
      SocketEvents events = new SocketEvents();
      connection = transport.connect(url, events);
      events.mine = connection;
    }

    @Override
    public void send(byte[] frame) {
      if (connection != null) connection.send(frame);
    }

    @Override
    public void close(int code) {
      if (connection != null) connection.close(code);
      connection = null;
    }

    @Override
    public void askForToken(long id, TokenReason reason) {
      executor.execute(() -> Crore.this.askForToken(id, reason));
    }

    @Override
    public void settled(Call call, CroreException error, Object value) {
      CompletableFuture<Object> future = waiting.remove(call);
      if (future == null) return;
      executor.execute(
          () -> {
            if (error == null) future.complete(value);
            else future.completeExceptionally(error);
          });
    }

    @Override
    public void state(State state) {
      changed(state);
    }

    @Override
    public void items(CoreSubscription of) {
      Subscription subscription = of.isEnded() ? subscriptions.remove(of) : subscriptions.get(of);
      if (subscription != null) subscription.signal();
    }

    @Override
    public void granted(CoreSubscription of) {
      Subscription subscription = subscriptions.get(of);
      if (subscription != null) subscription.begin();
    }

    @Override
    public void ticket(KeptTicket ticket) {
      if (storedTicket != null) storedTicket.save(ticket);
    }

    @Override
    public void refused(CroreException error) {
      if (!errorHandlers.isEmpty()) handlers.execute(() -> each(errorHandlers, error));
    }

    @Override
    public void log(Level level, String event, Map<String, Object> fields) {
      handlers.execute(() -> log.event(level, event, fields));
    }
  }

  /** Passes on what happens to one connection, for as long as it is the client's. */
  private final class SocketEvents implements Transport.Events {
    private Transport.Connection mine;

    private void pass(Runnable input) {
      lock.lock();
      try {
        if (connection == mine && mine != null) input.run();
      } finally {
        followUp();
      }
    }

    @Override
    public void opened() {
      pass(() -> core.opened(Alarm.now()));
    }

    @Override
    public void failed(int status, long retryAfterS) {
      pass(
          () -> {
            connection = null;
            core.failed(Alarm.now(), status, retryAfterS);
          });
    }

    @Override
    public void received(byte[] message) {
      lock.lock();
      try {
        if (connection == mine && mine != null) core.received(Alarm.now(), message);
      } finally {
        followUp();
      }
    }

    @Override
    public void receivedText() {
      pass(() -> core.receivedText(Alarm.now()));
    }

    @Override
    public void drained() {
      pass(() -> core.blocked(Alarm.now(), false));
    }

    @Override
    public void closed(int code) {
      pass(
          () -> {
            connection = null;
            core.closed(Alarm.now(), code);
          });
    }
  }

  @Override
  public String toString() {
    return "Crore[" + state().toString().toLowerCase(Locale.ROOT) + "]";
  }
}
