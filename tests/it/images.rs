//! Images: attached to a task, mentioned in the chat, and read by the model, in every protocol; and what is refused before
//! anything is sent.

use forge_tests::{ScriptedServer, Step};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::forge::{Forge, Outcome, outcome};

const KINDS: [&str; 5] = ["openai-chat", "responses", "anthropic", "ollama", "gemini"];

/// The first bytes of a PNG of that size.
fn png(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    bytes.extend(width.to_be_bytes());
    bytes.extend(height.to_be_bytes());
    bytes.extend(b"\x08\x02\0\0\0");
    bytes
}

/// The image of [`png`] in base64.
fn data() -> String {
    let url = forge_domain::Image::read("a", &png(800, 600)).unwrap().parts();
    let [_, forge_domain::Part::Media(media)] = url else { panic!("an image") };
    media["image_url"]["url"].as_str().unwrap().rsplit_once(',').unwrap().1.to_owned()
}

/// A folder with an image, and an agent that asks the server in this protocol. `facts` are those of its model.
fn forge(server: &ScriptedServer, kind: &str, facts: &str) -> Forge {
    let yaml = format!(
        "providers: {{ p: {{ kind: {kind}, base_url: '{}', retries: 0 }} }}\n\
         models: {{ 'p:m': {{ window: 20000{facts} }} }}\n\
         agents: [{{ id: a, model: 'p:m', tools: [read], system_prompt: Look. }}]\n",
        server.base_url()
    );
    Forge::new().with_file("forge.yaml", yaml).with_file("shot.png", png(800, 600))
}

/// What each protocol holds an image as.
fn image(kind: &str) -> Value {
    let url = format!("data:image/png;base64,{}", data());
    match kind {
        "openai-chat" => json!({"type": "image_url", "image_url": {"url": url, "detail": "high"}}),
        "responses" => json!({"type": "input_image", "image_url": url, "detail": "high"}),
        "anthropic" => {
            json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data()}})
        }
        "ollama" => json!(data()),
        _ => json!({"inlineData": {"mimeType": "image/png", "data": data()}}),
    }
}

/// How often the value is within another, with or without a mark for the cache.
fn count(within: &Value, value: &Value) -> usize {
    let mut bare = within.clone();
    if let Some(fields) = bare.as_object_mut() {
        fields.shift_remove("cache_control");
    }
    let here = usize::from(bare == *value);
    here + match within {
        Value::Array(items) => items.iter().map(|item| count(item, value)).sum(),
        Value::Object(fields) => fields.values().map(|field| count(field, value)).sum(),
        _ => 0,
    }
}

#[test]
fn an_image_of_the_task_is_sent_in_every_protocol() {
    for kind in KINDS {
        let server = ScriptedServer::start(vec![Step::text("A cat.")]);
        let ran = forge(&server, kind, "").run(&["run", "--image", "shot.png", "What is this?"]);
        assert_eq!((ran.code, ran.stdout.trim()), (0, "A cat."), "{kind}: {}", ran.stderr);
        let request = &server.requests()[0];
        assert_eq!(count(request, &image(kind)), 1, "{kind}: {request}");
        let text = request.to_string();
        assert!(
            text.contains("What is this?") && text.contains("[image shot.png, 800 × 600 pixels]"),
            "{kind}: {text}"
        );
    }
}

#[test]
fn an_image_that_the_model_reads_is_shown_where_it_can_see_it() {
    let call = Step::calls(&[("read", r#"{"path":"shot.png"}"#)]);
    for kind in KINDS {
        for (facts, expected) in [(", images: true", 1), ("", 0), (", images: false", 0)] {
            let server = ScriptedServer::start(vec![call.clone(), Step::text("A cat.")]);
            let ran = forge(&server, kind, facts).run(&["run", "What is in shot.png?"]);
            assert_eq!((ran.code, ran.stdout.trim()), (0, "A cat."), "{kind}: {}", ran.stderr);
            let request = &server.requests()[1];
            assert_eq!(count(request, &image(kind)), expected, "{kind}{facts}: {request}");
            let told = request.to_string().contains("this model reads no images");
            assert_eq!(told, expected == 0, "{kind}{facts}: {request}");
        }
    }
}

#[test]
fn an_image_stays_in_the_conversation_and_a_resumed_run_sends_it_again() {
    let server = ScriptedServer::start(vec![Step::text("A cat."), Step::text("Black.")]);
    let forge = forge(&server, "openai-chat", "");
    let first = forge.run(&["run", "--image", "shot.png", "What is this?", "--record", "session.json"]);
    assert_eq!(first.code, 0, "{}", first.stderr);
    let second = forge.run(&["run", "--resume", "last", "Which colour?"]);
    assert_eq!((second.code, second.stdout.trim()), (0, "Black."), "{}", second.stderr);
    let requests = server.requests();
    assert_eq!(requests[0]["messages"][1], requests[1]["messages"][1]);
    assert_eq!(count(&requests[1], &image("openai-chat")), 1);
    // What was recorded can be read, replayed and shown.
    let recorded: Value =
        serde_json::from_slice(&std::fs::read(forge.path("session.json")).unwrap()).unwrap();
    assert_eq!(count(&recorded, &image("openai-chat")), 1);
    for arguments in [&["replay", "session.json"][..], &["inspect", "session.json"]] {
        let ran = forge.run(arguments);
        assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.stderr);
        assert!(!ran.stdout.contains(&data()), "{arguments:?}: {}", ran.stdout);
    }
}

#[test]
fn an_image_counts_as_much_as_the_dearest_provider_would_charge() {
    // 800 × 600 pixels are 765 tokens of OpenAI's, 640 of Anthropic's, and 516 of Gemini's.
    let server = ScriptedServer::start(vec![Step::text("A cat.")]);
    let forge = forge(&server, "openai-chat", "");
    let ran = forge.run(&["run", "--image", "shot.png", "Hi", "--record", "session.json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let inspected = forge.run(&["inspect", "session.json", "--json"]);
    let inspected: Value = serde_json::from_str(&inspected.stdout).unwrap();
    let tokens = inspected["tokens"].as_u64().or(inspected[0]["tokens"].as_u64()).unwrap();
    assert!((765..900).contains(&tokens), "{inspected}");
}

/// Runs with the key of OpenAI set, unless it is not.
fn run_with_key(forge: &Forge, key: Option<&str>, arguments: &[&str]) -> Outcome {
    let mut command = forge.command(&[&["run"], arguments].concat());
    outcome(command.envs(key.map(|key| ("OPENAI_API_KEY", key))))
}

/// A run that cannot work: the facts of a model of the server's (without them the agent asks OpenAI's own), the model, the
/// arguments, whether there is a key, and what is said.
type Refused =
    (&'static str, Option<&'static str>, &'static str, &'static [&'static str], bool, &'static str);

/// Checks that each run is refused before anything is sent.
fn check_refused(cases: &[Refused]) {
    for (what, facts, model, arguments, has_key, expected) in cases {
        let server = ScriptedServer::start(vec![Step::text("hi")]);
        let providers = match facts {
            None => "providers: { openai: { kind: openai-chat } }\n".to_owned(),
            Some(facts) => format!(
                "providers: {{ p: {{ base_url: '{}' }} }}\nmodels: {{ 'p:m': {{ window: 9000{facts} }} }}\n",
                server.base_url()
            ),
        };
        let mut large = png(10, 10);
        large.resize(4 << 20, 0);
        let forge = Forge::new()
            .with_file("forge.yaml", format!("{providers}agents: [{{ id: a, model: '{model}' }}]\n"))
            .with_file("large.png", large)
            .with_file("wide.png", png(9_000, 10))
            .with_file("shot.png", png(800, 600))
            .with_file("notes.png", "no picture");
        let ran = run_with_key(&forge, has_key.then_some("sk-planted-key"), arguments);
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{what}: {}", ran.stderr);
        assert!(ran.stderr.contains(expected), "{what}: {}", ran.stderr);
        assert!(!ran.stderr.contains("planted"), "{what}: {}", ran.stderr);
        assert_eq!(server.requests(), Vec::<Value>::new(), "{what}");
    }
}

#[test]
fn a_model_that_cannot_be_asked_is_refused_before_anything_is_sent() {
    check_refused(&[
        (
            "no key",
            None,
            "openai:gpt-6-sol",
            &["go"],
            false,
            "needs a key: set the environment variable OPENAI_API_KEY",
        ),
        ("no provider of that name", Some(""), "q:m", &["go"], true, "there is no provider `q` for `q:m`"),
        ("a slip in its name", None, "opnai:gpt-6-sol", &["go"], true, "did you mean `openai:gpt-6-sol`?"),
        ("a short name", None, "sonnet", &["go"], true, "did you mean `claude-sonnet-5-5`?"),
        (
            "of another company",
            None,
            "grok-4.7",
            &["go"],
            true,
            "the model `grok-4.7` is not served by `openai`",
        ),
        (
            "in another protocol only",
            None,
            "openai:gpt-5.3-codex",
            &["go"],
            true,
            "cannot be reached by `openai-chat`: its provider serves it by `responses` only",
        ),
        (
            "no such effort",
            None,
            "openai:gpt-6-astra",
            &["go", "--effort", "none"],
            true,
            "has no effort `none`: it has low, medium, high, max",
        ),
        (
            "no effort at all",
            Some(", efforts: []"),
            "p:m",
            &["go", "--effort", "low"],
            true,
            "has no effort `low`: none can be set",
        ),
    ]);
}

#[test]
fn an_image_that_cannot_be_sent_is_refused_before_anything_is_sent() {
    let of_shot: [(&str, &str, &'static [&'static str], &str); 8] = [
        (
            "too many bytes",
            "",
            &["go", "--image", "large.png"],
            "the image `large.png` is too large: 4 MiB (expected at most 3.75 MiB); make it smaller",
        ),
        (
            "too many pixels",
            "",
            &["go", "--image", "wide.png"],
            "the image `wide.png` is too large: 9000 × 10 pixels (expected at most 8000 a side); make it smaller",
        ),
        (
            "no image",
            "",
            &["go", "--image", "notes.png"],
            "`notes.png` is not an image that models read (expected PNG, JPEG, GIF or WebP)",
        ),
        ("no file", "", &["go", "--image", "gone.png"], "cannot read the image gone.png: No such file"),
        ("a folder", "", &["go", "--image", "."], "cannot read the image .: Is a directory"),
        (
            "a device",
            "",
            &["go", "--image", "/dev/null"],
            "cannot read the image /dev/null: it is not a regular file",
        ),
        (
            "a model without eyes",
            ", images: false",
            &["go", "--image", "shot.png"],
            "agent `a`: the model `p:m` reads no images: leave them out, or use another model",
        ),
        ("a task is missing", "", &["--image", "shot.png"], "there is no task"),
    ];
    let cases =
        of_shot.map(|(what, facts, arguments, said)| (what, Some(facts), "p:m", arguments, true, said));
    check_refused(&cases);
}

#[test]
fn a_conversation_with_images_is_not_sent_to_a_model_that_reads_none() {
    let server = ScriptedServer::start(vec![Step::text("A cat.")]);
    let forge = forge(&server, "openai-chat", "");
    let first = forge.run(&["run", "--image", "shot.png", "What is this?"]);
    assert_eq!(first.code, 0, "{}", first.stderr);
    let yaml = std::fs::read_to_string(forge.path("forge.yaml")).unwrap();
    let forge = forge.with_file("forge.yaml", yaml.replace("window: 20000", "window: 20000, images: false"));
    let second = forge.run(&["run", "--resume", "last", "Which colour?"]);
    // The new task is saved by then.
    assert_eq!(second.code, 1, "{}", second.stderr);
    assert!(second.stderr.contains("the model `p:m` reads no images"), "{}", second.stderr);
    assert_eq!(server.requests().len(), 1);
}

#[cfg(target_os = "linux")]
#[test]
fn an_image_that_is_mentioned_in_the_chat_is_sent() {
    use crate::chat::{PROMPT, chat_with, says};

    let server = ScriptedServer::start(vec![Step::text("A cat.")]);
    let yaml =
        "agents: [{ id: reader, model: openai:scripted }]\nmodels: { openai:scripted: { window: 20000 } }\n";
    let forge = Forge::new().with_file("forge.yaml", yaml).with_file("my shot.png", png(800, 600));
    let mut terminal = chat_with(&forge, &server, &["setsid", "--ctty", "--wait"], &[], &[("NO_COLOR", "1")]);
    says(&mut terminal, "What is in @gone.png?");
    terminal.sees("cannot read the image gone.png");
    terminal.sees("the message was not sent");
    // The text is there again, to be changed.
    terminal.sees(PROMPT);
    terminal.types("\x15");
    terminal.types("What is in @\"my shot.png\"?\r");
    terminal.sees("A cat.");
    terminal.sees(PROMPT);
    terminal.types("\x04");
    let ended = terminal.ends();
    assert_eq!(ended.code, Some(0), "{}", ended.shown);
    let requests = server.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(count(&requests[0], &image("openai-chat")), 1, "{}", requests[0]);
}
