package io.crore.internal.codec;

import io.crore.Tag;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.List;
import java.util.Map;

/** Encodes the client's frames. */
public final class ClientFrames {
  private ClientFrames() {}

  /** A cursor beside a ticket; {@code partition} is -1 for a topic. */
  public static final class Cursor {
    final long subscription;
    final long partition;
    final Place place;

    public Cursor(long subscription, long partition, Place place) {
      this.subscription = subscription;
      this.partition = partition;
      this.place = place;
    }
  }

  /** Where a subscription shall begin, as SUBSCRIBE says it. */
  public static final class WireStart {
    public static final WireStart LIVE = new WireStart(0, null, 0, null);
    public static final WireStart SNAPSHOT = new WireStart(3, null, 0, null);

    private final int kind;
    /** Of a topic that begins since a position. */
    public final Place since;
    private final long last;
    /** By partition, of a filter that begins since positions. */
    public final Map<Long, Place> each;

    private WireStart(int kind, Place since, long last, Map<Long, Place> each) {
      this.kind = kind;
      this.since = since;
      this.last = last;
      this.each = each;
    }

    public static WireStart since(Place place) {
      return new WireStart(1, place, 0, null);
    }

    public static WireStart last(long count) {
      return new WireStart(2, null, count, null);
    }

    public static WireStart sinceEach(Map<Long, Place> each) {
      return new WireStart(4, null, 0, each);
    }

    private void into(Writer writer) {
      writer.u8(kind);
      if (kind == 1) writer.place(since);
      else if (kind == 2) writer.varint(last);
      else if (kind == 4) {
        writer.varint(each.size());
        each.forEach((partition, place) -> writer.varint(partition).place(place));
      }
    }
  }

  /** One item of SUBSCRIBE. */
  public static final class SubscribeItem {
    private final long subscription;
    private final String filter;
    private final WireStart start;
    private final boolean failOnGap;
    private final long replayCredit;
    private final int policy;

    /** {@code replayCredit}, {@code policy}: -1 for none. */
    public SubscribeItem(
        long subscription, String filter, WireStart start, boolean failOnGap, long replayCredit, int policy) {
      this.subscription = subscription;
      this.filter = filter;
      this.start = start;
      this.failOnGap = failOnGap;
      this.replayCredit = replayCredit;
      this.policy = policy;
    }

    private void into(Writer writer) {
      OptionsWriter options = new OptionsWriter();
      if (replayCredit >= 0) options.bytes(5, new Writer(5).varint(replayCredit).done());
      if (policy >= 0) options.bytes(7, new byte[] {(byte) policy});
      writer.varint(subscription).u8(options.flags(failOnGap ? 1 : 0)).text(filter);
      start.into(writer);
      options.into(writer);
    }
  }

  /** What PUBLISH says of a message. */
  public static final class Publication {
    public final String topic;
    public final byte[] payload;
    public boolean retain;
    public String contentType;
    public List<Tag> tags = Collections.emptyList();
    public byte[] producerId;
    public long sequence;
    public byte[] key;
    public Long expectedEpoch;

    public Publication(String topic, byte[] payload) {
      this.topic = topic;
      this.payload = payload;
    }
  }

  public static byte[] hello(
      String token, String name, byte[] ticket, List<Cursor> cursors, long pingIntervalS) {
    OptionsWriter options = new OptionsWriter().text(1, token).text(6, name).bytes(3, ticket);
    if (!cursors.isEmpty()) {
      Writer list = new Writer(cursors.size() * 8);
      for (Cursor it : cursors) {
        list.varint(it.subscription).varint(it.partition + 1).place(it.place);
      }
      options.bytes(17, list.done());
    }
    Writer writer = head(1, options.flags(0)).u8(1).varint(pingIntervalS);
    options.into(writer);
    return writer.done();
  }

  public static byte[] subscribe(List<SubscribeItem> items) {
    Writer writer = head(2, 0).varint(items.size());
    for (SubscribeItem it : items) it.into(writer);
    return writer.done();
  }

  public static byte[] unsubscribe(long... subscriptions) {
    Writer writer = head(3, 0).varint(subscriptions.length);
    for (long it : subscriptions) writer.varint(it);
    return writer.done();
  }

  public static byte[] publish(long request, Publication it) {
    OptionsWriter options = new OptionsWriter().text(2, it.contentType);
    for (Tag tag : it.tags) {
      byte[] value = tag.value().getBytes(StandardCharsets.UTF_8);
      options.bytes(4, new Writer().text(tag.key()).raw(value).done());
    }
    if (it.producerId != null) options.bytes(11, new Writer().varint(it.sequence).raw(it.producerId).done());
    options.bytes(13, it.key);
    if (it.expectedEpoch != null) options.bytes(15, new Writer(10).varint(it.expectedEpoch).done());
    Writer writer = new Writer(it.payload.length + it.topic.length() + 24);
    writer.u8(4).u8(options.flags(it.retain ? 1 : 0)).varint(request).text(it.topic);
    options.into(writer);
    return writer.raw(it.payload).done();
  }

  /** {@code position}: null for none. */
  public static byte[] history(
      long request, String topic, boolean reverse, Place position, long recordsMax, long bytesMax) {
    Writer writer = head(5, (reverse ? 1 : 0) | (position == null ? 0 : 2)).varint(request).text(topic);
    if (position != null) writer.place(position);
    return writer.varint(recordsMax).varint(bytesMax).done();
  }

  public static byte[] credit(long subscription, long messages) {
    return head(6, 0).varint(subscription).varint(messages).done();
  }

  public static byte[] ping(long token) {
    return head(7, 0).varint(token).done();
  }

  public static byte[] pong(long token) {
    return head(8, 0).varint(token).done();
  }

  public static byte[] renew(long request, String token) {
    return head(9, 0).varint(request).text(token).done();
  }

  public static byte[] ticket(long request) {
    return head(10, 0).varint(request).done();
  }

  private static Writer head(int type, int flags) {
    return new Writer().u8(type).u8(flags);
  }
}
