package io.crore.scenario;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.crore.android.OkHttpTransport;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Every scenario of wire mode, over OkHttp's WebSocket. */
class OkHttpScenariosTest {
  @Test
  void everyScenarioPasses() throws Exception {
    OkHttpTransport transport = new OkHttpTransport();
    Player player = Player.playTogether("wire", () -> new WireAdapter(transport));
    System.out.printf("wire, OkHttp: %d passed, %d failed, %d skipped%n", player.passed, player.failed, player.skipped);
    assertEquals(List.of(), player.failures);
    assertTrue(player.passed > 0 && player.skipped == 0);
  }
}
