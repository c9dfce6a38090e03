package io.crore;

/** Gets tokens. */
@FunctionalInterface
public interface TokenSource {
  /**
   * The newest token. Called on the client's executor, one call at a time; it has ten seconds. An
   * exception is followed by another call; a {@link CroreException} with the name
   * {@link CroreException#UNAUTHORIZED} ends the client.
   *
   * @param reason why a token is needed
   * @return a token, or null if there is no new one
   * @throws Exception if there is none for the moment
   */
  String token(TokenReason reason) throws Exception;
}
