// Answers a call while its WebSocket is lost but has not yet said so, and prints how many connections that took.
// Usage: lostsocket.mjs MODULE
import { open } from "./fakesocket.mjs";

const { session, sockets } = await open(process.argv[2], () => {
  console.log(sockets.length);
  process.exit();
});
await session.tool({ name: "once", idempotent: true, run: () => sockets[0].lose() });
sockets[0].call("once");
