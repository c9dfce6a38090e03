package io.crore.chat;

/** What a room shows: an activity on Android, a terminal here. Called by one thread at a time. */
public interface View {
  /** Somebody said something; lines come in the same order for everybody. */
  void line(Line line);

  /** The log of the room does not go back far enough: some lines are gone. */
  void missing();

  /** The user's own line will not appear. */
  void unsent(String text, String why);

  /** The state of the connection. */
  void state(String state);
}
