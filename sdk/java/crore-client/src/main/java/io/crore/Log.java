package io.crore;

import java.util.Map;

/** Gets the events of the log, on the client's executor; never a token, a ticket or a payload. */
@FunctionalInterface
public interface Log {
  /**
   * An event.
   *
   * @param level how important it is
   * @param event its name, which stays the same in all versions
   * @param fields its details
   */
  void event(Level level, String event, Map<String, Object> fields);
}
