package io.crore.codec;

import com.code_intelligence.jazzer.junit.FuzzTest;
import com.google.gson.JsonElement;
import io.crore.Message;
import io.crore.internal.codec.FrameException;
import io.crore.internal.codec.PlainMessage;
import io.crore.internal.codec.ServerFrame;
import io.crore.internal.codec.ServerFrame.MessageFrame;
import io.crore.internal.codec.ServerFrames;
import io.crore.support.Hex;
import io.crore.support.Places;
import java.util.ArrayList;
import java.util.Arrays;
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
    PlainMessage plain = new PlainMessage();
    boolean isPlain = plain.read(bytes);
    try {
      ServerFrame frame = ServerFrames.decode(bytes);
      if (isPlain) assertEquals(plain, (MessageFrame) frame);
    } catch (FrameException expected) {
      if (isPlain) throw new AssertionError("the short way accepts what the long one refuses", expected);
    }
  }

  /** The short way and the long one read the same. */
  static void assertEquals(PlainMessage plain, MessageFrame frame) {
    Message one = plain.message("t", 7);
    Message other = frame.message("t", 7);
    boolean isEqual =
        plain.alias == frame.alias
            && one.offset() == other.offset()
            && one.previous() == other.previous()
            && one.retained() == other.retained()
            && one.partition() == other.partition()
            && one.time() == other.time()
            && Arrays.equals(one.bytes(), other.bytes());
    if (!isEqual) throw new AssertionError(one + " is not " + other);
  }
}
