package io.crore.scenario;

import com.google.gson.JsonArray;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import io.crore.CaughtUp;
import io.crore.CroreException;
import io.crore.Gap;
import io.crore.Item;
import io.crore.Message;
import io.crore.Page;
import io.crore.Published;
import io.crore.Report;
import io.crore.Skipped;
import io.crore.State;
import io.crore.Tag;
import io.crore.internal.codec.Place;
import io.crore.support.Hex;
import java.util.Locale;

/** Items, answers and states as the scenarios write them. */
final class Effects {
  private Effects() {}

  /** The features that this SDK has. */
  static JsonObject hello() {
    JsonObject reply = new JsonObject();
    JsonArray needs = new JsonArray();
    for (String it : new String[] {"unauthorized_retry", "timeouts", "queue_bounds", "buffer", "statuses"}) needs.add(it);
    reply.add("needs", needs);
    return reply;
  }

  static JsonObject of(String name, String value) {
    JsonObject it = new JsonObject();
    it.addProperty(name, value);
    return it;
  }

  static JsonObject item(String label, Item item) {
    JsonObject it = of("item", label);
    it.addProperty("kind", item.kind().name().toLowerCase(Locale.ROOT));
    if (item.partition() >= 0) it.addProperty("partition", item.partition());
    if (item instanceof Message) message(it, (Message) item);
    else if (item instanceof Gap) {
      it.addProperty("from", ((Gap) item).from());
      it.addProperty("to", ((Gap) item).to());
      it.addProperty("cause", ((Gap) item).cause());
    } else if (item instanceof Skipped) {
      it.addProperty("from", Long.toUnsignedString(((Skipped) item).from()));
      it.addProperty("through", Long.toUnsignedString(((Skipped) item).through()));
      it.addProperty("reason", ((Skipped) item).reason());
    } else it.addProperty("position", ((CaughtUp) item).position());
    return it;
  }

  static JsonObject ended(String label, CroreException error) {
    JsonObject it = of("item", label);
    it.addProperty("kind", "ended");
    it.addProperty("code", error.code());
    it.addProperty("restart", error.restart());
    return it;
  }

  private static void message(JsonObject it, Message message) {
    it.addProperty("position", message.position());
    it.addProperty("topic", message.topic());
    it.addProperty("payload", Hex.of(message.bytes()));
    it.addProperty("content_type", message.contentType());
    it.addProperty("retained", message.retained());
    JsonArray tags = new JsonArray();
    for (Tag tag : message.tags()) {
      JsonArray pair = new JsonArray();
      pair.add(tag.key());
      pair.add(tag.value());
      tags.add(pair);
    }
    it.add("tags", tags);
  }

  static JsonObject answer(String label, CroreException error, Object value) {
    if (error != null) return error(label, error);
    JsonObject it = of("answer", label);
    if (value instanceof Published) {
      it.addProperty("published", ((Published) value).position());
      it.addProperty("duplicate", ((Published) value).duplicate());
      return it;
    }
    Page page = (Page) value;
    JsonArray messages = new JsonArray();
    for (Message message : page.messages()) {
      JsonObject one = new JsonObject();
      message(one, message);
      messages.add(one);
    }
    it.add("messages", messages);
    it.addProperty("more", page.more());
    it.add("gap", JsonNull.INSTANCE);
    if (page.gap() != null) {
      JsonObject gap = of("cause", page.gap().cause());
      gap.addProperty("from", Long.toUnsignedString(Place.parse(page.gap().from()).offset));
      gap.addProperty("to", Long.toUnsignedString(Place.parse(page.gap().to()).offset));
      it.add("gap", gap);
    }
    return it;
  }

  static JsonObject error(String label, CroreException error) {
    JsonObject it = of("answer", label);
    if (error.code() < 0) {
      it.addProperty("error", error.name());
      return it;
    }
    it.addProperty("error", "Refused");
    it.addProperty("code", error.code());
    it.addProperty("temporary", error.temporary());
    it.addProperty("restart", error.restart());
    if (error.limit() >= 0) it.addProperty("limit", error.limit());
    return it;
  }

  static JsonObject state(State state) {
    JsonObject it = of("state", state.kind().name().toLowerCase(Locale.ROOT));
    if (state.reason() != null) it.addProperty("reason", state.reason());
    if (state.code() >= 0) it.addProperty("code", state.code());
    if (state.status() >= 0) it.addProperty("status", state.status());
    return it;
  }

  static JsonObject report(Report report) {
    JsonObject it = new JsonObject();
    it.addProperty("complete", report.complete());
    it.addProperty("basis", report.proved() ? "proved" : "announced");
    it.addProperty("gaps", report.gaps());
    it.addProperty("skips", report.skips());
    it.addProperty("messages", report.messages());
    it.addProperty("position", report.position());
    JsonArray newest = new JsonArray();
    for (Gap gap : report.newest()) {
      JsonObject one = of("cause", gap.cause());
      one.addProperty("from", gap.from());
      one.addProperty("to", gap.to());
      newest.add(one);
    }
    it.add("newest", newest);
    JsonObject positions = new JsonObject();
    report.positions().forEach((partition, position) -> positions.addProperty(partition.toString(), position));
    it.add("positions", positions);
    return it;
  }
}
