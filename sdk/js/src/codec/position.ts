/** Positions: an epoch and an offset, shown as `<epoch>:<offset>`. */

/** A place in a topic's log. */
export interface Place {
  /** The log's epoch, as decimal text. */
  epoch: string;
  offset: number;
}

/** The text of a position. */
export function show(place: Place): string {
  return place.epoch + ":" + place.offset;
}

/** The place of a text, or nothing if the text is not a position. */
export function parse(text: string): Place | undefined {
  const match = /^(0|[1-9][0-9]{0,19}):(0|[1-9][0-9]{0,15})$/.exec(text);
  const offset = match ? Number(match[2]) : NaN;
  return Number.isSafeInteger(offset) ? { epoch: match![1]!, offset } : undefined;
}
