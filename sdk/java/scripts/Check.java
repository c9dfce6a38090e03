import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Checks that generated code is up to date, and runs all tests: {@code java scripts/Check.java} in
 * sdk/java. The environment's CRORE_MAVEN is the folder of Maven's packages, if it is not the usual.
 */
public class Check {
  public static void main(String[] arguments) throws Exception {
    int codes = run(List.of("java", "scripts/Codes.java", "--check"), new int[2]);
    List<String> maven = new ArrayList<>(List.of("mvn", "-B", "-ntp", "-Dstyle.color=never"));
    String packages = System.getenv("CRORE_MAVEN");
    if (packages != null) maven.add("-Dmaven.repo.local=" + packages);
    maven.add("package");
    int[] counts = new int[2];
    int tests = run(maven, counts);
    int failed = counts[1] + (codes == 0 ? 0 : 1);
    if (tests != 0 && counts[1] == 0) failed++;
    System.out.println(counts[0] + (codes == 0 ? 1 : 0) + " passed, " + failed + " failed");
    System.exit(failed == 0 ? 0 : 1);
  }

  /** Runs a command and passes its output on; adds what its classes of tests report. */
  private static int run(List<String> command, int[] counts) throws Exception {
    Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
    Pattern total =
        Pattern.compile(".*Tests run: (\\d+), Failures: (\\d+), Errors: (\\d+), Skipped: \\d+, Time.*");
    try (BufferedReader lines = new BufferedReader(new InputStreamReader(process.getInputStream()))) {
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        System.out.println(line);
        Matcher matcher = total.matcher(line);
        if (!matcher.matches()) continue;
        int failed = Integer.parseInt(matcher.group(2)) + Integer.parseInt(matcher.group(3));
        counts[0] += Integer.parseInt(matcher.group(1)) - failed;
        counts[1] += failed;
      }
    }
    return process.waitFor();
  }
}
