package io.crore.internal.codec;

import java.nio.charset.StandardCharsets;

/** Topics and filters: lengths, wildcards, and which filter matches which topic. */
public final class Topics {
  private static final int BYTES_MAX = 255;

  private Topics() {}

  /** S3: whether a name has 1 to 255 bytes. */
  public static boolean hasLength(String name) {
    int length = name.length();
    if (length == 0 || length > BYTES_MAX) return false;
    return length * 3 <= BYTES_MAX || name.getBytes(StandardCharsets.UTF_8).length <= BYTES_MAX;
  }

  /** Whether a name is a filter with wildcards. */
  public static boolean isFilter(String name) {
    for (int from = 0; from <= name.length(); ) {
      int to = endOfLevel(name, from);
      if (to - from == 1 && (name.charAt(from) == '+' || name.charAt(from) == '#')) return true;
      from = to + 1;
    }
    return false;
  }

  /**
   * Whether a filter matches a topic: {@code +} matches any one level, a last {@code #} the parent
   * and everything below, and a filter that begins with a wildcard no topic that begins with
   * {@code $}.
   */
  public static boolean matches(String filter, String topic) {
    if (topic.startsWith("$") && (filter.startsWith("+") || filter.startsWith("#"))) return false;
    int at = 0;
    int from = 0;
    while (from <= filter.length()) {
      int to = endOfLevel(filter, from);
      boolean isOne = to - from == 1;
      if (isOne && filter.charAt(from) == '#') return true;
      if (at > topic.length()) return false;
      int end = endOfLevel(topic, at);
      boolean isAny = isOne && filter.charAt(from) == '+';
      if (!isAny && (end - at != to - from || !filter.regionMatches(from, topic, at, to - from))) return false;
      at = end + 1;
      from = to + 1;
    }
    return at > topic.length();
  }

  private static int endOfLevel(String name, int from) {
    int slash = name.indexOf('/', from);
    return slash < 0 ? name.length() : slash;
  }
}
