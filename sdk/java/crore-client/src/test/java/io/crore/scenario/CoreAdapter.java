package io.crore.scenario;

import com.google.gson.JsonArray;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import io.crore.CroreException;
import io.crore.Item;
import io.crore.Item.Kind;
import io.crore.Level;
import io.crore.State;
import io.crore.TokenReason;
import io.crore.internal.codec.ClientFrames.Publication;
import io.crore.internal.codec.ClientFrames.WireStart;
import io.crore.internal.codec.Place;
import io.crore.internal.core.Backoff;
import io.crore.internal.core.Call;
import io.crore.internal.core.Core;
import io.crore.internal.core.CoreSubscription;
import io.crore.internal.core.Outputs;
import io.crore.internal.core.Settings;
import io.crore.support.Hex;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** The adapter of core mode: the core without sockets, in virtual time. */
final class CoreAdapter implements Player.Adapter, Outputs {
  private static final List<String> POLICIES = List.of("replay", "conflate", "drop", "disconnect");

  private Core core;
  private long now;
  /** Null without a source. */
  private List<String> tokens;
  private boolean isManual;
  private JsonArray effects = new JsonArray();
  /** Outputs are carried out after the command, for they must not call the core. */
  private final ArrayDeque<Runnable> outputs = new ArrayDeque<>();
  private final Map<String, CoreSubscription> subscriptions = new HashMap<>();
  private final Map<CoreSubscription, String> labels = new HashMap<>();
  private final Map<Call, String> calls = new HashMap<>();

  @Override
  public JsonObject carryOut(JsonObject json) {
    String name = json.get("do").getAsString();
    if (name.equals("hello")) return Effects.hello();
    Command command = new Command(json);
    JsonObject reply = new JsonObject();
    effects = new JsonArray();
    try {
      if (name.equals("report")) {
        reply.add("report", Effects.report(subscriptions.get(command.text("as")).report()));
      } else carryOut(name, command);
    } catch (CroreException e) {
      effects.add(Effects.error(command.text("as"), e));
    }
    while (!outputs.isEmpty()) outputs.poll().run();
    reply.add("effects", effects);
    reply.add("timer", JsonNull.INSTANCE);
    if (core != null && core.wakeAt() != Core.NEVER) reply.addProperty("timer", core.wakeAt());
    return reply;
  }

  private void carryOut(String name, Command it) {
    switch (name) {
      case "start":
        start(it.object("options"), it.fractions("random"));
        break;
      case "stop":
        core = null;
        break;
      case "subscribe":
        subscribe(it);
        break;
      case "unsubscribe":
        core.unsubscribe(now, subscriptions.get(it.text("as")));
        break;
      case "publish":
        publish(it);
        break;
      case "history":
        Call page =
            core.history(
                now, it.text("topic"), it.place("position"), it.is("reverse"), it.number("limit", 0), -1);
        calls.put(page, it.text("as"));
        break;
      case "renew":
        core.renew(it.text("token"));
        break;
      case "read":
        read(it.text("as"), subscriptions.get(it.text("as")), it.number("items", 0));
        break;
      case "close":
        core.close(now, it.number("drain_ms", 5_000));
        break;
      case "opened":
        core.opened(now);
        break;
      case "failed":
        core.failed(now, (int) it.number("status", -1), it.number("retry_after_s", -1));
        break;
      case "received":
        if (it.has("text")) core.receivedText(now);
        else core.received(now, it.bytes("hex"));
        break;
      case "closed":
        core.closed(now, (int) it.number("code", 1006));
        break;
      default:
        now = it.number("now_ms", 0);
        core.tick(now);
    }
  }

  private void start(Command options, List<Double> random) {
    now = 0;
    subscriptions.clear();
    labels.clear();
    calls.clear();
    outputs.clear();
    tokens = options.has("tokens") ? options.texts("tokens") : null;
    isManual = options.has("buffer");
    Settings settings = new Settings();
    settings.urls.addAll(options.texts("urls"));
    settings.token = options.text("token");
    settings.hasTokenSource = tokens != null;
    settings.name = options.text("name");
    settings.producerId = options.has("producer_id") ? options.bytes("producer_id") : new byte[16];
    settings.random = () -> random.size() > 1 ? random.remove(0) : random.get(0);
    Command backoff = options.object("backoff");
    settings.backoff =
        new Backoff(
            backoff.number("base_ms", 500),
            backoff.number("max_ms", 30_000),
            backoff.number("reset_after_ms", 10_000),
            settings.random);
    settings.bufferItems = (int) options.object("buffer").number("items", 1_024);
    core = new Core(settings, this);
    core.start(now);
  }

  private void subscribe(Command it) {
    CoreSubscription.Request request = new CoreSubscription.Request(it.text("topic"));
    request.start = start(it.object("start"));
    request.failOnGap = it.is("fail_on_gap");
    if (it.has("policy")) request.policy = POLICIES.indexOf(it.text("policy"));
    request.skips = "skip".equals(it.text("overflow"));
    CoreSubscription subscription = core.subscribe(now, request);
    subscriptions.put(it.text("as"), subscription);
    labels.put(subscription, it.text("as"));
  }

  private static WireStart start(Command it) {
    String kind = it.has("kind") ? it.text("kind") : "live";
    switch (kind) {
      case "since":
        return WireStart.since(it.place("position"));
      case "last":
        return WireStart.last(it.number("count", 0));
      case "snapshot":
        return WireStart.SNAPSHOT;
      case "since_each":
        Map<Long, Place> each = new LinkedHashMap<>();
        it.positions("positions").forEach((partition, position) -> each.put(partition, Place.parse(position)));
        return WireStart.sinceEach(each);
      default:
        return WireStart.LIVE;
    }
  }

  private void publish(Command it) {
    byte[] payload = it.has("payload") ? it.bytes("payload") : new byte[0];
    Publication publication = new Publication(it.text("topic"), payload);
    publication.retain = it.is("retain");
    publication.contentType = it.text("content_type");
    publication.tags = it.tags("tags");
    if (it.has("expected_epoch")) publication.expectedEpoch = Long.parseUnsignedLong(it.text("expected_epoch"));
    boolean hasKey = it.isObject("once");
    if (hasKey) publication.key = it.object("once").bytes("key");
    boolean isOnce = hasKey || it.is("once");
    calls.put(core.publish(now, publication, isOnce, it.number("timeout_ms", -1)), it.text("as"));
  }

  /** Takes so many items; caught-up ones do not count. */
  private void read(String label, CoreSubscription it, long count) {
    for (long left = count; left > 0; ) {
      Item item = core.take(it);
      core.refill(now, it);
      if (item == null) return;
      if (item.kind() != Kind.CAUGHT_UP) left--;
      effects.add(Effects.item(label, item));
    }
  }

  @Override
  public void connect(String url) {
    outputs.add(() -> effects.add(Effects.of("connect", url)));
  }

  @Override
  public void send(byte[] frame) {
    outputs.add(() -> effects.add(Effects.of("send", Hex.of(frame))));
  }

  @Override
  public void close(int code) {
    JsonObject it = new JsonObject();
    it.addProperty("close", code);
    outputs.add(() -> effects.add(it));
  }

  @Override
  public void askForToken(long id, TokenReason reason) {
    outputs.add(
        () -> {
          effects.add(Effects.of("token", reason.name().toLowerCase(Locale.ROOT)));
          core.token(now, id, tokens.isEmpty() ? null : tokens.remove(0));
        });
  }

  @Override
  public void settled(Call call, CroreException error, Object value) {
    outputs.add(() -> effects.add(Effects.answer(calls.get(call), error, value)));
  }

  @Override
  public void state(State state) {
    outputs.add(() -> effects.add(Effects.state(state)));
  }

  @Override
  public void items(CoreSubscription of) {
    outputs.add(
        () -> {
          String label = labels.get(of);
          if (!isManual) read(label, of, Long.MAX_VALUE);
          CroreException error = of.endError();
          if (error != null && error.code() >= 0) effects.add(Effects.ended(label, error));
        });
  }

  @Override
  public void refused(CroreException error) {}

  @Override
  public void log(Level level, String event, Map<String, Object> fields) {}
}
