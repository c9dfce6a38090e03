package io.crore.support;

import com.google.gson.JsonElement;
import com.google.gson.JsonParser;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** Where the tests find the specification and the programs that they start. */
public final class Places {
  private static final Path REPOSITORY = repository();

  private Places() {}

  /** The folder of the specification. */
  public static Path spec() {
    return REPOSITORY.resolve("spec");
  }

  /** A file of the specification. */
  public static JsonElement json(String name) {
    try {
      return JsonParser.parseString(Files.readString(spec().resolve(name)));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** A program of the repository: the environment's {@code variable}, or the one that was built. */
  public static String program(String variable, String name) {
    String given = System.getenv(variable);
    if (given != null) return given;
    Path release = REPOSITORY.resolve("target/release").resolve(name);
    return (Files.exists(release) ? release : REPOSITORY.resolve("target/debug").resolve(name)).toString();
  }

  private static Path repository() {
    Path at = Path.of("").toAbsolutePath();
    while (at != null && !Files.exists(at.resolve("spec/codes.toml"))) at = at.getParent();
    if (at == null) throw new IllegalStateException("the tests run inside of the repository");
    return at;
  }
}
