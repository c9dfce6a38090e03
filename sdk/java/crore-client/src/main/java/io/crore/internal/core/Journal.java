package io.crore.internal.core;

import io.crore.Level;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** X6: the last events of the log, and counters. Never a token, a ticket or a payload. */
final class Journal {
  private static final int EVENTS_MAX = 64;

  private final Outputs outputs;
  private final ArrayDeque<Map<String, Object>> events = new ArrayDeque<>();
  long connections;
  long messages;
  long duplicates;
  long unexpected;
  long gaps;
  long skips;
  long repeated;

  Journal(Outputs outputs) {
    this.outputs = outputs;
  }

  /** {@code fields}: names and values in turn; null values are left out. */
  void note(long now, Level level, String event, Object... fields) {
    Map<String, Object> map = new LinkedHashMap<>();
    for (int at = 0; at < fields.length; at += 2) {
      if (fields[at + 1] != null) map.put((String) fields[at], fields[at + 1]);
    }
    Map<String, Object> kept = new LinkedHashMap<>();
    kept.put("at", now);
    kept.put("event", event);
    kept.putAll(map);
    if (events.size() == EVENTS_MAX) events.poll();
    events.add(kept);
    outputs.log(level, event, Collections.unmodifiableMap(map));
  }

  /** C9: a frame about nothing. */
  void unexpected(long now, String frame) {
    unexpected++;
    note(now, Level.DEBUG, "unexpected_frame", "type", frame);
  }

  List<Map<String, Object>> events() {
    return new ArrayList<>(events);
  }

  Map<String, Object> counters() {
    Map<String, Object> map = new LinkedHashMap<>();
    map.put("connections", connections);
    map.put("messages", messages);
    map.put("duplicates", duplicates);
    map.put("unexpected", unexpected);
    map.put("gaps", gaps);
    map.put("skips", skips);
    map.put("repeated", repeated);
    return map;
  }
}
