package io.crore.core;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.crore.CroreException;
import io.crore.Level;
import io.crore.State;
import io.crore.TokenReason;
import io.crore.internal.core.Backoff;
import io.crore.internal.core.Call;
import io.crore.internal.core.Core;
import io.crore.internal.core.CoreSubscription;
import io.crore.internal.core.Outputs;
import io.crore.internal.core.Settings;
import io.crore.support.Hex;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** What the core does with what comes far too late: its timer (L5), and a token (X1). */
class LateTimersTest {
  /** WELCOME with a ping interval of 25 s: silence of 35 s is too long. */
  private static final String WELCOME = "81000101000000000000001900000000";

  private final List<String> acts = new ArrayList<>();
  private long askedId;

  @Test
  void l5ATimerThatSleptGrantsAWholeDeadline() {
    Core core = live();
    core.tick(500_000);
    assertEquals(List.of("send 07"), acts, "the first is PING, not the end");
    acts.clear();
    core.tick(900_000);
    assertEquals(List.of("send 07"), acts, "twice too late again: another PING");
    acts.clear();
    core.tick(934_999);
    assertEquals(List.of(), acts);
    core.tick(935_000);
    assertEquals(List.of("close 1006"), acts);
    assertEquals("idle", core.state().reason());
  }

  @Test
  void x1ATokenAfterTheCloseOpensNothing() {
    for (boolean fails : List.of(false, true)) {
      Settings settings = settings();
      settings.hasTokenSource = true;
      Core core = new Core(settings, new Acts());
      core.start(0);
      core.close(0, 0);
      core.tick(1);
      assertEquals(State.Kind.CLOSED, core.state().kind());
      acts.clear();
      if (fails) core.tokenFailed(2, askedId, false);
      else core.token(2, askedId, "late");
      assertEquals(List.of(), acts);
      assertEquals(State.Kind.CLOSED, core.state().kind());
    }
  }

  private static Settings settings() {
    Settings settings = new Settings();
    settings.urls.add("a");
    settings.producerId = new byte[16];
    settings.random = () -> 0.5;
    settings.backoff = new Backoff(500, 30_000, 10_000, settings.random);
    return settings;
  }

  private Core live() {
    Core core = new Core(settings(), new Acts());
    core.start(0);
    core.opened(0);
    core.received(0, Hex.bytes(WELCOME));
    assertEquals(State.Kind.LIVE, core.state().kind());
    acts.clear();
    return core;
  }

  private final class Acts implements Outputs {
    @Override
    public void connect(String url) {
      acts.add("connect");
    }

    @Override
    public void send(byte[] frame) {
      acts.add("send " + Hex.of(frame).substring(0, 2));
    }

    @Override
    public void close(int code) {
      acts.add("close " + code);
    }

    @Override
    public void askForToken(long id, TokenReason reason) {
      askedId = id;
    }

    @Override
    public void settled(Call call, CroreException error, Object value) {}

    @Override
    public void state(State state) {}

    @Override
    public void items(CoreSubscription of) {}

    @Override
    public void refused(CroreException error) {}

    @Override
    public void log(Level level, String event, Map<String, Object> fields) {}
  }
}
