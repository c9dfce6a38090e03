import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Checks that generated code is up to date, runs all tests, and builds the packages: {@code java
 * scripts/Check.java} in sdk/java. With --all there are 10,000 cycles in the search for leaks. The
 * environment's CRORE_MAVEN is the folder of Maven's packages, if it is not the usual;
 * CRORE_JDK_OLDEST and CRORE_JDK_NEWEST are homes of JDKs that run the tests, too.
 */
public class Check {
  public static void main(String[] arguments) throws Exception {
    int codes = run(List.of("java", "scripts/Codes.java", "--check"), new int[2], false);
    List<String> maven = new ArrayList<>(List.of("mvn", "-B", "-ntp", "-Dstyle.color=never"));
    String packages = System.getenv("CRORE_MAVEN");
    if (packages != null) maven.add("-Dmaven.repo.local=" + packages);
    for (String jdk : List.of("oldest", "newest")) {
      String home = System.getenv("CRORE_JDK_" + jdk.toUpperCase());
      if (home != null) maven.add("-Djdk." + jdk + "=" + home);
    }
    boolean isAll = List.of(arguments).contains("--all");
    // Two modules at a time: the tests wait more than they compute.
    maven.addAll(List.of("-T", "2", "package"));
    int[] counts = new int[2];
    int tests = run(maven, counts, isAll);
    if (tests != 0 && counts[1] == 0) counts[1]++;
    for (int code : new int[] {codes, tests == 0 ? run(List.of("java", "scripts/Packages.java"), counts, false) : 0}) {
      counts[code == 0 ? 0 : 1]++;
    }
    System.out.println(counts[0] + " passed, " + counts[1] + " failed");
    System.exit(counts[1] == 0 ? 0 : 1);
  }

  /** Runs a command and passes its output on; adds what its classes of tests report. */
  private static int run(List<String> command, int[] counts, boolean isAll) throws Exception {
    ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
    if (isAll) builder.environment().put("CRORE_CYCLES", "10000");
    Process process = builder.start();
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
