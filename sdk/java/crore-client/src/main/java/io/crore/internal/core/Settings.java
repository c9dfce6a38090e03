package io.crore.internal.core;

import java.util.ArrayList;
import java.util.List;
import java.util.function.DoubleSupplier;

/** What a core is made of. */
public final class Settings {
  public final List<String> urls = new ArrayList<>();
  /** A fixed token, or null. */
  public String token;
  public boolean hasTokenSource;
  /** A name for the logs of the node, or null. */
  public String name;
  public byte[] producerId;
  public Backoff backoff;
  public int bufferItems = 1_024;
  public long bufferBytes = 1 << 20;
  /** Fractions from 0 to 1. */
  public DoubleSupplier random;
}
