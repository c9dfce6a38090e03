package io.crore.internal.shell;

/** Bytes as hex digits, for the storage. */
final class Digits {
  private Digits() {}

  static String of(byte[] bytes) {
    StringBuilder text = new StringBuilder(bytes.length * 2);
    for (byte it : bytes) {
      text.append(Character.forDigit(it >> 4 & 15, 16)).append(Character.forDigit(it & 15, 16));
    }
    return text.toString();
  }

  static byte[] bytes(String digits) {
    byte[] bytes = new byte[digits.length() / 2];
    for (int at = 0; at < bytes.length; at++) {
      bytes[at] = (byte) Integer.parseInt(digits.substring(at * 2, at * 2 + 2), 16);
    }
    return bytes;
  }
}
