/** Positions: an epoch and an offset, shown as `<epoch>:<offset>`. */

import { invalid } from "../errors.js";

/** A place in a topic's log. */
export interface Place {
  /** The log's epoch, as decimal text. */
  inEpoch: string;
  upTo: number;
}

/** The text of a position. */
export const show = (place: Place): string => place.inEpoch + ":" + place.upTo;

/** The place of a text, or nothing if the text is no position. */
export const parse = (text: string | undefined): Place | undefined => {
  const match = /^(0|[1-9][0-9]{0,19}):(0|[1-9][0-9]{0,15})$/.exec(text!);
  const offset = Number(match?.[2]);
  return Number.isSafeInteger(offset) ? { inEpoch: match![1]!, upTo: offset } : undefined;
};

/** The place of an application's text. */
export const placeOf = (position: string): Place => {
  const place = parse(position);
  if (!place) throw invalid(`${position} is no position`);
  return place;
};
