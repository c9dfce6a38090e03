package io.crore.fleet;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.crore.CaughtUp;
import io.crore.Crore;
import io.crore.CroreBuilder;
import io.crore.CroreException;
import io.crore.FileStorage;
import io.crore.Gap;
import io.crore.Item;
import io.crore.Message;
import io.crore.PublishOptions;
import io.crore.Report;
import io.crore.Skipped;
import io.crore.SubscribeOptions;
import io.crore.Subscription;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CountDownLatch;

/** Runs many clients for the harness of tests/src/fleet, whose README has the lines. */
public final class Fleet {
  private static final Gson GSON = new GsonBuilder().serializeNulls().create();
  private static final PrintStream OUTPUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);
  /** Slow readers stop at it while the harness wants it. */
  private static volatile CountDownLatch passage = new CountDownLatch(0);

  private final String name;
  private final int number;
  private final JsonObject work;
  private final Crore client;
  private Subscription subscription;
  private Thread reader;
  private int calls;

  private Fleet(JsonObject plan, int number) throws Exception {
    this.name = plan.get("name").getAsString();
    this.number = number;
    this.work = plan.getAsJsonArray("clients").get(number).getAsJsonObject();
    this.calls = work.get("calls").getAsInt();
    CroreBuilder builder = Crore.builder(plan.get("url").getAsString()).name(name + "." + number);
    if (isOnce()) {
      Path folder = Path.of(plan.get("folder").getAsString(), String.valueOf(number));
      builder.storage(new FileStorage(folder.toFile())).persist();
    }
    client = builder.build();
    if (!work.has("subscribe")) return;
    JsonElement since = work.get("since");
    SubscribeOptions start =
        since.isJsonNull() ? SubscribeOptions.live() : SubscribeOptions.since(since.getAsString());
    subscription = client.subscribe(work.get("subscribe").getAsString(), start);
    reader = new Thread(this::read, "reader " + number);
    reader.start();
  }

  private boolean isOnce() {
    return work.has("once") && work.get("once").getAsBoolean();
  }

  private void read() {
    boolean isSlow = work.get("slow").getAsBoolean();
    try {
      for (Item item = subscription.next(); item != null; item = subscription.next()) {
        say(shown(item));
        if (isSlow) passage.await();
      }
    } catch (CroreException | InterruptedException error) {
      JsonObject line = new JsonObject();
      line.addProperty("ended", error.toString());
      say(line);
    }
  }

  private void say(JsonObject line) {
    line.addProperty("of", number);
    String text = GSON.toJson(line);
    synchronized (OUTPUT) {
      OUTPUT.println(text);
      OUTPUT.flush();
    }
  }

  private static JsonObject shown(Item item) {
    JsonObject line = new JsonObject();
    long partition = -1;
    if (item instanceof Message) {
      Message it = (Message) item;
      line.addProperty("item", "message");
      line.addProperty("topic", it.topic());
      line.addProperty("at", it.position());
      line.addProperty("data", it.text());
    } else if (item instanceof Gap) {
      Gap it = (Gap) item;
      line.addProperty("item", "gap");
      line.addProperty("from", it.from());
      line.addProperty("to", it.to());
      line.addProperty("cause", it.cause());
      partition = it.partition();
    } else if (item instanceof Skipped) {
      Skipped it = (Skipped) item;
      line.addProperty("item", "skipped");
      line.addProperty("from", it.from());
      line.addProperty("through", it.through());
      partition = it.partition();
    } else {
      CaughtUp it = (CaughtUp) item;
      line.addProperty("item", "caught_up");
      line.addProperty("at", it.position());
      partition = it.partition();
    }
    if (partition >= 0) line.addProperty("partition", partition);
    return line;
  }

  private void publish(int count) {
    JsonArray topics = work.getAsJsonArray("publish");
    PublishOptions options = isOnce() ? PublishOptions.none().once() : PublishOptions.none();
    for (int left = topics == null ? 0 : count; left > 0; left--) {
      int call = ++calls;
      String topic = topics.get(call % topics.size()).getAsString();
      client
          .publish(topic, name + "." + number + "." + call, options)
          .whenComplete(
              (published, error) -> {
                JsonObject line = new JsonObject();
                line.addProperty("call", call);
                if (error == null) line.addProperty("at", published.position());
                else line.addProperty("error", nameOf(error));
                say(line);
              });
    }
  }

  private static String nameOf(Throwable error) {
    Throwable cause = error instanceof CompletionException ? error.getCause() : error;
    return cause instanceof CroreException ? ((CroreException) cause).name() : cause.toString();
  }

  private void end() throws Exception {
    if (subscription != null) {
      Report report = subscription.report();
      subscription.close();
      reader.join();
      JsonObject shown = new JsonObject();
      shown.addProperty("complete", report.complete());
      shown.addProperty("gaps", report.gaps());
      shown.addProperty("skips", report.skips());
      shown.addProperty("messages", report.messages());
      shown.addProperty("position", report.position());
      shown.add("positions", GSON.toJsonTree(report.positions()));
      JsonObject line = new JsonObject();
      line.add("report", shown);
      say(line);
    }
    client.close();
  }

  /**
   * Runs the plan whose path is the only argument.
   *
   * @param arguments the path
   * @throws Exception if the plan is wrong
   */
  public static void main(String[] arguments) throws Exception {
    JsonObject plan = JsonParser.parseString(Files.readString(Path.of(arguments[0]))).getAsJsonObject();
    List<Fleet> clients = new ArrayList<>();
    int count = plan.getAsJsonArray("clients").size();
    for (int number = 0; number < count; number++) clients.add(new Fleet(plan, number));
    BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = commands.readLine(); line != null; line = commands.readLine()) {
      String[] words = line.split(" ");
      if (words[0].equals("publish")) {
        for (Fleet it : clients) it.publish(Integer.parseInt(words[1]));
      } else if (words[0].equals("pause")) {
        passage = new CountDownLatch(1);
      } else if (words[0].equals("resume")) {
        passage.countDown();
      } else if (words[0].equals("end")) {
        for (Fleet it : clients) it.end();
        return;
      }
    }
    System.exit(1); // The harness is gone.
  }
}
