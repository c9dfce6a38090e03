package io.crore.core;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.crore.Crore;
import io.crore.support.Hex;
import io.crore.transport.Transport;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** U15: above 1 MiB of unsent bytes, sending waits. */
class UnsentBytesTest {
  /** WELCOME, in which messages have at most 1 MiB. */
  private static final byte[] WELCOME = Hex.bytes("8100010100000000000000" + "000000" + "808040" + "00");

  /** A socket that sends when the test says so. */
  private static final class Socket implements Transport, Transport.Connection {
    final List<byte[]> unsent = new ArrayList<>();
    Events events;

    @Override
    public Connection connect(String url, Events its) {
      events = its;
      return this;
    }

    @Override
    public void send(byte[] message) {
      unsent.add(message);
    }

    @Override
    public long unsentBytes() {
      return unsent.stream().mapToLong(it -> it.length).sum();
    }

    @Override
    public void close(int code) {}

    int publications() {
      return (int) unsent.stream().filter(it -> it[0] == 4).count();
    }
  }

  @Test
  void u15SendingWaitsWhileTheSocketHasMoreThan1MibToSend() throws Exception {
    Socket socket = new Socket();
    Crore client = Crore.builder("ws://a").transport(socket).build();
    socket.events.opened();
    socket.events.received(WELCOME);
    client.ready().get(90, TimeUnit.SECONDS);
    byte[] payload = new byte[400_000];
    for (int at = 0; at < 6; at++) client.publish("a", payload);
    assertEquals(3, socket.publications(), "1.2 MB, which is more than 1 MiB");
    socket.unsent.clear();
    socket.events.drained();
    assertEquals(3, socket.publications(), "and the others when it is sent");
    client.closeAsync(0, TimeUnit.SECONDS).get(90, TimeUnit.SECONDS);
  }
}
