package io.crore.internal.core;

import static io.crore.internal.codec.Place.above;

import io.crore.CaughtUp;
import io.crore.Gap;
import io.crore.Item;
import io.crore.Message;
import io.crore.Skipped;
import io.crore.internal.codec.Place;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;

/** B: the items that wait for a subscription's reader. */
final class Buffer {
  /** From here on a caught-up item replaces the one before it. */
  private static final int SETTLING_MAX = 16;

  private final int itemsMax;
  private final long bytesMax;
  private final boolean isSkipping;
  private final ArrayDeque<Item> items = new ArrayDeque<>();
  /** Items that count. */
  private int count;
  private long bytes;
  /** Messages of the replay that the reader has taken since SUBSCRIBE or the last credit. */
  private int freed;
  /** Buffered messages that are older than the last SUBSCRIBE, and so not of the replay. */
  private int older;
  private int messages;
  /** B4: what was dropped, by partition, in front of all items. */
  private final Map<Long, Skipped> skips = new LinkedHashMap<>();
  /** B4: the place of the last item that left, by partition. */
  private final Map<Long, Place> left = new HashMap<>();

  Buffer(int itemsMax, long bytesMax, boolean isSkipping) {
    this.itemsMax = itemsMax;
    this.bytesMax = bytesMax;
    this.isSkipping = isSkipping;
  }

  int count() {
    return count;
  }

  long bytes() {
    return bytes;
  }

  boolean isEmpty() {
    return items.isEmpty() && skips.isEmpty();
  }

  int itemsMax() {
    return itemsMax;
  }

  int free() {
    return Math.max(1, itemsMax - count);
  }

  boolean isFull() {
    return count >= itemsMax || bytes >= bytesMax;
  }

  boolean isHalfEmpty() {
    return count * 2 <= itemsMax && bytes * 2 <= bytesMax;
  }

  /** B3: how many messages to grant, once they are half of the buffer; else 0. */
  int takeFreed() {
    if (freed * 2 < itemsMax) return 0;
    int taken = freed;
    freed = 0;
    return taken;
  }

  /** SUBSCRIBE goes out: the free places are its credit. */
  void asked() {
    freed = 0;
    older = messages;
  }

  void clear() {
    items.clear();
    skips.clear();
    count = 0;
    bytes = 0;
    older = messages = 0;
  }

  /** Appends an item; returns how many messages, less skipped items, were dropped for it. */
  int push(Item item) {
    if (item instanceof CaughtUp && items.size() > SETTLING_MAX) {
      Item last = items.peekLast();
      if (last instanceof CaughtUp && last.partition() == item.partition()) items.pollLast();
      else if (items.size() - count >= itemsMax) return 0;
    }
    items.add(item);
    weigh(item, 1);
    int dropped = 0;
    while (isSkipping && (count > itemsMax || bytes > bytesMax) && items.size() > 1) {
      if (dropOldest()) dropped++;
    }
    return dropped;
  }

  /** How many skipped items were put in place of dropped messages and not taken yet. */
  int skips() {
    return skips.size();
  }

  /** The oldest item, or null. */
  Item take() {
    if (!skips.isEmpty()) {
      Iterator<Skipped> it = skips.values().iterator();
      Skipped skip = it.next();
      it.remove();
      return skip;
    }
    Item item = items.poll();
    if (item == null) return null;
    weigh(item, -1);
    leave(item);
    return item;
  }

  private boolean dropOldest() {
    Item item = items.poll();
    weigh(item, -1);
    Place from = left.get(item.partition());
    leave(item);
    if (!(item instanceof Message)) return false;
    Message message = (Message) item;
    Skipped before = skips.get(item.partition());
    long begin = message.previous();
    if (before != null) begin = before.from();
    else if (from != null && from.epoch == message.epoch()) begin = from.offset;
    skips.put(item.partition(), new Skipped(begin, message.offset(), "overflow", item.partition()));
    return true;
  }

  private void weigh(Item item, int sign) {
    if (item instanceof CaughtUp) return;
    count += sign;
    if (!(item instanceof Message)) return;
    messages += sign;
    bytes += (long) sign * ((Message) item).length();
  }

  private void leave(Item item) {
    if (item instanceof Message) {
      if (older > 0) older--;
      else freed++;
    }
    if (!isSkipping) return;
    Place at = left.get(item.partition());
    if (item instanceof Message) {
      left.put(item.partition(), new Place(((Message) item).epoch(), ((Message) item).offset()));
    } else if (item instanceof Skipped) {
      long through = ((Skipped) item).through();
      if (at != null && above(through, at.offset)) left.put(item.partition(), new Place(at.epoch, through));
    } else {
      String text = item instanceof Gap ? ((Gap) item).to() : ((CaughtUp) item).position();
      if (text != null) left.put(item.partition(), Place.parse(text));
    }
  }
}
