package io.crore;

import java.util.List;

/** One page of a topic's history. */
public final class Page {
  private final List<Message> messages;
  private final boolean more;
  private final Gap gap;

  /**
   * A page.
   *
   * @param messages its messages
   * @param more whether further ones follow
   * @param gap a range before the first message that is gone, or null
   */
  public Page(List<Message> messages, boolean more, Gap gap) {
    this.messages = messages;
    this.more = more;
    this.gap = gap;
  }

  /** @return the messages, in the direction of the request */
  public List<Message> messages() {
    return messages;
  }

  /** @return whether further messages follow in this direction */
  public boolean more() {
    return more;
  }

  /** @return a range before the first message that is gone; null if there is none */
  public Gap gap() {
    return gap;
  }
}
