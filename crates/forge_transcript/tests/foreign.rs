//! Formats that look like those that are read have a reader of their own or are refused by name, and nothing
//! of them is taken for something else.

#![expect(clippy::unwrap_used, reason = "a test panics on what must not happen")]

use forge_domain::Role;
use forge_transcript::{Draft, Format, Session, TranscriptError, read, read_as};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

fn messages(list: &Value) -> String {
    json!({"messages": list}).to_string()
}

fn lines(records: &[Value]) -> String {
    records.iter().map(|record| format!("{record}\n")).collect()
}

/// A user's message, and `then`.
fn chat(then: &Value) -> String {
    messages(&json!([{"role": "user", "content": "Find it."}, then]))
}

/// The smallest file of each format that could be taken for one that is read; words of its name, and of the place.
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn files() -> Vec<(String, &'static str, &'static str)> {
    let tool_call = json!({"type": "tool-call", "toolCallId": "c", "toolName": "f", "input": {}});
    let tool_result = json!({"type": "tool-result", "toolCallId": "c", "toolName": "f",
        "output": {"type": "text", "value": "the answer"}});
    vec![
        (chat(&json!({"role": "assistant", "content": [tool_call]})), "Vercel AI SDK", "entry 1 of `messages`: `content[0].type` is `tool-call`"),
        (chat(&json!({"role": "tool", "content": [tool_result]})), "Vercel AI SDK", "`content[0].type` is `tool-result`"),
        (
            json!([{"id": "1", "role": "user", "parts": [{"type": "text", "text": "Find it."}]}]).to_string(),
            "UI messages of the Vercel AI SDK",
            "entry 0 of `messages`: `parts`",
        ),
        (
            chat(&json!({"role": "assistant", "content": "", "toolInvocations": [{"state": "result", "result": "x"}]})),
            "UI messages of the Vercel AI SDK",
            "`toolInvocations`",
        ),
        (json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}).to_string(), "Gemini contents", ""),
        (json!([{"role": "user", "parts": [{"text": "hi"}]}]).to_string(), "Gemini contents", "`parts`"),
        (chat(&json!({"role": "model", "content": "hi"})), "Gemini contents", "`role` is `model`"),
        (
            json!({"model": "m", "input": [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}]})
                .to_string(),
            "OpenAI Responses",
            "",
        ),
        (
            chat(&json!({"role": "user", "content": [{"type": "input_text", "text": "hi"}]})),
            "OpenAI Responses",
            "`content[0].type` is `input_text`",
        ),
        (
            json!([{"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c"}]).to_string(),
            "OpenAI Responses",
            "",
        ),
        (
            chat(&json!({"role": "user", "content": [{"type": "text", "text": {"value": "hi", "annotations": []}}]})),
            "OpenAI Assistants",
            "`content[0].type` is `text`",
        ),
        (chat(&json!({"type": "human", "content": "hi"})), "LangChain", "entry 1 of `messages`: `role` is missing"),
        (
            json!([{"type": "system", "data": {"content": "hi"}}, {"type": "human", "data": {"content": "hi"}}])
                .to_string(),
            "LangChain",
            "",
        ),
        (
            json!([{"lc": 1, "type": "constructor", "id": ["langchain", "HumanMessage"], "kwargs": {"content": "hi"}}]).to_string(),
            "LangChain",
            "",
        ),
        (
            json!({"id": "1", "working_dir": "/", "conversation": [{"role": "user", "content": [{"type": "text", "text": "Find it."}]}]}).to_string(),
            "goose",
            "",
        ),
        (
            chat(&json!({"role": "assistant", "content": [{"type": "toolRequest", "id": "c", "toolCall": {}}]})),
            "goose",
            "`toolRequest`",
        ),
        (
            chat(&json!({"role": "assistant", "content": [{"toolUse": {"toolUseId": "c", "name": "f", "input": {}}}]})),
            "Bedrock",
            "`content[0]` has no `type`",
        ),
        (
            chat(&json!({"role": "user", "contents": [{"$type": "text", "text": "hi"}]})),
            "Microsoft",
            "`contents`",
        ),
        (
            chat(&json!({"role": "user", "blocks": [{"block_type": "text", "text": "hi"}]})),
            "LlamaIndex",
            "`blocks`",
        ),
        (
            json!([{"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "hi"}]}]).to_string(),
            "Pydantic AI",
            "",
        ),
        (json!({"conversations": [{"from": "human", "value": "hi"}]}).to_string(), "ShareGPT", ""),
        (
            json!({"id": "1", "context": {}, "messages": [{"text": {"role": "User", "content": "hi"}}]}).to_string(),
            "Forge Code",
            "`role` is missing",
        ),
        (
            json!({"messages": [{"info": {"role": "user"}, "parts": [{"type": "text", "text": "hi"}]}]}).to_string(),
            "OpenCode",
            "",
        ),
        (
            json!({"messages": [{"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t", "content": "x"},
                {"type": "file", "path": "a.rs", "content": "fn main() {}"}]}]})
            .to_string(),
            "Cline",
            "`content[1].type` is `file`",
        ),
        (
            lines(&[json!({"uuid": "1", "parentUuid": null, "sessionId": "s", "type": "user",
                "message": {"role": "user", "parts": [{"text": "hi"}]}})]),
            "Qwen Code",
            "line 1: `message.content` is missing",
        ),
        (
            json!([{"type": "system", "subtype": "init"}, {"type": "assistant", "message": {}}]).to_string(),
            "Claude Code's turns",
            "jq -c",
        ),
        (lines(&[json!({"role": "user", "content": "hi"}), json!({"role": "assistant", "content": "ho"})]), "OpenAI messages", ""),
        (lines(&[json!({"role": "human", "content": "hi"}), json!({"role": "bot", "content": "ho"})]), "other roles than OpenAI's", "rename the roles"),
        (lines(&[json!({"messages": []}), json!({"messages": []})]), "OpenAI messages", ""),
        ("# aider chat started at 2026-01-01 10:00:00\n\n#### hi\n".to_owned(), "Aider", ""),
        (json!({"choices": [{"message": {"role": "assistant", "content": "hi"}}]}).to_string(), "answer of chat completions", ""),
        (json!([{"ts": 1, "type": "say", "say": "text", "text": "hi"}]).to_string(), "`ui_messages.json`", "api_conversation_history.json"),
        (json!([{"ts": 1, "type": "ask", "ask": "tool", "text": "hi"}]).to_string(), "`ui_messages.json`", "api_conversation_history.json"),
        (
            lines(&[json!({"type": "thread.started", "thread_id": "1"}), json!({"type": "turn.started"}),
                json!({"type": "item.completed", "item": {"id": "item_0", "type": "agent_message", "text": "hi"}})]),
            "`codex exec --json` prints, without the prompt",
            "rollout of that thread",
        ),
        (json!({"prompts": [{"prompt": "hi", "logs": []}], "totalPrompts": 1}).to_string(), "VS Code's requests", "Export Chat"),
        (
            lines(&[json!({"kind": 1, "k": ["customTitle"], "v": "hi"}), json!({"kind": 2, "k": ["requests"], "v": []})]),
            "without its first line",
            "whole file",
        ),
    ]
}

#[test]
fn lines_with_a_role_and_no_words_are_of_an_unknown_format() {
    let event = |kind: &str| json!({"role": "system", "kind": kind, "time": "t", "raw": {"id": "1"}});
    let error = read(lines(&[event("begin"), event("end")]).as_bytes(), "f").unwrap_err().to_string();
    assert!(error.starts_with("f has an unknown format"), "{error}");
}

#[test]
fn a_foreign_format_is_refused_by_name_with_its_place_and_a_way_out() {
    for (text, name, place) in files() {
        let error = match read(text.as_bytes(), "dump.json") {
            // It has a reader of its own.
            Ok(sessions) => {
                let format = sessions[0].format.id();
                assert!(
                    !["openai", "anthropic", "claude-code"].contains(&format),
                    "{name} as {format}: {text}"
                );
                let is_said = |words: &&str| sessions.iter().any(|session| said(session).contains(*words));
                let words = ["Find it.", "the answer", "\"hi\""];
                assert!(words.iter().filter(|words| text.contains(**words)).all(is_said), "{name}: {text}");
                continue;
            }
            Err(error) => error,
        };
        assert!(matches!(error, TranscriptError::Foreign { .. }), "{text}\n{error}");
        let error = error.to_string();
        for words in ["dump.json looks like ", name, place, "\n  help: ", "lists all formats"] {
            assert!(error.contains(words), "`{words}` is not in:\n{error}\n{text}");
        }
    }
}

/// All that a session says, in one text.
fn said(session: &Session) -> String {
    Draft::messages_of(session).iter().map(|message| serde_json::to_string(message).unwrap()).collect()
}

#[test]
fn no_format_that_is_named_by_hand_empties_it() {
    for (text, name, _) in files() {
        for format in Format::all() {
            let Ok(sessions) = read_as(format, text.as_bytes(), "dump.json") else { continue };
            for words in ["Find it.", "the answer", "hi"] {
                let is_said = sessions.iter().any(|session| said(session).contains(words));
                assert!(
                    is_said || !text.contains(&format!("\"{words}\"")),
                    "{name} read as {format}: {text}"
                );
            }
        }
    }
}

#[test]
fn what_is_no_message_is_refused_with_its_place() {
    for (format, text, words) in [
        (
            "openai",
            chat(&json!({"role": "critic", "content": "hm"})),
            "entry 1 of `messages` is not a message: `role` is `critic`; the roles are system, developer, \
             user, assistant",
        ),
        ("openai", chat(&json!({"role": "tool_use", "content": "hm"})), "`role` is `tool_use`"),
        ("openai", chat(&json!({"role": "assistant-", "content": "hm"})), "`role` is `assistant-`"),
        ("openai", chat(&json!({"role": "user", "text": "hm"})), "`content` is missing"),
        (
            "openai",
            chat(&json!({"role": "assistant", "text": "hm"})),
            "`content` is missing, and so is `tool_calls`",
        ),
        (
            "openai",
            chat(&json!({"role": "user", "content": [{"type": "hologram", "text": "hm"}]})),
            "`content[0].type` is `hologram`, which is not a part of OpenAI's messages",
        ),
        (
            "openai",
            chat(&json!({"role": "user", "content": ["hm"]})),
            "`content[0]` has no `type`, which every part of OpenAI's messages has",
        ),
        (
            "anthropic",
            chat(&json!({"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f"}]})),
            "`content[0].type` is `tool_use`, which is not a part of Anthropic's messages, or lacks",
        ),
        (
            "anthropic",
            chat(&json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t",
                "content": [{"type": "hologram"}]}]})),
            "`content[0].content[0].type` is `hologram`",
        ),
        (
            "claude-code",
            lines(&[json!({"type": "user", "uuid": "1", "message": {"role": "user", "text": "hm"}})]),
            "line 1 is not a message of Claude Code: `message.content` is missing",
        ),
    ] {
        let error = read_as(Format::named(format).unwrap(), text.as_bytes(), "f").unwrap_err().to_string();
        assert!(error.contains(words), "`{words}` is not in:\n{error}");
    }
}

#[test]
fn what_other_servers_add_to_openai_is_read() {
    let text = messages(&json!([
        {"role": "user", "content": [{"type": "video_url", "video_url": {"url": "v"}}, {"type": "text", "text": "see"}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
            {"type": "text", "text": "I look"}]},
        {"role": "assistant", "reasoning_content": "hm"},
        {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]},
        {"role": "tool", "tool_name": "f", "content": "out"},
        {"role": "system", "content": "go on"},
    ]));
    let session = read(text.as_bytes(), "f").unwrap().remove(0);
    let roles: Vec<Role> = session.messages().map(|message| message.role()).collect();
    assert_eq!(
        roles,
        [Role::User, Role::Assistant, Role::Assistant, Role::Assistant, Role::Tool, Role::System]
    );
}
