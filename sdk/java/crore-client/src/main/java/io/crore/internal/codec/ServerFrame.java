package io.crore.internal.codec;

import io.crore.Message;
import io.crore.Tag;
import java.util.Collections;
import java.util.List;

/** A frame of the server. Numbers are -1 and objects null where the frame has none. */
public abstract class ServerFrame {
  /** The frames, by their names in the specification. */
  public enum Type {
    WELCOME,
    SUBSCRIBED,
    UNSUBSCRIBED,
    MESSAGE,
    NAMED_MESSAGE,
    CAUGHT_UP,
    GAP,
    SKIPPED,
    PUBLISHED,
    HISTORY_PAGE,
    ERROR,
    GO_AWAY,
    RENEWED,
    TICKET_ISSUED,
    TOKEN_EXPIRES,
    PING,
    PONG
  }

  public final Type type;

  ServerFrame(Type type) {
    this.type = type;
  }

  public static final class Welcome extends ServerFrame {
    public long connection;
    public long pingIntervalS;
    public long timeMs;
    public long frameBytesMax;
    public long messageBytesMax;
    public long subscriptionsMax;
    public String node;
    public long resumed = -1;
    public long ticketLifetimeS = -1;

    Welcome() {
      super(Type.WELCOME);
    }
  }

  /** Where a subscription begins; for a filter, in one partition. */
  public static final class Beginning {
    public final long partition;
    public final Place through;
    public final boolean replaying;
    public final boolean continued;

    Beginning(long partition, Place through, int flags) {
      this.partition = partition;
      this.through = through;
      this.replaying = (flags & 2) != 0;
      this.continued = (flags & 4) != 0;
    }
  }

  public static final class Subscribed extends ServerFrame {
    public long subscription;
    /** Whether it is about a filter: without alias, with any number of beginnings. */
    public boolean isFilter;
    public long alias = -1;
    public List<Beginning> beginnings = Collections.emptyList();

    Subscribed() {
      super(Type.SUBSCRIBED);
    }
  }

  public static final class Unsubscribed extends ServerFrame {
    public long subscription;
    public long code;

    Unsubscribed() {
      super(Type.UNSUBSCRIBED);
    }
  }

  /** MESSAGE, NAMED_MESSAGE and records of history: the payload stays in the frame's bytes. */
  public static final class MessageFrame extends ServerFrame {
    public long alias = -1;
    public String topic;
    public long partition = -1;
    public long epoch;
    public long offset;
    public long previous;
    public boolean retained;
    public String contentType;
    public List<Tag> tags = Collections.emptyList();
    public long subscription = -1;
    public long timeMs = -1;
    /** The low byte of an epoch that advances without loss, or -1; here and in other frames. */
    public int lineage = -1;
    byte[] bytes;
    int payloadFrom;

    MessageFrame(Type type) {
      super(type);
    }

    /** The message, whose topic and epoch the alias or the page knows. */
    public Message message(String topic, long epoch) {
      return new Message(
          topic, epoch, offset, previous, retained, contentType, tags, partition, timeMs, bytes, payloadFrom);
    }
  }

  public static final class CaughtUpFrame extends ServerFrame {
    public long subscription;
    public long partition = -1;
    public long through;
    public int lineage = -1;

    CaughtUpFrame() {
      super(Type.CAUGHT_UP);
    }
  }

  /** A range that is gone; also of a page of history. */
  public static final class GapFrame extends ServerFrame {
    public long subscription = -1;
    public long partition = -1;
    public long epoch;
    public long from;
    public long to;
    public String reason;

    GapFrame() {
      super(Type.GAP);
    }
  }

  public static final class SkippedFrame extends ServerFrame {
    public long subscription;
    public long partition = -1;
    public long epoch;
    public long from;
    public long through;
    public String reason;
    public int lineage = -1;

    SkippedFrame() {
      super(Type.SKIPPED);
    }
  }

  public static final class PublishedFrame extends ServerFrame {
    public long request;
    public Place place;
    public boolean duplicate;

    PublishedFrame() {
      super(Type.PUBLISHED);
    }
  }

  public static final class HistoryPage extends ServerFrame {
    public long request;
    public boolean reverse;
    public boolean more;
    public long epoch;
    public long head;
    public GapFrame gap;
    public List<MessageFrame> records;

    HistoryPage() {
      super(Type.HISTORY_PAGE);
    }
  }

  public static final class ErrorFrame extends ServerFrame {
    public static final int CONNECTION = 0;
    public static final int REQUEST = 1;
    public static final int SUBSCRIPTION = 2;

    public int reference;
    public long id;
    public long code;
    public boolean temporary;
    public String message;
    public Place restart;
    public long limit = -1;
    public boolean hasLimit;

    ErrorFrame() {
      super(Type.ERROR);
    }
  }

  public static final class GoAway extends ServerFrame {
    public long code;
    public long returnAfterMs;
    public List<String> urls;
    public byte[] ticket;

    GoAway() {
      super(Type.GO_AWAY);
    }
  }

  /** RENEWED, TICKET_ISSUED, TOKEN_EXPIRES: a time, with what it is about. */
  public static final class Expiry extends ServerFrame {
    public long request = -1;
    public long expiresMs;
    public byte[] ticket;

    Expiry(Type type) {
      super(type);
    }
  }

  public static final class PingFrame extends ServerFrame {
    public long token;

    PingFrame(Type type) {
      super(type);
    }
  }
}
