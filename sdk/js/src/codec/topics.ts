/** Topics and filters: lengths, wildcards, and which filter matches which topic. */

import { encodeUtf8 } from "./utf8.js";

/** Whether a name has 1 to 255 bytes. */
export function hasLength(name: string): boolean {
  return name.length > 0 && name.length <= 255 && (name.length <= 63 || encodeUtf8(name).length <= 255);
}

/** Whether a name is a filter with wildcards. */
export function isWild(name: string): boolean {
  return /(^|\/)[+#](\/|$)/.test(name);
}

/**
 * Whether a filter matches a topic: `+` matches any one level, a last `#` the parent and everything
 * below, and a filter that begins with a wildcard matches no topic that begins with `$`.
 */
export function matches(filter: string, topic: string): boolean {
  if (topic[0] === "$" && (filter[0] === "+" || filter[0] === "#")) return false;
  const levels = topic.split("/");
  const wanted = filter.split("/");
  for (let at = 0; at < wanted.length; at++) {
    if (wanted[at] === "#") return true;
    if (at >= levels.length || (wanted[at] !== "+" && wanted[at] !== levels[at])) return false;
  }
  return wanted.length === levels.length;
}
