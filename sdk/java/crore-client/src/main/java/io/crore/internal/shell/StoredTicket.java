package io.crore.internal.shell;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.crore.internal.codec.Place;
import io.crore.internal.core.KeptTicket;
import java.util.LinkedHashMap;
import java.util.Map;

/** R11: the resume ticket in the storage. */
public final class StoredTicket {
  private final Vault vault;
  private final String key;

  public StoredTicket(Vault vault, String name) {
    this.vault = vault;
    key = "crore:ticket:" + (name == null ? "" : name);
  }

  /** The ticket of an earlier program, or null. */
  public KeptTicket load() {
    String text = vault.get(key);
    return text == null ? null : parse(text);
  }

  private static KeptTicket parse(String text) {
    String[] lines = text.split("\n");
    String[] head = lines[0].split(" ");
    Map<Long, String> covers = new LinkedHashMap<>();
    Map<Long, Map<Long, Place>> places = new LinkedHashMap<>();
    for (int at = 1; at < lines.length; at++) {
      String[] words = lines[at].split(" ");
      long number = Long.parseLong(words[0]);
      covers.put(number, new String(Digits.bytes(words[1]), UTF_8));
      Map<Long, Place> mine = new LinkedHashMap<>();
      for (int word = 2; word + 1 < words.length; word += 2) {
        mine.put(Long.parseLong(words[word]), Place.parse(words[word + 1]));
      }
      places.put(number, mine);
    }
    return new KeptTicket(Digits.bytes(head[1]), Long.parseLong(head[0]), covers, places);
  }

  /** Stores a ticket; null deletes it. */
  public void save(KeptTicket it) {
    if (it == null) {
      vault.save(key, null);
      return;
    }
    StringBuilder text = new StringBuilder();
    text.append(it.expiresMs).append(' ').append(Digits.of(it.ticket)).append('\n');
    for (Map.Entry<Long, String> cover : it.covers.entrySet()) {
      text.append(cover.getKey()).append(' ').append(Digits.of(cover.getValue().getBytes(UTF_8)));
      it.places.get(cover.getKey()).forEach((partition, place) -> text.append(' ').append(partition).append(' ').append(place));
      text.append('\n');
    }
    vault.save(key, text.toString());
  }
}
