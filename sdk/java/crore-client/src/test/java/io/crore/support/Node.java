package io.crore.support;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/** A node of the server on ephemeral ports, which may be ended and started again at its address. */
public final class Node implements AutoCloseable {
  /** A log on disk. */
  public static final String ON_DISK =
      "[node]\ndata_dir = \"FOLDER/data\"\ndrain_window = \"1s\"\n"
          + "[[log]]\nname = \"kept\"\ndurability = \"disk\"\npartitions_count = 4\nage_max = \"1d\"\n";

  private final Path folder;
  private Path secret;
  private String listen = ownAddress() + ":0";
  private Process process;

  private Node(String configuration) throws IOException {
    folder = Files.createTempDirectory("crore-java-");
    Files.writeString(folder.resolve("crore.toml"), configuration.replace("FOLDER", folder.toString()));
  }

  /** Returns when the node is ready. */
  public static Node start(String configuration) throws Exception {
    Node node = new Node(configuration);
    node.start();
    return node;
  }

  /**
   * An address that no other program has: between two starts of a node nobody takes its port there. Nor
   * does a client that keeps connecting: its socket has 127.0.0.1, where a connect may reach itself.
   */
  private static String ownAddress() {
    ThreadLocalRandom random = ThreadLocalRandom.current();
    return "127." + random.nextInt(1, 255) + "." + random.nextInt(1, 255) + "." + random.nextInt(1, 255);
  }

  /** A node that wants tokens, which {@link #token} makes, and tells two hours before that they expire. */
  public static Node guarded() throws Exception {
    Node node = new Node("");
    node.secret = node.folder.resolve("secret");
    say("token", "key", "--algorithm", "HS256", "--out", node.secret.toString());
    String configuration =
        "[entitlement]\nmode = \"tokens\"\nnotice_before = \"2h\"\n[[token_key]]\nalgorithm = \"HS256\"\nsecret_file = \""
            + node.secret
            + "\"\n";
    Files.writeString(node.folder.resolve("crore.toml"), configuration);
    node.start();
    return node;
  }

  /** A token for a subject, which expires after this time, with permissions as the command line names them. */
  public String token(String expires, String subject, String... flags) throws Exception {
    List<String> arguments =
        new ArrayList<>(
            List.of("token", "gen", "--secret-file", secret.toString(), "--algorithm", "HS256"));
    arguments.addAll(List.of("--expires", expires, "--sub", subject));
    arguments.addAll(List.of(flags));
    return say(arguments.toArray(new String[0]));
  }

  private static String say(String... arguments) throws Exception {
    List<String> command = new ArrayList<>(List.of(Places.program("CRORE_SERVER", "crore")));
    command.addAll(List.of(arguments));
    ProcessBuilder builder = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT);
    builder.environment().keySet().removeIf(name -> name.startsWith("CRORE_"));
    Process process = builder.start();
    String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8).trim();
    if (process.waitFor() != 0) throw new IOException("it has failed: " + List.of(arguments));
    return said;
  }

  /** Starts it again. */
  public void start() throws Exception {
    ProcessBuilder builder =
        new ProcessBuilder(
            Places.program("CRORE_SERVER", "crore"),
            "serve",
            "--config",
            folder.resolve("crore.toml").toString(),
            "--listen",
            listen,
            "--admin-listen",
            "127.0.0.1:0");
    // The node takes every variable that begins with CRORE_ as an option.
    builder.environment().keySet().removeIf(name -> name.startsWith("CRORE_"));
    builder.environment().put("RUNTIME_DIRECTORY", folder.resolve("run").toString());
    process = builder.redirectError(ProcessBuilder.Redirect.INHERIT).start();
    CompletableFuture<Void> ready = new CompletableFuture<>();
    Process mine = process;
    Thread lines = new Thread(() -> read(mine, ready));
    lines.setDaemon(true);
    lines.start();
    ready.get(90, TimeUnit.SECONDS);
  }

  private void read(Process mine, CompletableFuture<Void> ready) {
    String mark = "listening clients http://";
    try (BufferedReader reader =
        new BufferedReader(new InputStreamReader(mine.getInputStream(), StandardCharsets.UTF_8))) {
      for (String line = reader.readLine(); line != null; line = reader.readLine()) {
        int at = line.indexOf(mark);
        if (at >= 0) listen = line.substring(at + mark.length()).split("[ /]")[0];
        if (line.equals("ready") || line.endsWith(" ready")) ready.complete(null);
      }
    } catch (IOException e) {
      // The node has ended.
    }
    ready.completeExceptionally(new IOException("the node has ended"));
  }

  /** Where clients connect. */
  public String url() {
    return "ws://" + listen;
  }

  /** SIGKILL, and waits for the end. */
  public void kill() throws Exception {
    process.destroyForcibly().waitFor();
  }

  /** SIGTERM: the node drains. Waits for the end. */
  public void drain() throws Exception {
    process.destroy();
    process.waitFor();
  }

  @Override
  public void close() throws IOException {
    process.destroyForcibly().onExit().join();
    try (Stream<Path> paths = Files.walk(folder)) {
      paths.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
    }
  }
}
