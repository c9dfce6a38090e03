/** What stands between the core and the platform: socket, clock, timer, log, the application's callbacks. */

import { encodeUtf8 } from "./codec/utf8.js";
import { closed, failed, lost, opened, probe, tick, wakeAt } from "./core/connection.js";
import { received } from "./core/frames.js";
import type { TokenSource } from "./core/options.js";
import { newCore, type Core } from "./core/state.js";
import { sourceAnswered, sourceFailed } from "./core/tokens.js";
import { checkSize, invalid, type CroreError } from "./errors.js";
import type { Options } from "./options.js";
import { clock, consoleLog, platform, randomBytes, socketUrl, type SocketEvent, type SocketLike } from "./platform.js";
import type { State } from "./state.js";

/** Numbers of the rules; they are inlined. */
const enum Limit {
  UnsentMax = 1024 * 1024, // U15
  /** Below the longest wait of the platforms' timers. */
  TimerMsMax = 1e9,
}

export interface Shell {
  core: Core;
  /** Runs one input of the core. */
  act<T>(input: () => T): T;
  /** A callback of the application has failed: X5. */
  blame(error: unknown): void;
  onState: Set<(state: State) => void>;
  onError: Set<(error: CroreError) => void>;
}

/** A frame in the handshake: an offered subprotocol. */
const offer = (frame: Uint8Array): string =>
  "crore.frame." + btoa(String.fromCharCode(...frame)).replace(/=/g, "").replace(/\+/g, "-").replace(/\//g, "_");

/** Text as bytes. */
export const binary = (data: string | Uint8Array): Uint8Array => {
  return typeof data === "string" ? encodeUtf8(data) : data;
};

/** `ended`: the client is closed. */
export const newShell = (urls: string | readonly string[], options: Options, ended: () => void): Shell => {
  const Socket = options.webSocket ?? platform.WebSocket;
  if (!Socket) throw invalid("give `webSocket`");
  const sender = binary(options.producerId ?? randomBytes(16));
  checkSize("an id", sender, 64);
  const log = options.log ?? consoleLog();
  const onState: Shell["onState"] = new Set();
  const onError: Shell["onError"] = new Set();
  let socket: SocketLike | undefined;
  let hiddenFailures = 0;
  let tokenCall: AbortController | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let timerAt = Infinity;

  const blame = (error: unknown): void => {
    try {
      log?.("error", "callback_failed", { error: String(error) });
    } catch {
      // The log itself has thrown.
    }
  };

  /** X5: callbacks run when the core is done. One that throws harms nobody else. */
  const later = (callback: () => unknown): void => {
    void Promise.resolve().then(callback).catch(blame);
  };

  const tell = <T>(listeners: Set<(it: T) => void>, it: T): void =>
    listeners.forEach((listener) => later(() => listener(it)));

  const act = <T>(input: () => T): T => {
    core.nowMs = clock();
    const output = input();
    arm();
    return output;
  };

  /** Sets the timer anew. One that fires too early only looks again. */
  const arm = (): void => {
    const at = wakeAt(core);
    if (!timer || at < timerAt || at === Infinity) {
      clearTimeout(timer);
      timerAt = at;
      timer = at < Infinity ? setTimeout(wake, Math.min(at - core.nowMs + 1, Limit.TimerMsMax)) : undefined;
    }
  };

  const wake = (): void => {
    timer = undefined;
    act(() => tick(core));
  };

  const dial = (url: string, early: Uint8Array[]): void => {
    let isOpen = false;
    let it: SocketLike;
    try {
      it = socket = new Socket!(url, ["crore.v1", ...early.map(offer)]);
    } catch {
      return later(() => act(() => failed(core)));
    }
    it.binaryType = "arraybuffer";
    const mine = (input: () => void) => {
      if (socket === it) act(input);
    };
    const gone = (code: number, status?: number) =>
      mine(() => {
        socket = undefined;
        if (isOpen) return closed(core, code);
        // Browsers do not show why a handshake was refused.
        if (!status && ++hiddenFailures === 3) core.logged("warn", "lost", { hint: "see the server's log" });
        failed(core, status);
      });
    it.onopen = () =>
      mine(() => {
        isOpen = true;
        hiddenFailures = 0;
        opened(core);
      });
    it.onmessage = ({ data }: SocketEvent) => {
      if (socket !== it) return;
      core.nowMs = clock();
      // A message of a topic brings no time nearer.
      if (received(core, typeof data === "string" ? data : new Uint8Array(data!))) arm();
    };
    // Deno says 0 for a connection that was cut.
    it.onclose = ({ code }: SocketEvent) => gone(code || 1006);
    // Node closes no socket that has never been open. `ws` tells the status of a handshake here.
    it.onerror = ({ message = "" }: SocketEvent) => {
      if (!isOpen) gone(1006, Number(/response: (\d{3})/.exec(message)?.[1]));
    };
  };

  const hangUp = (code: number): void => {
    const it = socket;
    socket = undefined;
    try {
      if (code !== 1006) it?.close(code);
      else if (it?.terminate) it.terminate();
      else it?.close();
    } catch {
      // Browsers do not permit 1002: this is the protocol's own code for the same.
      it!.close(3500);
    }
  };

  const core = newCore([urls].flat().map(socketUrl), options, sender, {
    random: Math.random,
    dial,
    hangUp,
    isBlocked: () => socket?.bufferedAmount! > Limit.UnsentMax,
    transmit(bytes) {
      try {
        socket?.send(bytes);
      } catch {
        // The socket has ended, and its event is on its way.
      }
    },
    // T9
    askToken(id, reason) {
      tokenCall?.abort();
      const { signal } = (tokenCall = new AbortController());
      void Promise.resolve()
        .then(() => (options.token as TokenSource)(reason, signal))
        .then(
          (token) => act(() => sourceAnswered(core, id, token)),
          (error) => {
            blame(error);
            act(() => sourceFailed(core, id, error?.name === "Unauthorized"));
          },
        );
    },
    changed(state) {
      if (state.state === "closed") {
        for (const stop of stops) stop();
        tokenCall?.abort();
        ended();
      }
      tell(onState, state);
    },
    complain: (error) => tell(onError, error),
    logged: (...event) => log && later(() => log(...event)),
  });
  const stops = listen(options, () => act(() => probe(core)), () => {
    if (!socket) return;
    hangUp(1000);
    act(() => lost(core, { reason: "network" }, true));
  });
  return { core, act, blame, onState, onError };
};

/** Events after which the connection may be dead, or a network be there again. Returns what ends that. */
const listen = ({ appState }: Options, probe: () => void, hide: () => void): (() => void)[] => {
  const stops: (() => void)[] = [];
  const { document } = platform;
  const on = (target: any, type: string, listener: (event: any) => void) => {
    target.addEventListener(type, listener);
    stops.push(() => target.removeEventListener(type, listener));
  };
  if (document) {
    on(document, "visibilitychange", () => document.visibilityState === "visible" && probe());
    on(platform, "pageshow", probe);
    on(platform, "online", probe);
    // An open socket keeps a page out of the back and forward cache.
    on(platform, "pagehide", hide);
  }
  const app = appState?.addEventListener("change", (state) => state === "active" && probe());
  if (app) stops.push(() => app.remove());
  return stops;
};
