package io.crore.server;

import static io.crore.support.Reading.answer;
import static io.crore.support.Reading.granted;
import static io.crore.support.Reading.texts;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.crore.Crore;
import io.crore.CroreBuilder;
import io.crore.CroreException;
import io.crore.Subscription;
import io.crore.TokenReason;
import io.crore.TokenSource;
import io.crore.support.Events;
import io.crore.support.Node;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Tokens, with a node that wants them. */
@Timeout(400)
class TokensTest {
  private static CroreBuilder builder(Node node) {
    return Crore.builder(node.url()).backoff(20, 200, 10_000, TimeUnit.MILLISECONDS);
  }

  /** Gives tokens in turn, the last one again and again. */
  private static final class Source implements TokenSource {
    final List<TokenReason> reasons = Collections.synchronizedList(new ArrayList<>());
    private final List<String> tokens;

    Source(String... tokens) {
      this.tokens = new ArrayList<>(Arrays.asList(tokens));
    }

    @Override
    public synchronized String token(TokenReason reason) {
      reasons.add(reason);
      return tokens.size() > 1 ? tokens.remove(0) : tokens.get(0);
    }
  }

  private static CroreException ended(Crore client) {
    ExecutionException error = assertThrows(ExecutionException.class, () -> client.ready().get(90, TimeUnit.SECONDS));
    return (CroreException) error.getCause();
  }

  @Test
  void aTokenGivesThePermissionsThatItHas() throws Exception {
    try (Node node = Node.guarded()) {
      Source source = new Source(node.token("3h", "a", "--all", "mine/#"));
      try (Crore client = builder(node).token(source).build()) {
        answer(client.publish("mine/x", "yes"));
        assertEquals(List.of(TokenReason.FIRST), source.reasons);
        ExecutionException refused = assertThrows(ExecutionException.class, () -> answer(client.publish("other", "no")));
        assertEquals("forbidden", ((CroreException) refused.getCause()).name());
        Subscription other = client.subscribe("other");
        CroreException error = assertThrows(CroreException.class, () -> other.next(90, TimeUnit.SECONDS));
        assertEquals("forbidden", error.name());
        assertFalse(error.temporary());
      }
    }
  }

  @Test
  void t7ARefusedTokenIsAskedForOnceMore() throws Exception {
    try (Node node = Node.guarded();
        Crore fixed = builder(node).token("not.a.token").build()) {
      assertEquals(CroreException.CLOSED, ended(fixed).name());
      Source bad = new Source("not.a.token");
      try (Crore client = builder(node).token(bad).build()) {
        assertEquals(CroreException.CLOSED, ended(client).name());
        assertEquals(List.of(TokenReason.FIRST, TokenReason.REFUSED), bad.reasons);
      }
      Source second = new Source("not.a.token", node.token("3h", "a", "--all", "#"));
      try (Crore client = builder(node).token(second).build()) {
        client.ready().get(90, TimeUnit.SECONDS);
      }
    }
  }

  @Test
  void t9ASourceThatThrowsIsAskedAgain() throws Exception {
    AtomicInteger calls = new AtomicInteger();
    try (Node node = Node.guarded()) {
      String good = node.token("3h", "a", "--all", "#");
      TokenSource failing =
          reason -> {
            int call = calls.incrementAndGet();
            if (call == 1) throw new IOException("the network is down");
            if (call == 2) throw new StackOverflowError("a mistake");
            return good;
          };
      try (Crore client = builder(node).token(failing).build()) {
        client.ready().get(90, TimeUnit.SECONDS);
        assertEquals(3, calls.get());
      }
    }
  }

  @Test
  void t9UnauthorizedOfTheSourceIsFinal() throws Exception {
    TokenSource refusing =
        reason -> {
          throw new CroreException(CroreException.UNAUTHORIZED, "log in again");
        };
    try (Crore client = Crore.builder("ws://127.0.0.1:9").token(refusing).build()) {
      assertEquals(CroreException.CLOSED, ended(client).name());
      assertEquals("token", client.state().reason());
    }
  }

  @Test
  void t2t11ATokenIsRenewedInPlaceAndNeverShown() throws Exception {
    Events events = new Events();
    try (Node node = Node.guarded()) {
      String brief = node.token("1h", "b", "--all", "#");
      Source source = new Source(brief, node.token("3h", "b", "--all", "#"));
      try (Crore client = builder(node).token(source).log(events).build()) {
        Subscription subscription = client.subscribe("s");
        granted(subscription);
        events.await("token_renewed");
        answer(client.publish("s", "x"));
        assertEquals(List.of("x"), texts(subscription, 1));
        assertTrue(subscription.report().complete());
        assertEquals(List.of(TokenReason.FIRST, TokenReason.EXPIRES), source.reasons);
        assertEquals(1, events.count("connected"));
        // Every token begins with these letters.
        assertFalse((events.text() + client.inspect()).contains("eyJ"));
      }
    }
  }
}
