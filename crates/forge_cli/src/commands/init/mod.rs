//! `forge init`: writes a first forge.yaml.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use forge_domain::{AgentId, ProviderId, quantity};
use forge_infra::{keep_copy, write_whole};
use forge_services::workflow::{Layers, Source, nearest};

use super::config::{examine_layers, schema_text};
use crate::consent::{self, ProjectPlace, Record};
use crate::failure::Misconfigured;
use crate::output::visible;
use crate::setup::first_model::{KNOWN, KnownProvider, OwnServer, first_names, ollama_models, with_keys};
use crate::terminal::person::{self, read_answer};
use crate::{output, places, setup};

/// Write a commented forge.yaml that works
///
/// At a terminal it asks for what no flag sets. Elsewhere it uses the provider whose key is in the
/// environment.
#[derive(Debug, Args)]
pub(crate) struct InitArguments {
    /// The provider of the model: openai, anthropic, openrouter, ollama, or your own name for it together
    /// with `--base-url`
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    /// The address of your own server, such as http://localhost:8080/v1; it must speak OpenAI's protocol
    #[arg(long, value_name = "URL", requires = "provider")]
    base_url: Option<String>,
    /// The model by the name that its provider knows
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// The agent's id [default: helper]
    #[arg(long, value_name = "ID")]
    name: Option<String>,
    /// The file, or the folder for a forge.yaml [default: forge.yaml]
    #[arg(value_name = "PATH")]
    path: Option<PathBuf>,
    /// Overwrite an existing forge.yaml and forge.schema.json; the old ones are kept as `.bak`
    #[arg(long)]
    force: bool,
}

impl InitArguments {
    /// Writes the file and its schema; asks if it may and must.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let path = file(self.path.as_deref());
        let schema = path.with_file_name(SCHEMA_FILE);
        may_write(&path, self.force)?;
        let found = surroundings(&self);
        let is_asked = person::is_there();
        let ask = |question: &str, default: Option<&str>, mistake: Mistake| {
            if is_asked { ask_terminal(question, default, mistake) } else { Ok(default.map(str::to_owned)) }
        };
        let answers = answers(&self, &found, &ask)?;
        let yaml = file_text(&answers);
        check_yaml(&yaml, &path)?;
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        }
        put(&path, &yaml, self.force)?;
        let schema_text = schema_text()?;
        // Another schema that is there already may be of another version of Forge: it is not ours to change.
        if std::fs::read_to_string(&schema).is_ok_and(|there| there != schema_text) && !self.force {
            output::say(&format!("note: {} already exists and was not changed", schema.display()));
        } else {
            put(&schema, &schema_text, true)?;
        }
        output::say(&format!("wrote {} and {}", path.display(), schema.display()));
        keep_trust(&path, yaml);
        output::say(&next_steps(&answers, &found, &path));
        Ok(ExitCode::SUCCESS)
    }
}

const SCHEMA_FILE: &str = "forge.schema.json";

/// The values for the file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Answers {
    provider: String,
    base_url: Option<String>,
    /// The address that `OPENAI_BASE_URL` names. The file does not name it: a key is sent to another address
    /// than its own only where the user says so.
    own_server: Option<String>,
    model: String,
    agent: String,
}

/// The environment of the new file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Surroundings {
    /// The providers whose key is in the environment, in the order in which they are offered.
    with_keys: Vec<&'static str>,
    /// The models of an Ollama server on this machine, if there is one.
    ollama: Option<Vec<String>>,
    /// The server of the user's own that stands for `openai`, if there is one.
    own_server: Option<OwnServer>,
}

/// Records that the file is trusted as written: the user who answered is the one who would be asked. If that
/// fails, the first run asks.
fn keep_trust(path: &Path, yaml: String) {
    let is_usual = path.file_name().is_some_and(|name| name == places::PROJECT_FILE);
    let folder = path.parent().filter(|folder| is_usual && !folder.as_os_str().is_empty());
    let Ok(place) = ProjectPlace::of(folder.unwrap_or(Path::new(".")), path) else { return };
    let Ok(own) = setup::own_layers() else { return };
    let project = Some(Source::new(path.display().to_string(), yaml));
    let demands = consent::demands(&Layers { project, ..own }, &place);
    if !demands.is_empty() {
        // Nothing is lost where this fails: the question only comes later.
        let _ = Record::of(&place, &demands).save();
    }
}

/// Returns the file of a path: a folder's is its `forge.yaml`.
fn file(path: Option<&Path>) -> PathBuf {
    match path {
        None => PathBuf::from("forge.yaml"),
        Some(path) if path.is_dir() => path.join("forge.yaml"),
        Some(path) => path.to_owned(),
    }
}

fn may_write(path: &Path, force: bool) -> anyhow::Result<()> {
    if path.exists() && !force {
        let words =
            "already exists, and nothing was written: name another file, or overwrite it with `--force`";
        return Err(Misconfigured(format!("{} {words}", path.display())).into());
    }
    Ok(())
}

fn surroundings(arguments: &InitArguments) -> Surroundings {
    let environment = places::environment();
    let with_keys: Vec<_> = with_keys(&environment).map(|known| known.name).collect();
    // A server is not asked where the answer could change nothing.
    let may_matter = match arguments.provider.as_deref() {
        None => with_keys.is_empty() || std::io::stdin().is_terminal(),
        Some(provider) => provider == "ollama" && arguments.model.is_none(),
    };
    let ollama = if may_matter { ollama_models(&environment) } else { None };
    let is_openai = arguments.provider.as_deref().is_none_or(|provider| provider == "openai");
    let own_server = if is_openai { OwnServer::named_in(&environment) } else { None };
    let own_server = match arguments.model {
        None => own_server.map(|server| server.with_model(&environment)),
        Some(_) => own_server,
    };
    Surroundings { with_keys, ollama, own_server }
}

/// A function that asks a question and returns the answer; an empty one is the default.
type Asker<'a> = dyn Fn(&str, Option<&str>, Mistake) -> anyhow::Result<Option<String>> + 'a;

/// A check of an answer; a question with an invalid answer is repeated.
type Mistake = fn(&str) -> Option<&'static str>;

/// Returns why a name is invalid, if it is.
fn no_name(answer: &str) -> Option<&'static str> {
    answer.trim().is_empty().then_some("an answer is needed here")
}

/// Returns why an address is invalid, if it is.
fn no_address(answer: &str) -> Option<&'static str> {
    let is_http = ["http://", "https://"].iter().any(|scheme| answer.trim().starts_with(scheme));
    (!is_http).then_some("an address starts with http:// or https://")
}

/// Returns the values from flags, else from answers, else from the environment. `ask` gets a question and its
/// default.
fn answers(arguments: &InitArguments, found: &Surroundings, ask: &Asker<'_>) -> anyhow::Result<Answers> {
    let running = found.ollama.as_ref().filter(|models| !models.is_empty()).map(|_| "ollama");
    let usual = found.with_keys.first().copied().or(running);
    let provider = match &arguments.provider {
        Some(provider) => provider.clone(),
        None => {
            let names: Vec<String> = KNOWN.iter().map(|known| describe(known, found)).collect();
            let question =
                format!("Which provider serves the model?\n{}\n{OWN_SERVER}\nprovider", names.join("\n"));
            ask(&question, usual, no_name)?.ok_or_else(|| Misconfigured(NO_PROVIDER.to_owned()))?
        }
    };
    let provider =
        ProviderId::new(provider.trim()).map_err(|error| Misconfigured(error.to_string()))?.to_string();
    let known = KNOWN.iter().find(|known| known.name == provider);
    let own_server = found.own_server.as_ref().filter(|_| provider == "openai");
    let base_url = match (&arguments.base_url, known) {
        (Some(url), _) => Some(url.clone()),
        (None, Some(_)) => None,
        (None, None) => Some(ask(&where_is(&provider), None, no_address)?.ok_or_else(|| {
            let names: Vec<&str> = KNOWN.iter().map(|known| known.name).collect();
            Misconfigured(format!(
                "unknown provider `{provider}`: give its address with `--base-url http://HOST:PORT/v1`, or \
                 name \
                 one of {}",
                names.join(", ")
            ))
        })?),
    };
    let first_local = found.ollama.as_ref().and_then(|models| models.first()).map(String::as_str);
    let usual = match own_server {
        Some(server) => server.model.as_deref(),
        None => known.and_then(|known| known.model).or(first_local.filter(|_| provider == "ollama")),
    };
    let model = match &arguments.model {
        Some(model) => model.clone(),
        None => ask(&which_model(&provider, found), usual, no_name)?.ok_or_else(|| {
            Misconfigured(format!(
                "no model was given for `{provider}`: name it with `--model NAME` (`forge models --provider \
                 {provider}` lists what a server offers)"
            ))
        })?,
    };
    let model = model.trim().strip_prefix(&format!("{provider}:")).unwrap_or(model.trim()).to_owned();
    let agent = match &arguments.name {
        Some(name) => name.clone(),
        None => ask("How should the agent be named?\nid", Some("helper"), no_name)?
            .unwrap_or_else(|| "helper".to_owned()),
    };
    let agent = AgentId::new(agent.trim()).map_err(|error| Misconfigured(error.to_string()))?.to_string();
    if model.is_empty() {
        return Err(Misconfigured("a model's name must not be empty".to_owned()).into());
    }
    let own_server = own_server.filter(|_| base_url.is_none()).map(|server| server.url.clone());
    Ok(Answers { provider, base_url, own_server, model, agent })
}

const NO_PROVIDER: &str = "\
no provider was given, and there is no terminal to ask at. Do one of these:
  - forge init --provider openai --model gpt-4o-mini      (then export OPENAI_API_KEY=...)
  - forge init --provider ollama --model NAME             (a local Ollama)
  - forge init --provider mine --base-url http://localhost:8080/v1 --model NAME";

fn describe(known: &KnownProvider, found: &Surroundings) -> String {
    let remark = match (known.variable, &found.ollama) {
        (Some(variable), _) if found.with_keys.contains(&known.name) => format!("{variable} is set"),
        (Some(variable), _) => format!("needs {variable}"),
        (None, Some(models)) => format!("runs here, with {}", quantity(models.len(), "model")),
        (None, None) => "not running here".to_owned(),
    };
    format!("  {:<11} {remark}", known.name)
}

/// The note about all other servers.
const OWN_SERVER: &str = "  or a name of your own, for any other server that speaks OpenAI's protocol";

/// Returns the question for an address, for a provider that may also be a misspelt one.
fn where_is(provider: &str) -> String {
    let meant = nearest(provider, KNOWN.iter().map(|known| known.name));
    let meant = meant.map(|known| format!(" (If you mean `{known}`, press Ctrl-C and start again.)"));
    format!(
        "What is the address of `{provider}`, such as http://localhost:8080/v1?{}\naddress",
        meant.unwrap_or_default()
    )
}

/// Returns the question for a model, with the available ones if they are known.
fn which_model(provider: &str, found: &Surroundings) -> String {
    let there = found.ollama.as_deref().filter(|models| provider == "ollama" && !models.is_empty());
    let there = there.map_or_else(String::new, |models| format!(" It has {}", first_names(models)));
    format!("Which of its models?{there}\nmodel")
}

/// Asks on the terminal; an empty answer is the default.
fn ask_terminal(question: &str, default: Option<&str>, mistake: Mistake) -> anyhow::Result<Option<String>> {
    let default_words = default.map(|default| format!(" [{default}]")).unwrap_or_default();
    // What is asked again is the last line of the question.
    let mut asking = question;
    loop {
        let Some(answer) = read_answer(&format!("{asking}{default_words}: "))? else {
            return Err(Misconfigured("no answer was given, and nothing was written".to_owned()).into());
        };
        match (answer.as_str(), default) {
            ("", Some(default)) => return Ok(Some(default.to_owned())),
            (answer, _) => match mistake(answer) {
                None => return Ok(Some(answer.to_owned())),
                Some(words) => output::say(words),
            },
        }
        asking = question.lines().last().unwrap_or_default();
    }
}

/// Returns the text of the file.
fn file_text(answers: &Answers) -> String {
    let Answers { provider, base_url, own_server, model, agent } = answers;
    // JSON's texts are YAML's: a name may hold anything.
    let quoted = |text: &str| {
        let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c))
            && !WORDS_OF_YAML.contains(&text.to_lowercase().as_str());
        if is_plain { text.to_owned() } else { serde_json::Value::from(text).to_string() }
    };
    let declared = match (base_url, own_server) {
        (None, None) => format!("# providers:{PROVIDER_EXAMPLE}"),
        (None, Some(url)) => format!(
            "# OPENAI_BASE_URL must name the server, as it does now: {}\n# providers:{PROVIDER_EXAMPLE}",
            visible(url)
        ),
        (Some(url), _) => format!(
            "providers:\n  {}: {{ kind: openai, base_url: {} }}\n    # api_key_env: MY_KEY   would go into the braces: the \
             variable that holds the key",
            quoted(provider),
            quoted(url)
        ),
    };
    let reference = quoted(&format!("{provider}:{model}"));
    include_str!("init.yaml.txt")
        .replace("@PROVIDERS@", &declared)
        .replace("@REFERENCE@", &reference)
        .replace("@AGENT@", &quoted(agent))
}

/// Words that YAML does not read as texts without quotes.
const WORDS_OF_YAML: [&str; 9] = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"];

const PROVIDER_EXAMPLE: &str =
    "\n#   mine: { kind: openai, base_url: http://localhost:8080/v1, api_key_env: MY_KEY }";

/// Fails if the file would be rejected; nothing is written then.
fn check_yaml(yaml: &str, path: &Path) -> anyhow::Result<()> {
    let source = Source::new(path.display().to_string(), yaml);
    let examined = examine_layers(&Layers { project: Some(source), ..Layers::default() })?;
    match examined.faults.first() {
        Some(fault) => Err(Misconfigured(format!(
            "this would not be a valid \
             configuration:\n{fault}"
        ))
        .into()),
        None => Ok(()),
    }
}

/// Writes `text`, whole or not at all; the old file is kept as `.bak` or `.bak.1` and so on.
fn put(path: &Path, text: &str, force: bool) -> anyhow::Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    if force && path.exists() && std::fs::read_to_string(path).is_ok_and(|there| there == text) {
        return Ok(());
    }
    if path.exists() {
        keep_copy(path, &std::fs::read(path).with_context(cannot)?).with_context(cannot)?;
        return write_whole(path, text.as_bytes()).with_context(cannot);
    }
    // No other file is overwritten, even one created at this moment.
    let mut file = std::fs::File::create_new(path).with_context(cannot)?;
    let written = file.write_all(text.as_bytes());
    // A disk that is full would leave the beginning.
    written.inspect_err(|_| drop(std::fs::remove_file(path))).with_context(cannot)
}

fn next_steps(answers: &Answers, found: &Surroundings, path: &Path) -> String {
    let known = KNOWN.iter().find(|known| known.name == answers.provider);
    let missing = known
        .and_then(|known| known.variable)
        .filter(|_| !found.with_keys.contains(&answers.provider.as_str()));
    let export = missing.map(|variable| format!("  export {variable}=...\n")).unwrap_or_default();
    let server = answers.own_server.as_ref();
    let server = server.map(|url| format!("  export OPENAI_BASE_URL={}   (in each shell)\n", visible(url)));
    let server = server.unwrap_or_default();
    let has_model = found.ollama.as_ref().is_some_and(|models| models.contains(&answers.model));
    let pull = match answers.provider == "ollama" && !has_model {
        true => format!("  ollama pull {}\n", answers.model),
        false => String::new(),
    };
    let config =
        if path == Path::new("forge.yaml") { String::new() } else { format!(" --config {}", path.display()) };
    format!(
        "next:\n{export}{server}{pull}  forge doctor{config}\n  forge run{config} \"What is in this folder?\""
    )
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use pretty_assertions::assert_eq;

    use super::*;

    fn arguments(provider: Option<&str>, base_url: Option<&str>, model: Option<&str>) -> InitArguments {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        InitArguments {
            provider: owned(provider),
            base_url: owned(base_url),
            model: owned(model),
            name: None,
            path: None,
            force: false,
        }
    }

    /// Checks the answers, or the error, if the questions are answered with `replies` in order.
    fn check(
        arguments: &InitArguments,
        found: &Surroundings,
        replies: &[&str],
        expected: Result<[&str; 3], &str>,
    ) {
        let replies = RefCell::new(replies.iter());
        let ask = |_: &str, default: Option<&str>, _: Mistake| {
            let reply = replies.borrow_mut().next().filter(|reply| !reply.is_empty());
            Ok(reply.map(|reply| (*reply).to_owned()).or(default.map(str::to_owned)))
        };
        let actual = answers(arguments, found, &ask);
        match (actual, expected) {
            (Ok(actual), expected) => {
                let actual = [actual.provider.as_str(), actual.model.as_str(), actual.agent.as_str()];
                assert_eq!(Ok(actual), expected);
            }
            (Err(error), Err(words)) => assert!(error.to_string().contains(words), "{error}"),
            (Err(error), Ok(_)) => panic!("{error}"),
        }
    }

    #[test]
    fn what_no_flag_says_is_asked_and_what_nobody_answers_is_found() {
        let nothing = Surroundings::default();
        let key = Surroundings { with_keys: vec!["anthropic"], ..Surroundings::default() };
        let local = Surroundings { ollama: Some(vec!["llama3:8b".to_owned()]), ..Surroundings::default() };
        let own = |model: Option<&str>| Surroundings {
            with_keys: vec!["openai"],
            own_server: Some(OwnServer { url: "http://h".to_owned(), model: model.map(str::to_owned) }),
            ..Surroundings::default()
        };
        let none = arguments(None, None, None);
        check(&none, &nothing, &[], Err("forge init --provider openai"));
        check(&none, &key, &[], Ok(["anthropic", "claude-sonnet-5-5", "helper"]));
        check(&none, &local, &[], Ok(["ollama", "llama3:8b", "helper"]));
        // A server of one's own serves what it serves.
        check(&none, &own(Some("small")), &[], Ok(["openai", "small", "helper"]));
        check(&none, &own(None), &[], Err("no model was given for `openai`"));
        check(&none, &own(Some("small")), &["anthropic"], Ok(["anthropic", "claude-sonnet-5-5", "helper"]));
        check(&none, &key, &["openai", "gpt-5", "me"], Ok(["openai", "gpt-5", "me"]));
        check(&none, &nothing, &["mine", "http://h/v1", "m", ""], Ok(["mine", "m", "helper"]));
        check(&arguments(Some("ollama"), None, None), &nothing, &[], Err("forge models --provider ollama"));
        check(&arguments(Some("mine"), None, Some("m")), &nothing, &[], Err("--base-url"));
        check(
            &arguments(Some("openai"), None, Some("openai:m")),
            &nothing,
            &[],
            Ok(["openai", "m", "helper"]),
        );
        check(&arguments(Some(" "), None, Some("m")), &nothing, &[], Err("must not be empty"));
        check(&arguments(Some("openai"), None, Some(" ")), &nothing, &[], Err("must not be empty"));
    }

    #[test]
    fn any_name_gives_a_file_that_is_read_as_it_was_meant() {
        for (provider, url, model, agent) in [
            ("openai", None, "gpt-4o-mini", "helper"),
            ("mine", Some("http://localhost:8080/v1"), "a/b:free", "who: me"),
            ("we #1", Some("http://h/v1?a=b&c"), "{x}", "yes"),
            ("null", Some("http://h"), "'\"\\", "- a"),
        ] {
            let answers = Answers {
                provider: provider.to_owned(),
                base_url: url.map(str::to_owned),
                own_server: None,
                model: model.to_owned(),
                agent: agent.to_owned(),
            };
            let yaml = file_text(&answers);
            assert!(!yaml.contains('@'), "{yaml}");
            check_yaml(&yaml, Path::new("forge.yaml")).unwrap();
            let layers = Layers { project: Some(Source::new("f", &yaml)), ..Layers::default() };
            let workflow = forge_services::workflow::load(&layers).unwrap();
            let found = workflow.agents.iter().next().unwrap();
            let reference = workflow.model(found.model.as_ref().unwrap()).unwrap().reference;
            assert_eq!(
                (found.id.as_str(), reference.provider.as_str(), reference.model.as_str()),
                (agent, provider, model),
                "{yaml}"
            );
        }
    }
}
