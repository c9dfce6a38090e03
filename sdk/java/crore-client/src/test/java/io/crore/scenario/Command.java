package io.crore.scenario;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import io.crore.Tag;
import io.crore.internal.codec.Place;
import io.crore.support.Hex;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The fields of a command; those that are absent are null. */
final class Command {
  private final JsonObject json;

  Command(JsonObject json) {
    this.json = json;
  }

  boolean has(String name) {
    return json.has(name) && !json.get(name).isJsonNull();
  }

  String text(String name) {
    return has(name) ? json.get(name).getAsString() : null;
  }

  long number(String name, long otherwise) {
    return has(name) ? json.get(name).getAsLong() : otherwise;
  }

  boolean is(String name) {
    return has(name) && json.get(name).getAsBoolean();
  }

  byte[] bytes(String name) {
    return has(name) ? Hex.bytes(text(name)) : null;
  }

  /** An object; empty if it is absent. */
  Command object(String name) {
    return new Command(has(name) ? json.getAsJsonObject(name) : new JsonObject());
  }

  boolean isObject(String name) {
    return has(name) && json.get(name).isJsonObject();
  }

  List<String> texts(String name) {
    List<String> texts = new ArrayList<>();
    if (has(name)) for (JsonElement it : json.getAsJsonArray(name)) texts.add(it.isJsonNull() ? null : it.getAsString());
    return texts;
  }

  List<Double> fractions(String name) {
    List<Double> numbers = new ArrayList<>();
    if (has(name)) for (JsonElement it : json.getAsJsonArray(name)) numbers.add(it.getAsDouble());
    return numbers;
  }

  List<Tag> tags(String name) {
    List<Tag> tags = new ArrayList<>();
    if (!has(name)) return tags;
    for (JsonElement it : json.getAsJsonArray(name)) {
      JsonArray pair = it.getAsJsonArray();
      tags.add(new Tag(pair.get(0).getAsString(), pair.get(1).getAsString()));
    }
    return tags;
  }

  /** Positions by partition. */
  Map<Long, String> positions(String name) {
    Map<Long, String> positions = new LinkedHashMap<>();
    if (!has(name)) return positions;
    for (JsonElement it : json.getAsJsonArray(name)) {
      JsonObject one = it.getAsJsonObject();
      positions.put(one.get("partition").getAsLong(), one.get("position").getAsString());
    }
    return positions;
  }

  Place place(String name) {
    return has(name) ? Place.parse(text(name)) : null;
  }
}
