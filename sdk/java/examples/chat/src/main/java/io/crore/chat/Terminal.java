package io.crore.chat;

import io.crore.Crore;
import io.crore.FileStorage;
import io.crore.android.OkHttpTransport;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;

/** The chat in a terminal: each line that is typed is said, and the end of the input leaves. */
public final class Terminal implements View {
  private Terminal() {}

  /** Arguments: the node's URL, the room, the user's name, a folder that outlives the program. */
  public static void main(String[] arguments) throws IOException {
    if (arguments.length != 4) {
      System.err.println("usage: chat URL ROOM USER FOLDER");
      System.exit(2);
    }
    FileStorage storage = new FileStorage(new File(arguments[3]));
    try (Room room =
        new Room(
            Crore.builder(arguments[0]).transport(new OkHttpTransport()),
            storage,
            arguments[1],
            arguments[2],
            new Terminal())) {
      BufferedReader typed = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
      for (String text = typed.readLine(); text != null; text = typed.readLine()) {
        if (!text.isEmpty()) room.say(text);
      }
    }
  }

  @Override
  public void line(Line line) {
    System.out.println(line);
  }

  @Override
  public void missing() {
    System.out.println("(older lines are gone)");
  }

  @Override
  public void unsent(String text, String why) {
    System.out.println("(not sent: " + text + ": " + why + ")");
  }

  @Override
  public void state(String state) {
    System.err.println("(" + state + ")");
  }
}
