/**
 * `crore/react`: a topic in a component.
 *
 * @packageDocumentation
 */

import { useMemo, useSyncExternalStore } from "react";
import { topicStore, type TopicOptions, type TopicSnapshot } from "crore/store";
import type { Crore } from "./index.js";

export type { TopicOptions, TopicSnapshot };

/**
 * The newest messages of a topic or filter, the client's state, and whether any message is missing.
 * Renders at most once a frame. Components with the same topic share one subscription.
 */
export function useTopic(client: Crore, topic: string, options?: TopicOptions): TopicSnapshot {
  // Options of the first user hold: another object at each render is no reason to begin anew.
  const store = useMemo(() => topicStore(client, topic, options), [client, topic]);
  return useSyncExternalStore(store.subscribe, store.get, store.get);
}
