/** A place for texts that outlives the program; may be asynchronous. */
export interface Storage {
  get(key: string): string | null | undefined | Promise<string | null | undefined>;
  set(key: string, value: string): unknown;
  delete(key: string): unknown;
}

/** Writes the newest value of a key, one write at a time. */
export interface Saver {
  save(value: string): void;
  /** Fulfilled when everything is written. */
  idle(): Promise<unknown>;
}

export const newSaver = (storage: Storage, key: string, failed: (error: unknown) => void): Saver => {
  let next: string | undefined;
  let idle: Promise<unknown> = Promise.resolve();
  return {
    save(value) {
      // The turn, and the write before, end first: of many values only the last one is written.
      if (next === undefined) {
        idle = idle
          .then(() => {
            const value = next!;
            next = undefined;
            return storage.set(key, value);
          })
          .catch(failed);
      }
      next = value;
    },
    idle: () => idle,
  };
};
