package io.crore.internal.core;

import io.crore.CroreException;
import io.crore.Item;
import io.crore.Level;
import io.crore.State;
import io.crore.State.Kind;
import io.crore.TokenReason;
import io.crore.internal.codec.ClientFrames;
import io.crore.internal.codec.ClientFrames.Cursor;
import io.crore.internal.codec.ClientFrames.Publication;
import io.crore.internal.codec.FrameException;
import io.crore.internal.codec.Place;
import io.crore.internal.codec.PlainMessage;
import io.crore.internal.codec.ServerFrame;
import io.crore.internal.codec.ServerFrame.CaughtUpFrame;
import io.crore.internal.codec.ServerFrame.ErrorFrame;
import io.crore.internal.codec.ServerFrame.Expiry;
import io.crore.internal.codec.ServerFrame.GapFrame;
import io.crore.internal.codec.ServerFrame.GoAway;
import io.crore.internal.codec.ServerFrame.HistoryPage;
import io.crore.internal.codec.ServerFrame.MessageFrame;
import io.crore.internal.codec.ServerFrame.PingFrame;
import io.crore.internal.codec.ServerFrame.PublishedFrame;
import io.crore.internal.codec.ServerFrame.SkippedFrame;
import io.crore.internal.codec.ServerFrame.Subscribed;
import io.crore.internal.codec.ServerFrame.Type;
import io.crore.internal.codec.ServerFrame.Unsubscribed;
import io.crore.internal.codec.ServerFrame.Welcome;
import io.crore.internal.codec.ServerFrames;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;

/**
 * The client without socket, thread, timer, clock or random number of its own. The shell passes what
 * happens with the time in milliseconds, carries out the {@link Outputs}, and calls {@link #tick} at
 * {@link #wakeAt}. One thread at a time.
 *
 * <p>Rules: {@code spec/sdk.md}; their numbers stand beside the code.
 */
public final class Core implements Subscriptions.Link {
  /** A time that does not come. */
  public static final long NEVER = Long.MAX_VALUE;

  private static final long OPEN_MS_MAX = 10_000; // C7
  private static final long DELAY_MS_MAX = 1L << 40;
  private static final long RESUBSCRIBE_CODE = 2500; // S6
  private static final long NUMBER_MAX = 0xffff_ffffL;
  private static final int UNAUTHORIZED = 200;
  private static final int TICKET_REFUSED = 204;
  private static final int CLOSE_TOKEN_EXPIRED = 3007;
  private static final int CLOSE_UNAUTHORIZED = 3502;

  private enum Phase {
    WAITING,
    TOKEN,
    OPENING,
    GREETING,
    READY,
    CLOSED
  }

  private final Settings settings;
  private final Outputs outputs;
  private final Journal journal;
  private final Subscriptions subscriptions;
  private final Calls calls;
  private final Tickets tickets = new Tickets();
  private final Tokens tokens;
  private final Liveness liveness = new Liveness();
  private final PlainMessage plain = new PlainMessage();

  private State state = new State(Kind.CONNECTING, null, -1, -1);
  private Phase phase = Phase.WAITING;
  private long phaseSince;
  private long waitUntil;
  /** When the WebSocket was open, or -1. */
  private long openedAt = -1;
  /** C3: the turn of the list. */
  private int attempt;
  /** G3: addresses of GO_AWAY to try first. */
  private final List<String> preferred = new ArrayList<>();
  /** G1: GO_AWAY came on this connection. */
  private GoAway plan;
  /** X1: when the client closes at the latest, once the application has asked for it. */
  private long closeAt = NEVER;
  private long lastRequest;
  /** T7: {@code unauthorized} came in place of WELCOME. */
  private boolean wasUnauthorized;
  private State lastEnd = state;
  private boolean isBlocked;

  public Core(Settings settings, Outputs outputs) {
    this.settings = settings;
    this.outputs = outputs;
    journal = new Journal(outputs);
    tokens = new Tokens(settings.token, settings.hasTokenSource);
    subscriptions =
        new Subscriptions(this, outputs, journal, tickets, settings.bufferItems, settings.bufferBytes);
    calls = new Calls(settings.producerId, this::nextRequest, outputs);
    int count = settings.urls.size();
    // C3
    if (count > 1) attempt = Math.min((int) (settings.random.getAsDouble() * count), count - 1);
  }

  // The application's calls.

  public void start(long now) {
    connect(now);
  }

  /** R11: a ticket of an earlier program; {@code clock} is the present time since 1970. */
  public void restore(long now, long clock, KeptTicket ticket) {
    tickets.restore(now, clock, ticket);
    subscriptions.restore(ticket.covers, ticket.places);
  }

  /** U13: the id of an earlier program. */
  public void producer(byte[] id) {
    calls.producer(id);
  }

  /** S1 */
  public CoreSubscription subscribe(long now, CoreSubscription.Request request) {
    refuseIfClosed();
    return subscriptions.add(now, request);
  }

  /** Refuses what {@link #subscribe} would refuse. */
  public void check(String filter) {
    refuseIfClosed();
    subscriptions.check(filter);
  }

  public void unsubscribe(long now, CoreSubscription it) {
    subscriptions.remove(now, it);
  }

  /** The oldest item of the buffer, or null. What it frees, {@link #refill} asks for. */
  public Item take(CoreSubscription it) {
    return subscriptions.take(it);
  }

  /** Whether {@link #refill} may have something to do. */
  public boolean mayRefill(CoreSubscription it) {
    return it.isPaused || it.usesCredit;
  }

  public void refill(long now, CoreSubscription it) {
    subscriptions.refill(now, it);
  }

  /** {@code timeoutMs}: -1 for the default. */
  public Call publish(long now, Publication publication, boolean isOnce, long timeoutMs) {
    refuseIfClosed();
    Call call = calls.publish(now, publication, isOnce, timeoutMs);
    pump();
    return call;
  }

  /** One page; {@code position}: null for none, {@code limit}: 0 for the server's. */
  public Call history(long now, String topic, Place position, boolean isReverse, long limit, long timeoutMs) {
    refuseIfClosed();
    Call call = calls.history(now, topic, position, isReverse, limit, timeoutMs);
    pump();
    return call;
  }

  /** Gives a call up: not sent yet, it never will be. */
  public void abandon(long now, Call call) {
    calls.expire(call);
    after(now);
  }

  /** T3, T6 */
  public void renew(String token) {
    if (!tokens.take(token) || !isGreeted()) return;
    tokens.isDue = true;
    renewIfDue();
  }

  /** X1 */
  public void close(long now, long drainMs) {
    if (phase == Phase.CLOSED || closeAt != NEVER) return;
    closeAt = now + drainMs;
    after(now);
  }

  public State state() {
    return state;
  }

  /** X6: no token, no ticket, no payload. */
  public Map<String, Object> inspect() {
    Map<String, Object> map = new LinkedHashMap<>();
    map.put("state", state.toString());
    map.put("round_trip_ms", liveness.roundTripMs());
    List<Map<String, Object>> list = new ArrayList<>();
    for (CoreSubscription it : subscriptions.all()) {
      Map<String, Object> one = new LinkedHashMap<>();
      one.put("topic", it.filter());
      one.put("granted", it.isGranted);
      one.put("paused", it.isPaused);
      one.put("buffered", it.buffer.count());
      one.put("buffered_bytes", it.buffer.bytes());
      one.put("position", it.report().position());
      one.put("positions", it.report().positions());
      list.add(one);
    }
    map.put("subscriptions", list);
    Map<String, Object> queue = new LinkedHashMap<>();
    queue.put("waiting", calls.waiting());
    queue.put("sent", calls.sent());
    queue.put("once", calls.once());
    map.put("queue", queue);
    map.put("counters", journal.counters());
    map.put("events", journal.events());
    return map;
  }

  // What happens to the connection.

  /** C2 */
  public void opened(long now) {
    if (phase != Phase.OPENING) return;
    setPhase(Phase.GREETING, now);
    openedAt = now;
    liveness.begin(now);
    List<Cursor> cursors = new ArrayList<>();
    Tickets.Held held = tickets.present(now, subscriptions::byNumber, cursors);
    byte[] ticket = held == null ? null : held.ticket;
    outputs.send(ClientFrames.hello(tokens.token(), settings.name, ticket, cursors, 0));
    subscriptions.askWithout(held == null ? Collections.emptySet() : held.covers);
  }

  /** C6: the connection could not be opened; {@code status}, {@code retryAfterS}: -1 for none. */
  public void failed(long now, int status, long retryAfterS) {
    if (status < 0) {
      lost(now, waiting("network", -1), true, 0);
      return;
    }
    boolean again = status == 408 || status == 425 || status == 429 || (status >= 500 && status <= 599);
    long more = Math.max(0, Math.min(retryAfterS, 3_600)) * 1_000;
    lost(now, new State(Kind.WAITING, "refused", -1, status), again, more);
  }

  /** The peer's end; 1006: without a close frame. */
  public void closed(long now, int code) {
    if (code == 1006) lost(now, waiting("network", -1), true, 0);
    else lost(now, waiting("closed", code), reconnects(code), 0);
  }

  /** C8 */
  public void receivedText(long now) {
    if (isGreeted()) violated(now, "a text message", false);
  }

  /** One binary message. */
  public void received(long now, byte[] bytes) {
    if (!isGreeted()) return;
    liveness.heard(now); // L3
    // The commonest first.
    if (phase == Phase.READY && plain.read(bytes)) {
      subscriptions.message(now, plain);
      return;
    }
    ServerFrame frame;
    try {
      frame = ServerFrames.decode(bytes);
    } catch (FrameException e) {
      violated(now, e.name(), e.isUnsupported());
      return;
    }
    // These change nothing that must be followed up.
    if (phase == Phase.READY && frame.type == Type.MESSAGE) subscriptions.message(now, (MessageFrame) frame);
    else if (phase == Phase.READY && frame.type == Type.NAMED_MESSAGE) {
      subscriptions.namedMessage(now, (MessageFrame) frame);
    } else {
      frame(now, frame);
      after(now);
    }
  }

  /** The source of tokens has answered, null for none: T2, T5, T7. */
  public void token(long now, long id, String token) {
    Tokens.Asked asked = tokens.answered(id);
    if (asked == null) return;
    if (!asked.isForAttempt) renew(token);
    else if (!tokens.take(token) && asked.reason == TokenReason.REFUSED) terminate(now, lastEnd);
    else open(now);
    after(now);
  }

  /** The source of tokens has failed: T9. */
  public void tokenFailed(long now, long id, boolean isUnauthorized) {
    Tokens.Asked asked = tokens.answered(id);
    if (asked == null) return;
    if (isUnauthorized) {
      if (isOpen()) outputs.close(1000);
      terminate(now, new State(Kind.CLOSED, "token", -1, -1));
    } else if (asked.isForAttempt) {
      tokens.needed = asked.reason;
      await(now, waiting("token", -1), settings.backoff.next(0));
    } else tokens.retryAt = now + settings.backoff.delay(tokens.failures++);
  }

  /** U15: whether the socket has too many unsent bytes. */
  public void blocked(long now, boolean isNowBlocked) {
    if (isBlocked == isNowBlocked) return;
    isBlocked = isNowBlocked;
    after(now);
  }

  /** The platform woke up, or is online again: is the connection still there? */
  public void probe(long now, long patienceMs) {
    // After GO_AWAY the server spreads the returns.
    if (phase == Phase.WAITING && !"go_away".equals(state.reason())) {
      waitUntil = now;
      tick(now);
    } else if (phase == Phase.READY) liveness.probe(now, patienceMs, outputs);
  }

  /** The time is now so late. */
  public void tick(long now) {
    if (now >= closeAt) {
      finish(now);
      return;
    }
    Tokens.Asked asked = tokens.asked;
    if (asked != null && now >= asked.until) tokenFailed(now, asked.id, false);
    calls.expireDue(now);
    if (phase == Phase.WAITING) {
      if (now >= waitUntil) connect(now);
    } else if (phase == Phase.READY) tickReady(now);
    else if ((phase == Phase.OPENING || phase == Phase.GREETING) && now >= phaseSince + OPEN_MS_MAX) {
      outputs.close(1006);
      lost(now, waiting("timeout", -1), true, 0);
    }
    after(now);
  }

  /** When {@link #tick} is needed next, at the latest. */
  public long wakeAt() {
    if (phase == Phase.CLOSED) return NEVER;
    long at = Math.min(closeAt, calls.deadline());
    if (tokens.asked != null) at = Math.min(at, tokens.asked.until);
    if (phase == Phase.WAITING) return Math.min(at, waitUntil);
    if (phase == Phase.OPENING || phase == Phase.GREETING) return Math.min(at, phaseSince + OPEN_MS_MAX);
    if (phase == Phase.TOKEN) return at;
    at = Math.min(at, Math.min(liveness.wakeAt(), tokens.retryAt));
    if (plan != null) return at;
    return Math.min(Math.min(at, tickets.askAt()), Math.min(calls.retryAt(), subscriptions.retryAt()));
  }

  // Connection.

  /** C5: whether a client comes back after this close code. */
  static boolean reconnects(long code) {
    return code == 1001
        || code == 1005
        || code == 1006
        || (code >= 1011 && code <= 1014)
        || (code >= 3000 && code <= 3499)
        || (code >= 4000 && code <= 4499);
  }

  @Override
  public boolean isGreeted() {
    return phase == Phase.GREETING || phase == Phase.READY;
  }

  @Override
  public boolean canAsk() {
    return isGreeted() && plan == null;
  }

  private boolean isOpen() {
    return phase == Phase.OPENING || isGreeted();
  }

  private static State waiting(String reason, long code) {
    return new State(Kind.WAITING, reason, code, -1);
  }

  private static Long codeOf(State it) {
    return it.code() < 0 ? null : it.code();
  }

  private static State asClosed(State it) {
    return new State(Kind.CLOSED, it.reason(), it.code(), it.status());
  }

  private void setPhase(Phase next, long now) {
    phase = next;
    phaseSince = now;
  }

  private void setState(State next) {
    state = next;
    outputs.state(next);
  }

  private long nextRequest() {
    lastRequest = lastRequest >= NUMBER_MAX ? 1 : lastRequest + 1;
    return lastRequest;
  }

  /** Begins the next attempt: first the token, if one is needed. */
  private void connect(long now) {
    if (tokens.needed == null) {
      open(now);
      return;
    }
    setPhase(Phase.TOKEN, now);
    askForToken(now, tokens.needed, true);
  }

  private void askForToken(long now, TokenReason reason, boolean isForAttempt) {
    long id = tokens.ask(now, reason, isForAttempt);
    if (id != 0) outputs.askForToken(id, reason);
  }

  private void open(long now) {
    List<String> urls = settings.urls;
    String url = preferred.isEmpty() ? urls.get(attempt++ % urls.size()) : preferred.remove(0);
    if (attempt >= urls.size()) attempt %= urls.size();
    setPhase(Phase.OPENING, now);
    openedAt = -1;
    wasUnauthorized = false;
    journal.note(now, Level.DEBUG, "connecting", "url", url);
    if (state.kind() != Kind.CONNECTING) setState(new State(Kind.CONNECTING, null, -1, -1));
    outputs.connect(url);
  }

  /** The end of a connection or attempt; plans the next one. */
  private void lost(long now, State why, boolean mayReturn, long moreMs) {
    if (!isOpen()) return;
    long lasted = openedAt < 0 ? 0 : now - openedAt;
    disconnected(now, why);
    lastEnd = asClosed(why);
    boolean again = mayReturn;
    // T7
    boolean isRefused = why.code() == CLOSE_UNAUTHORIZED || wasUnauthorized;
    if (isRefused && tokens.refusedOnce()) {
      again = true;
      tokens.needed = TokenReason.REFUSED;
    } else if (wasUnauthorized) again = false;
    else if (why.code() == CLOSE_TOKEN_EXPIRED && tokens.hasSource()) tokens.needed = TokenReason.EXPIRES; // T5
    if (!again) {
      terminate(now, lastEnd);
      return;
    }
    GoAway leaving = plan;
    plan = null;
    if (leaving == null) await(now, why, settings.backoff.next(lasted) + moreMs);
    else {
      preferred.clear();
      preferred.addAll(leaving.urls);
      await(now, why, leaving.returnAfterMs);
    }
  }

  private void disconnected(long now, State why) {
    if (openedAt >= 0) journal.note(now, Level.INFO, "lost", "reason", why.reason(), "code", codeOf(why));
    setPhase(Phase.WAITING, now);
    // Nobody wakes the client before its next attempt is planned.
    waitUntil = NEVER;
    liveness.end();
    isBlocked = false;
    subscriptions.connectionLost();
    tickets.connectionLost();
    tokens.connectionLost();
    calls.connectionLost();
  }

  private void await(long now, State why, long delayMs) {
    setPhase(Phase.WAITING, now);
    // A server may name any number of 64 bits.
    waitUntil = now + (delayMs < 0 ? DELAY_MS_MAX : Math.min(delayMs, DELAY_MS_MAX));
    journal.note(now, Level.DEBUG, "waiting", "reason", why.reason(), "delay_ms", delayMs);
    setState(why);
    after(now);
  }

  private void terminate(long now, State why) {
    setPhase(Phase.CLOSED, now);
    tokens.asked = null;
    boolean isRequested = "requested".equals(why.reason());
    Level level = isRequested ? Level.INFO : Level.ERROR;
    journal.note(now, level, "closed", "reason", why.reason(), "code", codeOf(why));
    setState(why);
    calls.end();
    subscriptions.endAll(isRequested ? null : Errors.closed("the client is " + why));
  }

  /** X1: the end that the application has asked for. */
  private void finish(long now) {
    if (isOpen()) outputs.close(1000);
    terminate(now, new State(Kind.CLOSED, "requested", -1, -1));
  }

  private void refuseIfClosed() {
    if (phase == Phase.CLOSED || closeAt != NEVER) throw Errors.closed("the client is closed");
  }

  /** Follows inputs: leaves or ends once nothing is open any more. */
  private void after(long now) {
    if (phase == Phase.CLOSED) return;
    if (plan != null && isOpen() && calls.isAnswered()) leave(now);
    if (closeAt != NEVER && phase != Phase.CLOSED && calls.isIdle()) {
      finish(now);
      return;
    }
    pump();
    if (phase == Phase.READY && plan == null) tickets.plan(now, subscriptions::active);
  }

  private void pump() {
    if (phase == Phase.READY && plan == null && !isBlocked) calls.pump();
  }

  /** G1 */
  private void leave(long now) {
    outputs.close(1000);
    lost(now, waiting("go_away", plan.code), reconnects(plan.code), 0);
  }

  /** C8 */
  private void violated(long now, String what, boolean isUnsupported) {
    journal.note(now, Level.ERROR, "unexpected_frame", "what", what);
    outputs.close(1002);
    lost(now, waiting(isUnsupported ? "unsupported" : "protocol", -1), !isUnsupported, 0);
  }

  private void tickReady(long now) {
    if (liveness.isDead(now, outputs)) {
      outputs.close(1006);
      lost(now, waiting("idle", -1), true, 0);
      return;
    }
    if (now >= tokens.retryAt) {
      tokens.retryAt = NEVER;
      askForToken(now, TokenReason.EXPIRES, false);
    }
    if (plan != null) return;
    subscriptions.retryDue(now);
    if (tickets.isDue(now) && subscriptions.areGranted()) {
      long request = nextRequest();
      tickets.asked(request);
      outputs.send(ClientFrames.ticket(request));
    }
    if (now >= calls.retryAt()) journal.repeated += calls.repeat();
  }

  // Frames.

  private void frame(long now, ServerFrame frame) {
    boolean isEarly = phase == Phase.GREETING;
    boolean mayBeEarly = frame.type == Type.WELCOME || frame.type == Type.ERROR || frame.type == Type.GO_AWAY;
    if (isEarly && !mayBeEarly) {
      violated(now, frame.type + " before WELCOME", false);
      return;
    }
    switch (frame.type) {
      case WELCOME:
        if (isEarly) welcome(now, (Welcome) frame);
        else violated(now, "a second WELCOME", false);
        break;
      case SUBSCRIBED:
        subscriptions.subscribed(now, (Subscribed) frame);
        break;
      case UNSUBSCRIBED:
        unsubscribed(now, (Unsubscribed) frame);
        break;
      case MESSAGE:
        subscriptions.message(now, (MessageFrame) frame);
        break;
      case NAMED_MESSAGE:
        subscriptions.namedMessage(now, (MessageFrame) frame);
        break;
      case CAUGHT_UP:
        subscriptions.caughtUp(now, (CaughtUpFrame) frame);
        break;
      case GAP:
        subscriptions.gap(now, (GapFrame) frame);
        break;
      case SKIPPED:
        subscriptions.skipped(now, (SkippedFrame) frame);
        break;
      case PUBLISHED:
        if (!calls.published((PublishedFrame) frame)) unexpected(now, frame);
        break;
      case HISTORY_PAGE:
        if (!calls.page((HistoryPage) frame)) unexpected(now, frame);
        break;
      case ERROR:
        error(now, (ErrorFrame) frame);
        break;
      case GO_AWAY:
        goAway(now, (GoAway) frame);
        break;
      case PING:
        outputs.send(ClientFrames.pong(((PingFrame) frame).token)); // L1
        break;
      case PONG:
        break;
      default:
        expiry(now, (Expiry) frame);
    }
  }

  private void unexpected(long now, ServerFrame frame) {
    journal.unexpected(now, frame.type.name().toLowerCase(Locale.ROOT));
  }

  private void welcome(long now, Welcome frame) {
    liveness.welcomed(now - phaseSince, frame.pingIntervalS);
    setPhase(Phase.READY, now);
    journal.connections++;
    calls.payloadMax(frame.messageBytesMax);
    tokens.accepted();
    String connection = Place.text(frame.connection);
    journal.note(now, Level.INFO, "connected", "node", frame.node, "connection", connection);
    setState(new State(Kind.LIVE, null, -1, -1));
    if (plan == null) journal.repeated += calls.repeat();
    renewIfDue();
    Set<Long> missing = tickets.welcomed(now, frame);
    if (missing == null) return;
    if (frame.resumed < 0) {
      journal.note(now, Level.INFO, "ticket_refused");
      outputs.ticket(null);
    }
    if (plan == null) subscriptions.askFor(missing);
  }

  private void unsubscribed(long now, Unsubscribed frame) {
    boolean again = frame.code >= RESUBSCRIBE_CODE;
    CroreException error =
        Errors.refusal(frame.code, again, "the server has ended the subscription", null, -1);
    subscriptions.refused(now, frame.subscription, error, "unsubscribed");
  }

  private void goAway(long now, GoAway frame) {
    plan = frame;
    journal.note(now, Level.INFO, "go_away", "code", frame.code, "return_after_ms", frame.returnAfterMs);
    // G5
    if (frame.ticket == null) return;
    tickets.leaving(now, frame.ticket, subscriptions.active());
    outputs.ticket(tickets.kept(subscriptions::byNumber));
  }

  /** RENEWED, TICKET_ISSUED, TOKEN_EXPIRES. */
  private void expiry(long now, Expiry frame) {
    if (frame.type == Type.TOKEN_EXPIRES) {
      journal.note(now, Level.DEBUG, "token_expires");
      if (tokens.hasSource()) askForToken(now, TokenReason.EXPIRES, false); // T2
    } else if (frame.type == Type.RENEWED) {
      if (!tokens.settled(frame.request)) {
        unexpected(now, frame);
        return;
      }
      journal.note(now, Level.DEBUG, "token_renewed");
      renewIfDue();
    } else if (tickets.issued(
        now, frame.request, frame.expiresMs, frame.ticket, subscriptions.active())) {
      journal.note(now, Level.DEBUG, "ticket");
      outputs.ticket(tickets.kept(subscriptions::byNumber));
    } else unexpected(now, frame);
  }

  /** T6: one renewal at a time on the wire. */
  private void renewIfDue() {
    if (phase != Phase.READY || !tokens.isDue || tokens.request != 0) return;
    tokens.isDue = false;
    tokens.request = nextRequest();
    outputs.send(ClientFrames.renew(tokens.request, tokens.token()));
  }

  private void error(long now, ErrorFrame frame) {
    if (frame.reference == ErrorFrame.CONNECTION) {
      if (frame.code == TICKET_REFUSED) return; // R5
      wasUnauthorized |= phase == Phase.GREETING && frame.code == UNAUTHORIZED;
      outputs.refused(Errors.refusal(frame));
    } else if (frame.reference == ErrorFrame.SUBSCRIPTION) {
      subscriptions.refused(now, frame.id, Errors.refusal(frame), "error");
    } else if (tickets.refused(now, frame)) {
      return;
    } else if (tokens.settled(frame.id)) {
      // T4
      journal.note(now, Level.WARN, "token_refused", "code", frame.code);
      outputs.refused(Errors.refusal(frame));
      renewIfDue();
    } else {
      boolean wasFenced = calls.isFenced();
      if (!calls.refuse(now, frame.id, Errors.refusal(frame))) unexpected(now, frame);
      if (calls.isFenced() && !wasFenced) journal.note(now, Level.ERROR, "fenced");
    }
  }
}
