//! Logins to MCP servers, built with the feature `mcp-oauth`: against an authorization server of our own on loopback.
#![allow(clippy::disallowed_methods, reason = "tests read files and the environment")]
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod server;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};

use pretty_assertions::assert_eq;
use tempfile::TempDir;

use self::server::OauthServer;

/// A home, which is also the folder of the project.
struct Home(TempDir);

impl Home {
    /// A project whose server `issues` has this address.
    fn new(url: &str) -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        home.set_url(url);
        home
    }

    fn set_url(&self, url: &str) {
        let yaml = format!(
            "mcp_servers: {{ issues: {{ url: '{url}' }}, local: {{ command: x }} }}\n\
             agents: [{{ id: one, model: 'openai:m', tools: [issues__*] }}]\n"
        );
        std::fs::write(self.0.path().join("forge.yaml"), yaml).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forge_under_test"));
        command.env_clear().env("HOME", self.0.path()).env("NO_COLOR", "1").env("OPENAI_API_KEY", "k");
        command.env("OPENAI_BASE_URL", "http://127.0.0.1:9/v1").current_dir(self.0.path());
        command.arg("--trust").args(arguments).stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> (i32, String) {
        let output = self.command(arguments).output().unwrap();
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        (output.status.code().unwrap(), text)
    }

    /// What `forge doctor` finds of the server.
    fn finding(&self) -> String {
        let (_, text) = self.run(&["doctor"]);
        let lines: Vec<&str> = text.lines().skip_while(|line| !line.contains("MCP server issues")).collect();
        lines.into_iter().take(2).collect::<Vec<_>>().join("\n")
    }

    /// The file with the token, if there is one.
    fn token_file(&self) -> Option<std::path::PathBuf> {
        let folder = std::fs::read_dir(self.0.path().join(".local/state/forge/mcp")).ok()?;
        folder
            .map(|entry| entry.unwrap().path())
            .find(|path| path.extension().is_some_and(|end| end == "json"))
    }
}

/// A login that waits for the browser.
struct Login {
    process: Child,
    stdout: BufReader<ChildStdout>,
    address: String,
}

impl Login {
    fn begin(home: &Home) -> Self {
        let mut command = home.command(&["mcp", "login", "issues"]);
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        let mut address = String::new();
        while !address.trim().starts_with("http") {
            address.clear();
            assert!(stdout.read_line(&mut address).unwrap() > 0, "no address was printed");
        }
        Self { process, stdout, address: address.trim().to_owned() }
    }

    /// The exit code, and what was printed.
    fn end(mut self) -> (i32, String) {
        let mut text = String::new();
        self.stdout.read_to_string(&mut text).unwrap();
        self.process.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        (self.process.wait().unwrap().code().unwrap(), text)
    }
}

/// Requests a page; the answer's head and body.
fn get(url: &str) -> String {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    let request = format!("GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    // A server that has answered may have closed the connection.
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Logs in as a browser does: the answer that it shows at its end.
fn browse(address: &str) -> String {
    get(&redirect(address))
}

fn redirect(address: &str) -> String {
    let answer = get(address);
    answer.lines().find_map(|line| line.strip_prefix("location: ")).unwrap().to_owned()
}

#[test]
fn a_login_is_kept_renewed_and_forgotten() {
    let server = OauthServer::start();
    let home = Home::new(&format!("{}/mcp", server.origin));
    let finding = home.finding();
    assert!(finding.contains("asks for a login: run `forge mcp login issues`"), "{finding}");

    let login = Login::begin(&home);
    let callback = redirect(&login.address);
    // Any page may send the browser to that port.
    let stranger = callback.split("state=").next().unwrap().to_owned() + "state=guessed";
    assert!(get(&stranger).starts_with("HTTP/1.1 404"), "a foreign answer counted");
    assert!(get(&callback).contains("You are logged in."));
    let (code, text) = login.end();
    assert_eq!(code, 0, "{text}");
    let file = home.token_file().unwrap();
    assert!(text.contains(&format!("logged in to `issues`; the token is in {}", file.display())), "{text}");
    let kept = || std::fs::read_to_string(&file).unwrap();
    assert!(kept().contains("token-1") && !text.contains("token-1"));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
    }

    let finding = home.finding();
    assert!(finding.contains("issues 1: 1 tool, such as issues__search"), "{finding}");
    // A token that the server has ended is renewed without a word.
    std::fs::write(&file, kept().replace("\"token-1\"", "\"token-0\"")).unwrap();
    let finding = home.finding();
    assert!(finding.contains("1 tool") && kept().contains("token-2"), "{finding}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }
    // One that cannot be renewed asks for a login.
    server.with(|state| (state.renews_nothing, state.token) = (true, 9));
    let finding = home.finding();
    assert!(finding.contains("run `forge mcp login issues`"), "{finding}");

    assert_eq!(home.run(&["mcp", "logout", "issues"]), (0, "logged out of `issues`\n".to_owned()));
    assert_eq!(home.run(&["mcp", "logout", "issues"]), (0, "there was no login to `issues`\n".to_owned()));
    assert_eq!(home.token_file(), None);
}

#[test]
fn a_token_goes_to_no_other_address() {
    let (server, other) = (OauthServer::start(), OauthServer::start());
    let home = Home::new(&format!("{}/mcp", server.origin));
    let login = Login::begin(&home);
    browse(&login.address);
    assert_eq!(login.end().0, 0);
    home.set_url(&format!("{}/mcp", other.origin));
    let finding = home.finding();
    assert!(finding.contains("asks for a login"), "{finding}");
    let sent = other.with(|state| state.authorizations.clone());
    assert!(!sent.is_empty() && sent.iter().all(Option::is_none), "{sent:?}");
}

#[test]
fn a_login_that_fails_says_why() {
    let server = OauthServer::start();
    let home = Home::new(&format!("{}/mcp", server.origin));
    server.with(|state| state.user_refuses = true);
    let login = Login::begin(&home);
    assert!(browse(&login.address).contains("The login failed."));
    let (code, text) = login.end();
    assert!(
        code != 0
            && text.contains("cannot log in to the MCP server `issues`: it was refused (access_denied)"),
        "{text}"
    );
    assert_eq!(home.token_file(), None);
    for (arguments, words) in [
        (["mcp", "login", "local"], "the MCP server `local` is a program, which needs no login"),
        (["mcp", "logout", "none"], "there is no MCP server `none`"),
    ] {
        let (code, text) = home.run(&arguments);
        assert!(code != 0 && text.contains(words), "{text}");
    }
    // A server without any metadata offers no login.
    server.with(|state| state.has_no_metadata = true);
    let (code, text) = home.run(&["mcp", "login", "issues"]);
    assert!(
        code != 0 && text.contains("cannot log in to the MCP server `issues`: it offers no login"),
        "{text}"
    );
}
