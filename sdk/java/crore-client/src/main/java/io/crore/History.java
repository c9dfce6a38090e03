package io.crore;

import java.util.ArrayDeque;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.concurrent.CompletionException;

/** H2: the messages of a topic's log, page by page. */
final class History implements Iterator<Message> {
  private final Crore client;
  private final String topic;
  private final boolean isReverse;
  private final boolean throwsGaps;
  private String position;
  private long left;
  private boolean isOver;
  private final ArrayDeque<Message> page = new ArrayDeque<>();

  History(Crore client, String topic, HistoryOptions options) {
    this.client = client;
    this.topic = topic;
    isReverse = options.isReverse();
    throwsGaps = options.throwsGaps();
    position = options.position();
    left = options.count();
  }

  @Override
  public boolean hasNext() {
    while (page.isEmpty() && !isOver) fetch();
    return !page.isEmpty();
  }

  private void fetch() {
    Page next;
    try {
      next = client.historyPage(topic, position, isReverse, (int) Math.max(left, 0)).join();
    } catch (CompletionException e) {
      if (e.getCause() instanceof CroreException) throw (CroreException) e.getCause();
      throw e;
    }
    page.addAll(next.messages());
    if (left > 0) left -= next.messages().size();
    isOver = !next.more() || next.messages().isEmpty() || left == 0;
    if (!page.isEmpty()) position = page.peekLast().position();
    if (next.gap() != null && throwsGaps) throw new GapException(next.gap());
  }

  @Override
  public Message next() {
    if (!hasNext()) throw new NoSuchElementException();
    return page.poll();
  }
}
