/**
 * `crore/store`: a topic as a store with `get` and `subscribe`, for Svelte, Vue and others.
 *
 * All users of a topic share one subscription. It ends a moment after the last one, so that
 * navigation and React's StrictMode do not begin it anew.
 *
 * @packageDocumentation
 */

import type { Crore, CroreError, Message, State, SubscribeOptions, Subscription } from "./index.js";

/** What a user of a topic sees. It is replaced at each change, at most once a frame. */
export interface TopicSnapshot {
  /** The newest messages, the oldest first. */
  readonly items: readonly Message[];
  /** The state of the client. */
  readonly state: State["state"];
  /** Whether no message is missing: no gap and no skip. */
  readonly complete: boolean;
  /** Why the subscription has ended, if the server or the client has ended it. */
  readonly error: CroreError | undefined;
}

/** Options of a topic. Those of its first user hold. */
export interface TopicOptions extends SubscribeOptions {
  /** How many messages `items` keeps; 100. */
  keep?: number;
  /** Makes the next `items`, in place of keeping the newest ones. */
  reduce?: (items: readonly Message[], message: Message) => readonly Message[];
}

/** A store: `subscribe` calls back with the present snapshot, and at each change. */
export interface TopicStore {
  get(): TopicSnapshot;
  subscribe(listener: (snapshot: TopicSnapshot) => void): () => void;
}

const LINGER_MS = 250;
const FRAME_MS = 16;

const registry = new WeakMap<Crore, Map<string, Shared>>();

/** The store of a topic or filter. Nothing is subscribed before its first user. */
export function topicStore(client: Crore, topic: string, options: TopicOptions = {}): TopicStore {
  const shared = (): Shared => {
    let topics = registry.get(client);
    if (!topics) registry.set(client, (topics = new Map()));
    let it = topics.get(topic);
    if (!it) topics.set(topic, (it = new Shared(client, topic, options, topics)));
    return it;
  };
  return { get: () => shared().snapshot, subscribe: (listener) => shared().add(listener) };
}

/** One subscription and its users. */
class Shared {
  snapshot: TopicSnapshot;
  private readonly listeners = new Set<(snapshot: TopicSnapshot) => void>();
  private subscription: Subscription | undefined;
  private items: readonly Message[] = [];
  private error: CroreError | undefined;
  private isPlanned = false;
  private stop = () => {};
  private linger: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly client: Crore,
    private readonly topic: string,
    private readonly options: TopicOptions,
    private readonly topics: Map<string, Shared>,
  ) {
    this.snapshot = { items: this.items, state: client.state.state, complete: true, error: undefined };
    this.leaveLater();
  }

  add(listener: (snapshot: TopicSnapshot) => void): () => void {
    // A listener may be added twice.
    const own = (snapshot: TopicSnapshot) => listener(snapshot);
    this.listeners.add(own);
    clearTimeout(this.linger);
    if (!this.subscription && !this.error) this.begin();
    own(this.snapshot);
    return () => {
      if (this.listeners.delete(own) && this.listeners.size === 0) this.leaveLater();
    };
  }

  private begin(): void {
    try {
      this.subscription = this.client.subscribe(this.topic, this.options);
    } catch (error) {
      this.error = error as CroreError;
      return this.publish();
    }
    this.stop = this.client.onState(() => this.plan());
    void this.read(this.subscription);
  }

  private async read(subscription: Subscription): Promise<void> {
    const { keep = 100, reduce } = this.options;
    try {
      for await (const item of subscription) {
        if (item.kind === "message") {
          if (reduce) this.items = reduce(this.items, item);
          else this.items = [...this.items.slice(this.items.length - keep + 1), item];
        }
        this.plan();
      }
    } catch (error) {
      this.error = error as CroreError;
      this.plan();
    }
  }

  /** One change for each frame; a hidden page has no frames. */
  private plan(): void {
    if (this.isPlanned) return;
    this.isPlanned = true;
    const publish = () => {
      this.isPlanned = false;
      this.publish();
    };
    if (typeof requestAnimationFrame !== "undefined" && !globalThis.document?.hidden) requestAnimationFrame(publish);
    else setTimeout(publish, FRAME_MS);
  }

  private publish(): void {
    this.snapshot = {
      items: this.items,
      state: this.client.state.state,
      complete: this.subscription?.report().complete ?? true,
      error: this.error,
    };
    for (const listener of Array.from(this.listeners)) listener(this.snapshot);
  }

  private leaveLater(): void {
    this.linger = setTimeout(() => {
      this.topics.delete(this.topic);
      this.stop();
      this.subscription?.close();
    }, LINGER_MS);
  }
}
