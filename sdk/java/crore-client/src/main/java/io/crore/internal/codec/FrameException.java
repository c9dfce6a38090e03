package io.crore.internal.codec;

/** Bytes that are no frame of the protocol. */
public final class FrameException extends Exception {
  private static final long serialVersionUID = 1;

  private final String name;

  private FrameException(String name) {
    // Without a stack trace: the bytes of a server are at fault, not this program.
    super(name, null, false, false);
    this.name = name;
  }

  static FrameException malformed() {
    return new FrameException("malformed_frame");
  }

  static FrameException of(String name) {
    return new FrameException(name);
  }

  /** The name in the table of codes. */
  public String name() {
    return name;
  }

  /** Whether the frame is of a newer version of the protocol: C8. */
  public boolean isUnsupported() {
    return name.startsWith("unsupported_");
  }
}
