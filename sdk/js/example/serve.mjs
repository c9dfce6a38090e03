// Bundles the dashboard and serves it. `PORT` is 8000 if it is not given.
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const PAGE = `<!doctype html>
<html lang="en">
  <meta charset="utf-8">
  <title>Rooms</title>
  <style>
    body { font: 16px system-ui; max-width: 40rem; margin: 2rem auto; padding: 0 1rem; }
    .chart { margin: 0; color: #0a6; } svg { width: 100%; }
  </style>
  <div id="page"></div>
  <script src="/dashboard.js"></script>
</html>`;

export async function serve(port) {
  const { outputFiles } = await build({
    entryPoints: [fileURLToPath(new URL("dashboard.jsx", import.meta.url))],
    bundle: true,
    write: false,
    format: "iife",
    jsx: "automatic",
    define: { "process.env.NODE_ENV": '"production"' },
  });
  const server = createServer(({ url }, response) => {
    const isScript = url === "/dashboard.js";
    response.setHeader("content-type", isScript ? "text/javascript" : "text/html");
    response.end(isScript ? outputFiles[0].text : PAGE);
  });
  await new Promise((resolve) => server.listen(port, "127.0.0.1", resolve));
  return { server, url: `http://localhost:${server.address().port}` };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { url } = await serve(Number(process.env.PORT ?? 8000));
  console.log(url);
}
