package io.crore.server;

import io.crore.support.Leaks;
import io.crore.support.Node;
import io.crore.transport.JdkTransport;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.parallel.Isolated;

/** Closed clients leave nothing behind. */
@Timeout(900)
@Isolated
class LeaksTest {
  @Test
  void closedClientsLeaveNothing() throws Exception {
    try (Node node = Node.start(Node.ON_DISK)) {
      Leaks.check(node, new JdkTransport());
    }
  }
}
