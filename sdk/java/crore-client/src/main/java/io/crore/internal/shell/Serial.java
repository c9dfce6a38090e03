package io.crore.internal.shell;

import java.util.ArrayDeque;
import java.util.concurrent.Executor;
import java.util.function.Consumer;

/** Runs tasks one after the other on an executor; a task that throws harms no other one: X5. */
public final class Serial implements Executor {
  private final Executor executor;
  private final Consumer<Throwable> failed;
  private final ArrayDeque<Runnable> tasks = new ArrayDeque<>();
  private boolean isRunning;

  public Serial(Executor executor, Consumer<Throwable> failed) {
    this.executor = executor;
    this.failed = failed;
  }

  @Override
  public void execute(Runnable task) {
    synchronized (tasks) {
      tasks.add(task);
      if (isRunning) return;
      isRunning = true;
    }
    executor.execute(this::run);
  }

  private void run() {
    for (; ; ) {
      Runnable task;
      synchronized (tasks) {
        task = tasks.poll();
        if (task == null) {
          isRunning = false;
          return;
        }
      }
      try {
        task.run();
      } catch (Throwable e) {
        failed.accept(e);
      }
    }
  }
}
