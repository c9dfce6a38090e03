package io.crore.internal.codec;

import io.crore.Tag;
import io.crore.internal.codec.ServerFrame.Beginning;
import io.crore.internal.codec.ServerFrame.CaughtUpFrame;
import io.crore.internal.codec.ServerFrame.ErrorFrame;
import io.crore.internal.codec.ServerFrame.Expiry;
import io.crore.internal.codec.ServerFrame.GapFrame;
import io.crore.internal.codec.ServerFrame.GoAway;
import io.crore.internal.codec.ServerFrame.HistoryPage;
import io.crore.internal.codec.ServerFrame.MessageFrame;
import io.crore.internal.codec.ServerFrame.PingFrame;
import io.crore.internal.codec.ServerFrame.PublishedFrame;
import io.crore.internal.codec.ServerFrame.SkippedFrame;
import io.crore.internal.codec.ServerFrame.Subscribed;
import io.crore.internal.codec.ServerFrame.Type;
import io.crore.internal.codec.ServerFrame.Unsubscribed;
import io.crore.internal.codec.ServerFrame.Welcome;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/** Decodes the server's frames. */
public final class ServerFrames {
  private static final long TAG = 4;
  private static final long LINEAGE = 18;
  private static final String[] GAP_REASONS = {
    "evicted", "unknown_epoch", "beyond_head", "history_limit", "damaged"
  };
  private static final String[] SKIP_REASONS = {null, "conflated", null, "dropped"};

  private ServerFrames() {}

  /** Decodes one frame, or throws what is wrong with the bytes; never anything else. */
  public static ServerFrame decode(byte[] bytes) throws FrameException {
    Reader reader = new Reader(bytes);
    int type = reader.u8();
    switch (type) {
      case 0x84:
        return message(reader);
      case 0x85:
        return namedMessage(reader);
      default:
        ServerFrame frame = other(type, reader);
        reader.end();
        return frame;
    }
  }

  private static ServerFrame other(int type, Reader reader) throws FrameException {
    switch (type) {
      case 0x07:
        return ping(Type.PING, reader);
      case 0x08:
        return ping(Type.PONG, reader);
      case 0x81:
        return welcome(reader);
      case 0x82:
        return subscribed(reader);
      case 0x83:
        return unsubscribed(reader);
      case 0x86:
        return caughtUp(reader);
      case 0x87:
        return gap(reader);
      case 0x88:
        return skipped(reader);
      case 0x89:
        return published(reader);
      case 0x8a:
        return historyPage(reader);
      case 0x8b:
        return error(reader);
      case 0x8c:
        return goAway(reader);
      case 0x8d:
        return expiry(Type.RENEWED, reader);
      case 0x8e:
        return expiry(Type.TICKET_ISSUED, reader);
      case 0x8f:
        return expiry(Type.TOKEN_EXPIRES, reader);
      default:
        throw FrameException.of("unsupported_frame");
    }
  }

  private static Welcome welcome(Reader reader) throws FrameException {
    int flags = reader.flags(0);
    if (reader.u8() != 1) throw FrameException.of("unsupported_version");
    Welcome it = new Welcome();
    it.connection = reader.u64le();
    it.pingIntervalS = reader.varint32();
    it.timeMs = reader.varint();
    it.frameBytesMax = reader.varint();
    it.messageBytesMax = reader.varint();
    it.subscriptionsMax = reader.varint32();
    reader.options(
        flags,
        (key, value) -> {
          if (key == 6) it.node = value.textToEnd();
          else if (key == 12) it.resumed = value.onlyVarint32();
          else if (key == 14) it.ticketLifetimeS = value.onlyVarint32();
          else return false;
          return true;
        },
        0);
    return it;
  }

  private static Subscribed subscribed(Reader reader) throws FrameException {
    int flags = reader.flags(7);
    Subscribed it = new Subscribed();
    it.isFilter = (flags & 1) != 0;
    if (it.isFilter && (flags & 6) != 0) throw FrameException.of("unsupported_option");
    it.subscription = reader.varint32();
    if (!it.isFilter) {
      it.alias = reader.varint32();
      it.beginnings = Collections.singletonList(new Beginning(-1, reader.place(), flags));
      reader.options(flags);
      return it;
    }
    reader.options(flags);
    it.beginnings = new ArrayList<>();
    for (long count = reader.varint(); count != 0; count--) {
      int own = reader.flags(6);
      long partition = reader.varint32();
      it.beginnings.add(new Beginning(partition, reader.place(), own));
      reader.options(own);
    }
    return it;
  }

  private static Unsubscribed unsubscribed(Reader reader) throws FrameException {
    int flags = reader.flags(0);
    Unsubscribed it = new Unsubscribed();
    it.subscription = reader.varint32();
    it.code = reader.varint32();
    reader.options(flags);
    return it;
  }

  private static MessageFrame message(Reader reader) throws FrameException {
    int flags = reader.flags(1);
    MessageFrame it = new MessageFrame(Type.MESSAGE);
    it.alias = reader.varint32();
    offsets(it, reader);
    attributes(it, flags, reader);
    return payload(it, reader);
  }

  private static MessageFrame namedMessage(Reader reader) throws FrameException {
    int flags = reader.flags(1);
    MessageFrame it = new MessageFrame(Type.NAMED_MESSAGE);
    it.topic = reader.topic();
    it.partition = reader.varint32();
    it.epoch = reader.varint();
    offsets(it, reader);
    attributes(it, flags, reader);
    return payload(it, reader);
  }

  private static void offsets(MessageFrame it, Reader reader) throws FrameException {
    it.offset = reader.varint();
    long delta = reader.varint();
    if (delta == 0 || Place.above(delta, it.offset)) throw FrameException.malformed();
    it.previous = it.offset - delta;
  }

  private static void attributes(MessageFrame it, int flags, Reader reader) throws FrameException {
    it.retained = (flags & 1) != 0;
    if ((flags & 0x80) == 0) return;
    List<Tag> tags = new ArrayList<>(2);
    reader.options(
        flags,
        (key, value) -> {
          if (key == 2) it.contentType = value.textToEnd();
          else if (key == TAG) tags.add(new Tag(value.text(), value.textToEnd()));
          else if (key == 10 && it.type == Type.NAMED_MESSAGE) it.subscription = value.onlyVarint32();
          else if (key == LINEAGE) it.lineage = value.onlyByte();
          else return false;
          return true;
        },
        TAG);
    if (!tags.isEmpty()) it.tags = Collections.unmodifiableList(tags);
  }

  private static MessageFrame payload(MessageFrame it, Reader reader) {
    it.bytes = reader.bytes;
    it.payloadFrom = reader.at();
    return it;
  }

  private static CaughtUpFrame caughtUp(Reader reader) throws FrameException {
    int flags = reader.flags(1);
    CaughtUpFrame it = new CaughtUpFrame();
    it.subscription = reader.varint32();
    if ((flags & 1) != 0) it.partition = reader.varint32();
    it.through = reader.varint();
    reader.options(
        flags,
        (key, value) -> {
          if (key == LINEAGE) it.lineage = value.onlyByte();
          return key == LINEAGE;
        },
        0);
    return it;
  }

  private static GapFrame gap(Reader reader) throws FrameException {
    int flags = reader.flags(1);
    GapFrame it = new GapFrame();
    it.subscription = reader.varint32();
    if ((flags & 1) != 0) it.partition = reader.varint32();
    it.epoch = reader.varint();
    range(it, reader);
    reader.options(flags);
    return it;
  }

  private static void range(GapFrame it, Reader reader) throws FrameException {
    it.from = reader.varint();
    it.to = reader.varint();
    it.reason = reason(GAP_REASONS, reader.u8());
  }

  private static String reason(String[] names, int number) {
    String name = number < names.length ? names[number] : null;
    return name == null ? "other" : name;
  }

  private static SkippedFrame skipped(Reader reader) throws FrameException {
    int flags = reader.flags(1);
    SkippedFrame it = new SkippedFrame();
    it.subscription = reader.varint32();
    if ((flags & 1) != 0) {
      it.partition = reader.varint32();
      it.epoch = reader.varint();
    }
    it.from = reader.varint();
    it.through = reader.varint();
    it.reason = reason(SKIP_REASONS, reader.u8());
    reader.options(
        flags,
        (key, value) -> {
          if (key == LINEAGE) it.lineage = value.onlyByte();
          return key == LINEAGE;
        },
        0);
    return it;
  }

  private static PublishedFrame published(Reader reader) throws FrameException {
    int flags = reader.flags(1);
    PublishedFrame it = new PublishedFrame();
    it.request = reader.varint32();
    it.place = reader.place();
    it.duplicate = (flags & 1) != 0;
    reader.options(flags);
    return it;
  }

  private static HistoryPage historyPage(Reader reader) throws FrameException {
    int flags = reader.flags(7);
    HistoryPage it = new HistoryPage();
    it.request = reader.varint32();
    it.epoch = reader.varint();
    it.head = reader.varint();
    it.reverse = (flags & 1) != 0;
    it.more = (flags & 2) != 0;
    if ((flags & 4) != 0) {
      it.gap = new GapFrame();
      it.gap.epoch = it.epoch;
      range(it.gap, reader);
    }
    reader.options(flags);
    it.records = new ArrayList<>();
    for (long count = reader.varint(); count != 0; count--) {
      int own = reader.flags(1);
      MessageFrame message = new MessageFrame(Type.MESSAGE);
      offsets(message, reader);
      message.timeMs = reader.varint();
      attributes(message, own, reader);
      message.bytes = reader.block().rest();
      it.records.add(message);
    }
    return it;
  }

  private static ErrorFrame error(Reader reader) throws FrameException {
    int flags = reader.flags(7);
    ErrorFrame it = new ErrorFrame();
    it.temporary = (flags & 1) != 0;
    it.reference = reader.u8();
    it.id = reader.varint32();
    boolean isConnection = it.reference == ErrorFrame.CONNECTION;
    if (it.reference > ErrorFrame.SUBSCRIPTION || (isConnection && it.id != 0)) throw FrameException.malformed();
    it.code = reader.varint32();
    it.message = reader.text();
    if ((flags & 2) != 0) it.restart = reader.place();
    it.hasLimit = (flags & 4) != 0;
    if (it.hasLimit) it.limit = reader.varint();
    reader.options(flags);
    return it;
  }

  private static GoAway goAway(Reader reader) throws FrameException {
    int flags = reader.flags(0);
    GoAway it = new GoAway();
    it.code = reader.varint32();
    it.returnAfterMs = reader.varint();
    reader.options(
        flags,
        (key, value) -> {
          if (key != 8) return false;
          it.ticket = value.rest();
          return true;
        },
        0);
    it.urls = new ArrayList<>();
    for (long count = reader.varint(); count != 0; count--) it.urls.add(reader.text());
    return it;
  }

  private static Expiry expiry(Type type, Reader reader) throws FrameException {
    int flags = reader.flags(0);
    Expiry it = new Expiry(type);
    if (type != Type.TOKEN_EXPIRES) it.request = reader.varint32();
    it.expiresMs = reader.varint();
    if (type == Type.TICKET_ISSUED) it.ticket = reader.block().rest();
    reader.options(flags);
    return it;
  }

  private static PingFrame ping(Type type, Reader reader) throws FrameException {
    int flags = reader.flags(0);
    PingFrame it = new PingFrame(type);
    it.token = reader.varint();
    reader.options(flags);
    return it;
  }
}
