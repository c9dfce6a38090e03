package io.crore.support;

import io.crore.Level;
import io.crore.Log;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** Keeps the events of a client's log. */
public final class Events implements Log {
  private static final long SECONDS = 90;

  private final List<String> names = new ArrayList<>();
  private final List<String> lines = new ArrayList<>();

  @Override
  public synchronized void event(Level level, String event, Map<String, Object> fields) {
    names.add(event);
    lines.add(event + " " + fields);
    notifyAll();
  }

  /** Waits until an event of this name has come. */
  public void await(String name) throws InterruptedException {
    await(name, 1);
  }

  /** Waits until so many events of this name have come. */
  public synchronized void await(String name, int count) throws InterruptedException {
    long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(SECONDS);
    while (count(name) < count) {
      long left = TimeUnit.NANOSECONDS.toMillis(until - System.nanoTime());
      if (left <= 0) throw new AssertionError("there is no " + name + " among " + lines);
      wait(left);
    }
  }

  /** How many events of this name came. */
  public synchronized int count(String name) {
    int count = 0;
    for (String it : names) if (it.equals(name)) count++;
    return count;
  }

  /** All events with their fields. */
  public synchronized String text() {
    return lines.toString();
  }
}
