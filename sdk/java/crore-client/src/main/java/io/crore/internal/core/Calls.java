package io.crore.internal.core;

import io.crore.CroreException;
import io.crore.Gap;
import io.crore.Message;
import io.crore.Page;
import io.crore.Published;
import io.crore.internal.codec.ClientFrames;
import io.crore.internal.codec.ClientFrames.Publication;
import io.crore.internal.codec.Place;
import io.crore.internal.codec.ServerFrame.GapFrame;
import io.crore.internal.codec.ServerFrame.HistoryPage;
import io.crore.internal.codec.ServerFrame.MessageFrame;
import io.crore.internal.codec.ServerFrame.PublishedFrame;
import io.crore.internal.codec.Topics;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.LongSupplier;

/**
 * U, H: publications and pages of history, from the call to its one answer.
 *
 * <p>{@code once} publications are kept until they are answered, and repeated on the next
 * connection before anything new, in the old order, with the same bytes.
 */
final class Calls {
  private static final int KEPT_MAX = 1_000; // U12
  private static final long KEPT_BYTES_MAX = 4 << 20;
  /** Everything has a bound, calls without a connection too. */
  private static final long WAITING_BYTES_MAX = 64 << 20;
  private static final int REFUSALS_MAX = 10; // U8
  private static final long REFUSED_MS = 200;
  private static final long REFUSED_MS_MAX = 5_000;
  private static final long TIMEOUT_MS = 10_000; // U11
  private static final long TIMEOUT_ONCE_MS = 60_000;
  private static final int CALL_BYTES = 128;
  private static final int PRODUCER_FENCED = 403;
  private static final int PRODUCER_BYTES_MAX = 64;
  private static final int KEY_BYTES_MAX = 128;

  private final Outputs outputs;
  private final LongSupplier requests;
  private byte[] producerId;
  /** Called, in the order of the calls, and not sent. */
  private final Set<Call> waiting = new LinkedHashSet<>();
  private long waitingBytes;
  private final Map<Long, Call> sent = new LinkedHashMap<>();
  /** {@code once}, sent at least one time. */
  private final Set<Call> kept = new LinkedHashSet<>();
  private int onceCount;
  private long onceBytes;
  private long lastSequence;
  private long payloadMax = Long.MAX_VALUE;
  private boolean isFenced;
  /** U8: nothing {@code once} goes out before this time and the answers to all others. */
  private long refusedUntil = -1;
  private long retryAt = Core.NEVER;
  private boolean hasGivenUp;
  private long deadline = Core.NEVER;

  Calls(byte[] producerId, LongSupplier requests, Outputs outputs) {
    this.producerId = producerId;
    this.requests = requests;
    this.outputs = outputs;
  }

  /** No call settles by its timeout before. */
  long deadline() {
    return deadline;
  }

  /** When those refused for the moment are repeated. */
  long retryAt() {
    return retryAt;
  }

  boolean isFenced() {
    return isFenced;
  }

  boolean isAnswered() {
    return sent.isEmpty();
  }

  boolean isIdle() {
    return sent.isEmpty() && waiting.isEmpty() && kept.isEmpty();
  }

  int waiting() {
    return waiting.size();
  }

  int sent() {
    return sent.size();
  }

  int once() {
    return onceCount;
  }

  void producer(byte[] id) {
    producerId = id;
  }

  void payloadMax(long bytes) {
    payloadMax = bytes < 0 ? Long.MAX_VALUE : bytes;
  }

  /** {@code timeoutMs}: -1 for the default. */
  Call publish(long now, Publication it, boolean isOnce, long timeoutMs) {
    checkTopic(it.topic);
    if (it.payload.length > payloadMax) throw tooLong();
    if (it.key != null && (it.key.length < 1 || it.key.length > KEY_BYTES_MAX)) {
      throw Errors.invalid("a key has 1 to 128 bytes");
    }
    if (isOnce && it.key == null) {
      if (isFenced) throw new CroreException(CroreException.FENCED, "another client publishes under this id");
      it.producerId = producerId;
    }
    long bytes = it.payload.length + CALL_BYTES;
    if (isOnce && (onceCount >= KEPT_MAX || onceBytes + bytes > KEPT_BYTES_MAX)) {
      throw Errors.queueFull("too many publications wait for their answers");
    }
    long timeout = timeoutMs >= 0 ? timeoutMs : isOnce ? TIMEOUT_ONCE_MS : TIMEOUT_MS;
    Call call = add(new Call(it, isOnce, now + timeout));
    if (isOnce) {
      onceCount++;
      onceBytes += bytes;
    }
    return call;
  }

  /** H1 */
  Call history(long now, String topic, Place position, boolean isReverse, long limit, long timeoutMs) {
    checkTopic(topic);
    return add(new Call(topic, position, isReverse, limit, now + (timeoutMs >= 0 ? timeoutMs : TIMEOUT_MS)));
  }

  static void checkProducer(byte[] id) {
    if (id.length < 1 || id.length > PRODUCER_BYTES_MAX) throw Errors.invalid("a producer's id has 1 to 64 bytes");
  }

  private static void checkTopic(String topic) {
    if (!Topics.hasLength(topic)) throw Errors.invalid("a topic has 1 to 255 bytes");
  }

  private CroreException tooLong() {
    return Errors.invalid("the payload is longer than " + payloadMax + " bytes");
  }

  private Call add(Call call) {
    if (waitingBytes + call.payloadBytes() > WAITING_BYTES_MAX) {
      throw Errors.queueFull("too many calls wait for the connection");
    }
    waiting.add(call);
    waitingBytes += call.payloadBytes() + CALL_BYTES;
    deadline = Math.min(deadline, call.until);
    return call;
  }

  /** U1: sends what waits, in the order of the calls. */
  void pump() {
    Iterator<Call> calls = waiting.iterator();
    while (calls.hasNext()) {
      Call call = calls.next();
      if (call.isOnce && refusedUntil >= 0) continue; // U8: nothing new before what was refused
      calls.remove();
      waitingBytes -= call.payloadBytes() + CALL_BYTES;
      if (call.payloadBytes() > payloadMax) {
        settle(call, tooLong(), null);
        continue;
      }
      call.request = requests.getAsLong();
      call.frame = encode(call);
      if (call.isOnce) kept.add(call);
      transmit(call);
      if (!call.isOnce) call.frame = null;
    }
  }

  private byte[] encode(Call call) {
    if (call.isPage()) {
      return ClientFrames.history(call.request, call.topic, call.isReverse, call.position, call.limit, 0);
    }
    // U13: one that was stored has its number.
    if (call.isNumbered() && call.publication.sequence == 0) call.publication.sequence = ++lastSequence;
    return ClientFrames.publish(call.request, call.publication);
  }

  private void transmit(Call call) {
    call.isRefused = false;
    sent.put(call.request, call);
    outputs.send(call.frame);
  }

  /** U7, U8: everything kept goes out again; returns how many. */
  int repeat() {
    refusedUntil = -1;
    retryAt = Core.NEVER;
    hasGivenUp = false;
    for (Call call : kept) transmit(call);
    return kept.size();
  }

  boolean published(PublishedFrame frame) {
    Call call = sent.get(frame.request);
    if (call == null) call = putOff(frame.request);
    if (call == null || call.isPage()) return false;
    settle(call, null, new Published(frame.place.toString(), frame.duplicate));
    return true;
  }

  /** U8: a call that was refused for the moment and is still answered, or null. */
  private Call putOff(long request) {
    for (Call it : kept) if (it.isRefused && it.request == request) return it;
    return null;
  }

  boolean page(HistoryPage frame) {
    Call call = sent.get(frame.request);
    if (call == null || !call.isPage()) return false;
    List<Message> messages = new ArrayList<>(frame.records.size());
    for (MessageFrame it : frame.records) messages.add(it.message(call.topic, frame.epoch));
    GapFrame it = frame.gap;
    Gap gap = null;
    if (it != null) {
      gap = new Gap(new Place(it.epoch, it.from).toString(), new Place(it.epoch, it.to).toString(), it.reason, -1);
    }
    settle(call, null, new Page(messages, frame.more, gap));
    return true;
  }

  /** U14 */
  private void settle(Call call, CroreException error, Object value) {
    if (call.isSettled) return;
    call.isSettled = true;
    if (waiting.remove(call)) waitingBytes -= call.payloadBytes() + CALL_BYTES;
    if (call.request != 0) sent.remove(call.request, call);
    kept.remove(call);
    if (call.isOnce) {
      onceCount--;
      onceBytes -= call.payloadBytes() + CALL_BYTES;
      if (refusedUntil >= 0) planRepeat();
    }
    outputs.settled(call, error, value);
  }

  /** Those refused are repeated once all others have their answers. */
  private void planRepeat() {
    boolean areAll = true;
    boolean isAny = false;
    for (Call call : kept) {
      isAny |= call.isRefused;
      areAll &= call.isRefused;
    }
    if (!isAny) refusedUntil = -1;
    retryAt = isAny && areAll ? refusedUntil : Core.NEVER;
  }

  /** ERROR about a request; false if it is about none of these. */
  boolean refuse(long now, long request, CroreException error) {
    Call call = sent.get(request);
    if (call == null) return false;
    if (error.temporary() && call.isOnce && putOff(now, call)) return true;
    if (error.code() == PRODUCER_FENCED && call.isOnce && call.isNumbered()) fence(error);
    settle(call, error, null);
    return true;
  }

  /** U8 */
  private boolean putOff(long now, Call call) {
    if (refusedUntil < 0 && !hasGivenUp && call.refusals >= REFUSALS_MAX) {
      hasGivenUp = true;
      return false;
    }
    long delay = Math.min(REFUSED_MS << call.refusals, REFUSED_MS_MAX);
    call.refusals = Math.min(call.refusals + 1, REFUSALS_MAX);
    call.isRefused = true;
    sent.remove(call.request);
    refusedUntil = Math.max(refusedUntil, now + delay);
    planRepeat();
    return true;
  }

  /** U9 */
  private void fence(CroreException error) {
    isFenced = true;
    List<Call> fenced = new ArrayList<>(kept);
    fenced.addAll(waiting);
    for (Call call : fenced) if (call.isOnce && call.isNumbered()) settle(call, error, null);
  }

  /** U2 */
  void connectionLost() {
    for (Call call : new ArrayList<>(sent.values())) if (!call.isOnce) settle(call, Errors.unknown(), null);
    sent.clear();
    for (Call call : kept) call.isRefused = false;
    refusedUntil = -1;
    retryAt = Core.NEVER;
    hasGivenUp = false;
  }

  /** U11: gives a call up. */
  void expire(Call call) {
    CroreException error = new CroreException(CroreException.EXPIRED, "the call was not sent in time");
    settle(call, call.request == 0 ? error : Errors.unknown(), null);
  }

  void expireDue(long now) {
    if (now < deadline) return;
    deadline = Core.NEVER;
    for (Call call : all()) {
      if (call.until <= now) expire(call);
      else deadline = Math.min(deadline, call.until);
    }
  }

  /** X2 */
  void end() {
    for (Call call : all()) settle(call, call.request == 0 ? Errors.closed("the client is closed") : Errors.unknown(), null);
    deadline = Core.NEVER;
  }

  private List<Call> all() {
    List<Call> all = new ArrayList<>(sent.values());
    all.addAll(kept);
    all.addAll(waiting);
    return all;
  }
}
