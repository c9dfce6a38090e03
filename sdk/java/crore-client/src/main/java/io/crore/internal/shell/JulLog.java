package io.crore.internal.shell;

import io.crore.Level;
import io.crore.Log;
import java.util.Map;
import java.util.logging.Logger;

/** X6: the events of the log, for the JDK's logger {@code io.crore}. */
public final class JulLog implements Log {
  private static final Logger LOGGER = Logger.getLogger("io.crore");

  @Override
  public void event(Level level, String event, Map<String, Object> fields) {
    java.util.logging.Level theirs = levelOf(level);
    if (LOGGER.isLoggable(theirs)) LOGGER.log(theirs, event + " " + fields);
  }

  private static java.util.logging.Level levelOf(Level level) {
    switch (level) {
      case ERROR:
        return java.util.logging.Level.SEVERE;
      case WARN:
        return java.util.logging.Level.WARNING;
      case INFO:
        return java.util.logging.Level.FINE;
      default:
        return java.util.logging.Level.FINER;
    }
  }
}
