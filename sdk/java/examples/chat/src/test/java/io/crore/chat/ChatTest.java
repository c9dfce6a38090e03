package io.crore.chat;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.crore.Crore;
import io.crore.CroreBuilder;
import io.crore.FileStorage;
import io.crore.android.OkHttpTransport;
import io.crore.support.Node;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Two users, and ends of the node and of a program between: nothing is missed, nothing comes twice. */
@Timeout(400)
class ChatTest {
  @TempDir Path folder;

  /** Keeps what is shown. */
  private static final class Shown implements View {
    final LinkedBlockingQueue<String> lines = new LinkedBlockingQueue<>();

    @Override
    public void line(Line line) {
      lines.add(line.toString());
    }

    @Override
    public void missing() {
      lines.add("missing");
    }

    @Override
    public void unsent(String text, String why) {
      lines.add("unsent: " + text);
    }

    @Override
    public void state(String state) {}

    List<String> take(int count) throws InterruptedException {
      List<String> taken = new ArrayList<>();
      while (taken.size() < count) {
        String line = lines.poll(90, TimeUnit.SECONDS);
        assertNotNull(line, () -> "after " + taken);
        taken.add(line);
      }
      return taken;
    }
  }

  private Room room(Node node, String user, View view) {
    CroreBuilder builder = Crore.builder(node.url()).transport(new OkHttpTransport());
    builder.backoff(20, 200, 10_000, TimeUnit.MILLISECONDS);
    return new Room(builder, new FileStorage(folder.resolve(user).toFile()), "tea", user, view);
  }

  @Test
  void twoUsersSeeTheSameLinesOverRestartsOfNodeAndProgram() throws Exception {
    Shown ada = new Shown();
    Shown bob = new Shown();
    List<String> said = new ArrayList<>();
    List<String> seen = new ArrayList<>();
    List<String> seenByBob = new ArrayList<>();
    try (Node node = Node.start(Node.ON_DISK);
        Room hers = room(node, "ada", ada)) {
      Room his = room(node, "bob", bob);
      hers.say("hello");
      said.add("ada: hello");
      seen.addAll(ada.take(1));
      seenByBob.addAll(bob.take(1));
      // The node ends, and both go on.
      node.kill();
      for (int at = 0; at < 20; at++) {
        hers.say("h" + at);
        his.say("b" + at);
        said.add("ada: h" + at);
        said.add("bob: b" + at);
        if (at == 10) node.start();
      }
      seen.addAll(ada.take(40));
      seenByBob.addAll(bob.take(40));
      assertTrue(his.isComplete());
      // Bob's program ends, and what is said meanwhile waits for the next one.
      his.close();
      hers.say("are you there?");
      said.add("ada: are you there?");
      seen.addAll(ada.take(1));
      try (Room again = room(node, "bob", bob)) {
        again.say("yes");
        said.add("bob: yes");
        seen.addAll(ada.take(1));
        // The last line that was shown may come again: only the next one tells that it was shown.
        List<String> more = bob.take(2);
        if (more.get(0).equals(seenByBob.get(seenByBob.size() - 1))) more = List.of(more.get(1), bob.take(1).get(0));
        seenByBob.addAll(more);
        assertTrue(again.isComplete() && hers.isComplete());
      }
    }
    assertEquals(new TreeSet<>(said), new TreeSet<>(seen));
    assertEquals(said.size(), seen.size());
    assertEquals(seen, seenByBob);
    assertTrue(ada.lines.isEmpty() && bob.lines.isEmpty());
  }
}
