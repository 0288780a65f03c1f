// An editor by the SDK for TypeScript, which checks every message against its schema.
import assert from "node:assert/strict";
import * as acp from "@agentclientprotocol/sdk";
import { agent, connect, permissions } from "./editor.mjs";

const kinds = [];
let said = "";
const note = ({ update }) => {
  kinds.push(update.sessionUpdate);
  if (update.sessionUpdate === "agent_message_chunk") said += update.content.text;
};
await connect(note, async (context) => {
  const about = await context.request(acp.methods.agent.initialize, {
    protocolVersion: acp.PROTOCOL_VERSION,
    clientCapabilities: {},
    clientInfo: { name: "editor", version: "1" },
  });
  assert.equal(about.protocolVersion, 1);
  assert.equal(about.agentInfo.name, "forge");
  const folder = { cwd: process.cwd(), mcpServers: [] };
  const { sessionId } = await context.request(acp.methods.agent.session.new, folder);
  const ask = (text) => context.request(acp.methods.agent.session.prompt, { sessionId, prompt: [{ type: "text", text }] });
  assert.equal((await ask("When was it closed? Write it down.")).stopReason, "end_turn");
  assert.equal(said, "On Monday.");
  assert.equal(permissions.length, 1);
  assert.equal(permissions[0].toolCall.content[0].type, "diff");
  assert.equal(permissions[0].toolCall.content[0].newText, "Monday\n");
  for (const kind of ["available_commands_update", "tool_call", "tool_call_update", "usage_update"]) {
    assert.ok(kinds.includes(kind), kind);
  }
  said = "";
  assert.equal((await ask("/context")).stopReason, "end_turn");
  assert.match(said, /tokens are used/);
  const listed = await context.request(acp.methods.agent.session.list, { cwd: process.cwd() });
  assert.deepEqual(listed.sessions.map((session) => session.sessionId), [sessionId]);
  said = "";
  assert.equal((await ask("And now?")).stopReason, "end_turn");
  assert.equal(said, "Still Monday.");
  await context.request(acp.methods.agent.session.close, { sessionId });
  kinds.length = 0;
  await context.request(acp.methods.agent.session.load, { sessionId, ...folder });
  assert.equal(kinds[0], "user_message_chunk");
  await assert.rejects(context.request(acp.methods.agent.session.prompt, { sessionId: "x", prompt: [] }));
});
agent.stdin.end();
console.log("ok: the client for TypeScript");
process.exit(0);
