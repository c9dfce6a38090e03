// Listens with the npm package `eventsource` and prints a line of JSON for all that happens.
// Usage: event_source.cjs URL [EVENT]... (names of events besides `message`)
"use strict";

const { EventSource } = require("eventsource");

const [url, ...names] = process.argv.slice(2);
const source = new EventSource(url);
const print = (object) => console.log(JSON.stringify(object));
source.onopen = () => print({ open: true });
source.onerror = (error) => print({ error: error.message ?? "closed", status: error.code ?? 0 });
for (const name of ["message", ...names]) {
  source.addEventListener(name, (event) => {
    print({ event: name, id: event.lastEventId, data: event.data });
  });
}
