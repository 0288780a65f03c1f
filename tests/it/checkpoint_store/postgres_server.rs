//! A Postgres server for the tests: the one that `FORGE_TEST_POSTGRES_URL` names, or one of our own that ends with us.

use std::ffi::OsString;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use tempfile::TempDir;
use tokio_postgres::{Config, NoTls};

/// The user `nobody`, as whom a server runs that root started: Postgres refuses to run as root.
const NOBODY: u32 = 65_534;

/// Where the server is; `None` where there is none.
fn server() -> Option<&'static Config> {
    static SERVER: OnceLock<Option<Config>> = OnceLock::new();
    let start = || match std::env::var("FORGE_TEST_POSTGRES_URL") {
        Ok(url) => Some(url.parse().expect("FORGE_TEST_POSTGRES_URL is a URL")),
        Err(_) => own_server(),
    };
    SERVER.get_or_init(start).as_ref()
}

/// A database of one's own on the server. Without a server the test is skipped, which is noted.
pub(crate) async fn database() -> Option<Config> {
    static LAST: AtomicUsize = AtomicUsize::new(0);
    let Some(server) = tokio::task::block_in_place(server) else {
        skipped_tests::skip("no Postgres", "a store in Postgres");
        return None;
    };
    let name = format!("forge_test_{}_{}", std::process::id(), LAST.fetch_add(1, Ordering::Relaxed));
    let (client, connection) = server.connect(NoTls).await.expect("the server answers");
    tokio::spawn(connection);
    client.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
    let mut config = server.clone();
    Some(config.dbname(name).clone())
}

/// Starts a server in a folder of its own, on a socket there. A shell waits for the end of this process, ends the server,
/// and clears up.
fn own_server() -> Option<Config> {
    let programs = programs()?;
    let folder = TempDir::new().unwrap().keep();
    let user = user_id();
    if user == 0 {
        chown(&folder, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let data = folder.join("data");
    let command = |name: &str, arguments: &[&str]| {
        let mut command = Command::new(programs.join(name));
        command.arg("-D").arg(&data).args(arguments).current_dir(&folder);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("LC_ALL", "C").env("HOME", &folder);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        if user == 0 {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    };
    let create = ["-U", "test", "-A", "trust", "--no-sync", "--no-instructions", "-E", "UTF8", "--locale=C"];
    assert!(command("initdb", &create).status().unwrap().success(), "initdb failed");
    let options = format!(
        "-c listen_addresses='' -k {} -c fsync=off -c synchronous_commit=off -c full_page_writes=off \
         -c shared_buffers=16MB -c max_connections=200",
        folder.display()
    );
    let log = folder.join("log");
    let start = ["-w", "-l", log.to_str().unwrap(), "-o", &options, "start"];
    let started = command("pg_ctl", &start).status().unwrap().success();
    assert!(started, "{}", std::fs::read_to_string(&log).unwrap_or_default());
    // Tests end without a word, whatever became of them: the end of this pipe is how the shell knows.
    let script = r#"cat > /dev/null; "$0" -D "$1/data" -m immediate stop > /dev/null 2>&1; rm -rf "$1""#;
    let mut waiting = Command::new("/bin/sh");
    waiting.args([
        OsString::from("-c"),
        script.into(),
        programs.join("pg_ctl").into(),
        folder.clone().into(),
    ]);
    waiting
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    if user == 0 {
        waiting.uid(NOBODY).gid(NOBODY);
    }
    // Its pipe is held open until this process ends.
    std::mem::forget(waiting.spawn().unwrap());
    let mut config = Config::new();
    Some(config.host_path(&folder).user("test").dbname("postgres").clone())
}

/// The folder of the server's programs: the newest that is installed.
fn programs() -> Option<PathBuf> {
    let installed = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = installed.map(|version| version.path().join("bin")).collect();
    folders.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).collect::<Vec<_>>();
    let has_all = |folder: &PathBuf| ["initdb", "pg_ctl"].iter().all(|name| folder.join(name).is_file());
    folders.into_iter().rev().chain(on_path).find(has_all)
}

/// Who runs this process: the owner of what it makes.
fn user_id() -> u32 {
    use std::os::unix::fs::MetadataExt;
    let file = tempfile::NamedTempFile::new().unwrap();
    let made: &Path = file.path();
    made.metadata().unwrap().uid()
}
