package io.crore;

import io.crore.internal.codec.ClientFrames.Publication;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** How a message is published. */
public final class PublishOptions {
  private final List<Tag> tags = new ArrayList<>();
  private boolean once;
  private byte[] key;
  private boolean retain;
  private String contentType;
  private Long expectedEpoch;
  private long timeoutMs = -1;

  private PublishOptions() {}

  /** @return options that say nothing */
  public static PublishOptions none() {
    return new PublishOptions();
  }

  /**
   * In the log exactly once: the publication is kept and repeated until it is answered.
   *
   * @return these options
   */
  public PublishOptions once() {
    once = true;
    return this;
  }

  /**
   * As {@link #once()}, by a key in place of a sequence: for publishers without a memory.
   *
   * @param value a key of 1 to 128 bytes
   * @return these options
   */
  public PublishOptions onceByKey(String value) {
    return onceByKey(value.getBytes(StandardCharsets.UTF_8));
  }

  /**
   * As {@link #once()}, by a key in place of a sequence.
   *
   * @param value a key of 1 to 128 bytes
   * @return these options
   */
  public PublishOptions onceByKey(byte[] value) {
    key = value.clone();
    return this;
  }

  /**
   * Also the topic's retained message; an empty payload clears it.
   *
   * @return these options
   */
  public PublishOptions retain() {
    retain = true;
    return this;
  }

  /**
   * The media type of the payload.
   *
   * @param value the media type
   * @return these options
   */
  public PublishOptions contentType(String value) {
    contentType = value;
    return this;
  }

  /**
   * One more tag; keys may repeat.
   *
   * @param name its key
   * @param value its value
   * @return these options
   */
  public PublishOptions tag(String name, String value) {
    tags.add(new Tag(name, value));
    return this;
  }

  /**
   * Only if the topic's log has this epoch.
   *
   * @param epoch the epoch, unsigned
   * @return these options
   */
  public PublishOptions expectedEpoch(long epoch) {
    expectedEpoch = epoch;
    return this;
  }

  /**
   * When the call is settled at the latest: after 10 seconds, {@code once} after 60, if this is not
   * given.
   *
   * @param value how long
   * @param unit the unit of it
   * @return these options
   */
  public PublishOptions timeout(long value, TimeUnit unit) {
    timeoutMs = Math.max(0, unit.toMillis(value));
    return this;
  }

  boolean isOnce() {
    return once || key != null;
  }

  long timeoutMs() {
    return timeoutMs;
  }

  Publication publication(String topic, byte[] payload) {
    Publication publication = new Publication(topic, payload);
    publication.key = key;
    publication.retain = retain;
    publication.contentType = contentType;
    publication.expectedEpoch = expectedEpoch;
    publication.tags = new ArrayList<>(tags);
    return publication;
  }
}
