package io.crore.support;

import io.crore.CroreException;
import io.crore.Level;
import io.crore.State;
import io.crore.TokenReason;
import io.crore.internal.core.Backoff;
import io.crore.internal.core.Call;
import io.crore.internal.core.Core;
import io.crore.internal.core.CoreSubscription;
import io.crore.internal.core.KeptTicket;
import io.crore.internal.core.Outputs;
import io.crore.internal.core.Settings;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** A core that is driven by hand; keeps what it asks of its socket. */
public final class TestCore implements Outputs {
  public final List<byte[]> sent = new ArrayList<>();
  public final List<KeptTicket> tickets = new ArrayList<>();
  public final Core core;

  public TestCore() {
    Settings settings = new Settings();
    settings.urls.add("a");
    settings.producerId = new byte[16];
    settings.random = () -> 0.5;
    settings.backoff = new Backoff(500, 30_000, 10_000, settings.random);
    core = new Core(settings, this);
  }

  /** The first bytes of all that was sent: the types of frames. */
  public List<Integer> types() {
    List<Integer> types = new ArrayList<>();
    for (byte[] it : sent) types.add((int) it[0]);
    return types;
  }

  @Override
  public void connect(String url) {}

  @Override
  public void send(byte[] frame) {
    sent.add(frame);
  }

  @Override
  public void close(int code) {}

  @Override
  public void askForToken(long id, TokenReason reason) {}

  @Override
  public void settled(Call call, CroreException error, Object value) {}

  @Override
  public void state(State state) {}

  @Override
  public void items(CoreSubscription of) {}

  @Override
  public void ticket(KeptTicket ticket) {
    tickets.add(ticket);
  }

  @Override
  public void refused(CroreException error) {}

  @Override
  public void log(Level level, String event, Map<String, Object> fields) {}
}
