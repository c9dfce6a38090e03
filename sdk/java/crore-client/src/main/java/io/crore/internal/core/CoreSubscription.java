package io.crore.internal.core;

import io.crore.CroreException;
import io.crore.Gap;
import io.crore.Item;
import io.crore.Message;
import io.crore.Report;
import io.crore.Skipped;
import io.crore.internal.codec.ClientFrames.SubscribeItem;
import io.crore.internal.codec.ClientFrames.WireStart;
import io.crore.internal.codec.Place;
import io.crore.internal.codec.Topics;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/** One subscription of the core: what it asks for, its proof, its report and its buffer. */
public final class CoreSubscription {
  private static final int GAPS_MAX = 16;

  /** What the application has asked for. */
  public static final class Request {
    public final String filter;
    public WireStart start = WireStart.LIVE;
    public boolean failOnGap;
    /** The number of the policy, or -1. */
    public int policy = -1;
    /** Drop the oldest items of a full buffer, in place of pausing: B4. */
    public boolean skips;

    public Request(String filter) {
      this.filter = filter;
    }
  }

  final Request request;
  final boolean isFilter;
  final Proof proof;
  final Cursors cursors = new Cursors();
  final Buffer buffer;
  /** Its number on the wire. */
  long number;
  long alias = -1;
  /** The present connection has granted it. */
  boolean isGranted;
  /** It was granted once, so that a filter's new grant may mean a gap. */
  boolean wasGranted;
  /** S6 */
  int refusals;
  long retryAt = Core.NEVER;
  /** P6: the caught-up item follows the gap that is due. */
  boolean isCaughtUpDue;
  /** B1: unsubscribed until the reader has taken half of the buffer. */
  boolean isPaused;
  /** B2: the next SUBSCRIBE asks for a replay by credit, or the present replay has one. */
  boolean usesCredit;
  /** Partitions that replay; -1 for a topic. */
  final Set<Long> replaying = new HashSet<>();
  /** The shell knows that there are items. */
  boolean isAnnounced;
  private boolean isEnded;
  private CroreException endError;

  private long gaps;
  private final ArrayDeque<Gap> newest = new ArrayDeque<>();
  private long skips;
  private long messages;

  CoreSubscription(Request request, int itemsMax, long bytesMax) {
    this.request = request;
    isFilter = Topics.isFilter(request.filter);
    proof = new Proof(request.start.since);
    if (request.start.each != null) cursors.places().putAll(request.start.each);
    buffer = new Buffer(itemsMax, bytesMax, request.skips);
  }

  /** The topic or filter. */
  public String filter() {
    return request.filter;
  }

  /** Whether there is nothing to take. */
  public boolean isEmpty() {
    return buffer.isEmpty();
  }

  /** Whether it has ended; what is buffered can still be read. */
  public boolean isEnded() {
    return isEnded;
  }

  /** Why it has ended; null if the application has ended it. */
  public CroreException endError() {
    return endError;
  }

  void end(CroreException error) {
    isEnded = true;
    endError = error;
    isGranted = false;
  }

  void connectionLost() {
    alias = -1;
    isGranted = isCaughtUpDue = false;
    retryAt = Core.NEVER;
    replaying.clear();
    proof.connectionLost();
  }

  /** Its cursors, by partition; -1 for a topic. */
  public Map<Long, Place> places() {
    if (isFilter) return new TreeMap<>(cursors.places());
    Place cursor = proof.cursor();
    return cursor == null ? Collections.emptyMap() : Collections.singletonMap(-1L, cursor);
  }

  /** R11: what a ticket of an earlier program must have held in its place. */
  String cover() {
    return (request.failOnGap ? "fail" : "") + ":" + request.policy + ":" + request.filter;
  }

  /** R1, R2: the item of SUBSCRIBE, from the cursor if there is one. */
  SubscribeItem item() {
    buffer.asked();
    Place cursor = proof.cursor();
    WireStart start = request.start;
    if (cursor != null) start = WireStart.since(cursor);
    else if (!cursors.places().isEmpty()) start = WireStart.sinceEach(new LinkedHashMap<>(cursors.places()));
    else if (wasGranted) start = WireStart.LIVE;
    long credit = usesCredit ? buffer.free() : -1;
    return new SubscribeItem(number, request.filter, start, request.failOnGap, credit, request.policy);
  }

  void replayed(long partition) {
    replaying.remove(partition);
    if (replaying.isEmpty()) usesCredit = false;
  }

  /** B1: whether the buffer must not get more; a replay by credit fills it on purpose. */
  boolean mustPause() {
    return !request.skips && isGranted && !(usesCredit && !replaying.isEmpty()) && buffer.isFull();
  }

  void push(Item item) {
    if (item instanceof Message) messages++;
    else if (item instanceof Skipped) skips++;
    else if (item instanceof Gap) {
      gaps++;
      newest.add((Gap) item);
      if (newest.size() > GAPS_MAX) newest.poll();
    }
    int before = buffer.skips();
    messages -= buffer.push(item);
    skips += Math.max(0, buffer.skips() - before);
  }

  /** P12 */
  public Report report() {
    Map<Long, String> positions = new TreeMap<>();
    cursors.places().forEach((partition, place) -> positions.put(partition, place.toString()));
    Place cursor = proof.cursor();
    String position = cursor == null ? null : cursor.toString();
    return new Report(!isFilter, gaps, new ArrayList<>(newest), skips, messages, position, positions);
  }
}
