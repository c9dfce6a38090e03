package io.crore;

/**
 * What the reader of a subscription gets, in the log's order: a {@link Message}, a {@link Gap}, a
 * {@link Skipped} or a {@link CaughtUp}. {@link #kind()} says which.
 */
public interface Item {
  /** The kinds of items. */
  enum Kind {
    /** {@link Message}: one message. */
    MESSAGE,
    /** {@link Gap}: messages are missing. */
    GAP,
    /** {@link Skipped}: messages were left out on purpose. */
    SKIPPED,
    /** {@link CaughtUp}: everything up to a position is settled. */
    CAUGHT_UP
  }

  /** @return which class this item has */
  Kind kind();

  /** @return the partition of the item's positions; -1 for a subscription to a topic */
  long partition();
}
