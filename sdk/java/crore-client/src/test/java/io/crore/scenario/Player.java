package io.crore.scenario;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.crore.support.Places;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** Runs {@code crore-script}, and passes its commands to an adapter. */
final class Player {
  /** Carries one command out, and returns the reply. */
  interface Adapter {
    JsonObject carryOut(JsonObject command) throws Exception;
  }

  private static final int TOGETHER = 4;

  final List<String> failures = new ArrayList<>();
  int passed;
  int failed;
  int skipped;

  private Player() {}

  /** Plays all scenarios of a mode. The environment's {@code ONLY} selects some by their names. */
  static Player play(String mode, Adapter adapter, String... more) throws Exception {
    return play(mode, adapter, files(), more);
  }

  /** Plays some files of scenarios at a time, for in wire mode most of the time is waiting. */
  static Player playTogether(String mode, Supplier<Adapter> adapters) throws Exception {
    Player all = new Player();
    ExecutorService threads = Executors.newFixedThreadPool(TOGETHER);
    try {
      List<Future<Player>> parts = new ArrayList<>();
      for (String file : files()) {
        parts.add(threads.submit(() -> play(mode, adapters.get(), List.of(file))));
      }
      for (Future<Player> it : parts) {
        Player part = it.get();
        all.failures.addAll(part.failures);
        all.passed += part.passed;
        all.failed += part.failed;
        all.skipped += part.skipped;
      }
    } finally {
      threads.shutdown();
    }
    return all;
  }

  private static List<String> files() throws IOException {
    try (Stream<Path> files = Files.list(Places.spec().resolve("scenarios"))) {
      return files
          .map(Path::toString)
          .filter(name -> name.endsWith(".json") && !name.endsWith("schema.json"))
          .sorted()
          .collect(Collectors.toList());
    }
  }

  private static Player play(String mode, Adapter adapter, List<String> files, String... more) throws Exception {
    List<String> command = new ArrayList<>();
    command.add(Places.program("CRORE_SCRIPT", "crore-script"));
    command.addAll(List.of("--mode", mode));
    command.addAll(List.of(more));
    if (System.getenv("ONLY") != null) command.addAll(List.of("--only", System.getenv("ONLY")));
    command.addAll(files);
    Process script = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
    try {
      Player player = new Player();
      player.run(script, adapter);
      return player;
    } finally {
      script.destroy();
    }
  }

  private void run(Process script, Adapter adapter) throws Exception {
    Gson gson = new GsonBuilder().serializeNulls().create();
    boolean isTraced = System.getenv("TRACE") != null;
    try (BufferedReader in = new BufferedReader(new InputStreamReader(script.getInputStream(), StandardCharsets.UTF_8));
        BufferedWriter out = new BufferedWriter(new OutputStreamWriter(script.getOutputStream(), StandardCharsets.UTF_8))) {
      for (String line = in.readLine(); line != null; line = in.readLine()) {
        JsonObject command = JsonParser.parseString(line).getAsJsonObject();
        String name = command.get("do").getAsString();
        if (name.equals("end")) {
          passed = command.get("passed").getAsInt();
          failed = command.get("failed").getAsInt();
          skipped = command.get("skipped").getAsInt();
          return;
        }
        JsonObject reply = new JsonObject();
        reply.add("effects", new JsonArray());
        if (name.equals("result")) note(command);
        else reply = adapter.carryOut(command);
        if (isTraced) System.out.println(line + "\n    " + gson.toJson(reply));
        out.write(gson.toJson(reply));
        out.newLine();
        out.flush();
      }
    }
    throw new IOException("crore-script has ended early");
  }

  private void note(JsonObject result) {
    if (result.get("result").getAsString().equals("passed")) return;
    failures.add(result.get("scenario") + ": step " + result.get("step") + ": " + result.get("why"));
  }
}
