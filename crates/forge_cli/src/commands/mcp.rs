//! `forge mcp`: logs in to remote MCP servers, and out again.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use forge_domain::{McpServerConfig, McpServerId};

use super::commands;
use crate::arguments::ConfigFlag;
use crate::consent::Need;
use crate::failure::Misconfigured;
use crate::{output, setup};

/// Log in to remote MCP servers, and out
#[derive(Debug, Args)]
pub(crate) struct McpArguments {
    #[command(subcommand)]
    command: McpCommand,
}

impl McpArguments {
    /// Runs the command.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        self.command.run()
    }
}

commands! {
    McpCommand {
        Login(LoginArguments),
        Logout(LogoutArguments),
    }
}

/// Log in to a remote MCP server in a browser
///
/// The token is kept in your state folder, in a file that only you may read, and renewed when it expires. It
/// is sent to the address that you logged in to and to no other.
#[derive(Debug, Args)]
pub(super) struct LoginArguments {
    /// The server's name in `mcp_servers` or `.mcp.json`
    server: String,
    /// Only print the address; do not open a browser
    #[arg(long)]
    no_browser: bool,
    #[command(flatten)]
    file: ConfigFlag,
}

/// Forget the login to a remote MCP server
#[derive(Debug, Args)]
pub(super) struct LogoutArguments {
    /// The server's name in `mcp_servers` or `.mcp.json`
    server: String,
    #[command(flatten)]
    file: ConfigFlag,
}

impl LoginArguments {
    /// Logs in, and keeps the token.
    #[cfg(feature = "mcp-oauth")]
    fn run(self) -> anyhow::Result<ExitCode> {
        let remote = Remote::of(&self.server, &self.file)?;
        let Remote { name, url } = &remote;
        let tokens = remote.tokens()?;
        let failed = |error: forge_infra::McpLoginError| {
            Misconfigured(format!("cannot log in to the MCP server `{name}`: {error}"))
        };
        crate::run::runtime()?.block_on(async {
            let login = forge_infra::McpLogin::begin(url, &tokens).await.map_err(failed)?;
            let address = login.address().to_owned();
            let is_opened = !self.no_browser && browser::open(&address);
            let how = if is_opened { "Your browser opens" } else { "Open in a browser" };
            output::print(&format!("{how}:\n\n  {}\n\n", output::visible(&address)))?;
            let pasted = browser::pasted_address();
            login.finish(pasted).await.map_err(failed)?;
            let file = tokens.file(url).display().to_string();
            output::print(&format!("logged in to `{name}`; the token is in {}\n", output::visible(&file)))
        })?;
        Ok(ExitCode::SUCCESS)
    }

    /// Reports that this build cannot log in.
    #[cfg(not(feature = "mcp-oauth"))]
    fn run(self) -> anyhow::Result<ExitCode> {
        let Self { server, no_browser: _, file } = self;
        let Remote { name, .. } = Remote::of(&server, &file)?;
        let what = format!(
            "this Forge was built without the feature `mcp-oauth`, so it cannot log in\n  help: `cargo install --path \
             crates/forge_cli --features mcp-oauth`, or `mcp_servers: {{ {name}: {{ headers: {{ authorization: \
             'Bearer ${{TOKEN}}' }} }} }}` with a token of your own"
        );
        Err(Misconfigured(what).into())
    }
}

impl LogoutArguments {
    /// Forgets the token.
    fn run(self) -> anyhow::Result<ExitCode> {
        let remote = Remote::of(&self.server, &self.file)?;
        let was_logged_in = remote.forget()?;
        let name = &remote.name;
        output::print(&match was_logged_in {
            true => format!("logged out of `{name}`\n"),
            false => format!("there was no login to `{name}`\n"),
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// A server with an address.
struct Remote {
    name: McpServerId,
    #[cfg_attr(not(feature = "mcp"), expect(dead_code, reason = "such a build has no logins"))]
    url: String,
}

impl Remote {
    /// Returns the server of that name in the configuration.
    fn of(name: &str, file: &ConfigFlag) -> anyhow::Result<Self> {
        let workflow = setup::configuration(&file.source(), Need::Everything)?.workflow;
        let found = workflow.mcp_servers.into_iter().find(|(id, _)| id.as_str() == name);
        let shown = output::visible(name);
        match found {
            Some((name, McpServerConfig { url: Some(url), .. })) => Ok(Self { name, url }),
            Some(_) => {
                let what = format!(
                    "the MCP server `{shown}` is a program, which needs no login (expected one with a `url`)"
                );
                Err(Misconfigured(what).into())
            }
            None => {
                let what = format!(
                    "there is no MCP server `{shown}`\n  help: `forge config show` lists those of `mcp_servers` and \
                     `.mcp.json`"
                );
                Err(Misconfigured(what).into())
            }
        }
    }

    #[cfg(feature = "mcp")]
    fn tokens(&self) -> anyhow::Result<forge_infra::McpTokens> {
        setup::mcp::tokens(&crate::places::environment())
            .ok_or_else(|| Misconfigured("tokens are kept in your home folder: set HOME".to_owned()).into())
    }

    /// Forgets the token; returns false if there was none.
    #[cfg(feature = "mcp")]
    fn forget(&self) -> anyhow::Result<bool> {
        use anyhow::Context as _;
        let tokens = self.tokens()?;
        tokens
            .forget(&self.url)
            .with_context(|| format!("cannot remove {}", tokens.file(&self.url).display()))
    }

    /// Returns false: this build has no tokens.
    #[cfg(not(feature = "mcp"))]
    fn forget(&self) -> anyhow::Result<bool> {
        Ok(false)
    }
}

/// The browser of the user.
#[cfg(feature = "mcp-oauth")]
mod browser {
    use std::io::IsTerminal as _;
    use std::process::{Command, Stdio};

    use crate::output;
    use crate::terminal::person::read_answer;

    /// Opens an address in the browser; returns false if there is no browser.
    pub(super) fn open(address: &str) -> bool {
        // A server chose the address: nothing but a page is opened.
        let is_page = address.starts_with("https://") || address.starts_with("http://");
        let has_screen = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
        let command: &[&str] = match std::env::consts::OS {
            "macos" => &["open"],
            "windows" => &["rundll32", "url.dll,FileProtocolHandler"],
            _ if has_screen => &["xdg-open"],
            _ => return false,
        };
        if !is_page || !std::io::stderr().is_terminal() {
            return false;
        }
        let mut browser = Command::new(command[0]);
        browser.args(&command[1..]).arg(address);
        browser.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().is_ok()
    }

    /// Returns the address at which a browser on another machine ended; `None` if no one is at the terminal.
    pub(super) async fn pasted_address() -> Option<String> {
        if !std::io::stdin().is_terminal() {
            return None;
        }
        output::say("If the browser is on another machine, paste the address at which it ends:");
        let (send, receive) = tokio::sync::oneshot::channel();
        // It may never end, and must not hold up the end of the program.
        std::thread::spawn(move || send.send(read_answer("> ").ok().flatten()));
        receive.await.ok().flatten().filter(|address| !address.is_empty())
    }
}
