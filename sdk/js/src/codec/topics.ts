/** Topics and filters: lengths, wildcards, and which filter matches which topic. */

import { checkSize } from "../errors.js";
import { encodeUtf8 } from "./utf8.js";

/** Refuses a name that has not 1 to 255 bytes: S3, U4. */
export const checkLength = (name: string): void => checkSize("a topic", encodeUtf8(name), 255);

/** Whether a name is a filter with wildcards. */
export const isWild = (name: string): boolean => /(^|\/)[+#](\/|$)/.test(name);

/**
 * Whether a filter matches a topic: `+` matches any one level, a last `#` the parent and everything
 * below, and a filter that begins with a wildcard matches no topic that begins with `$`.
 */
export const matches = (filter: string, topic: string): boolean => {
  if (topic[0] === "$" && /^[+#]/.test(filter)) return false;
  const levels = topic.split("/");
  const wanted = filter.split("/");
  const isDeep = wanted[wanted.length - 1] === "#" && wanted.pop();
  return (
    (isDeep ? levels.length >= wanted.length : levels.length === wanted.length) &&
    wanted.every((level, at) => level === "+" || level === levels[at])
  );
};
