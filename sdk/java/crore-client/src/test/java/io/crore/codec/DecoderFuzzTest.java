package io.crore.codec;

import com.code_intelligence.jazzer.junit.FuzzTest;
import com.google.gson.JsonElement;
import io.crore.internal.codec.FrameException;
import io.crore.internal.codec.ServerFrames;
import io.crore.support.Hex;
import io.crore.support.Places;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** Bytes of any kind are a frame or a FrameException, never anything else. */
class DecoderFuzzTest {
  static Stream<Arguments> frames() {
    List<Arguments> seeds = new ArrayList<>();
    for (String list : List.of("valid", "invalid")) {
      for (JsonElement it : Places.json("vectors/server_frames.json").getAsJsonObject().getAsJsonArray(list)) {
        seeds.add(Arguments.of((Object) Hex.bytes(it.getAsJsonObject().get("hex").getAsString())));
      }
    }
    return seeds.stream();
  }

  @MethodSource("frames")
  @FuzzTest(maxDuration = "10s")
  void decodes(byte[] bytes) {
    try {
      ServerFrames.decode(bytes);
    } catch (FrameException expected) {
      // The bytes are no frame.
    }
  }
}
