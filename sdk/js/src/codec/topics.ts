/** Topics and filters: lengths, wildcards, and which filter matches which topic. */

import { invalid } from "../errors.js";
import { encodeUtf8 } from "./utf8.js";

/** Refuses a name that has not 1 to 255 bytes: S3, U4. */
export const checkLength = (name: string): void => {
  const { length } = encodeUtf8(name);
  if (!length || length > 255) throw invalid("a topic has 1 to 255 bytes");
};

/** Whether a name is a filter with wildcards. */
export const isWild = (name: string): boolean => /(^|\/)[+#](\/|$)/.test(name);

/**
 * Whether a filter matches a topic: `+` matches any one level, a last `#` the parent and everything
 * below, and a filter that begins with a wildcard matches no topic that begins with `$`.
 */
export const matches = (filter: string, topic: string): boolean => {
  if (topic[0] === "$" && (filter[0] === "+" || filter[0] === "#")) return false;
  const levels = topic.split("/");
  const wanted = filter.split("/");
  for (let at = 0; at < wanted.length; at++) {
    if (wanted[at] === "#") return true;
    if (at >= levels.length || (wanted[at] !== "+" && wanted[at] !== levels[at])) return false;
  }
  return wanted.length === levels.length;
};
