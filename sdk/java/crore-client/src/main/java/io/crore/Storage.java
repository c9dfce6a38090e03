package io.crore;

/**
 * Keeps texts over the end of the program. A client calls it from one thread at a time, and never
 * from the thread that reads; its methods may block.
 */
public interface Storage {
  /**
   * The value of a key.
   *
   * @param key the key
   * @return the value, or null if there is none
   * @throws Exception if the storage cannot be read
   */
  String get(String key) throws Exception;

  /**
   * Stores a value in place of the old one.
   *
   * @param key the key
   * @param value the value
   * @throws Exception if the value was not stored
   */
  void set(String key, String value) throws Exception;

  /**
   * Deletes a key, if it is there.
   *
   * @param key the key
   * @throws Exception if the key is still there
   */
  void delete(String key) throws Exception;
}
