package io.crore;

import io.crore.internal.core.Backoff;
import io.crore.internal.core.Errors;
import io.crore.internal.core.Settings;
import io.crore.internal.shell.JulLog;
import io.crore.internal.shell.Urls;
import io.crore.transport.JdkTransport;
import io.crore.transport.Transport;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Executor;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.DoubleSupplier;

/** Describes a client: {@link Crore#builder}. */
public final class CroreBuilder {
  private static final DoubleSupplier RANDOM = () -> ThreadLocalRandom.current().nextDouble();

  private final List<String> urls = new ArrayList<>();
  private final List<Consumer<State>> stateHandlers = new ArrayList<>();
  private String token;
  private TokenSource tokenSource;
  private String name;
  private byte[] producerId;
  private Executor executor;
  private Transport transport;
  private Log log;
  private Storage storage;
  private boolean persists;
  private boolean storesTickets;
  private long baseMs = 500;
  private long maxMs = 30_000;
  private long resetAfterMs = 10_000;
  private int bufferItems = 1_024;
  private long bufferBytes = 1 << 20;

  CroreBuilder(String... urls) {
    if (urls.length == 0) throw Errors.invalid("there is no URL");
    for (String url : urls) this.urls.add(Urls.complete(url));
  }

  /**
   * A token that does not change.
   *
   * @param value the token
   * @return this builder
   */
  public CroreBuilder token(String value) {
    token = value;
    return this;
  }

  /**
   * Where tokens come from.
   *
   * @param value the source
   * @return this builder
   */
  public CroreBuilder token(TokenSource value) {
    tokenSource = value;
    return this;
  }

  /**
   * A name for the logs of the node.
   *
   * @param value the name
   * @return this builder
   */
  public CroreBuilder name(String value) {
    name = value;
    return this;
  }

  /**
   * The id of {@code once} publications, which no other publisher uses. Otherwise it is random.
   *
   * @param value 1 to 64 bytes
   * @return this builder
   */
  public CroreBuilder producerId(byte[] value) {
    if (value.length < 1 || value.length > 64) throw Errors.invalid("a producer's id has 1 to 64 bytes");
    producerId = value.clone();
    return this;
  }

  /**
   * Where handlers, and the stages behind futures, run. Otherwise this is the common pool.
   *
   * @param value the executor
   * @return this builder
   */
  public CroreBuilder executor(Executor value) {
    executor = value;
    return this;
  }

  /**
   * What opens WebSockets. Otherwise this is {@link JdkTransport}, which Android does not have.
   *
   * @param value the transport
   * @return this builder
   */
  public CroreBuilder transport(Transport value) {
    transport = value;
    return this;
  }

  /**
   * What gets the events of the log. Otherwise they go to the logger {@code io.crore} of the JDK.
   *
   * @param value the log
   * @return this builder
   */
  public CroreBuilder log(Log value) {
    log = value;
    return this;
  }

  /**
   * Keeps the positions of subscriptions with a {@link SubscribeOptions#name name} over the end of
   * the program. Then a client's own {@link #name} tells it apart from others in the same storage.
   *
   * @param value the storage, such as {@link FileStorage}
   * @return this builder
   */
  public CroreBuilder storage(Storage value) {
    storage = value;
    return this;
  }

  /**
   * Stores {@code once} publications before they are sent: the next start of the program sends what
   * is left, and everything is in the log once. Needs a {@link #storage}, which only one running
   * client of this name uses. Publications by key are not stored.
   *
   * @return this builder
   */
  public CroreBuilder persist() {
    persists = true;
    return this;
  }

  /**
   * Also stores resume tickets, which are secrets: whoever reads the storage can take the session
   * over. Needs a {@link #storage}.
   *
   * @return this builder
   */
  public CroreBuilder storeTickets() {
    storesTickets = true;
    return this;
  }

  /**
   * A handler of states that misses none.
   *
   * @param handler the handler
   * @return this builder
   */
  public CroreBuilder onState(Consumer<State> handler) {
    stateHandlers.add(handler);
    return this;
  }

  /**
   * The waits between attempts: random, at most {@code base} at first and then twice as long each
   * time.
   *
   * @param base at most so long at first (500 ms)
   * @param max at most so long at the end (30 s)
   * @param resetAfter a connection that lasted so long begins anew (10 s)
   * @param unit the unit of these
   * @return this builder
   */
  public CroreBuilder backoff(long base, long max, long resetAfter, TimeUnit unit) {
    baseMs = unit.toMillis(base);
    maxMs = unit.toMillis(max);
    resetAfterMs = unit.toMillis(resetAfter);
    return this;
  }

  /**
   * The bound of what waits for a subscription's reader.
   *
   * @param items at most so many items (1,024)
   * @param bytes at most so many bytes of payload (1 MiB)
   * @return this builder
   */
  public CroreBuilder buffer(int items, long bytes) {
    if (items < 1 || bytes < 1) throw Errors.invalid("a buffer has room");
    bufferItems = items;
    bufferBytes = bytes;
    return this;
  }

  /** @return a client, which connects in the background */
  public Crore build() {
    if (storage == null && (persists || storesTickets)) throw Errors.invalid("there is no storage");
    return new Crore(this);
  }

  Settings settings() {
    Settings settings = new Settings();
    settings.urls.addAll(urls);
    settings.token = token;
    settings.hasTokenSource = tokenSource != null;
    settings.name = name;
    settings.producerId = producerId;
    if (producerId == null) new SecureRandom().nextBytes(settings.producerId = new byte[16]);
    settings.backoff = new Backoff(baseMs, maxMs, resetAfterMs, RANDOM);
    settings.bufferItems = bufferItems;
    settings.bufferBytes = bufferBytes;
    settings.random = RANDOM;
    return settings;
  }

  Storage storage() {
    return storage;
  }

  boolean persists() {
    return persists;
  }

  boolean storesTickets() {
    return storesTickets;
  }

  boolean hasProducerId() {
    return producerId != null;
  }

  String name() {
    return name;
  }

  List<Consumer<State>> stateHandlers() {
    return stateHandlers;
  }

  TokenSource tokenSource() {
    return tokenSource;
  }

  Executor executor() {
    return executor == null ? ForkJoinPool.commonPool() : executor;
  }

  Transport transport() {
    if (transport != null) return transport;
    try {
      return new JdkTransport();
    } catch (LinkageError e) {
      throw Errors.invalid("this platform has no java.net.http: give the builder a transport, such as OkHttpTransport");
    }
  }

  Log log() {
    return log == null ? new JulLog() : log;
  }
}
