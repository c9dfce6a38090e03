package io.crore.scenario;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.crore.transport.JdkTransport;
import java.util.List;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;

/** Every scenario of wire mode, over the JDK's WebSocket. */
class WireScenariosTest {
  @Test
  void everyScenarioPasses() throws Exception {
    Player player = Player.playTogether("wire", () -> new WireAdapter(new JdkTransport()));
    List<String> failures =
        player.failures.stream().filter(it -> !isOfTheJdk(it)).collect(Collectors.toList());
    System.out.printf(
        "wire: %d passed, %d differ by the JDK, %d failed, %d skipped%n",
        player.passed, player.failures.size() - failures.size(), failures.size(), player.skipped);
    assertEquals(List.of(), failures);
    assertTrue(player.passed > 0);
  }

  /** The JDK has no way to send 1002 (C8), and tries a handshake that breaks off once more by itself. */
  private static boolean isOfTheJdk(String failure) {
    boolean isRetry = failure.startsWith("\"close without a connection ends at once\"");
    return failure.contains("came 3500") || isRetry && failure.contains("the client connects to a");
  }
}
