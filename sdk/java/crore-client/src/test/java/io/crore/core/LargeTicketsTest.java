package io.crore.core;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;

import io.crore.internal.codec.ClientFrames.WireStart;
import io.crore.internal.codec.Place;
import io.crore.internal.core.CoreSubscription.Request;
import io.crore.internal.core.KeptTicket;
import io.crore.support.Hex;
import io.crore.support.TestCore;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;

/** R10: what is too large for a HELLO goes without the ticket. */
class LargeTicketsTest {
  /** The varint of a time far ahead. */
  private static final String EXPIRES = "80a8ee959b34";

  private static final int HELLO = 1;
  private static final int SUBSCRIBE = 2;

  @Test
  void r10ATicketIsPresentedWith250Cursors() {
    assertEquals(List.of(HELLO), opened(250));
  }

  @Test
  void r10WithMoreCursorsEverythingIsSubscribed() {
    assertEquals(List.of(HELLO, SUBSCRIBE), opened(251));
  }

  /** What is sent by a client that has a ticket with so many topics. */
  private static List<Integer> opened(int topics) {
    TestCore it = new TestCore();
    Map<Long, String> covers = new TreeMap<>();
    Map<Long, Map<Long, Place>> places = new TreeMap<>();
    for (long at = 1; at <= topics; at++) {
      covers.put(at, ":-1:t" + at);
      places.put(at, Map.of(-1L, new Place(7, at)));
    }
    it.core.restore(0, 1_000, new KeptTicket(new byte[] {1}, 60_000, covers, places));
    it.core.start(0);
    for (int at = 1; at <= topics; at++) {
      Request request = new Request("t" + at);
      request.start = WireStart.since(new Place(7, at));
      it.core.subscribe(0, request);
    }
    it.core.opened(1);
    return it.types();
  }

  @Test
  void r10AnIssuedTicketOf16KibIsKeptAndALongerOneIsNot() {
    assertNotNull(issued(16 * 1024));
    assertNull(issued(16 * 1024 + 1));
  }

  private static KeptTicket issued(int length) {
    TestCore it = live();
    issue(it, 1_000, EXPIRES, length);
    return it.tickets.get(0);
  }

  @Test
  void r10ATicketThatIsNotKeptLeavesTheTimeOfTheOlderOne() {
    TestCore it = live();
    issue(it, 1_000, EXPIRES, 100);
    it.core.subscribe(2_000, new Request("b"));
    it.core.received(2_000, Hex.bytes("82000206072a"));
    issue(it, 3_000, "05", 16 * 1024 + 1);
    KeptTicket first = it.tickets.get(0);
    for (KeptTicket kept : it.tickets) assertEquals(first.expiresMs, kept.expiresMs);
  }

  /** A client with a subscription. */
  private static TestCore live() {
    TestCore it = new TestCore();
    it.core.start(0);
    it.core.subscribe(0, new Request("a"));
    it.core.opened(0);
    // Tickets live for 300 s.
    it.core.received(0, Hex.bytes("8180010100000000000000000000000001" + "0e02ac02"));
    it.core.received(0, Hex.bytes("82000105072a"));
    return it;
  }

  /** The server's answer to the request that is due at this time. */
  private static void issue(TestCore it, long now, String expires, int length) {
    it.core.tick(now);
    byte[] ask = it.sent.get(it.sent.size() - 1);
    assertEquals(10, ask[0], "TICKET");
    StringBuilder frame = new StringBuilder("8e00" + Hex.of(new byte[] {ask[2]}) + expires);
    // The length in seven bits at a time.
    for (int left = length; ; left >>>= 7) {
      int part = left & 127;
      frame.append(String.format("%02x", left > 127 ? part | 128 : part));
      if (left <= 127) break;
    }
    it.core.received(now + 1, Hex.bytes(frame + "00".repeat(length)));
  }
}
