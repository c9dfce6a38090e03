package io.crore.internal.shell;

import io.crore.CroreException;
import io.crore.Published;
import io.crore.Tag;
import io.crore.internal.codec.ClientFrames.Publication;
import io.crore.internal.core.Errors;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * U13: {@code once} publications that survive the program. Id and reserved numbers are stored first,
 * then each publication before it is sent; the next start sends what is left by the same numbers.
 */
public final class Persistence {
  private static final int RESERVED = 1_000;
  private static final int WAITING_MAX = 1_000; // U12

  /** The client. */
  public interface Host {
    /** Publishes under this producer's id from now on. */
    void producer(byte[] id);

    /** Sends a publication that has its number. */
    CompletableFuture<Published> send(Publication publication, long timeoutMs);

    boolean isClosed();
  }

  private final Vault vault;
  private final String key;
  private final Host host;
  /** Publications that are not stored yet. */
  private final AtomicInteger waiting = new AtomicInteger();

  // Only the storage's thread uses what follows.
  private String id;
  private final boolean isIdGiven;
  /** Numbers below are answered. */
  private long first = 1;
  /** Numbers up to this one may be in use. */
  private long reserved;
  private long next;
  private boolean isLoaded;
  private final TreeSet<Long> open = new TreeSet<>();

  /** Sends what an earlier program has left. */
  public Persistence(Vault vault, String name, byte[] producerId, boolean isIdGiven, Host host) {
    this.vault = vault;
    this.host = host;
    this.isIdGiven = isIdGiven;
    key = "crore:once:" + (name == null ? "" : name);
    id = Digits.of(producerId);
    vault.execute(this::load);
  }

  /** Stores a publication, then sends it. */
  public CompletableFuture<Published> publish(Publication publication, long timeoutMs) {
    CompletableFuture<Published> result = new CompletableFuture<>();
    if (waiting.incrementAndGet() > WAITING_MAX) {
      waiting.decrementAndGet();
      result.completeExceptionally(Errors.queueFull("too many publications wait for the storage"));
      return result;
    }
    vault.execute(
        () -> {
          waiting.decrementAndGet();
          if (result.isDone()) return;
          try {
            store(publication);
          } catch (RuntimeException e) {
            result.completeExceptionally(new IllegalStateException("nothing was sent: the storage has failed", e));
            return;
          }
          send(publication, timeoutMs, result);
        });
    return result;
  }

  private String entry(long sequence) {
    return key + ":" + sequence;
  }

  private void load() {
    if (isLoaded) return;
    String text = vault.get(key);
    if (text != null) {
      String[] parts = text.split(" ");
      if (!isIdGiven) id = parts[0];
      // Another id has other numbers.
      if (id.equals(parts[0])) {
        first = Long.parseLong(parts[1]);
        reserved = Long.parseLong(parts[2]);
      }
    }
    List<Publication> left = new ArrayList<>();
    for (long sequence = first; sequence <= reserved; sequence++) {
      String entry = vault.get(entry(sequence));
      if (entry != null) left.add(parse(entry, sequence));
    }
    next = reserved + 1;
    host.producer(Digits.bytes(id));
    isLoaded = true;
    for (Publication it : left) send(it, -1, new CompletableFuture<>());
    reserve();
  }

  private void reserve() {
    first = open.isEmpty() ? next : open.first();
    long end = next + RESERVED - 1;
    vault.set(key, id + " " + first + " " + end);
    reserved = end;
  }

  private void store(Publication publication) {
    load();
    if (next > reserved) reserve();
    vault.set(entry(next), format(publication));
    publication.sequence = next++;
  }

  private void send(Publication publication, long timeoutMs, CompletableFuture<Published> result) {
    long sequence = publication.sequence;
    open.add(sequence);
    CompletableFuture<Published> sent = host.send(publication, timeoutMs);
    result.whenComplete(
        (value, error) -> {
          if (result.isCancelled()) sent.cancel(false);
        });
    sent.whenComplete(
        (value, error) -> {
          // What the end of the program leaves unanswered is for the next one.
          if (error == null || !isOfTheEnd(error)) vault.execute(() -> forget(sequence));
          if (error == null) result.complete(value);
          else result.completeExceptionally(error);
        });
  }

  private boolean isOfTheEnd(Throwable error) {
    if (!(error instanceof CroreException) || !host.isClosed()) return false;
    String name = ((CroreException) error).name();
    return name.equals(CroreException.UNKNOWN) || name.equals(CroreException.CLOSED);
  }

  private void forget(long sequence) {
    open.remove(sequence);
    vault.save(entry(sequence), null);
  }

  /** A stored publication. */
  static String format(Publication it) {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (DataOutputStream out = new DataOutputStream(bytes)) {
      out.writeUTF(it.topic);
      out.writeBoolean(it.retain);
      out.writeBoolean(it.contentType != null);
      if (it.contentType != null) out.writeUTF(it.contentType);
      out.writeBoolean(it.expectedEpoch != null);
      if (it.expectedEpoch != null) out.writeLong(it.expectedEpoch);
      out.writeInt(it.tags.size());
      for (Tag tag : it.tags) {
        out.writeUTF(tag.key());
        out.writeUTF(tag.value());
      }
      out.write(it.payload);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return Digits.of(bytes.toByteArray());
  }

  static Publication parse(String text, long sequence) {
    byte[] bytes = Digits.bytes(text);
    try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes))) {
      String topic = in.readUTF();
      boolean retain = in.readBoolean();
      String contentType = in.readBoolean() ? in.readUTF() : null;
      Long expectedEpoch = in.readBoolean() ? in.readLong() : null;
      List<Tag> tags = new ArrayList<>();
      for (int count = in.readInt(); count > 0; count--) tags.add(new Tag(in.readUTF(), in.readUTF()));
      byte[] payload = new byte[in.available()];
      in.readFully(payload);
      Publication it = new Publication(topic, payload);
      it.retain = retain;
      it.contentType = contentType;
      it.expectedEpoch = expectedEpoch;
      it.tags = tags;
      it.sequence = sequence;
      return it;
    } catch (IOException e) {
      throw new UncheckedIOException("a stored publication is damaged", e);
    }
  }
}
