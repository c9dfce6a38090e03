package io.crore.internal.core;

import io.crore.internal.codec.ClientFrames.Publication;
import io.crore.internal.codec.Place;

/** One request of the application: a publication or a page of history, with one result. */
public final class Call {
  final String topic;
  /** Of a publication, else null. */
  final Publication publication;
  /** Of a page. */
  final Place position;
  final boolean isReverse;
  final long limit;
  /** U6, U10: kept until it is answered. */
  final boolean isOnce;
  final long until;
  /** Its number on the wire; 0 before it is sent. */
  long request;
  /** The frame, while it may be repeated. */
  byte[] frame;
  /** U8: it was refused for the moment and is not on its way. */
  boolean isRefused;
  int refusals;
  boolean isSettled;

  Call(Publication publication, boolean isOnce, long until) {
    this.topic = publication.topic;
    this.publication = publication;
    this.position = null;
    this.isReverse = false;
    this.limit = 0;
    this.isOnce = isOnce;
    this.until = until;
  }

  Call(String topic, Place position, boolean isReverse, long limit, long until) {
    this.topic = topic;
    this.publication = null;
    this.position = position;
    this.isReverse = isReverse;
    this.limit = limit;
    this.isOnce = false;
    this.until = until;
  }

  boolean isPage() {
    return publication == null;
  }

  /** Whether it has a sequence of the client's producer. */
  boolean isNumbered() {
    return isOnce && publication.key == null;
  }

  long payloadBytes() {
    return publication == null ? 0 : publication.payload.length;
  }
}
