package io.crore;

/** Handles the items of a subscription: on the client's executor, one call at a time. */
@FunctionalInterface
public interface Listener {
  /**
   * The next item.
   *
   * @param item the item
   * @throws Exception is logged, and harms nothing else
   */
  void item(Item item) throws Exception;

  /**
   * The subscription has ended; no item follows.
   *
   * @param error the refusal of the server, or null if the application has ended it
   */
  default void ended(CroreException error) {}
}
