package io.crore.codec;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import io.crore.Message;
import io.crore.Tag;
import io.crore.internal.codec.Place;
import io.crore.internal.codec.ServerFrame;
import io.crore.internal.codec.ServerFrame.*;
import io.crore.support.Hex;

/** A decoded frame as the vectors write it. */
final class FrameTexts {
  private final JsonObject json = new JsonObject();

  private FrameTexts() {}

  static JsonObject of(ServerFrame frame) {
    FrameTexts texts = new FrameTexts();
    texts.json.addProperty("type", frame.type.name().toLowerCase(java.util.Locale.ROOT));
    texts.fields(frame);
    return texts.json;
  }

  private void fields(ServerFrame frame) {
    if (frame instanceof Welcome) welcome((Welcome) frame);
    else if (frame instanceof Subscribed) subscribed((Subscribed) frame);
    else if (frame instanceof Unsubscribed) {
      put("subscription", ((Unsubscribed) frame).subscription).put("code", ((Unsubscribed) frame).code);
    } else if (frame instanceof MessageFrame) message((MessageFrame) frame);
    else if (frame instanceof CaughtUpFrame) caughtUp((CaughtUpFrame) frame);
    else if (frame instanceof GapFrame) gap((GapFrame) frame);
    else if (frame instanceof SkippedFrame) skipped((SkippedFrame) frame);
    else if (frame instanceof PublishedFrame) {
      PublishedFrame it = (PublishedFrame) frame;
      put("request", it.request).place(it.place, "offset").put("duplicate", it.duplicate);
    } else if (frame instanceof HistoryPage) page((HistoryPage) frame);
    else if (frame instanceof ErrorFrame) error((ErrorFrame) frame);
    else if (frame instanceof GoAway) goAway((GoAway) frame);
    else if (frame instanceof Expiry) {
      Expiry it = (Expiry) frame;
      if (it.request >= 0) put("request", it.request);
      text("expires_ms", it.expiresMs);
      if (it.ticket != null) put("ticket", Hex.of(it.ticket));
    } else text("token", ((PingFrame) frame).token);
  }

  private void welcome(Welcome it) {
    text("connection", it.connection).put("ping_interval_s", it.pingIntervalS).text("time_ms", it.timeMs);
    text("frame_bytes_max", it.frameBytesMax).text("message_bytes_max", it.messageBytesMax);
    put("subscriptions_per_session_max", it.subscriptionsMax).put("node", it.node);
    optional("resumed", it.resumed).optional("ticket_lifetime_s", it.ticketLifetimeS);
  }

  private void subscribed(Subscribed it) {
    put("subscription", it.subscription);
    JsonArray beginnings = new JsonArray();
    for (Beginning beginning : it.beginnings) {
      FrameTexts one = new FrameTexts();
      if (it.isFilter) one.put("partition", beginning.partition);
      else one.put("alias", it.alias);
      one.place(beginning.through, "through");
      one.put("replaying", beginning.replaying).put("continued", beginning.continued);
      beginnings.add(one.json);
    }
    json.add("topic", it.isFilter ? JsonNull.INSTANCE : beginnings.get(0));
    json.add("filter", it.isFilter ? beginnings : JsonNull.INSTANCE);
  }

  private void message(MessageFrame it) {
    boolean isNamed = it.type == ServerFrame.Type.NAMED_MESSAGE;
    if (isNamed) {
      put("topic", it.topic).put("partition", it.partition).text("epoch", it.epoch);
      optional("subscription", it.subscription);
    } else put("alias", it.alias);
    lineage(it.lineage);
    attributes(it);
  }

  private void attributes(MessageFrame it) {
    Message message = it.message("", 0);
    text("offset", it.offset).text("prev", it.previous).put("retained", it.retained);
    put("content_type", it.contentType).put("payload", Hex.of(message.bytes()));
    JsonArray tags = new JsonArray();
    for (Tag tag : it.tags) {
      JsonArray pair = new JsonArray();
      pair.add(tag.key());
      pair.add(tag.value());
      tags.add(pair);
    }
    json.add("tags", tags);
  }

  private void caughtUp(CaughtUpFrame it) {
    put("subscription", it.subscription).optional("partition", it.partition).text("through", it.through);
    lineage(it.lineage);
  }

  /** The member is absent where the frame has none. */
  private void lineage(int lineage) {
    if (lineage >= 0) put("lineage", lineage);
  }

  private void gap(GapFrame it) {
    put("subscription", it.subscription).optional("partition", it.partition).text("epoch", it.epoch);
    text("from", it.from).text("to", it.to).put("reason", it.reason);
  }

  private void skipped(SkippedFrame it) {
    put("subscription", it.subscription).text("from", it.from).text("through", it.through).put("reason", it.reason);
    FrameTexts partition = new FrameTexts();
    partition.put("partition", it.partition).text("epoch", it.epoch);
    json.add("partition", it.partition < 0 ? JsonNull.INSTANCE : partition.json);
    lineage(it.lineage);
  }

  private void page(HistoryPage it) {
    put("request", it.request).text("epoch", it.epoch).text("head", it.head);
    put("more", it.more).put("reverse", it.reverse);
    FrameTexts gap = new FrameTexts();
    if (it.gap != null) gap.text("from", it.gap.from).text("to", it.gap.to).put("reason", it.gap.reason);
    json.add("gap", it.gap == null ? JsonNull.INSTANCE : gap.json);
    JsonArray records = new JsonArray();
    for (MessageFrame record : it.records) {
      FrameTexts one = new FrameTexts();
      one.text("time_ms", record.timeMs);
      one.attributes(record);
      records.add(one.json);
    }
    json.add("records", records);
  }

  private void error(ErrorFrame it) {
    FrameTexts reference = new FrameTexts();
    reference.put("kind", new String[] {"connection", "request", "subscription"}[it.reference]).put("id", it.id);
    json.add("reference", reference.json);
    put("code", it.code).put("temporary", it.temporary).put("message", it.message);
    FrameTexts restart = new FrameTexts();
    if (it.restart != null) restart.place(it.restart, "offset");
    json.add("restart", it.restart == null ? JsonNull.INSTANCE : restart.json);
    json.add("limit", it.hasLimit ? new JsonPrimitive(Long.toUnsignedString(it.limit)) : JsonNull.INSTANCE);
  }

  private void goAway(GoAway it) {
    put("code", it.code).text("return_after_ms", it.returnAfterMs);
    put("ticket", it.ticket == null ? null : Hex.of(it.ticket));
    JsonArray urls = new JsonArray();
    it.urls.forEach(urls::add);
    json.add("urls", urls);
  }

  private FrameTexts place(Place place, String offset) {
    return text("epoch", place.epoch).text(offset, place.offset);
  }

  private FrameTexts put(String name, Object value) {
    JsonElement element = JsonNull.INSTANCE;
    if (value instanceof Number) element = new JsonPrimitive((Number) value);
    else if (value instanceof Boolean) element = new JsonPrimitive((Boolean) value);
    else if (value != null) element = new JsonPrimitive((String) value);
    json.add(name, element);
    return this;
  }

  /** A number of 64 bits, which the vectors write as text. */
  private FrameTexts text(String name, long value) {
    return put(name, Long.toUnsignedString(value));
  }

  private FrameTexts optional(String name, long value) {
    return put(name, value < 0 ? null : value);
  }
}
