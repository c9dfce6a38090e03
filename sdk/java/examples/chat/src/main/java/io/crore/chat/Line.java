package io.crore.chat;

/** What somebody said in a room. */
public final class Line {
  private final String user;
  private final String text;

  Line(String user, String text) {
    this.user = user;
    this.text = text;
  }

  public String user() {
    return user;
  }

  public String text() {
    return text;
  }

  @Override
  public String toString() {
    return user + ": " + text;
  }
}
