"""An editor by the SDK for Python, which checks every message against its schema."""

import asyncio
import os

import acp
from acp import schema


class Editor(acp.Client):
    def __init__(self):
        self.said = ""
        self.kinds = []
        self.permissions = []
        self.written = {}

    async def request_permission(self, session_id, tool_call, options, **_):
        self.permissions.append(tool_call)
        allow = next(option for option in options if option.kind == "allow_once")
        outcome = schema.AllowedOutcome(outcome="selected", option_id=allow.option_id)
        return acp.RequestPermissionResponse(outcome=outcome)

    async def session_update(self, session_id, update, **_):
        self.kinds.append(type(update).__name__)
        if isinstance(update, schema.AgentMessageChunk):
            self.said += update.content.text

    async def read_text_file(self, session_id, path, line=None, limit=None, **_):
        with open(path, encoding="utf-8") as file:
            return acp.ReadTextFileResponse(content=file.read())

    async def write_text_file(self, session_id, path, content, **_):
        self.written[path] = content
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)
        return acp.WriteTextFileResponse()

    def on_connect(self, conn):
        pass


async def main():
    editor = Editor()
    async with acp.spawn_agent_process(editor, os.environ["FORGE"], "acp", env=dict(os.environ)) as (agent, _):
        files = schema.FileSystemCapabilities(read_text_file=True, write_text_file=True)
        about = await agent.initialize(
            protocol_version=acp.PROTOCOL_VERSION,
            client_capabilities=schema.ClientCapabilities(fs=files),
        )
        assert about.protocol_version == 1, about
        session = (await agent.new_session(cwd=os.getcwd(), mcp_servers=[])).session_id

        async def ask(text):
            editor.said = ""
            answer = await agent.prompt(session_id=session, prompt=[acp.helpers.text_block(text)])
            assert answer.stop_reason == "end_turn", answer
            return editor.said

        assert await ask("When was it closed? Write it down.") == "On Monday."
        assert len(editor.permissions) == 1, editor.permissions
        assert editor.permissions[0].content[0].new_text == "Monday\n", editor.permissions
        # The editor wrote the file itself.
        assert list(editor.written.values()) == ["Monday\n"], editor.written
        assert {"ToolCallStart", "ToolCallProgress", "UsageUpdate"} <= set(editor.kinds), editor.kinds
        assert "tokens are used" in await ask("/context")
        assert await ask("And now?") == "Still Monday."
    print("ok: the client for Python")


asyncio.run(main())
