// A chat that runs what you type as Python, one session for each chat.
//
// Start it with TALARIA_URL and TALARIA_TOKEN set, and open http://127.0.0.1:8000/. The token stays here: the page talks
// to this server only.

import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { text } from "node:stream/consumers";

import { Talaria } from "talaria";

if (!process.env.TALARIA_URL || !process.env.TALARIA_TOKEN) {
  console.error("set TALARIA_URL to the output of `talaria url`, and TALARIA_TOKEN to the output of `talaria token show`");
  process.exit(1);
}
const page = await readFile(new URL("index.html", import.meta.url));
const talaria = new Talaria({ url: process.env.TALARIA_URL, token: process.env.TALARIA_TOKEN });

// run answers with one JSON object per line, as the cell produces them.
async function run(chat, code, say) {
  const session = await talaria.session(`chat:${chat}`);
  const print = (text) => say({ type: "text", text });
  const { error } = await session.run(code, {
    onStdout: print,
    onStderr: print,
    onDisplay: (result) => {
      if (result.png) say({ type: "image", data: Buffer.from(result.png).toString("base64") });
      else print(`${result.text}\n`);
    },
  });
  if (error) say({ type: "error", text: error.traceback });
}

const server = createServer(async (request, response) => {
  if (request.method === "GET" && request.url === "/") {
    response.setHeader("Content-Type", "text/html; charset=utf-8");
    response.end(page);
    return;
  }
  if (request.method !== "POST" || !request.url.startsWith("/chat/")) {
    response.writeHead(404).end();
    return;
  }
  response.setHeader("Content-Type", "application/x-ndjson");
  const say = (part) => response.write(`${JSON.stringify(part)}\n`);
  try {
    await run(request.url.slice("/chat/".length), await text(request), say);
  } catch (error) {
    say({ type: "error", text: error.message });
  }
  response.end();
});

server.listen(process.env.PORT ?? 8000, "127.0.0.1", () => console.log(`open http://127.0.0.1:${server.address().port}/`));
