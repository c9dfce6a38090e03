package io.crore.core;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import io.crore.internal.codec.FrameException;
import io.crore.internal.codec.Place;
import io.crore.internal.codec.ServerFrame;
import io.crore.internal.codec.ServerFrame.Beginning;
import io.crore.internal.codec.ServerFrame.CaughtUpFrame;
import io.crore.internal.codec.ServerFrame.GapFrame;
import io.crore.internal.codec.ServerFrame.MessageFrame;
import io.crore.internal.codec.ServerFrame.SkippedFrame;
import io.crore.internal.codec.ServerFrame.Subscribed;
import io.crore.internal.codec.ServerFrames;
import io.crore.internal.core.Hole;
import io.crore.internal.core.Proof;
import io.crore.support.Hex;
import io.crore.support.Places;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** spec/vectors/proof.json: what the proof reports for one topic. */
class ProofVectorsTest {
  @Test
  void theProofReportsWhatTheVectorsSay() throws FrameException {
    JsonArray cases = Places.json("vectors/proof.json").getAsJsonObject().getAsJsonArray("cases");
    for (JsonElement it : cases) check(it.getAsJsonObject());
    System.out.println("vectors: " + cases.size() + " proofs");
    assertTrue(cases.size() > 10);
  }

  private static void check(JsonObject vector) throws FrameException {
    String name = vector.get("name").getAsString();
    JsonObject start = vector.getAsJsonObject("start");
    boolean isSince = start.get("kind").getAsString().equals("since");
    Proof proof = new Proof(isSince ? new Place(number(start, "epoch"), number(start, "offset")) : null);
    for (JsonElement it : vector.getAsJsonArray("steps")) {
      String hex = it.getAsJsonObject().get("hex").getAsString();
      List<String> wanted = new ArrayList<>();
      for (JsonElement event : it.getAsJsonObject().getAsJsonArray("events")) wanted.add(text(event.getAsJsonObject()));
      assertEquals(wanted, pass(proof, ServerFrames.decode(Hex.bytes(hex))), name + ": " + hex);
    }
    JsonObject end = vector.getAsJsonObject("end");
    assertEquals(new Place(number(end, "epoch"), number(end, "through")), proof.cursor(), name);
  }

  private static List<String> pass(Proof proof, ServerFrame frame) {
    List<String> events = new ArrayList<>();
    Place before = proof.cursor();
    String event = null;
    if (frame instanceof Subscribed) {
      Beginning begin = ((Subscribed) frame).beginnings.get(0);
      proof.subscribed(begin.through, begin.continued);
    } else if (frame instanceof MessageFrame) {
      MessageFrame it = (MessageFrame) frame;
      event = (proof.message(it.previous, it.offset, it.lineage) ? "message " : "repeated ") + it.offset;
    } else if (frame instanceof GapFrame) {
      GapFrame it = (GapFrame) frame;
      event = "gap " + proof.gap(new Place(it.epoch, it.to)).offset + " " + it.to;
    } else if (frame instanceof SkippedFrame) {
      proof.skipped(((SkippedFrame) frame).from, ((SkippedFrame) frame).through, -1);
    } else if (frame instanceof CaughtUpFrame) proof.caughtUp(((CaughtUpFrame) frame).through, -1);
    Hole hole = proof.takeHole();
    if (hole != null) events.add("lost " + hole.from.offset + " " + hole.to.offset);
    if (frame instanceof SkippedFrame) {
      event = "skipped " + (hole == null ? before : hole.to).offset + " " + ((SkippedFrame) frame).through;
    }
    if (event != null) events.add(event);
    return events;
  }

  private static String text(JsonObject event) {
    String name = event.get("event").getAsString();
    if (event.has("offset")) return name + " " + event.get("offset").getAsString();
    return name + " " + event.get("from").getAsString() + " " + event.get("to").getAsString();
  }

  private static long number(JsonObject it, String name) {
    return Long.parseUnsignedLong(it.get(name).getAsString());
  }
}
