/** A place for texts that outlives the program; may be asynchronous. */
export interface Storage {
  get(key: string): string | null | undefined | Promise<string | null | undefined>;
  set(key: string, value: string): unknown;
  delete(key: string): unknown;
}

/** Writes the newest value of a key, one write at a time. */
export class Saver {
  private next: string | undefined;
  private running: Promise<void> | undefined;

  constructor(
    private readonly storage: Storage,
    private readonly key: string,
    private readonly failed: (error: unknown) => void,
  ) {}

  save(value: string): void {
    this.next = value;
    this.running ??= this.run();
  }

  /** Resolves when everything is written. */
  async idle(): Promise<void> {
    while (this.running) await this.running;
  }

  private async run(): Promise<void> {
    // The turn ends first: of many values in one turn only the last one is written.
    await undefined;
    while (this.next !== undefined) {
      const value = this.next;
      this.next = undefined;
      try {
        await this.storage.set(this.key, value);
      } catch (error) {
        this.failed(error);
      }
    }
    this.running = undefined;
  }
}
