package io.crore.support;

import io.crore.Crore;
import io.crore.Item;
import io.crore.PublishOptions;
import io.crore.SubscribeOptions;
import io.crore.Subscription;
import io.crore.transport.Transport;
import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/**
 * Cycles of connect, subscribe and close: nothing may hold a client that is closed, no thread may be
 * left. The environment's CRORE_CYCLES says how many; a few are enough to notice what each one leaves.
 */
public final class Leaks {
  private static final int CYCLES = 300;
  private static final long WAIT_NANOS = TimeUnit.SECONDS.toNanos(120);
  /** Threads of pools that are shared and stay for a while; each cycle has at least one of its own. */
  private static final int THREADS_MAX = 40;

  private Leaks() {}

  /** Fails if something is left. */
  public static void check(Node node, Transport transport) throws Exception {
    String given = System.getenv("CRORE_CYCLES");
    int cycles = given == null ? CYCLES : Integer.parseInt(given);
    cycle(node, transport, 0);
    int before = threads().size();
    List<WeakReference<Object>> clients = new ArrayList<>();
    for (int at = 0; at < cycles; at++) clients.add(cycle(node, transport, at));
    long until = System.nanoTime() + WAIT_NANOS;
    for (; ; ) {
      System.gc();
      clients.removeIf(it -> it.get() == null);
      if (clients.isEmpty() && threads().size() <= Math.max(before, THREADS_MAX)) break;
      if (System.nanoTime() > until) throw new AssertionError(clients.size() + " clients are held, threads: " + threads());
      Thread.sleep(100);
    }
    System.out.printf("leaks: %d cycles, %d threads before and %d after%n", cycles, before, threads().size());
  }

  private static List<String> threads() {
    List<String> names = new ArrayList<>();
    for (Thread it : Thread.getAllStackTraces().keySet()) names.add(it.getName());
    return names;
  }

  /** One client, with everything that could be left open. */
  private static WeakReference<Object> cycle(Node node, Transport transport, int at) throws Exception {
    Crore client = Crore.builder(node.url()).transport(transport).log((level, event, fields) -> {}).build();
    Subscription read = client.subscribe("leaks/" + at % 7);
    client.subscribe("leaks/#").listen(item -> {});
    client.onState(state -> {});
    CompletableFuture<Item> next = client.subscribe("never").nextAsync();
    if (at % 3 > 0) {
      Item item = read.next(90, TimeUnit.SECONDS);
      if (item == null) throw new AssertionError("not granted");
      client.publish("leaks/" + at % 7, "x", PublishOptions.none().once()).get(90, TimeUnit.SECONDS);
    }
    if (at % 2 == 0) client.subscribe("more", SubscribeOptions.last(2)).close();
    // Open at the end: settled by it.
    client.publish("leaks/0", "unanswered");
    client.closeAsync(at % 5 == 0 ? 0 : 1_000, TimeUnit.MILLISECONDS).get(90, TimeUnit.SECONDS);
    if (at % 3 == 0) next.cancel(false);
    return new WeakReference<>(client);
  }
}
