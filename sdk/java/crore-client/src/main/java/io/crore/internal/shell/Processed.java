package io.crore.internal.shell;

import io.crore.CaughtUp;
import io.crore.Gap;
import io.crore.Item;
import io.crore.Message;
import io.crore.Skipped;
import io.crore.internal.codec.ClientFrames.WireStart;
import io.crore.internal.codec.Place;
import java.util.Map;
import java.util.TreeMap;

/** P14, R11: what the reader of a named subscription has processed, by partition; -1 for a topic. */
public final class Processed {
  private final Vault vault;
  private final String key;
  private final Map<Long, Place> places = new TreeMap<>();

  /** Reads what an earlier program has stored. */
  public Processed(Vault vault, String name) {
    this.vault = vault;
    key = "crore:position:" + name;
    String text = vault.get(key);
    if (text == null) return;
    for (String line : text.split("\n")) {
      int space = line.indexOf(' ');
      Place place = space < 0 ? null : Place.parse(line.substring(space + 1));
      if (place != null) places.put(Long.parseLong(line.substring(0, space)), place);
    }
  }

  /** The start behind it, or null. */
  public WireStart start(boolean isFilter) {
    if (!isFilter) return places.containsKey(-1L) ? WireStart.since(places.get(-1L)) : null;
    Map<Long, Place> each = new TreeMap<>(places);
    each.remove(-1L);
    return each.isEmpty() ? null : WireStart.sinceEach(each);
  }

  /** Where a grant begins counts for partitions of which nothing has been processed. */
  public void begin(Map<Long, Place> cursors) {
    boolean isChanged = false;
    for (Map.Entry<Long, Place> it : cursors.entrySet()) {
      if (places.containsKey(it.getKey())) continue;
      places.put(it.getKey(), it.getValue());
      isChanged = true;
    }
    if (isChanged) save();
  }

  public void settle(Item item) {
    Place at = places.get(item.partition());
    Place next = at;
    if (item instanceof Message) next = new Place(((Message) item).epoch(), ((Message) item).offset());
    else if (item instanceof Gap) next = parsed(((Gap) item).to(), at);
    else if (item instanceof CaughtUp) next = parsed(((CaughtUp) item).position(), at);
    else if (item instanceof Skipped && at != null) {
      next = new Place(at.epoch, Place.max(at.offset, ((Skipped) item).through()));
    }
    if (next == null || next.equals(at)) return;
    places.put(item.partition(), next);
    save();
  }

  private static Place parsed(String position, Place otherwise) {
    return position == null ? otherwise : Place.parse(position);
  }

  private void save() {
    StringBuilder text = new StringBuilder();
    places.forEach((partition, place) -> text.append(partition).append(' ').append(place).append('\n'));
    vault.save(key, text.toString());
  }
}
