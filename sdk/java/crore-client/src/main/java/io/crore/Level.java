package io.crore;

/** How important an event of the log is. */
public enum Level {
  /** For those who look for a fault. */
  DEBUG,
  /** The life of the connection. */
  INFO,
  /** The application may want to know. */
  WARN,
  /** Something has ended for good, or a callback has failed. */
  ERROR
}
