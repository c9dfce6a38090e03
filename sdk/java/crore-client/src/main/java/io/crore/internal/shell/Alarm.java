package io.crore.internal.shell;

import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** One thread for the timers of all clients; it ends when no timer is left. */
public final class Alarm {
  private static final ScheduledThreadPoolExecutor TIMERS = timers();

  private final Runnable task;
  private ScheduledFuture<?> planned;
  private long plannedAt = Long.MAX_VALUE;

  public Alarm(Runnable task) {
    this.task = task;
  }

  private static ScheduledThreadPoolExecutor timers() {
    ScheduledThreadPoolExecutor timers =
        new ScheduledThreadPoolExecutor(
            1,
            task -> {
              Thread thread = new Thread(task, "crore-timer");
              thread.setDaemon(true);
              return thread;
            });
    timers.setRemoveOnCancelPolicy(true);
    timers.setKeepAliveTime(10, TimeUnit.SECONDS);
    timers.allowCoreThreadTimeOut(true);
    return timers;
  }

  /** Milliseconds of a clock that never jumps. */
  public static long now() {
    return System.nanoTime() / 1_000_000;
  }

  /** Rings at this time at the latest; an earlier ring is left as it is. */
  public void ringAt(long at) {
    if (at >= plannedAt) return;
    cancel();
    plannedAt = at;
    planned = TIMERS.schedule(task, Math.max(0, at - now()), TimeUnit.MILLISECONDS);
  }

  /** The task has begun: a new ring may be planned. */
  public void rung() {
    plannedAt = Long.MAX_VALUE;
  }

  public void cancel() {
    if (planned != null) planned.cancel(false);
    plannedAt = Long.MAX_VALUE;
  }
}
