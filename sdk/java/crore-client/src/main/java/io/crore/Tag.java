package io.crore;

import java.util.Objects;

/** A key and a value that a publisher gives to a message. Tags keep their order; keys may repeat. */
public final class Tag {
  private final String key;
  private final String value;

  /**
   * A tag.
   *
   * @param key the key
   * @param value the value
   */
  public Tag(String key, String value) {
    this.key = Objects.requireNonNull(key);
    this.value = Objects.requireNonNull(value);
  }

  /** @return the key */
  public String key() {
    return key;
  }

  /** @return the value */
  public String value() {
    return value;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Tag && ((Tag) other).key.equals(key) && ((Tag) other).value.equals(value);
  }

  @Override
  public int hashCode() {
    return key.hashCode() * 31 + value.hashCode();
  }

  @Override
  public String toString() {
    return key + "=" + value;
  }
}
