package io.crore.internal.core;

import io.crore.CaughtUp;
import io.crore.CroreException;
import io.crore.Gap;
import io.crore.Item;
import io.crore.Level;
import io.crore.Skipped;
import io.crore.internal.codec.ClientFrames;
import io.crore.internal.codec.ClientFrames.SubscribeItem;
import io.crore.internal.codec.Place;
import io.crore.internal.codec.PlainMessage;
import io.crore.internal.codec.ServerFrame.Beginning;
import io.crore.internal.codec.ServerFrame.CaughtUpFrame;
import io.crore.internal.codec.ServerFrame.GapFrame;
import io.crore.internal.codec.ServerFrame.MessageFrame;
import io.crore.internal.codec.ServerFrame.SkippedFrame;
import io.crore.internal.codec.ServerFrame.Subscribed;
import io.crore.internal.codec.Topics;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** S, P, B: the one table of subscriptions, and the frames about them. */
final class Subscriptions {
  private static final long RETRY_MS = 1_000; // S6
  private static final long RETRY_MS_MAX = 60_000;
  private static final int SUBSCRIBE_BYTES = 12 * 1024; // C2
  private static final int UNSUPPORTED_START = 113;
  private static final int ALREADY_SUBSCRIBED = 120;
  private static final int POSITION_UNAVAILABLE = 400;

  /** The connection, as the subscriptions see it. */
  interface Link {
    /** Whether HELLO has been sent. */
    boolean isGreeted();

    /** Whether SUBSCRIBE may go out: G1. */
    boolean canAsk();
  }

  private final Link link;
  private final Outputs outputs;
  private final Journal journal;
  private final Tickets tickets;
  private final int itemsMax;
  private final long bytesMax;
  private long lastNumber;
  private final Map<Long, CoreSubscription> byNumber = new HashMap<>();
  private final Map<String, CoreSubscription> byFilter = new LinkedHashMap<>();
  private final Map<Long, CoreSubscription> byAlias = new HashMap<>();
  private final Map<String, Long> restored = new HashMap<>();
  private Map<Long, Map<Long, Place>> come = Collections.emptyMap();
  /** How many wait for their next SUBSCRIBE: S6. */
  private int retrying;

  Subscriptions(Link link, Outputs outputs, Journal journal, Tickets tickets, int itemsMax, long bytesMax) {
    this.link = link;
    this.outputs = outputs;
    this.journal = journal;
    this.tickets = tickets;
    this.itemsMax = itemsMax;
    this.bytesMax = bytesMax;
  }

  // The application.

  CoreSubscription add(long now, CoreSubscription.Request request) {
    check(request.filter);
    CoreSubscription it = new CoreSubscription(request, itemsMax, bytesMax);
    byFilter.put(it.filter(), it);
    // R11: only the cursor that was stored makes a stored ticket as good as SUBSCRIBE.
    Long kept = restored.remove(it.cover());
    if (kept != null && !isProcessed(come.get(kept), it.places())) kept = null;
    if (kept == null) number(it);
    else byNumber.put(it.number = kept, it);
    if (link.canAsk()) ask(Collections.singletonList(it));
    tickets.changed(now);
    return it;
  }

  /** R11: the numbers that subscriptions of an earlier program had. */
  void restore(Map<Long, String> covers, Map<Long, Map<Long, Place>> places) {
    come = places;
    covers.forEach(
        (number, cover) -> {
          restored.put(cover, number);
          lastNumber = Math.max(lastNumber, number);
        });
  }

  /** Whether a subscription goes on behind everything that had come before the stored ticket. */
  private static boolean isProcessed(Map<Long, Place> come, Map<Long, Place> own) {
    if (come == null || come.isEmpty()) return false;
    for (Map.Entry<Long, Place> it : come.entrySet()) {
      Place at = own.get(it.getKey());
      if (at == null || at.epoch != it.getValue().epoch) return false;
      if (Place.above(it.getValue().offset, at.offset)) return false;
    }
    return true;
  }

  /** S3, S4 */
  void check(String filter) {
    if (!Topics.hasLength(filter)) throw Errors.invalid("a topic has 1 to 255 bytes");
    if (byFilter.containsKey(filter)) {
      throw new CroreException(CroreException.ALREADY_SUBSCRIBED, "there is a subscription to " + filter);
    }
  }

  /** S5 */
  void remove(long now, CoreSubscription it) {
    if (it.isEnded()) return;
    boolean wasHeld = !it.isPaused;
    end(it, null);
    it.buffer.clear();
    if (link.isGreeted() && wasHeld) outputs.send(ClientFrames.unsubscribe(it.number));
    tickets.changed(now);
  }

  /** The oldest item of the buffer, or null. */
  Item take(CoreSubscription it) {
    Item item = it.buffer.take();
    if (it.buffer.isEmpty()) it.isAnnounced = false;
    return item;
  }

  void endAll(CroreException error) {
    for (CoreSubscription it : new ArrayList<>(byFilter.values())) end(it, error);
  }

  // The connection.

  Collection<CoreSubscription> all() {
    return byFilter.values();
  }

  CoreSubscription byNumber(long number) {
    return byNumber.get(number);
  }

  /** All that shall be held, in the order of their requests. */
  List<CoreSubscription> active() {
    List<CoreSubscription> active = new ArrayList<>(byFilter.size());
    for (CoreSubscription it : byFilter.values()) if (!it.isPaused) active.add(it);
    return active;
  }

  boolean areGranted() {
    for (CoreSubscription it : byFilter.values()) if (!it.isPaused && !it.isGranted) return false;
    return !byFilter.isEmpty();
  }

  void connectionLost() {
    byAlias.clear();
    for (CoreSubscription it : byFilter.values()) it.connectionLost();
    retrying = 0;
  }

  /** After HELLO: everything that its ticket does not hold. */
  void askWithout(Set<Long> held) {
    List<CoreSubscription> missing = active();
    missing.removeIf(it -> held.contains(it.number));
    ask(missing);
  }

  /** R5, R6 */
  void askFor(Set<Long> numbers) {
    List<CoreSubscription> missing = active();
    missing.removeIf(it -> !numbers.contains(it.number));
    ask(missing);
  }

  /** When the next of those refused for the moment is due. */
  long retryAt() {
    long at = Core.NEVER;
    if (retrying > 0) for (CoreSubscription it : byFilter.values()) at = Math.min(at, it.retryAt);
    return at;
  }

  void retryDue(long now) {
    if (retrying == 0) return;
    List<CoreSubscription> due = active();
    due.removeIf(it -> it.retryAt > now);
    for (CoreSubscription it : due) retryAt(it, Core.NEVER);
    ask(due);
  }

  private void retryAt(CoreSubscription it, long at) {
    retrying += (at == Core.NEVER ? 0 : 1) - (it.retryAt == Core.NEVER ? 0 : 1);
    it.retryAt = at;
  }

  private void number(CoreSubscription it) {
    byNumber.remove(it.number);
    it.number = ++lastNumber;
    byNumber.put(it.number, it);
  }

  /** SUBSCRIBE, in as few frames as possible. */
  private void ask(List<CoreSubscription> list) {
    List<SubscribeItem> items = new ArrayList<>();
    int bytes = 0;
    for (CoreSubscription it : list) {
      int size = it.filter().length() * 3 + 32 + it.cursors.places().size() * 24;
      if (!items.isEmpty() && bytes + size > SUBSCRIBE_BYTES) {
        outputs.send(ClientFrames.subscribe(items));
        items.clear();
        bytes = 0;
      }
      items.add(it.item());
      bytes += size;
    }
    if (!items.isEmpty()) outputs.send(ClientFrames.subscribe(items));
  }

  private void end(CoreSubscription it, CroreException error) {
    byFilter.remove(it.filter());
    byNumber.remove(it.number);
    dropAlias(it);
    retryAt(it, Core.NEVER);
    it.end(error);
    outputs.items(it);
  }

  private void dropAlias(CoreSubscription it) {
    if (it.alias >= 0) byAlias.remove(it.alias, it);
    it.alias = -1;
  }

  // Items.

  private void push(long now, CoreSubscription it, Item item) {
    it.push(item);
    if (!it.isAnnounced) {
      it.isAnnounced = true;
      outputs.items(it);
    }
    if (it.mustPause()) pause(now, it);
  }

  /** B1 */
  private void pause(long now, CoreSubscription it) {
    journal.note(now, Level.WARN, "buffer_full", "topic", it.filter());
    long old = it.number;
    dropAlias(it);
    retryAt(it, Core.NEVER);
    it.connectionLost();
    it.isPaused = it.usesCredit = true;
    // What is on its way has the old number.
    number(it);
    outputs.send(ClientFrames.unsubscribe(old));
  }

  /** B2, B3 */
  void refill(long now, CoreSubscription it) {
    if (it.isEnded()) return;
    if (it.isPaused) {
      if (!it.buffer.isHalfEmpty()) return;
      it.isPaused = false;
      if (link.canAsk()) ask(Collections.singletonList(it));
      tickets.changed(now);
    } else if (it.usesCredit && link.canAsk()) {
      int freed = it.buffer.takeFreed();
      if (freed > 0) outputs.send(ClientFrames.credit(it.number, freed));
    }
  }

  private void pushHole(long now, CoreSubscription it, Hole hole, long partition) {
    if (hole != null) pushGap(now, it, hole.from, hole.to, "unannounced", partition);
  }

  private void pushGap(long now, CoreSubscription it, Place from, Place to, String cause, long partition) {
    journal.gaps++;
    Gap gap = new Gap(from == null ? null : from.toString(), to == null ? null : to.toString(), cause, partition);
    journal.note(
        now, Level.WARN, "gap", "topic", it.filter(), "from", gap.from(), "to", gap.to(), "cause", cause);
    push(now, it, gap);
  }

  private void pushCaughtUp(long now, CoreSubscription it) {
    it.isCaughtUpDue = false;
    Place cursor = it.proof.cursor();
    if (cursor != null) push(now, it, new CaughtUp(cursor.toString(), -1));
  }

  // Frames.

  void subscribed(long now, Subscribed frame) {
    CoreSubscription it = byNumber.get(frame.subscription);
    if (it == null || it.isPaused || it.isFilter != frame.isFilter) {
      // R8
      if (tickets.wasPresented()) outputs.send(ClientFrames.unsubscribe(frame.subscription));
      else journal.unexpected(now, "subscribed");
      return;
    }
    boolean isBlind = it.isFilter && it.wasGranted && it.cursors.places().isEmpty();
    it.refusals = 0; // S8
    retryAt(it, Core.NEVER);
    it.isGranted = it.wasGranted = true;
    it.replaying.clear();
    for (Beginning begin : frame.beginnings) if (begin.replaying) it.replaying.add(begin.partition);
    if (it.replaying.isEmpty()) it.usesCredit = false;
    journal.note(now, Level.DEBUG, "subscribed", "topic", it.filter());
    if (frame.isFilter) {
      for (Beginning begin : frame.beginnings) it.cursors.subscribed(begin.partition, begin.through, begin.continued);
      outputs.granted(it);
      if (isBlind) pushGap(now, it, null, null, "reconnected", -1); // P11
    } else topicSubscribed(now, it, frame.alias, frame.beginnings.get(0));
    refill(now, it);
  }

  private void topicSubscribed(long now, CoreSubscription it, long alias, Beginning begin) {
    // S11
    CoreSubscription old = byAlias.get(alias);
    if (old != null) old.alias = -1;
    dropAlias(it);
    byAlias.put(alias, it);
    it.alias = alias;
    Place cursor = it.proof.cursor();
    Place through = begin.through;
    // A ticket's cursor may be ahead of this one if the topic has no messages in between: R9.
    if (begin.continued && cursor != null && tickets.brings(it.number) && Place.above(through.offset, cursor.offset)) {
      through = new Place(through.epoch, cursor.offset);
    }
    it.proof.subscribed(through, begin.continued);
    outputs.granted(it);
    if (begin.replaying) return;
    if (it.proof.isGapDue()) it.isCaughtUpDue = true;
    else caughtUp(now, it, begin.through.offset, -1);
  }

  void message(long now, MessageFrame frame) {
    CoreSubscription it = proved(now, frame.alias, frame.previous, frame.offset, frame.lineage);
    if (it != null) push(now, it, frame.message(it.filter(), it.proof.epoch()));
  }

  void message(long now, PlainMessage frame) {
    CoreSubscription it = proved(now, frame.alias, frame.previous, frame.offset, -1);
    if (it != null) push(now, it, frame.message(it.filter(), it.proof.epoch()));
  }

  /** The subscription whose next message this is, or null. */
  private CoreSubscription proved(long now, long alias, long previous, long offset, int lineage) {
    CoreSubscription it = byAlias.get(alias);
    if (it == null) {
      journal.unexpected(now, "message");
      return null;
    }
    if (!it.proof.message(previous, offset, lineage)) {
      journal.duplicates++;
      return null;
    }
    pushHole(now, it, it.proof.takeHole(), -1);
    if (it.isCaughtUpDue) pushCaughtUp(now, it);
    journal.messages++;
    return it;
  }

  /** S9, P10 */
  void namedMessage(long now, MessageFrame frame) {
    boolean isExpected = false;
    if (frame.subscription >= 0) {
      CoreSubscription it = byNumber.get(frame.subscription);
      if (it != null && it.isFilter && it.isGranted) {
        isExpected = true;
        namedMessage(now, it, frame);
      }
    } else {
      for (CoreSubscription it : byFilter.values()) {
        if (!it.isFilter || !it.isGranted || !Topics.matches(it.filter(), frame.topic)) continue;
        isExpected = true;
        namedMessage(now, it, frame);
      }
    }
    if (!isExpected) journal.unexpected(now, "named_message");
  }

  private void namedMessage(long now, CoreSubscription it, MessageFrame frame) {
    Place place = new Place(frame.epoch, frame.offset);
    if (it.cursors.message(frame.partition, place, frame.previous, frame.lineage)) {
      pushHole(now, it, it.cursors.takeHole(), frame.partition);
      journal.messages++;
      push(now, it, frame.message(frame.topic, frame.epoch));
    } else journal.duplicates++;
  }

  /** The subscription that a frame is about, if it holds; else the frame is about nothing: C9. */
  private CoreSubscription granted(long now, long number, long partition, String frame) {
    CoreSubscription it = byNumber.get(number);
    if (it != null && it.isGranted && it.isFilter == (partition >= 0)) return it;
    journal.unexpected(now, frame);
    return null;
  }

  void caughtUp(long now, CaughtUpFrame frame) {
    CoreSubscription it = granted(now, frame.subscription, frame.partition, "caught_up");
    if (it == null) return;
    it.replayed(frame.partition);
    if (!it.isFilter) {
      caughtUp(now, it, frame.through, frame.lineage);
      return;
    }
    Place place = it.cursors.caughtUp(frame.partition, frame.through, frame.lineage);
    if (place != null) push(now, it, new CaughtUp(place.toString(), frame.partition));
  }

  /** P6 */
  private void caughtUp(long now, CoreSubscription it, long through, int lineage) {
    it.proof.caughtUp(through, lineage);
    pushHole(now, it, it.proof.takeHole(), -1);
    pushCaughtUp(now, it);
  }

  void gap(long now, GapFrame frame) {
    CoreSubscription it = granted(now, frame.subscription, frame.partition, "gap");
    if (it == null) return;
    Place to = new Place(frame.epoch, frame.to);
    Place from = it.isFilter ? it.cursors.gap(frame.partition, to) : it.proof.gap(to);
    pushGap(now, it, from, to, frame.reason, frame.partition);
    if (it.isCaughtUpDue) pushCaughtUp(now, it);
  }

  void skipped(long now, SkippedFrame frame) {
    CoreSubscription it = granted(now, frame.subscription, frame.partition, "skipped");
    if (it == null) return;
    if (it.isFilter) it.cursors.skipped(frame.partition, new Place(frame.epoch, frame.through));
    else {
      it.proof.skipped(frame.from, frame.through, frame.lineage);
      pushHole(now, it, it.proof.takeHole(), -1);
    }
    journal.skips++;
    journal.note(now, Level.WARN, "skipped", "topic", it.filter(), "reason", frame.reason);
    push(now, it, new Skipped(frame.from, frame.through, frame.reason, frame.partition));
  }

  /** S6, S7, P11, R6 */
  void refused(long now, long number, CroreException error, String frame) {
    CoreSubscription it = byNumber.get(number);
    if (it == null) {
      journal.unexpected(now, frame);
      return;
    }
    long code = error.code();
    if (code == ALREADY_SUBSCRIBED && tickets.wasPresented()) {
      // Its grant is on its way, or the one in its place is being unsubscribed.
      if (!it.isGranted) retryAt(it, now + RETRY_MS);
      return;
    }
    it.isGranted = false;
    boolean isOfStart = code == UNSUPPORTED_START || (code == POSITION_UNAVAILABLE && !it.request.failOnGap);
    if (isOfStart && !it.cursors.places().isEmpty()) {
      it.cursors.places().clear();
      it.wasGranted = true;
      if (link.canAsk()) ask(Collections.singletonList(it));
    } else if (error.temporary()) {
      dropAlias(it);
      retryAt(it, Core.NEVER);
      it.connectionLost();
      long delay = Math.min(RETRY_MS << Math.min(it.refusals, 10), RETRY_MS_MAX);
      it.refusals++;
      retryAt(it, now + delay);
    } else {
      journal.note(now, Level.WARN, "ended", "topic", it.filter(), "code", code);
      end(it, error);
      tickets.changed(now);
    }
  }
}
