"""The terminal of an editor, by the SDK for Python, which checks every message against its schema."""

import asyncio
import os

import acp
from acp import schema


class Editor(acp.Client):
    def __init__(self):
        self.terminals = {}
        self.content = []
        self.asked = []

    async def request_permission(self, session_id, tool_call, options, **_):
        allow = next(option for option in options if option.kind == "allow_once")
        outcome = schema.AllowedOutcome(outcome="selected", option_id=allow.option_id)
        return acp.RequestPermissionResponse(outcome=outcome)

    async def session_update(self, session_id, update, **_):
        if isinstance(update, schema.ToolCallProgress):
            self.content += [type(part).__name__ for part in update.content or []]

    async def create_terminal(self, session_id, command, args=None, env=None, cwd=None, output_byte_limit=None, **_):
        self.asked.append("create")
        process = await asyncio.create_subprocess_exec(
            command, *(args or []), cwd=cwd, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        self.terminals["t"] = process
        return schema.CreateTerminalResponse(terminal_id="t")

    async def wait_for_terminal_exit(self, session_id, terminal_id, **_):
        self.asked.append("wait")
        process = self.terminals[terminal_id]
        self.output = (await process.communicate())[0].decode()
        return schema.WaitForTerminalExitResponse(exit_code=process.returncode)

    async def terminal_output(self, session_id, terminal_id, **_):
        self.asked.append("output")
        status = schema.TerminalExitStatus(exit_code=self.terminals[terminal_id].returncode)
        return schema.TerminalOutputResponse(output=self.output, truncated=False, exit_status=status)

    async def release_terminal(self, session_id, terminal_id, **_):
        self.asked.append("release")
        return schema.ReleaseTerminalResponse()

    def on_connect(self, conn):
        pass


async def main():
    editor = Editor()
    forge = os.environ["FORGE"]
    spawned = acp.spawn_agent_process(editor, forge, "acp", "--sandbox", "off", env=dict(os.environ))
    async with spawned as (agent, _):
        await agent.initialize(
            protocol_version=acp.PROTOCOL_VERSION,
            client_capabilities=schema.ClientCapabilities(terminal=True),
        )
        session = (await agent.new_session(cwd=os.getcwd(), mcp_servers=[])).session_id
        answer = await agent.prompt(session_id=session, prompt=[acp.helpers.text_block("Run it.")])
        assert answer.stop_reason == "end_turn", answer
        await asyncio.sleep(0.2)
    assert editor.asked == ["create", "wait", "output", "release"], editor.asked
    assert any("Terminal" in kind for kind in editor.content), editor.content
    assert editor.output == "ran with no key\n", editor.output
    print("ok: the terminal")


asyncio.run(main())
