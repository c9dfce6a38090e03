/** The client of Crore, a pub/sub server. */
module io.crore {
  requires transitive java.net.http;
  requires java.logging;

  exports io.crore;
  exports io.crore.transport;
}
