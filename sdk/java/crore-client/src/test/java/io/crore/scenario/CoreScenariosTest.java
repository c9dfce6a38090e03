package io.crore.scenario;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;

/** Every scenario of spec/scenarios in core mode, and runs without a script. */
class CoreScenariosTest {
  @Test
  void everyScenarioPasses() throws Exception {
    Player player = Player.play("core", new CoreAdapter());
    System.out.printf(
        "core, Java %s: %d passed, %d failed, %d skipped%n",
        System.getProperty("java.version"), player.passed, player.failed, player.skipped);
    assertEquals(List.of(), player.failures);
    assertTrue(player.passed > 0 && player.skipped == 0);
  }

  @Test
  void randomRunsPass() throws Exception {
    Player player = Player.play("core", new CoreAdapter(), "--random", "300");
    System.out.printf("core, with 300 random runs: %d passed, %d failed%n", player.passed, player.failed);
    assertEquals(List.of(), player.failures);
  }
}
