package io.crore;

import io.crore.internal.codec.ClientFrames.WireStart;
import io.crore.internal.codec.Place;
import io.crore.internal.core.CoreSubscription;
import io.crore.internal.core.Errors;
import java.util.LinkedHashMap;
import java.util.Map;

/** Where a subscription begins, and how it behaves. */
public final class SubscribeOptions {
  /** What the server does when a subscription lags. */
  public enum Policy {
    /** It reads the messages from the log. */
    REPLAY,
    /** It sends the newest message only. */
    CONFLATE,
    /** It leaves messages out. */
    DROP,
    /** It ends the subscription, and the client begins again from its position. */
    DISCONNECT
  }

  private final WireStart start;
  private String name;
  private boolean failOnGap;
  private Policy policy;
  private boolean skipsOldest;

  private SubscribeOptions(WireStart start) {
    this.start = start;
  }

  /** @return messages from now on */
  public static SubscribeOptions live() {
    return new SubscribeOptions(WireStart.LIVE);
  }

  /** @return the retained message or the newest one, then live */
  public static SubscribeOptions snapshot() {
    return new SubscribeOptions(WireStart.SNAPSHOT);
  }

  /**
   * All messages behind a position, then live.
   *
   * @param position the last position that the application has
   * @return the options
   */
  public static SubscribeOptions since(String position) {
    return new SubscribeOptions(WireStart.since(place(position)));
  }

  /**
   * For filters: all messages behind a position of each partition, then live.
   *
   * @param positions the last positions that the application has, by partition
   * @return the options
   */
  public static SubscribeOptions sinceEach(Map<Long, String> positions) {
    Map<Long, Place> places = new LinkedHashMap<>();
    positions.forEach((partition, position) -> places.put(partition, place(position)));
    return new SubscribeOptions(WireStart.sinceEach(places));
  }

  /**
   * The newest messages, then live.
   *
   * @param count how many
   * @return the options
   */
  public static SubscribeOptions last(int count) {
    if (count < 0) throw Errors.invalid("a count is not negative");
    return new SubscribeOptions(WireStart.last(count));
  }

  /**
   * Ends the subscription with an error that has a position to restart from, in place of a gap at
   * its start.
   *
   * @return these options
   */
  public SubscribeOptions failOnGap() {
    failOnGap = true;
    return this;
  }

  /**
   * What the server does when the subscription lags.
   *
   * @param value the policy
   * @return these options
   */
  public SubscribeOptions policy(Policy value) {
    policy = value;
    return this;
  }

  /**
   * For topics without history: if the reader is slow, the oldest buffered items are dropped, and a
   * {@link Skipped} says so. Otherwise the subscription pauses, and the server's log is its queue.
   *
   * @return these options
   */
  public SubscribeOptions skipOldest() {
    skipsOldest = true;
    return this;
  }

  /**
   * A name under which the client's {@link Storage} keeps what the reader has processed: a start of
   * the program begins behind it, in place of the start that these options give. An item is processed
   * when the reader asks for the next one, or when the listener has returned.
   *
   * @param value a name that no other subscription of the storage has
   * @return these options
   */
  public SubscribeOptions name(String value) {
    name = value;
    return this;
  }

  String name() {
    return name;
  }

  CoreSubscription.Request request(String filter) {
    CoreSubscription.Request request = new CoreSubscription.Request(filter);
    request.start = start;
    request.failOnGap = failOnGap;
    request.policy = policy == null ? -1 : policy.ordinal();
    request.skips = skipsOldest;
    return request;
  }

  static Place place(String position) {
    Place place = Place.parse(position);
    if (place == null) throw Errors.invalid("this is not a position: " + position);
    return place;
  }
}
