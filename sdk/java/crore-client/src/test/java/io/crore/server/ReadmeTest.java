package io.crore.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.crore.support.Node;
import io.crore.support.Places;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import javax.tools.JavaCompiler;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.api.parallel.Isolated;

/** The first example of the README runs as it stands, but for the address. */
@Isolated
class ReadmeTest {
  @Test
  void theFirstExampleRuns(@TempDir Path folder) throws Exception {
    String readme = Files.readString(Places.spec().resolveSibling("sdk/java/README.md"));
    int from = readme.indexOf("```java\n") + "```java\n".length();
    String example = readme.substring(from, readme.indexOf("```", from));
    assertTrue(example.lines().count() <= 10);
    try (Node node = Node.start("")) {
      String code = example.replace("ws://127.0.0.1:8800", node.url());
      String unit =
          "import io.crore.*;\npublic class Example {\n  public static void main(String[] arguments) {\n"
              + code
              + "  }\n}\n";
      Path file = Files.writeString(folder.resolve("Example.java"), unit);
      JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
      String classPath = System.getProperty("java.class.path");
      String[] arguments = {"-cp", classPath, "-d", folder.toString(), file.toString()};
      assertEquals(0, compiler.run(null, null, null, arguments));
      assertTrue(run(folder).startsWith("hello at "));
    }
  }

  private static String run(Path folder) throws Exception {
    PrintStream out = System.out;
    ByteArrayOutputStream printed = new ByteArrayOutputStream();
    try (URLClassLoader loader = new URLClassLoader(new URL[] {folder.toUri().toURL()})) {
      System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
      loader.loadClass("Example").getMethod("main", String[].class).invoke(null, (Object) new String[0]);
    } finally {
      System.setOut(out);
    }
    return printed.toString(StandardCharsets.UTF_8);
  }
}
