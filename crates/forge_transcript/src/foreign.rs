//! Formats that are recognized by what is peculiar to them, and not read.
//!
//! Their messages look enough like those of a format that is read to pass for it, and would then lose their
//! calls, results or texts without a word. A refusal names them.

use serde_json::{Map, Value};

/// The roles of messages in the protocol of OpenAI, with the older one of results.
pub(crate) const ROLES: [&str; 6] = ["system", "developer", "user", "assistant", "tool", "function"];

/// Checks whether a message may have the role of that name.
pub(crate) fn is_role(name: &str) -> bool {
    ROLES.contains(&name)
}

/// The characters between a role and the name of its author.
const SEPARATORS: [char; 5] = ['-', '_', ':', '/', '.'];

/// Returns the role with which a longer word begins, and the author whom the rest names, as in
/// `assistant-planner`.
pub(crate) fn named_role(word: &str) -> Option<(&'static str, &str)> {
    ROLES.iter().find_map(|role| {
        let name = word.strip_prefix(role)?.strip_prefix(SEPARATORS)?;
        (!name.is_empty()).then_some((*role, name))
    })
}

/// A format that is recognized, and not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Foreign {
    /// Its name, as the rest of a sentence: "it looks like …".
    pub(crate) name: &'static str,
    /// The way to one of the formats that are read, if there is a short one.
    pub(crate) way: Option<&'static str>,
}

const fn foreign_format(name: &'static str) -> Foreign {
    Foreign { name, way: None }
}

pub(crate) const fn with_way(name: &'static str, way: &'static str) -> Foreign {
    Foreign { name, way: Some(way) }
}

pub(crate) const ANTHROPIC: Foreign =
    with_way("Anthropic messages", "read it as `anthropic`, and move its system prompt to the key `system`");
const VERCEL_UI: Foreign = with_way(
    "UI messages of the Vercel AI SDK",
    "record the body of the provider's request instead, which is read",
);
const VERCEL: Foreign = with_way(
    "model messages of the Vercel AI SDK",
    "record the body of the provider's request instead, which is read",
);
const GEMINI: Foreign = foreign_format("Gemini contents");
const BEDROCK: Foreign = foreign_format("Amazon Bedrock Converse messages");
const RESPONSES: Foreign = foreign_format("OpenAI Responses items");
const THREADS: Foreign = foreign_format("OpenAI Assistants threads");
const LANGCHAIN: Foreign =
    with_way("LangChain messages", "write them with `langchain_core.messages.convert_to_openai_messages`");
const GOOSE: Foreign = foreign_format("a goose session");
const PI: Foreign = foreign_format("a pi session");
const CLINE: Foreign = foreign_format("a Cline or Roo task");
const MICROSOFT: Foreign =
    foreign_format("messages of the Microsoft Agent Framework or Microsoft.Extensions.AI");
const SEMANTIC_KERNEL: Foreign = foreign_format("a Semantic Kernel chat history");
const LLAMA_INDEX: Foreign = foreign_format("LlamaIndex chat messages");
const HAYSTACK: Foreign = foreign_format("Haystack chat messages");
const PYDANTIC_AI: Foreign = foreign_format("Pydantic AI messages");
const AUTOGEN: Foreign = foreign_format("AutoGen messages");
const GOOGLE_ADK: Foreign = foreign_format("Google ADK events");
const OPENCODE: Foreign = foreign_format("an OpenCode session");
const SHARE_GPT: Foreign = foreign_format("ShareGPT conversations");
const FORGE_CODE: Foreign = foreign_format("a Forge Code conversation");
const GEMINI_CLI: Foreign = foreign_format("a Gemini CLI session");
const QWEN_CODE: Foreign = foreign_format("a Qwen Code session");
const COHERE: Foreign = foreign_format("a Cohere chat history");
const CHAT_GPT: Foreign = foreign_format("a ChatGPT export");
const CLAUDE_AI: Foreign = foreign_format("a Claude.ai export");
const OTHER_ROLES: Foreign = with_way(
    "a JSONL file of messages with other roles than OpenAI's",
    "rename the roles to system, user, assistant and tool, and read it as `openai-lines`",
);

const CLINE_SCREEN: Foreign = with_way(
    "what Cline or Roo shows on its screen (`ui_messages.json`), which is not a session",
    "take `api_conversation_history.json` beside it, which is the session",
);
const CODEX_EXEC: Foreign = with_way(
    "what `codex exec --json` prints, without the prompt, which is not a session",
    "take the rollout of that thread: its file in `~/.codex/sessions` has the `thread_id` in its name",
);
const VSCODE_CHANGES: Foreign = with_way(
    "a VS Code chat session without its first line",
    "take the whole file: what is in it are changes to that line",
);

/// A format by the keys that its documents have at the top. Where the document is a list or has a record a
/// line, they are those of the first record.
const DOCUMENTS: &[(&[&str], Foreign)] = &[
    (&["contents"], GEMINI),
    (&["candidates"], foreign_format("an answer of Gemini's API, which is not a session")),
    (&["context", "title"], FORGE_CODE),
    (&["mapping", "current_node"], CHAT_GPT),
    (&["chat_messages"], CLAUDE_AI),
    (&["conversations"], SHARE_GPT),
    (
        &["custom_id", "body"],
        with_way("an OpenAI batch file", "save the `body` of one line as a file of its own"),
    ),
    (&["choices"], foreign_format("an answer of chat completions, which is not a session")),
    (&["output", "object"], foreign_format("an answer of OpenAI's Responses API, which is not a session")),
    (&["input", "model"], RESPONSES),
    (
        &["content", "stop_reason"],
        foreign_format("an answer of Anthropic's messages, which is not a session"),
    ),
    (&["lc", "kwargs"], LANGCHAIN),
    (&["ts", "say"], CLINE_SCREEN),
    (&["ts", "ask"], CLINE_SCREEN),
    (&["kind", "k"], VSCODE_CHANGES),
    (
        &["prompts", "totalPrompts"],
        with_way("a log of VS Code's requests", "take the session: `Chat: Export Chat...` writes it"),
    ),
];

/// Recognizes the format of a document whose first record has these keys and whose `type`, if any, is `kind`.
/// `layout` tells how the document holds its records.
pub(crate) fn of_document(fields: &Map<String, Value>, layout: Layout) -> Option<Foreign> {
    let kind = fields.get("type").and_then(Value::as_str).unwrap_or_default();
    let by_kind = match kind {
        "message_start" => {
            Some(foreign_format("a recorded stream of Anthropic's API, which is not a session"))
        }
        kind if kind.starts_with("response.") => {
            Some(foreign_format("a recorded stream of OpenAI's Responses API, which is not a session"))
        }
        "session_start" => Some(foreign_format("a Factory Droid session")),
        "thread.started" => Some(CODEX_EXEC),
        _ => None,
    };
    let has = |keys: &[&str]| keys.iter().all(|key| fields.contains_key(*key));
    let by_keys = || DOCUMENTS.iter().find(|(keys, _)| has(keys)).map(|(_, foreign)| *foreign);
    by_kind.or_else(by_keys).or_else(|| match layout {
        Layout::List
            if matches!(kind, "system" | "user" | "assistant")
                && (has(&["message"]) || has(&["subtype"])) =>
        {
            Some(with_way(
                "a list of Claude Code's turns",
                "`jq -c '.[]' FILE` makes it a Claude Code session, one record a line",
            ))
        }
        Layout::Lines => of_entry(fields).or_else(|| {
            let role = fields.get("role").and_then(Value::as_str);
            role.is_some_and(|role| !is_role(role)).then_some(OTHER_ROLES)
        }),
        Layout::One | Layout::List => of_entry(fields),
    })
}

/// The way in which a document holds its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// It is one object.
    One,
    /// It is a list.
    List,
    /// It has a record a line.
    Lines,
}

/// Recognizes the format of a file that is not JSON.
pub(crate) fn of_text(text: &str) -> Option<Foreign> {
    let is_aider = text.lines().take(2_000).any(|line| line.starts_with("# aider chat started at"));
    let is_cassette = text.starts_with("interactions:");
    is_aider
        .then_some(foreign_format("an Aider chat history (Markdown)"))
        .or_else(|| is_cassette.then_some(foreign_format("a VCR cassette (YAML)")))
}

/// Recognizes the format of an entry that is not a message of the format in whose list it is, or looks like
/// one and is not.
pub(crate) fn of_entry(fields: &Map<String, Value>) -> Option<Foreign> {
    if let Some((_, foreign)) = telling_key(fields) {
        return Some(foreign);
    }
    of_role_or_type(fields).or_else(|| {
        let parts = fields.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        parts.iter().filter_map(of_part).find(|foreign| *foreign != ANTHROPIC)
    })
}

/// Returns the key of an entry under which another format keeps what OpenAI's and Anthropic's messages have
/// under `content`, and that format.
pub(crate) fn telling_key(fields: &Map<String, Value>) -> Option<(&'static str, Foreign)> {
    let has = |key: &str| fields.get(key).is_some_and(|value| !value.is_null());
    let has_list = |key: &str| fields.get(key).is_some_and(Value::is_array);
    if has("lc") && has("kwargs") {
        return Some(("kwargs", LANGCHAIN));
    }
    if let Some(parts) = fields.get("parts").and_then(Value::as_array) {
        return Some(("parts", of_parts(fields, parts)));
    }
    if has_list("toolInvocations") {
        return Some(("toolInvocations", VERCEL_UI));
    }
    if has("_role") && has("_content") {
        return Some(("_content", HAYSTACK));
    }
    // A recorder may add such keys to messages that say all under `content`.
    let says_nothing = fields.get("content").is_none_or(|content| content.is_null() || content == "");
    let lists = [("contents", MICROSOFT), ("blocks", LLAMA_INDEX), ("items", SEMANTIC_KERNEL)];
    lists.into_iter().find(|(key, _)| says_nothing && has("role") && has_list(key))
}

/// Recognizes the format of an entry that has a list of `parts`.
fn of_parts(fields: &Map<String, Value>, parts: &[Value]) -> Foreign {
    let has = |key: &str| parts.first().is_some_and(|part| part.get(key).is_some());
    if fields.contains_key("info") {
        OPENCODE
    } else if has("part_kind") {
        PYDANTIC_AI
    } else if has("type") || (parts.is_empty() && fields.contains_key("id")) {
        VERCEL_UI
    } else {
        GEMINI
    }
}

/// Recognizes the format of an entry whose role or type no message of OpenAI's or Anthropic's has.
fn of_role_or_type(fields: &Map<String, Value>) -> Option<Foreign> {
    let text = |key: &str| fields.get(key).and_then(Value::as_str);
    let has = |key: &str| fields.get(key).is_some_and(|value| !value.is_null());
    let has_object = |key: &str| fields.get(key).is_some_and(Value::is_object);
    match (text("role"), text("type")) {
        (Some("model"), _) => Some(GEMINI),
        (Some("toolResult" | "bashExecution" | "compactionSummary" | "branchSummary"), _) => Some(PI),
        (Some("USER" | "CHATBOT"), _) if has("message") => Some(COHERE),
        (None, Some("gemini")) => Some(GEMINI_CLI),
        (None, Some("user")) if has("content") && !has("message") => Some(GEMINI_CLI),
        (None, Some("human" | "ai" | "tool" | "system" | "function" | "remove")) => Some(LANGCHAIN),
        (None, Some(kind)) if kind.ends_with("MessageChunk") => Some(LANGCHAIN),
        (None, Some(kind)) if has("source") && (kind.ends_with("Message") || kind.ends_with("Event")) => {
            Some(AUTOGEN)
        }
        (None, Some("reasoning" | "item_reference")) => Some(RESPONSES),
        (None, Some(kind)) if kind.ends_with("_call") || kind.ends_with("_call_output") => Some(RESPONSES),
        (None, None) if has("from") && has("value") => Some(SHARE_GPT),
        (None, None) if has("sender") && has("text") => Some(CLAUDE_AI),
        (None, None)
            if has("author") && fields.get("content").is_some_and(|said| said.get("parts").is_some()) =>
        {
            Some(GOOGLE_ADK)
        }
        (None, None) if has_object("text") || has_object("tool") || has_object("image") => Some(FORGE_CODE),
        _ => None,
    }
}

/// Recognizes the format of a part of a message's content by what is special about it.
pub(crate) fn of_part(part: &Value) -> Option<Foreign> {
    let has = |key: &str| part.get(key).is_some();
    let Some(kind) = part.get("type").and_then(Value::as_str) else {
        return match () {
            () if has("$type") => Some(MICROSOFT),
            () if has("block_type") => Some(LLAMA_INDEX),
            () if has("functionCall") || has("functionResponse") || has("inlineData") || has("fileData") => {
                Some(GEMINI)
            }
            () if has("toolUse") || has("toolResult") || has("cachePoint") || has("reasoningContent") => {
                Some(BEDROCK)
            }
            () if has("tool_call") || has("tool_call_result") => Some(HAYSTACK),
            () if has("text") => {
                Some(foreign_format("messages whose parts have no `type` (Bedrock Converse, Gemini)"))
            }
            () => None,
        };
    };
    match kind {
        "tool_use" | "tool_result" | "redacted_thinking" => Some(ANTHROPIC),
        "tool-call" | "tool-result" | "tool-error" | "tool-approval-request" | "tool-approval-response" => {
            Some(VERCEL)
        }
        "tool-invocation" | "dynamic-tool" | "step-start" | "source-url" | "source-document" => {
            Some(VERCEL_UI)
        }
        "image" if has("image") && (has("mediaType") || has("mimeType")) => Some(VERCEL),
        "file" if has("mediaType") || has("mimeType") => Some(VERCEL),
        "file" if has("path") => Some(CLINE),
        "reasoning" if has("text") => Some(VERCEL),
        "input_text" | "output_text" | "summary_text" | "input_image" | "input_file" | "reasoning_text" => {
            Some(RESPONSES)
        }
        "text" if part.get("text").is_some_and(|text| text.get("value").is_some()) => Some(THREADS),
        "toolRequest" | "toolResponse" | "frontendToolRequest" | "toolConfirmationRequest" => Some(GOOSE),
        "toolCall" => Some(PI),
        "functionCall" | "functionResult" | "function_call" | "function_result" => Some(MICROSOFT),
        _ => None,
    }
}

/// Recognizes the format of a record that claims to be Claude Code's, and holds its message in another form.
pub(crate) fn of_record(message: &Map<String, Value>) -> Option<Foreign> {
    if message.contains_key("parts") {
        return Some(QWEN_CODE);
    }
    of_entry(message)
}
