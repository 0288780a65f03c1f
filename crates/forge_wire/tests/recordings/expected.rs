//! What an answer says, by a second and simpler reading of its JSON that shares nothing with the readers under test.

use serde_json::Value;

/// A reply in plain words.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Said {
    pub(crate) text: String,
    pub(crate) reasoning: String,
    /// Name and arguments of each call, the arguments as the value they are, or as text where they are none.
    pub(crate) calls: Vec<(String, Value)>,
    /// Tokens of the prompt, of the answer, from the cache and to it.
    pub(crate) usage: Option<[u64; 4]>,
    /// Whether the model said that it stopped.
    pub(crate) is_whole: bool,
    /// Whether the server said that it failed.
    pub(crate) is_refused: bool,
}

/// Arguments as the value they are.
pub(crate) fn arguments(text: &str) -> Value {
    let text = if text.is_empty() { "{}" } else { text };
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

fn number(value: &Value, place: &str) -> u64 {
    value.pointer(place).and_then(Value::as_u64).unwrap_or(0)
}

fn word<'a>(value: &'a Value, place: &str) -> &'a str {
    value.pointer(place).and_then(Value::as_str).unwrap_or_default()
}

/// Every run of digits.
pub(crate) fn numbers(text: &str) -> Vec<u64> {
    text.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

/// The JSON of each event: behind `data:`, or a line each.
pub(crate) fn events(body: &str) -> Vec<Value> {
    let is_sse = body.lines().any(|line| line.starts_with("data:"));
    let data = body.lines().filter_map(|line| if is_sse { line.strip_prefix("data:") } else { Some(line) });
    let parsed: Vec<Value> = data.filter_map(|data| serde_json::from_str(data.trim()).ok()).collect();
    if parsed.is_empty() { serde_json::from_str(body).into_iter().collect() } else { parsed }
}

pub(crate) fn openai(events: &[Value]) -> Said {
    let mut said = Said::default();
    // Index, id, name and arguments of each call.
    let mut calls: Vec<(u64, String, String, String)> = Vec::new();
    for event in events {
        // A reply that has stopped stays whole, whatever comes behind it.
        if event.get("error").is_some_and(|error| !error.is_null()) {
            said.is_refused = !said.is_whole;
            break;
        }
        let choices = event["choices"].as_array().cloned().unwrap_or_default();
        for choice in choices.iter().filter(|choice| number(choice, "/index") == 0) {
            // Perplexity has both in a whole answer, of which the first is empty.
            let keys = if events.len() == 1 { ["message", "delta"] } else { ["delta", "message"] };
            let message = keys.iter().find_map(|key| choice.get(*key)).unwrap_or(&Value::Null);
            let text = match &message["content"] {
                Value::Array(parts) => parts.iter().map(|part| word(part, "/text")).collect(),
                content => content.as_str().unwrap_or_default().to_owned(),
            };
            let text = if text.is_empty() { word(message, "/refusal").to_owned() } else { text };
            said.text.push_str(&text);
            for part in message["content"].as_array().into_iter().flatten() {
                let thoughts = part["thinking"].as_array().into_iter().flatten();
                said.reasoning.extend(thoughts.map(|thought| word(thought, "/text")));
            }
            let reasoning = match word(message, "/reasoning_content") {
                "" => word(message, "/reasoning"),
                reasoning => reasoning,
            };
            said.reasoning.push_str(reasoning);
            for (n, call) in message["tool_calls"].as_array().into_iter().flatten().enumerate() {
                let index = call["index"].as_u64().unwrap_or(n as u64);
                let id = word(call, "/id");
                let known = calls.iter_mut().rev().find(|known| known.0 == index);
                let call_at = match known.filter(|known| id.is_empty() || known.1.is_empty() || known.1 == id)
                {
                    Some(known) => known,
                    None => {
                        calls.push((index, id.to_owned(), String::new(), String::new()));
                        calls.last_mut().unwrap()
                    }
                };
                if call_at.2.is_empty() {
                    call_at.2 = word(call, "/function/name").to_owned();
                }
                match &call["function"]["arguments"] {
                    Value::String(text) => call_at.3.push_str(text),
                    Value::Null => {}
                    other => call_at.3.push_str(&other.to_string()),
                }
            }
            said.is_whole |= choice["finish_reason"].is_string();
        }
        let usage = [&event["usage"], &event["x_groq"]["usage"]].into_iter().find(|usage| usage.is_object());
        if let Some(usage) = usage.filter(|usage| usage["prompt_tokens"].is_u64()) {
            let cached = usage.pointer("/prompt_tokens_details/cached_tokens").and_then(Value::as_u64);
            said.usage = Some([
                number(usage, "/prompt_tokens"),
                number(usage, "/completion_tokens"),
                cached.unwrap_or_else(|| number(usage, "/prompt_cache_hit_tokens")),
                number(usage, "/prompt_tokens_details/cache_write_tokens"),
            ]);
        }
    }
    said.calls = calls.into_iter().map(|(_, _, name, text)| (name, arguments(&text))).collect();
    said
}

pub(crate) fn anthropic(events: &[Value]) -> Said {
    let mut said = Said::default();
    // Index of the block, name and arguments of each call.
    let mut calls: Vec<(u64, String, String)> = Vec::new();
    let (mut input, mut written, mut read, mut output) = (None, 0, 0, 0);
    for event in events {
        let index = number(event, "/index");
        let block =
            |said: &mut Said, calls: &mut Vec<_>, index: u64, block: &Value| match word(block, "/type") {
                "text" => said.text.push_str(word(block, "/text")),
                "thinking" => said.reasoning.push_str(word(block, "/thinking")),
                "tool_use" => {
                    let input = block["input"].as_object().filter(|input| !input.is_empty());
                    calls.push((
                        index,
                        word(block, "/name").to_owned(),
                        input.map(|input| Value::from(input.clone()).to_string()).unwrap_or_default(),
                    ));
                }
                _ => {}
            };
        match word(event, "/type") {
            "error" => said.is_refused = true,
            // One recording holds the replies of several calls.
            "message_stop" => break,
            "message" => {
                for (n, value) in event["content"].as_array().into_iter().flatten().enumerate() {
                    block(&mut said, &mut calls, n as u64, value);
                }
            }
            "content_block_start" => block(&mut said, &mut calls, index, &event["content_block"]),
            "content_block_delta" => match word(event, "/delta/type") {
                "text_delta" => said.text.push_str(word(event, "/delta/text")),
                "thinking_delta" => said.reasoning.push_str(word(event, "/delta/thinking")),
                "input_json_delta" => {
                    if let Some(call) = calls.iter_mut().rev().find(|call| call.0 == index) {
                        call.2.push_str(word(event, "/delta/partial_json"));
                    }
                }
                _ => {}
            },
            _ => {}
        }
        let stop = event.pointer("/delta/stop_reason").or_else(|| event.get("stop_reason"));
        said.is_whole |= stop.is_some_and(Value::is_string);
        for usage in [&event["usage"], &event["message"]["usage"]] {
            let keep = |key: &str, figure: &mut u64| match usage[key].as_u64() {
                Some(value) if value > 0 => *figure = value,
                _ => {}
            };
            keep("cache_creation_input_tokens", &mut written);
            keep("cache_read_input_tokens", &mut read);
            keep("output_tokens", &mut output);
            input = usage["input_tokens"].as_u64().filter(|n| *n > 0 || input.is_none()).or(input);
        }
    }
    said.usage = input.map(|input| [input + written + read, output, read, written]);
    said.calls = calls.into_iter().map(|(_, name, text)| (name, arguments(&text))).collect();
    said
}

pub(crate) fn responses(events: &[Value]) -> Said {
    let mut said = Said::default();
    // The last event of a response has all of it; a recording may hold those of several calls.
    let end = events.iter().find(|event| {
        let is_end =
            ["completed", "incomplete", "failed"].iter().any(|end| word(event, "/type").ends_with(end));
        (is_end && event["response"].is_object()) || event["output"].is_array()
    });
    let Some(end) = end else { return said };
    let response = end.get("response").unwrap_or(end);
    said.is_refused = response["error"].is_object();
    said.is_whole = !said.is_refused;
    // What was told item by item counts where the end repeats nothing of it.
    let done: Vec<Value> = events
        .iter()
        .take_while(|event| !std::ptr::eq(*event, end))
        .filter(|event| word(event, "/type") == "response.output_item.done")
        .map(|event| event["item"].clone())
        .collect();
    let output = response["output"].as_array().filter(|output| !output.is_empty()).cloned().unwrap_or(done);
    let mut reasoning = Vec::new();
    for item in &output {
        let parts = |key: &str| item[key].as_array().cloned().unwrap_or_default();
        match word(item, "/type") {
            "message" => said.text.extend(
                parts("content").iter().map(|part| word(part, "/text").to_owned() + word(part, "/refusal")),
            ),
            "reasoning" => {
                let texts = parts("summary").into_iter().chain(parts("content"));
                reasoning.extend(texts.map(|part| word(&part, "/text").to_owned()));
            }
            "function_call" => {
                said.calls.push((word(item, "/name").to_owned(), arguments(word(item, "/arguments"))));
            }
            "custom_tool_call" => {
                said.calls.push((word(item, "/name").to_owned(), arguments(word(item, "/input"))));
            }
            _ => {}
        }
    }
    said.reasoning = reasoning.join("\n\n");
    said.usage = response["usage"]["input_tokens"].as_u64().map(|input| {
        let usage = &response["usage"];
        let details = |key: &str| number(usage, &format!("/input_tokens_details/{key}"));
        [input, number(usage, "/output_tokens"), details("cached_tokens"), details("cache_write_tokens")]
    });
    said
}

pub(crate) fn ollama(events: &[Value]) -> Said {
    let mut said = Said::default();
    for event in events {
        said.is_refused |= event["error"].is_string();
        said.text.push_str(word(event, "/message/content"));
        said.reasoning.push_str(word(event, "/message/thinking"));
        for call in event["message"]["tool_calls"].as_array().into_iter().flatten() {
            said.calls.push((word(call, "/function/name").to_owned(), call["function"]["arguments"].clone()));
        }
        said.is_whole |= event["done"] == true;
        if event["prompt_eval_count"].is_u64() || event["eval_count"].is_u64() {
            said.usage = Some([number(event, "/prompt_eval_count"), number(event, "/eval_count"), 0, 0]);
        }
    }
    said
}

pub(crate) fn gemini(events: &[Value]) -> Said {
    let mut said = Said::default();
    for event in events {
        said.is_refused |= event["error"].is_object();
        for part in
            event.pointer("/candidates/0/content/parts").and_then(Value::as_array).into_iter().flatten()
        {
            let of = if part["thought"] == true { &mut said.reasoning } else { &mut said.text };
            of.push_str(word(part, "/text"));
            if let Some(call) = part.get("functionCall") {
                let arguments = call.get("args").cloned().unwrap_or_else(|| arguments(""));
                said.calls.push((word(call, "/name").to_owned(), arguments));
            }
        }
        said.is_whole |= event.pointer("/candidates/0/finishReason").is_some_and(Value::is_string);
        if let Some(usage) = event.get("usageMetadata") {
            let answer = number(usage, "/candidatesTokenCount") + number(usage, "/thoughtsTokenCount");
            said.usage = Some([
                number(usage, "/promptTokenCount") + number(usage, "/toolUsePromptTokenCount"),
                answer,
                number(usage, "/cachedContentTokenCount"),
                0,
            ]);
        }
    }
    said
}
