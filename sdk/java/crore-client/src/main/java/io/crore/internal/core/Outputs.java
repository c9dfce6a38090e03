package io.crore.internal.core;

import io.crore.CroreException;
import io.crore.Level;
import io.crore.State;
import io.crore.TokenReason;
import java.util.Map;

/** What the core wants done, in its order. An output must not call the core. */
public interface Outputs {
  /** Opens a WebSocket; ends any other one. */
  void connect(String url);

  /** Sends a binary message. */
  void send(byte[] frame);

  /** Closes the WebSocket; 1006: at once, without a close frame. */
  void close(int code);

  /** Calls the source of tokens, and answers with this id. */
  void askForToken(long id, TokenReason reason);

  /** A call has its one result: an error, or a {@code Published} or {@code Page}. */
  void settled(Call call, CroreException error, Object value);

  /** The state has changed. */
  void state(State state);

  /** A subscription has items, or has ended. */
  void items(CoreSubscription of);

  /** A subscription was granted; its cursors are known. */
  default void granted(CoreSubscription of) {}

  /** R11: a new ticket to store; null: the stored one is of no use any more. */
  default void ticket(KeptTicket ticket) {}

  /** The server has refused something that belongs to no call. */
  void refused(CroreException error);

  /** An event of the log. */
  void log(Level level, String event, Map<String, Object> fields);
}
