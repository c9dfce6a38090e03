// Code for a browser, as it stands, with the WebSocket of `ws`, because older Node has none.
// Usage: plain_javascript.cjs FILE. What the code prints and warns about goes to the standard output.
"use strict";

const { readFileSync } = require("node:fs");
const { runInThisContext } = require("node:vm");

globalThis.WebSocket = require("ws").WebSocket;
console.warn = console.log;
runInThisContext(readFileSync(process.argv[2], "utf8"));
