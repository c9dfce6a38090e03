import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;

/** Checks the packages as they would be published: {@code java scripts/Packages.java} in sdk/java, after the build. */
public class Packages {
  private static final String VERSION = "0.1.0";
  private static int passed;
  private static int failed;

  public static void main(String[] arguments) throws Exception {
    for (String artifact : List.of("crore-client", "crore-android", "crore-kotlin")) {
      for (String kind : List.of("", "-sources", "-javadoc")) {
        Path jar = Path.of(artifact, "target", artifact + "-" + VERSION + kind + ".jar");
        check(jar.getFileName() + " is there", Files.exists(jar));
        if (Files.exists(jar)) contents(artifact, kind, jar);
      }
      check(artifact + " has a licence and an address", published(Files.readString(Path.of(artifact, "pom.xml"))));
    }
    String client = Files.readString(Path.of("crore-client/pom.xml"));
    check("crore-client has no dependency but those of tests", count(client, "<dependency>") == count(client, "<scope>test</scope>"));
    String bom = Files.readString(Path.of("crore-bom/pom.xml"));
    check("the list of versions has all three", count(bom, "<dependency>") == 3);
    System.out.println("packages: " + passed + " checks, " + failed + " failed");
    System.exit(failed == 0 ? 0 : 1);
  }

  private static void contents(String artifact, String kind, Path jar) throws Exception {
    try (ZipFile zip = new ZipFile(jar.toFile())) {
      Set<Long> times = new TreeSet<>();
      List<String> names = new ArrayList<>();
      for (ZipEntry it : (Iterable<ZipEntry>) zip.stream().map(it -> (ZipEntry) it)::iterator) {
        times.add(it.getTime());
        names.add(it.getName());
      }
      // Dokka's javadoc has the time of its build; all else is equal in each build.
      boolean isOfDokka = artifact.equals("crore-kotlin") && kind.equals("-javadoc");
      check(jar.getFileName() + " has one time for all", isOfDokka || times.size() == 1);
      if (kind.equals("-sources")) check(artifact + " brings its sources", names.stream().anyMatch(Packages::isSource));
      if (kind.equals("-javadoc")) check(artifact + " brings its documentation", names.contains("index.html"));
      if (!kind.isEmpty()) return;
      boolean isForeign = names.stream().anyMatch(it -> it.endsWith(".class") && !it.contains("io/crore/") && !it.equals("module-info.class"));
      check(artifact + " has no foreign class", !isForeign);
      boolean needsRules = !artifact.equals("crore-kotlin");
      check(artifact + " brings rules for R8", !needsRules || names.stream().anyMatch(it -> it.startsWith("META-INF/proguard/")));
      if (artifact.equals("crore-client")) check("crore-client is a module", names.contains("module-info.class"));
    }
  }

  private static boolean isSource(String name) {
    return name.endsWith(".java") || name.endsWith(".kt");
  }

  private static boolean published(String pom) throws Exception {
    String parent = Files.readString(Path.of("pom.xml"));
    boolean isOfParent = pom.contains("<artifactId>crore-parent</artifactId>");
    return isOfParent && pom.contains("<description>") && parent.contains("<licenses>") && parent.contains("<scm>");
  }

  private static int count(String text, String part) {
    return text.split(java.util.regex.Pattern.quote(part), -1).length - 1;
  }

  private static void check(String what, boolean is) {
    if (is) passed++;
    else failed++;
    System.out.println((is ? "ok " : "FAILED ") + what);
  }
}
