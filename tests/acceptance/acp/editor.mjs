// An editor by the SDK for TypeScript, which checks every message against its schema. It allows what it is asked for.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";

export const agent = spawn(process.env.FORGE, ["acp"], { stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));

// The parameters of each request for consent.
export const permissions = [];

// Drives the agent; `note` is told the parameters of each update.
export function connect(note, drive) {
  const editor = acp
    .client({ name: "editor" })
    .onRequest(acp.methods.client.session.requestPermission, ({ params }) => {
      permissions.push(params);
      const allow = params.options.find((option) => option.kind === "allow_once");
      return { outcome: { outcome: "selected", optionId: allow.optionId } };
    })
    .onNotification(acp.methods.client.session.update, ({ params }) => {
      note(params);
    });
  return editor.connectWith(stream, drive);
}
