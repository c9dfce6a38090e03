package io.crore.internal.shell;

import io.crore.internal.core.Errors;
import java.net.URI;
import java.net.URISyntaxException;
import java.util.Locale;

/** C1: the URL of a node. */
public final class Urls {
  private Urls() {}

  /** {@code http} becomes {@code ws}, and a URL without a path means {@code /crore}. */
  public static String complete(String url) {
    URI it;
    try {
      it = new URI(url);
    } catch (URISyntaxException e) {
      throw Errors.invalid("the URL is malformed: " + url);
    }
    String scheme = it.getScheme() == null ? "" : it.getScheme().toLowerCase(Locale.ROOT);
    if (scheme.equals("http")) scheme = "ws";
    if (scheme.equals("https")) scheme = "wss";
    if (!scheme.equals("ws") && !scheme.equals("wss")) throw Errors.invalid("a URL begins with ws: or wss:");
    if (it.getHost() == null) throw Errors.invalid("the URL has no host: " + url);
    String path = it.getRawPath();
    String query = it.getRawQuery();
    return scheme
        + "://"
        + it.getRawAuthority()
        + (path == null || path.isEmpty() || path.equals("/") ? "/crore" : path)
        + (query == null ? "" : "?" + query);
  }
}
