package io.crore.scenario;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import io.crore.Crore;
import io.crore.CroreBuilder;
import io.crore.CroreException;
import io.crore.Item;
import io.crore.PublishOptions;
import io.crore.State;
import io.crore.SubscribeOptions;
import io.crore.Subscription;
import io.crore.Tag;
import io.crore.transport.Transport;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** The adapter of wire mode: the SDK as it is delivered, over real sockets. */
final class WireAdapter implements Player.Adapter {
  private final Transport transport;
  private final ExecutorService readers = Executors.newCachedThreadPool(WireAdapter::daemon);
  private final Map<String, Subscription> subscriptions = new HashMap<>();
  private LinkedBlockingQueue<JsonObject> effects = new LinkedBlockingQueue<>();
  private Crore client;
  private boolean isManual;

  WireAdapter(Transport transport) {
    this.transport = transport;
  }

  private static Thread daemon(Runnable task) {
    Thread thread = new Thread(task, "reader");
    thread.setDaemon(true);
    return thread;
  }

  @Override
  public JsonObject carryOut(JsonObject json) throws Exception {
    String name = json.get("do").getAsString();
    if (name.equals("hello")) return Effects.hello();
    Command command = new Command(json);
    JsonObject reply = new JsonObject();
    JsonArray list = new JsonArray();
    try {
      if (name.equals("report")) {
        reply.add("report", Effects.report(subscriptions.get(command.text("as")).report()));
      } else if (name.equals("poll")) {
        JsonObject first = effects.poll(command.number("ms", 0), TimeUnit.MILLISECONDS);
        if (first != null) list.add(first);
      } else carryOut(name, command);
    } catch (CroreException e) {
      effects.add(Effects.error(command.text("as"), e));
    }
    for (JsonObject it = effects.poll(); it != null; it = effects.poll()) list.add(it);
    reply.add("effects", list);
    return reply;
  }

  private void carryOut(String name, Command it) throws Exception {
    switch (name) {
      case "start":
        start(it.object("options"));
        break;
      case "stop":
        client.closeAsync(0, TimeUnit.SECONDS).get(90, TimeUnit.SECONDS);
        break;
      case "subscribe":
        subscribe(it);
        break;
      case "unsubscribe":
        subscriptions.get(it.text("as")).close();
        break;
      case "publish":
        byte[] payload = it.has("payload") ? it.bytes("payload") : new byte[0];
        settle(it.text("as"), client.publish(it.text("topic"), payload, options(it)));
        break;
      case "history":
        int limit = (int) it.number("limit", 0);
        settle(it.text("as"), client.historyPage(it.text("topic"), it.text("position"), it.is("reverse"), limit));
        break;
      case "renew":
        client.renew(it.text("token"));
        break;
      case "read":
        read(it.text("as"), it.number("items", 0));
        break;
      default:
        client.closeAsync(it.number("drain_ms", 5_000), TimeUnit.MILLISECONDS);
    }
  }

  private void start(Command options) {
    subscriptions.clear();
    // What is shown by the client before comes too late.
    LinkedBlockingQueue<JsonObject> mine = new LinkedBlockingQueue<>();
    effects = mine;
    isManual = options.has("buffer");
    CroreBuilder builder = Crore.builder(options.texts("urls").toArray(new String[0])).transport(transport);
    if (options.has("token")) builder.token(options.text("token"));
    if (options.has("tokens")) {
      List<String> tokens = options.texts("tokens");
      builder.token(
          reason -> {
            mine.add(Effects.of("token", reason.name().toLowerCase(Locale.ROOT)));
            return tokens.isEmpty() ? null : tokens.remove(0);
          });
    }
    if (options.has("name")) builder.name(options.text("name"));
    if (options.has("producer_id")) builder.producerId(options.bytes("producer_id"));
    Command backoff = options.object("backoff");
    builder.backoff(
        backoff.number("base_ms", 500),
        backoff.number("max_ms", 30_000),
        backoff.number("reset_after_ms", 10_000),
        TimeUnit.MILLISECONDS);
    builder.buffer((int) options.object("buffer").number("items", 1_024), 1 << 20);
    builder.log((level, event, fields) -> {});
    mine.add(Effects.state(new State(State.Kind.CONNECTING, null, -1, -1)));
    client = builder.onState(state -> mine.add(Effects.state(state))).build();
  }

  private void subscribe(Command it) {
    SubscribeOptions options = start(it.object("start"), it.object("start").text("kind"));
    if (it.is("fail_on_gap")) options.failOnGap();
    if (it.has("policy")) {
      options.policy(SubscribeOptions.Policy.valueOf(it.text("policy").toUpperCase(Locale.ROOT)));
    }
    if ("skip".equals(it.text("overflow"))) options.skipOldest();
    subscriptions.put(it.text("as"), client.subscribe(it.text("topic"), options));
    if (!isManual) read(it.text("as"), Long.MAX_VALUE);
  }

  private static SubscribeOptions start(Command start, String kind) {
    if ("since".equals(kind)) return SubscribeOptions.since(start.text("position"));
    if ("since_each".equals(kind)) return SubscribeOptions.sinceEach(start.positions("positions"));
    if ("last".equals(kind)) return SubscribeOptions.last((int) start.number("count", 0));
    return "snapshot".equals(kind) ? SubscribeOptions.snapshot() : SubscribeOptions.live();
  }

  private static PublishOptions options(Command it) {
    PublishOptions options = PublishOptions.none();
    if (it.isObject("once")) options.onceByKey(it.object("once").bytes("key"));
    else if (it.is("once")) options.once();
    if (it.is("retain")) options.retain();
    if (it.has("content_type")) options.contentType(it.text("content_type"));
    for (Tag tag : it.tags("tags")) options.tag(tag.key(), tag.value());
    if (it.has("expected_epoch")) options.expectedEpoch(Long.parseUnsignedLong(it.text("expected_epoch")));
    if (it.has("timeout_ms")) options.timeout(it.number("timeout_ms", 0), TimeUnit.MILLISECONDS);
    return options;
  }

  private void settle(String label, CompletableFuture<?> call) {
    LinkedBlockingQueue<JsonObject> mine = effects;
    call.whenComplete(
        (value, error) -> {
          Throwable cause = error instanceof CompletionException ? error.getCause() : error;
          mine.add(Effects.answer(label, (CroreException) cause, value));
        });
  }

  /** Takes so many items; caught-up ones do not count. */
  private void read(String label, long count) {
    Subscription subscription = subscriptions.get(label);
    LinkedBlockingQueue<JsonObject> mine = effects;
    readers.execute(
        () -> {
          try {
            for (long left = count; left > 0; ) {
              Item item = subscription.next();
              if (item == null) return;
              if (item.kind() != Item.Kind.CAUGHT_UP) left--;
              mine.add(Effects.item(label, item));
            }
          } catch (CroreException e) {
            if (e.code() >= 0) mine.add(Effects.ended(label, e));
          } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
          }
        });
  }
}
