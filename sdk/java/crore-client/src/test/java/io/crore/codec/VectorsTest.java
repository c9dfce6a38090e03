package io.crore.codec;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import io.crore.Tag;
import io.crore.internal.codec.ClientFrames;
import io.crore.internal.codec.ClientFrames.Cursor;
import io.crore.internal.codec.ClientFrames.Publication;
import io.crore.internal.codec.ClientFrames.SubscribeItem;
import io.crore.internal.codec.ClientFrames.WireStart;
import io.crore.internal.codec.FrameException;
import io.crore.internal.codec.Place;
import io.crore.internal.codec.PlainMessage;
import io.crore.internal.codec.ServerFrame.MessageFrame;
import io.crore.internal.codec.ServerFrames;
import io.crore.internal.codec.Topics;
import io.crore.support.Hex;
import io.crore.support.Places;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** spec/vectors: the client's frames are encoded, the server's decoded, and faults refused. */
class VectorsTest {
  private static final List<String> POLICIES = List.of("replay", "conflate", "drop", "disconnect");

  @Test
  void everyClientFrameIsEncoded() {
    int count = 0;
    for (JsonElement it : array(Places.json("vectors/client_frames.json"), "valid")) {
      JsonObject vector = it.getAsJsonObject();
      JsonObject frame = vector.getAsJsonObject("frame");
      if (vector.has("encodes_to") && vector.get("encodes_to").isJsonNull()) continue;
      String wanted = vector.get(vector.has("encodes_to") ? "encodes_to" : "hex").getAsString();
      if (hasRefusedItem(frame)) continue;
      assertEquals(wanted, Hex.of(encode(frame)), vector.get("name").getAsString());
      count++;
    }
    System.out.println("vectors: " + count + " client frames encoded");
    assertTrue(count >= 40);
  }

  @Test
  void everyServerFrameIsDecoded() throws FrameException {
    int count = 0;
    int plains = 0;
    PlainMessage plain = new PlainMessage();
    for (JsonElement it : array(Places.json("vectors/server_frames.json"), "valid")) {
      JsonObject vector = it.getAsJsonObject();
      JsonObject wanted = vector.getAsJsonObject("frame");
      JsonObject decoded = FrameTexts.of(ServerFrames.decode(Hex.bytes(vector.get("hex").getAsString())));
      unifyReason(wanted, decoded);
      assertEquals(wanted, decoded, vector.get("name").getAsString());
      count++;
      byte[] bytes = Hex.bytes(vector.get("hex").getAsString());
      if (!plain.read(bytes)) continue;
      DecoderFuzzTest.assertEquals(plain, (MessageFrame) ServerFrames.decode(bytes));
      plains++;
    }
    System.out.println("vectors: " + count + " server frames decoded, " + plains + " also by the short way");
    assertEquals(2, plains);
    assertTrue(count >= 40);
  }

  @Test
  void everyMalformedServerFrameIsRefusedByItsName() {
    JsonArray cases = array(Places.json("vectors/server_frames.json"), "invalid");
    for (JsonElement it : cases) {
      JsonObject vector = it.getAsJsonObject();
      byte[] bytes = Hex.bytes(vector.get("hex").getAsString());
      String name = vector.get("name").getAsString();
      FrameException thrown = assertThrows(FrameException.class, () -> ServerFrames.decode(bytes), name);
      String wanted = vector.get("error").getAsString();
      assertEquals(wanted, thrown.name(), name);
      assertEquals(wanted.startsWith("unsupported"), thrown.isUnsupported(), name);
    }
    System.out.println("vectors: " + cases.size() + " malformed frames refused");
    assertTrue(cases.size() > 30);
  }

  @Test
  void filtersMatchAsAtTheServer() {
    JsonObject vectors = Places.json("vectors/topics.json").getAsJsonObject();
    for (JsonElement it : array(vectors, "topics")) {
      JsonObject vector = it.getAsJsonObject();
      String topic = vector.get("topic").getAsString();
      if (vector.get("valid").getAsBoolean()) assertTrue(Topics.hasLength(topic) && !Topics.isFilter(topic), topic);
    }
    JsonArray pairs = array(vectors, "matching");
    for (JsonElement it : pairs) {
      JsonObject vector = it.getAsJsonObject();
      String filter = vector.get("filter").getAsString();
      String topic = vector.get("topic").getAsString();
      assertEquals(vector.get("matches").getAsBoolean(), Topics.matches(filter, topic), filter + " " + topic);
    }
    System.out.println("vectors: " + pairs.size() + " pairs of filter and topic");
    assertTrue(pairs.size() > 10);
  }

  @Test
  void lengthsAreBytes() {
    assertTrue(Topics.hasLength("a") && Topics.hasLength("a".repeat(255)) && Topics.hasLength("ä".repeat(127)));
    assertFalse(Topics.hasLength("") || Topics.hasLength("a".repeat(256)) || Topics.hasLength("ä".repeat(128)));
  }

  @Test
  void positionsAreTexts() {
    String largest = "18446744073709551615:18446744073709551615";
    assertEquals(largest, Place.parse(largest).toString());
    assertEquals(new Place(7, 42), Place.parse("7:42"));
    for (String bad : List.of("", "7", "7:", ":1", "7:42 ", "07:1", "7:-1", "a:1", "7:18446744073709551616", "7:1:2")) {
      assertNull(Place.parse(bad), bad);
    }
  }

  private static boolean hasRefusedItem(JsonObject frame) {
    if (!frame.has("items")) return false;
    for (JsonElement it : frame.getAsJsonArray("items")) if (it.getAsJsonObject().has("error")) return true;
    return false;
  }

  private static byte[] encode(JsonObject it) {
    switch (it.get("type").getAsString()) {
      case "hello":
        byte[] ticket = it.get("ticket").isJsonNull() ? null : Hex.bytes(text(it, "ticket"));
        return ClientFrames.hello(
            text(it, "token"), text(it, "name"), ticket, cursors(it), it.get("ping_interval_s").getAsLong());
      case "subscribe":
        return ClientFrames.subscribe(items(it));
      case "unsubscribe":
        long[] numbers = new long[it.getAsJsonArray("subscriptions").size()];
        for (int at = 0; at < numbers.length; at++) numbers[at] = it.getAsJsonArray("subscriptions").get(at).getAsLong();
        return ClientFrames.unsubscribe(numbers);
      case "publish":
        return ClientFrames.publish(it.get("request").getAsLong(), publication(it));
      case "history":
        Place position = it.get("position").isJsonNull() ? null : place(it.getAsJsonObject("position"));
        return ClientFrames.history(
            it.get("request").getAsLong(),
            text(it, "topic"),
            it.get("reverse").getAsBoolean(),
            position,
            it.get("records_max").getAsLong(),
            it.get("bytes_max").getAsLong());
      case "credit":
        return ClientFrames.credit(it.get("subscription").getAsLong(), it.get("messages").getAsLong());
      case "ping":
        return ClientFrames.ping(unsigned(it, "token"));
      case "pong":
        return ClientFrames.pong(unsigned(it, "token"));
      case "renew":
        return ClientFrames.renew(it.get("request").getAsLong(), text(it, "token"));
      default:
        return ClientFrames.ticket(it.get("request").getAsLong());
    }
  }

  private static List<Cursor> cursors(JsonObject hello) {
    List<Cursor> cursors = new ArrayList<>();
    for (JsonElement element : hello.getAsJsonArray("cursors")) {
      JsonObject it = element.getAsJsonObject();
      long partition = it.get("partition").isJsonNull() ? -1 : it.get("partition").getAsLong();
      cursors.add(new Cursor(it.get("subscription").getAsLong(), partition, place(it)));
    }
    return cursors;
  }

  private static List<SubscribeItem> items(JsonObject subscribe) {
    List<SubscribeItem> items = new ArrayList<>();
    for (JsonElement element : subscribe.getAsJsonArray("items")) {
      JsonObject it = element.getAsJsonObject();
      long credit = it.get("replay_credit").isJsonNull() ? -1 : it.get("replay_credit").getAsLong();
      int policy = it.get("policy").isJsonNull() ? -1 : POLICIES.indexOf(text(it, "policy"));
      items.add(
          new SubscribeItem(
              it.get("subscription").getAsLong(),
              text(it, "filter"),
              start(it.getAsJsonObject("start")),
              it.get("fail_on_gap").getAsBoolean(),
              credit,
              policy));
    }
    return items;
  }

  private static WireStart start(JsonObject it) {
    switch (text(it, "kind")) {
      case "since":
        return WireStart.since(place(it));
      case "last":
        return WireStart.last(it.get("count").getAsLong());
      case "snapshot":
        return WireStart.SNAPSHOT;
      case "since_each":
        Map<Long, Place> each = new LinkedHashMap<>();
        for (JsonElement element : it.getAsJsonArray("positions")) {
          each.put(element.getAsJsonObject().get("partition").getAsLong(), place(element.getAsJsonObject()));
        }
        return WireStart.sinceEach(each);
      default:
        return WireStart.LIVE;
    }
  }

  private static Publication publication(JsonObject it) {
    Publication publication = new Publication(text(it, "topic"), Hex.bytes(text(it, "payload")));
    publication.retain = it.get("retain").getAsBoolean();
    publication.contentType = text(it, "content_type");
    List<Tag> tags = new ArrayList<>();
    for (JsonElement pair : it.getAsJsonArray("tags")) {
      tags.add(new Tag(pair.getAsJsonArray().get(0).getAsString(), pair.getAsJsonArray().get(1).getAsString()));
    }
    publication.tags = tags;
    if (!it.get("producer").isJsonNull()) {
      publication.producerId = Hex.bytes(text(it.getAsJsonObject("producer"), "id"));
      publication.sequence = unsigned(it.getAsJsonObject("producer"), "sequence");
    }
    String key = text(it, "idempotency_key");
    publication.key = key == null ? null : Hex.bytes(key);
    if (!it.get("expected_epoch").isJsonNull()) publication.expectedEpoch = unsigned(it, "expected_epoch");
    return publication;
  }

  /** Reasons without a name are "other" here, and numbers in the vectors. */
  private static void unifyReason(JsonObject wanted, JsonObject decoded) {
    if (wanted.has("reason") && text(decoded, "reason").equals("other")) wanted.addProperty("reason", "other");
    if (wanted.has("gap") && wanted.get("gap").isJsonObject()) {
      unifyReason(wanted.getAsJsonObject("gap"), decoded.getAsJsonObject("gap"));
    }
  }

  private static Place place(JsonObject it) {
    return new Place(unsigned(it, "epoch"), unsigned(it, "offset"));
  }

  private static long unsigned(JsonObject it, String name) {
    return Long.parseUnsignedLong(it.get(name).getAsString());
  }

  private static String text(JsonObject it, String name) {
    return it.get(name).isJsonNull() ? null : it.get(name).getAsString();
  }

  private static JsonArray array(JsonElement it, String name) {
    return it.getAsJsonObject().getAsJsonArray(name);
  }
}
