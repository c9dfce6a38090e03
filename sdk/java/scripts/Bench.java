import java.util.ArrayList;
import java.util.List;

/**
 * Figures: messages each second beside a bare loop, and the heap of an idle client. {@code java
 * scripts/Bench.java [rounds messages]} in sdk/java, after {@code java scripts/Check.java}.
 */
public class Bench {
  public static void main(String[] arguments) throws Exception {
    List<String> more = List.of(arguments);
    run("io.crore.bench.Bench", more);
    run("io.crore.bench.Idle", List.of());
  }

  private static void run(String program, List<String> arguments) throws Exception {
    String classes = "crore-client/target/classes:crore-client/target/test-classes";
    List<String> command = new ArrayList<>(List.of("java", "-Xmx1g", "-cp", classes, program));
    command.addAll(arguments);
    int code = new ProcessBuilder(command).inheritIO().start().waitFor();
    if (code != 0) System.exit(code);
  }
}
