//! `forge export`: a run as one HTML page.

use forge_tests::{ScriptedServer, Step};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::forge::{Forge, Outcome, outcome};

const YAML: &str = "\
agents: [{ id: reader, model: openai:scripted, tools: [read], compact: { max_tokens: 400 } }]
models: { openai:scripted: { window: 3000, max_output: 200 } }
";

/// What a hostile model or file would write.
const HOSTILE: &str = "</pre></details><script>alert(1)</script><img src=x onerror=alert(2)> \u{202e}gnp.exe";

#[test]
fn a_page_has_the_whole_conversation_and_what_each_compaction_replaced() {
    let forge = Forge::new()
        .with_file("forge.yaml", YAML)
        .with_file("notes.txt", "rain over the dome\n".repeat(150))
        .with_file("evil.txt", HOSTILE);
    let read = |path: &str| Step::calls(&[("read", &json!({ "path": path }).to_string())]);
    let steps = vec![
        read("evil.txt"),
        read("notes.txt"),
        read("notes.txt"),
        read("notes.txt"),
        Step::text(format!(
            "# Nights\n\n**Rain**, see [here](javascript:alert(3)). {HOSTILE} sk-planted-2f7Qx9"
        )),
    ];
    let server = ScriptedServer::start(steps);
    let run = |arguments: &[&str]| {
        let mut command = forge.command(arguments);
        outcome(command.env("OPENAI_BASE_URL", server.base_url()).env("OPENAI_API_KEY", "sk-planted-2f7Qx9"))
    };
    let ran = run(&["run", "When did it <b>rain</b>?"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("compacted by"), "{}", ran.stderr);

    let exported = run(&["export", "--html", "page.html"]);
    assert_eq!(exported.code, 0, "{}", exported.stderr);
    assert!(exported.stdout.starts_with("wrote page.html ("), "{}", exported.stdout);
    let page = std::fs::read_to_string(forge.path("page.html")).unwrap();
    for expected in [
        "<title>When did it &lt;b&gt;rain&lt;/b&gt;?</title>",
        "<b>Read(evil.txt)</b>",
        "&lt;script&gt;alert(1)&lt;/script&gt;",
        "\\u{202e}gnp.exe",
        "<strong>Rain</strong>",
        "<b>compaction c0</b>",
        "that this replaced (m",
        "left the view by c",
    ] {
        assert!(page.contains(expected), "`{expected}` is not in the page:\n{page}");
    }
    // Each message is once where it was said; what was replaced is there again below its compaction.
    assert_eq!(page.matches("<article class=\"user\" id=\"m").count(), 1, "{page}");
    assert!(page.matches("rain over the dome").count() > 150 * 3, "{page}");
    // Its links lead to its own compactions.
    assert_eq!(page.matches("href=").count(), page.matches("href=\"#c").count(), "{page}");
    for forbidden in
        ["<script", "<img", "src=\"", "onerror=\"", "sk-planted-2f7Qx9", "\u{202e}", "http:", "https:"]
    {
        assert!(!page.contains(forbidden), "`{forbidden}` is in the page:\n{page}");
    }

    check_page_of_a_checkpoint(&forge, &run);

    // A page is written again, and nothing else is written over.
    std::fs::write(forge.path("notes.txt"), "precious").unwrap();
    assert_eq!(run(&["export", "--html", "page.html"]).code, 0);

    for (arguments, words) in [
        (&["export", "--html", "notes.txt"][..], "notes.txt already exists and is no page of Forge"),
        (&["export", "nobody"], "unknown run or checkpoint `nobody`"),
        (
            &["export", "--html", "no/such/folder.html"],
            "cannot write no/such/folder.html\n  because No such file or directory",
        ),
        (&["export", "--store", "none"], "no checkpoints are kept here"),
    ] {
        let refused = run(arguments);
        assert!(refused.code > 0 && refused.stderr.contains(words), "{arguments:?}: {}", refused.stderr);
    }
    assert_eq!(std::fs::read_to_string(forge.path("notes.txt")).unwrap(), "precious");
}

/// A checkpoint has its own page: the run as it was then.
fn check_page_of_a_checkpoint(forge: &Forge, run: &dyn Fn(&[&str]) -> Outcome) {
    let listed = run(&["checkpoints", "list", "last", "--json"]).stdout;
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let infos = listed["checkpoints"].as_array().unwrap();
    let first = format!("#{}", infos.iter().map(|info| info["key"].as_u64().unwrap()).min().unwrap());
    assert_eq!(run(&["export", &first, "--html", "first.html"]).code, 0);
    let earlier = std::fs::read_to_string(forge.path("first.html")).unwrap();
    assert!(earlier.contains(&format!("<dd>{first}, not the latest state</dd>")), "{earlier}");
    assert!(earlier.contains("<title>When did it") && !earlier.contains("<strong>Rain"), "{earlier}");
}
