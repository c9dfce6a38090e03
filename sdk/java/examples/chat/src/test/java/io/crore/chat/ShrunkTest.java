package io.crore.chat;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.crore.support.Node;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileSystem;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import java.util.zip.ZipEntry;
import java.util.zip.ZipOutputStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * The chat after R8, with the rules that the packages bring and nothing kept but {@code main}, where
 * there is no java.net.http, as on Android.
 */
@Timeout(600)
class ShrunkTest {
  @TempDir Path folder;

  private static final String RULES =
      "-keep class io.crore.chat.Terminal { public static void main(java.lang.String[]); }\n"
          // The platform of OkHttp on Android, which is not in the library of this test.
          + "-dontwarn android.**\n-dontwarn dalvik.**\n";

  @Test
  void theShrunkChatTalksToANode() throws Exception {
    Path rules = Files.writeString(folder.resolve("rules.pro"), RULES);
    Path library = library();
    Path app = folder.resolve("app.jar");
    List<String> classes = shrink(rules, library, app, "--classfile");
    assertTrue(Files.size(app) > 0);
    assertTrue(classes.contains("io/crore/chat/Terminal.class"));
    // For Android 7, too: everything newer than its language is replaced.
    Path android = folder.resolve("android.jar");
    assertTrue(shrink(rules, library, android, "--min-api", "24").contains("classes.dex"));
    System.out.printf("shrunk: %,d bytes of classes, %,d bytes for Android%n", Files.size(app), Files.size(android));
    try (Node node = Node.start(Node.ON_DISK)) {
      Process ada = run(app, node.url(), "ada");
      BufferedReader hers = new BufferedReader(new InputStreamReader(ada.getInputStream(), StandardCharsets.UTF_8));
      say(ada, "hello");
      assertEquals("ada: hello", hers.readLine());
      node.kill();
      say(ada, "still here");
      node.start();
      assertEquals("ada: still here", hers.readLine());
      ada.getOutputStream().close();
      assertTrue(ada.waitFor(90, TimeUnit.SECONDS));
      assertEquals(0, ada.exitValue());
      Process bob = run(app, node.url(), "bob");
      BufferedReader his = new BufferedReader(new InputStreamReader(bob.getInputStream(), StandardCharsets.UTF_8));
      assertEquals("ada: hello", his.readLine());
      assertEquals("ada: still here", his.readLine());
      bob.getOutputStream().close();
      assertTrue(bob.waitFor(90, TimeUnit.SECONDS));
    }
  }

  private static void say(Process user, String text) throws Exception {
    BufferedWriter typed = new BufferedWriter(new OutputStreamWriter(user.getOutputStream(), StandardCharsets.UTF_8));
    typed.write(text + "\n");
    typed.flush();
  }

  private static String java() {
    return Path.of(System.getProperty("java.home"), "bin", "java").toString();
  }

  private Process run(Path app, String url, String user) throws Exception {
    return new ProcessBuilder(
            java(),
            "--limit-modules",
            "java.base,java.logging",
            "-cp",
            app.toString(),
            "io.crore.chat.Terminal",
            url,
            "tea",
            user,
            folder.resolve(user).toString())
        .redirectError(ProcessBuilder.Redirect.INHERIT)
        .start();
  }

  /** Runs R8; returns the names of what it made. */
  private static List<String> shrink(Path rules, Path library, Path output, String... more) throws Exception {
    // One run of a program that is large: to compile it well takes longer than it saves.
    List<String> command = new ArrayList<>(List.of(java(), "-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"));
    command.addAll(List.of("-cp", jar("r8"), "com.android.tools.r8.R8", "--release", "--lib", library.toString(), "--pg-conf", rules.toString()));
    command.addAll(List.of("--output", output.toString()));
    command.addAll(List.of(more));
    for (String it : classPath()) if (!Files.isDirectory(Path.of(it)) && isOfTheApp(it)) command.add(it);
    for (String it : classPath()) if (Files.isDirectory(Path.of(it)) && isOfTheApp(it)) command.add(packed(it, output));
    Process process = new ProcessBuilder(command).inheritIO().start();
    assertEquals(0, process.waitFor(), "R8 has failed");
    try (FileSystem made = FileSystems.newFileSystem(output, (ClassLoader) null);
        Stream<Path> paths = Files.walk(made.getPath("/"))) {
      List<String> names = new ArrayList<>();
      paths.forEach(path -> names.add(path.toString().substring(1)));
      return names;
    }
  }

  private static List<String> classPath() {
    return List.of(System.getProperty("java.class.path").split(System.getProperty("path.separator")));
  }

  private static String jar(String name) {
    for (String it : classPath()) if (Path.of(it).getFileName().toString().startsWith(name + "-")) return it;
    throw new AssertionError("there is no " + name);
  }

  private static boolean isOfTheApp(String path) {
    String name = Path.of(path).getFileName().toString();
    if (Files.isDirectory(Path.of(path))) return name.equals("classes");
    for (String it : List.of("crore-", "okhttp-", "okio-", "kotlin-stdlib-", "annotations-")) if (name.startsWith(it)) return true;
    return false;
  }

  /** A folder of classes as a jar: R8 finds rules only there. */
  private static String packed(String classes, Path beside) throws Exception {
    Path root = Path.of(classes);
    Path jar = beside.resolveSibling(root.getParent().getParent().getFileName() + ".jar");
    try (ZipOutputStream out = new ZipOutputStream(Files.newOutputStream(jar));
        Stream<Path> paths = Files.walk(root)) {
      for (Path path : (Iterable<Path>) paths.filter(Files::isRegularFile)::iterator) {
        if (path.endsWith("module-info.class")) continue;
        out.putNextEntry(new ZipEntry(root.relativize(path).toString()));
        Files.copy(path, out);
        out.closeEntry();
      }
    }
    return jar.toString();
  }

  /** The classes that Android has, of the JDK that runs: no java.net.http, no Flow. */
  private Path library() throws Exception {
    FileSystem runtime = FileSystems.getFileSystem(URI.create("jrt:/"));
    Path jar = folder.resolve("platform.jar");
    try (ZipOutputStream out = new ZipOutputStream(Files.newOutputStream(jar))) {
      for (String module : List.of("java.base", "java.logging")) {
        Path root = runtime.getPath("/modules/" + module);
        try (Stream<Path> paths = Files.walk(root)) {
          for (Path path : (Iterable<Path>) paths.filter(Files::isRegularFile)::iterator) {
            String name = root.relativize(path).toString();
            if (name.startsWith("java/util/concurrent/Flow") || name.equals("module-info.class")) continue;
            out.putNextEntry(new ZipEntry(name));
            Files.copy(path, out);
            out.closeEntry();
          }
        }
      }
    }
    return jar;
  }
}
