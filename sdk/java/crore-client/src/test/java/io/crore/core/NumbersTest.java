package io.crore.core;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.crore.internal.core.CoreSubscription;
import io.crore.internal.core.CoreSubscription.Request;
import io.crore.support.Hex;
import io.crore.support.TestCore;
import org.junit.jupiter.api.Test;

/** C11: epochs, offsets and tokens of PING have 64 bits. */
class NumbersTest {
  private static final String ALL = "ffffffffffffffffff01";

  @Test
  void c11EpochsOffsetsAndTokensHave64Bits() {
    TestCore it = new TestCore();
    it.core.start(0);
    CoreSubscription subscription = it.core.subscribe(0, new Request("a"));
    it.core.opened(0);
    it.core.received(0, Hex.bytes("81000100000000000000001900000000"));
    it.core.received(0, Hex.bytes("0700" + ALL));
    assertEquals("0800" + ALL, Hex.of(it.sent.get(it.sent.size() - 1)), "PONG");
    // From offset 0 to the last one.
    it.core.received(0, Hex.bytes("82000105" + ALL + "00"));
    it.core.received(0, Hex.bytes("840005" + ALL + ALL));
    assertEquals("18446744073709551615:18446744073709551615", subscription.report().position());
    assertEquals(1, subscription.report().messages());
  }
}
