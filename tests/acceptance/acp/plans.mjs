// Plans, and sessions in two folders, by the SDK for TypeScript.
import assert from "node:assert/strict";
import * as acp from "@agentclientprotocol/sdk";
import { agent, connect, permissions } from "./editor.mjs";

let updates = [];
const note = ({ sessionId, update }) => updates.push({ session: sessionId, ...update });
const of = (kind) => updates.filter((update) => update.sessionUpdate === kind);
await connect(note, async (context) => {
  await context.request(acp.methods.agent.initialize, {
    protocolVersion: acp.PROTOCOL_VERSION,
    clientCapabilities: {},
  });
  const begin = (cwd) => context.request(acp.methods.agent.session.new, { cwd, mcpServers: [] });
  const { sessionId } = await begin(process.cwd());
  const ask = async (session, text) => {
    updates = [];
    const answer = await context.request(acp.methods.agent.session.prompt, {
      sessionId: session,
      prompt: [{ type: "text", text }],
    });
    assert.equal(answer.stopReason, "end_turn");
    return of("agent_message_chunk").map((update) => update.content.text).join("");
  };
  assert.equal(await ask(sessionId, "Do it in steps."), "Done.");
  assert.deepEqual(of("plan").map((plan) => plan.entries[0].status), ["in_progress", "completed"]);

  await context.request(acp.methods.agent.session.setMode, { sessionId, modeId: "plan" });
  assert.match(await ask(sessionId, "Write it down."), /Written\.$/);
  assert.equal(permissions[0].toolCall.kind, "switch_mode");
  assert.equal(permissions[1].toolCall.kind, "edit");
  assert.equal(of("current_mode_update")[0].currentModeId, "ask");
  const plans = of("plan").map((plan) => plan.entries.map((entry) => `${entry.content}: ${entry.status}`));
  assert.deepEqual(plans[0], ["Read it: pending", "Write it: pending"]);
  assert.deepEqual(plans.at(-1), ["Read it: completed", "Write it: completed"]);

  const other = await begin(process.env.OTHER_FOLDER);
  assert.equal(await ask(other.sessionId, "Which folder is this?"), "The other one.");
  assert.match(JSON.stringify(of("tool_call_update")), /the other folder/);
  assert.ok(updates.every((update) => update.session === other.sessionId));
  await context.request(acp.methods.agent.session.close, { sessionId: other.sessionId });
});
agent.stdin.end();
console.log("ok: plans and folders");
process.exit(0);
