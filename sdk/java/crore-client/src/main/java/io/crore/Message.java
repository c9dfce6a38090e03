package io.crore;

import io.crore.internal.codec.Place;
import java.io.ByteArrayInputStream;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;

/** One message of a topic. */
public final class Message implements Item {
  private final byte[] buffer;
  private final int from;
  private final String topic;
  private final long epoch;
  private final long offset;
  private final long previous;
  private final boolean retained;
  private final String contentType;
  private final List<Tag> tags;
  private final long partition;
  private final long time;

  /**
   * A message; applications need this only in their tests.
   *
   * @param topic the topic
   * @param epoch the epoch of its log
   * @param offset its offset
   * @param previous the topic has no message between this offset and the message's own
   * @param retained whether it is retained
   * @param contentType the media type, or null
   * @param tags the tags
   * @param partition the partition, or -1
   * @param time milliseconds since 1970, or -1
   * @param buffer bytes that end with the payload
   * @param from where the payload begins
   */
  public Message(
      String topic,
      long epoch,
      long offset,
      long previous,
      boolean retained,
      String contentType,
      List<Tag> tags,
      long partition,
      long time,
      byte[] buffer,
      int from) {
    this.topic = topic;
    this.epoch = epoch;
    this.offset = offset;
    this.previous = previous;
    this.retained = retained;
    this.contentType = contentType;
    this.tags = tags;
    this.partition = partition;
    this.time = time;
    this.buffer = buffer;
    this.from = from;
  }

  @Override
  public Kind kind() {
    return Kind.MESSAGE;
  }

  /** @return the topic that the message was published to */
  public String topic() {
    return topic;
  }

  /** @return {@code epoch:offset}; a subscription or a page of history may begin behind it */
  public String position() {
    return Place.text(epoch) + ":" + Place.text(offset);
  }

  /** @return the epoch of the topic's log, unsigned */
  public long epoch() {
    return epoch;
  }

  /** @return the offset in the log, unsigned */
  public long offset() {
    return offset;
  }

  /** @return an offset such that the topic has no message between it and this one */
  public long previous() {
    return previous;
  }

  /** @return whether it was published as the topic's retained message */
  public boolean retained() {
    return retained;
  }

  /** @return the media type that the publisher gave, or null */
  public String contentType() {
    return contentType;
  }

  /** @return the tags in the publisher's order */
  public List<Tag> tags() {
    return tags;
  }

  /**
   * The value of a tag.
   *
   * @param key the key
   * @return the value, the first one if the key repeats; null without such a tag
   */
  public String tag(String key) {
    for (Tag tag : tags) if (tag.key().equals(key)) return tag.value();
    return null;
  }

  @Override
  public long partition() {
    return partition;
  }

  /** @return when the server received it, in milliseconds since 1970; -1 outside of history */
  public long time() {
    return time;
  }

  /** @return the length of the payload in bytes */
  public int length() {
    return buffer.length - from;
  }

  /** @return a copy of the payload */
  public byte[] bytes() {
    return Arrays.copyOfRange(buffer, from, buffer.length);
  }

  /** @return the payload without a copy, read only */
  public ByteBuffer buffer() {
    return ByteBuffer.wrap(buffer, from, length()).slice().asReadOnlyBuffer();
  }

  /** @return the payload as a stream, for parsers of JSON and the like */
  public InputStream stream() {
    return new ByteArrayInputStream(buffer, from, length());
  }

  /**
   * The payload as text.
   *
   * @return the text
   * @throws IllegalStateException if the payload is not UTF-8
   */
  public String text() {
    try {
      return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(buffer, from, length())).toString();
    } catch (CharacterCodingException e) {
      throw new IllegalStateException("the payload of " + topic + " at " + position() + " is not UTF-8", e);
    }
  }

  @Override
  public String toString() {
    return "Message[" + topic + " " + position() + ", " + length() + " bytes]";
  }
}
