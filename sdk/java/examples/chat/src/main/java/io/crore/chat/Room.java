package io.crore.chat;

import io.crore.Crore;
import io.crore.CroreBuilder;
import io.crore.Gap;
import io.crore.Item;
import io.crore.Message;
import io.crore.PublishOptions;
import io.crore.Storage;
import io.crore.SubscribeOptions;
import io.crore.Subscription;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/**
 * One user in one room. What is said is in the room's log exactly once, also over the end of the
 * program, and a program that comes back begins behind the last line that it has shown.
 */
public final class Room implements AutoCloseable {
  private static final int LINES_SHOWN_FIRST = 50;
  private static final String USER = "user";

  private final Crore client;
  private final Subscription lines;
  private final View view;
  private final String topic;
  private final String user;
  /** The thread of the view. */
  private final ExecutorService thread = Executors.newSingleThreadExecutor();

  /**
   * Opens a room, connected or not.
   *
   * @param builder the client, with its address and transport
   * @param storage what outlives the program
   */
  public Room(CroreBuilder builder, Storage storage, String room, String user, View view) {
    this.view = view;
    this.user = user;
    topic = "chat/" + room;
    client =
        builder
            .name(user)
            .storage(storage)
            .persist()
            .executor(thread)
            .onState(state -> view.state(state.toString()))
            .build();
    lines = client.subscribe(topic, SubscribeOptions.last(LINES_SHOWN_FIRST).name(user + "@" + room));
    lines.listen(this::show);
  }

  /** Says something: it appears when it is in the log, as it does for all others. */
  public void say(String text) {
    client
        .publish(topic, text, PublishOptions.none().once().tag(USER, user))
        .whenComplete(
            (published, error) -> {
              if (error != null) view.unsent(text, error.getMessage());
            });
  }

  private void show(Item item) {
    if (item instanceof Message) {
      Message message = (Message) item;
      view.line(new Line(message.tag(USER), message.text()));
    } else if (item instanceof Gap) {
      view.missing();
    }
  }

  /** Whether nothing was missing so far. */
  public boolean isComplete() {
    return lines.report().complete();
  }

  /** Waits for the answers to what was said, for some seconds at most. */
  @Override
  public void close() {
    client.close();
    thread.shutdown();
    try {
      thread.awaitTermination(5, TimeUnit.SECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}
