//! A model that researches as it is told. It knows nothing but the request that it is sent: where it stands in its work,
//! which pages there are and what they say is read from the messages, and what has left them is gone for it.

use std::collections::BTreeSet;

use forge_tests::Step;
use serde_json::{Value, json};

/// How it keeps what it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    /// In files, as its system prompt says; the report is made of these alone.
    Files,
    /// In the context; what it misses in the end it asks `recall` for.
    Context,
}

/// What it answers to `request`.
pub(super) fn reply(memory: Memory, request: &Value) -> Step {
    let prompt = Prompt::of(request);
    let Some(last) = prompt.last_calls() else { return prompt.search(0, Vec::new()) };
    let stations = prompt.stations();
    let found = findings(last.results.iter().map(String::as_str));
    // What it said of its last calls says where it is.
    let said = last.said.trim_end_matches('.');
    if let Some(station) = said.strip_prefix("Looking for ") {
        let urls = last.results.iter().flat_map(|result| result.lines()).map(str::trim);
        let urls = urls.filter(|line| line.starts_with("http://"));
        let fetches = urls.map(|url| ("fetch".to_owned(), json!({ "url": url }).to_string()));
        return Step::Both { text: format!("Reading of {station}."), calls: fetches.collect() };
    }
    if let Some(station) = said.strip_prefix("Reading of ") {
        let shortened = last.results.iter().find_map(|result| shortened(result));
        if let Some(label) = shortened.filter(|_| found.len() < 2 && prompt.offers("recall")) {
            let rest = json!({"ref": label, "query": "Finding"}).to_string();
            return Step::Both {
                text: format!("Reading more of {station}."),
                calls: vec![("recall".to_owned(), rest)],
            };
        }
    }
    let read = said.strip_prefix("Reading of ").or_else(|| said.strip_prefix("Reading more of "));
    if let Some(station) = read {
        let notes = match memory {
            Memory::Files => {
                // What a part of a page adds is added to what the other pages said.
                let found = if said.starts_with("Reading more") { prompt.all_findings() } else { found };
                let of_station = found.iter().filter(|finding| finding.contains(&format!(" {station} was ")));
                let notes: Vec<String> = of_station.map(|finding| format!("- {finding}\n")).collect();
                let path = format!("research/notes/{}.md", station.to_lowercase());
                vec![("write".to_owned(), json!({"path": path, "content": notes.concat()}).to_string())]
            }
            Memory::Context => Vec::new(),
        };
        let next = stations.iter().position(|other| other == station).map_or(0, |at| at + 1);
        return match memory {
            _ if next < stations.len() => prompt.search(next, notes),
            Memory::Files => Step::Both { text: "Noting the last part.".to_owned(), calls: notes },
            Memory::Context => prompt.look_back(),
        };
    }
    match said {
        "Noting the last part" => {
            let list = ("list".to_owned(), json!({"path": "research/notes"}).to_string());
            Step::Both { text: "Looking at the notes.".to_owned(), calls: vec![list] }
        }
        "Looking at the notes" => {
            let names =
                last.results.iter().flat_map(|result| result.lines()).filter(|line| line.ends_with(".md"));
            let reads = names.map(|name| {
                ("read".to_owned(), json!({"path": format!("research/notes/{name}")}).to_string())
            });
            Step::Both { text: "Reading the notes.".to_owned(), calls: reads.collect() }
        }
        "Reading the notes" => report(&found),
        "Asking for what is missing" => report(&prompt.all_findings()),
        _ => Step::text("The report is in research/report.md."),
    }
}

fn report(findings: &BTreeSet<String>) -> Step {
    let lines: Vec<String> = findings.iter().map(|finding| format!("- {finding}\n")).collect();
    let content = format!("# Tide stations\n\n{}", lines.concat());
    let write = json!({"path": "research/report.md", "content": content}).to_string();
    Step::Both { text: "Writing the report.".to_owned(), calls: vec![("write".to_owned(), write)] }
}

/// Every finding in texts, as it stands there: it begins with the last such word and ends behind its source.
fn findings<'t>(texts: impl Iterator<Item = &'t str>) -> BTreeSet<String> {
    let lines = texts.flat_map(str::lines);
    let found = lines.filter_map(|line| {
        let finding = &line[line.rfind("Finding: ")?..];
        let source = finding.find("(source: http")?;
        let end = finding[source..].find(')')?;
        Some(finding[..=source + end].to_owned())
    });
    found.collect()
}

/// The label of a result whose middle is left out.
fn shortened(result: &str) -> Option<&str> {
    let before = &result[..result.find(" shortened: ")?];
    before.rsplit('[').next()
}

/// What it was sent.
struct Prompt<'r> {
    messages: Vec<&'r Value>,
    request: &'r Value,
}

/// Its newest calls.
struct LastCalls {
    said: String,
    results: Vec<String>,
}

impl<'r> Prompt<'r> {
    fn of(request: &'r Value) -> Self {
        Self { messages: request["messages"].as_array().into_iter().flatten().collect(), request }
    }

    fn offers(&self, tool: &str) -> bool {
        let mut tools = self.request["tools"].as_array().into_iter().flatten();
        tools.any(|offered| offered["function"]["name"] == tool)
    }

    fn last_calls(&self) -> Option<LastCalls> {
        let at = self.messages.iter().rposition(|message| message["tool_calls"].is_array())?;
        let results = self.messages[at + 1..].iter().filter(|message| message["role"] == "tool");
        Some(LastCalls {
            said: text(self.messages[at]),
            results: results.map(|result| text(result)).collect(),
        })
    }

    /// What it was told to research.
    fn stations(&self) -> Vec<String> {
        let task = self.messages.iter().find(|message| message["role"] == "user").map(|task| text(task));
        let task = task.unwrap_or_default();
        let list =
            task.split("Stations: ").nth(1).and_then(|rest| rest.split('.').next()).unwrap_or_default();
        list.split(", ").map(str::to_owned).collect()
    }

    fn search(&self, station: usize, mut calls: Vec<(String, String)>) -> Step {
        let station = &self.stations()[station];
        let query = json!({"query": format!("{station} tide station")}).to_string();
        calls.push(("web_search".to_owned(), query));
        Step::Both { text: format!("Looking for {station}."), calls }
    }

    /// What is done when all pages are read and nothing is noted.
    fn look_back(&self) -> Step {
        let found = self.all_findings();
        let missing = self.missing(&found).into_iter();
        let recalls: Vec<_> =
            missing.map(|words| ("recall".to_owned(), json!({ "query": words }).to_string())).collect();
        match recalls.is_empty() {
            true => report(&found),
            false => Step::Both { text: "Asking for what is missing.".to_owned(), calls: recalls },
        }
    }

    /// What it was told to find out and has not before it.
    fn missing(&self, found: &BTreeSet<String>) -> Vec<String> {
        let wanted = self.stations().into_iter().flat_map(|station| {
            ["the highest water at", "the gauge at"].map(|what| format!("Finding: {what} {station} was"))
        });
        let is_missing = |wanted: &String| !found.iter().any(|finding| finding.starts_with(wanted));
        wanted.filter(is_missing).collect()
    }

    /// Everything that is said before it, in whatever place.
    fn texts(&self) -> Vec<String> {
        self.messages.iter().map(|message| text(message)).collect()
    }

    fn all_findings(&self) -> BTreeSet<String> {
        findings(self.texts().iter().map(String::as_str))
    }
}

fn text(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => String::new(),
    }
}
