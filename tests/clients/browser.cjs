// A headless Chromium with a profile of its own, steered by playwright-core.
"use strict";

const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { chromium } = require("playwright-core");

const TIMEOUT_MS = 90_000;
const ARGUMENTS = [
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

// Runs `visit(page)` and ends the process with 1 where that fails. `options` are playwright's for a
// context.
function browse(visit, options = {}) {
  const run = async () => {
    const profile = fs.mkdtempSync(path.join(os.tmpdir(), "crore-chromium-"));
    const context = await chromium.launchPersistentContext(profile, {
      executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
      timeout: TIMEOUT_MS,
      chromiumSandbox: false,
      headless: true,
      colorScheme: "light",
      args: ARGUMENTS,
      ...options,
    });
    try {
      context.setDefaultTimeout(TIMEOUT_MS);
      await visit(await context.newPage());
    } finally {
      await context.close();
      // Processes of the browser may still write.
      fs.rmSync(profile, { recursive: true, force: true, maxRetries: 50, retryDelay: 200 });
    }
  };
  run().catch((error) => {
    console.error(error);
    process.exit(1);
  });
}

module.exports = { TIMEOUT_MS, browse };
