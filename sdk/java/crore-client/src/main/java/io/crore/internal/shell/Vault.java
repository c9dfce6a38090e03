package io.crore.internal.shell;

import io.crore.Storage;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;

/**
 * A client's storage: one thread, which ends while there is no work, stores in the order of the
 * calls. Of several values of one key that wait only the newest is written.
 */
public final class Vault {
  private static final long IDLE_SECONDS = 1;
  private static final long WAIT_SECONDS_MAX = 10;

  private final Storage storage;
  private final Consumer<Throwable> failed;
  private final ThreadPoolExecutor thread;
  /** Tasks that have not ended. The pool's own numbers miss one that a thread has just taken. */
  private final AtomicInteger pending = new AtomicInteger();
  /** Values that wait; null deletes. */
  private final Map<String, String> newest = new HashMap<>();

  /** {@code failed} gets the storage's exceptions. */
  public Vault(Storage storage, Consumer<Throwable> failed) {
    this.storage = storage;
    this.failed = failed;
    thread =
        new ThreadPoolExecutor(
            1,
            1,
            IDLE_SECONDS,
            TimeUnit.SECONDS,
            new LinkedBlockingQueue<>(),
            task -> {
              Thread it = new Thread(task, "crore-storage");
              it.setDaemon(true);
              return it;
            });
    thread.allowCoreThreadTimeOut(true);
  }

  /** Reads on the caller's thread. */
  public String get(String key) {
    try {
      return storage.get(key);
    } catch (Exception e) {
      throw new IllegalStateException("the storage cannot be read: " + e, e);
    }
  }

  /** Writes on the caller's thread, which must be that of {@link #execute}. */
  void set(String key, String value) {
    try {
      storage.set(key, value);
    } catch (Exception e) {
      throw new IllegalStateException("the storage has failed: " + e, e);
    }
  }

  /** Runs a task after all earlier ones. */
  public void execute(Runnable task) {
    pending.incrementAndGet();
    thread.execute(
        () -> {
          try {
            task.run();
          } catch (Throwable e) {
            failed.accept(e);
          } finally {
            pending.decrementAndGet();
          }
        });
  }

  /** Stores a value later, null for none. */
  public void save(String key, String value) {
    synchronized (newest) {
      boolean isPlanned = newest.containsKey(key);
      newest.put(key, value);
      if (isPlanned) return;
    }
    execute(() -> write(key));
  }

  private void write(String key) {
    String value;
    synchronized (newest) {
      value = newest.remove(key);
    }
    try {
      if (value == null) storage.delete(key);
      else storage.set(key, value);
    } catch (Exception e) {
      throw new IllegalStateException("the storage has failed: " + e, e);
    }
  }

  /** Waits until everything before is stored, for some seconds at most. */
  public void await() throws InterruptedException {
    if (pending.get() == 0) return;
    CountDownLatch done = new CountDownLatch(1);
    thread.execute(done::countDown);
    done.await(WAIT_SECONDS_MAX, TimeUnit.SECONDS);
  }
}
