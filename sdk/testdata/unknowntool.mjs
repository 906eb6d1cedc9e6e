// Gets a call of a tool that is not provided, and prints the answer.
// Usage: unknowntool.mjs MODULE
import { open } from "./fakesocket.mjs";

const { session, sockets } = await open(process.argv[2], (answer) => {
  console.log(answer.call_id, answer.error.message);
  process.exit();
});
await session.tool({ name: "here", run: () => 1 });
sockets[0].call("gone");
setTimeout(() => process.exit(), 3_000); // nothing answers
