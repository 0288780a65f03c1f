//! Workspaces that travel: what of a folder another machine has, and what it cannot have.

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use forge_app::saved_workspace;
use forge_domain::{GitAddress, GitSource, GitTree, RunId, UnkeptFiles, Workspace, WorkspaceKeeper};
use forge_infra::{Left, TravellingWorkspace, begin_git_tree};
use forge_tests::{ScriptedServer, Step};
use pretty_assertions::assert_eq;
use serde_json::json;
use tempfile::TempDir;

use crate::fleet::{Slice, accepted_with, end_of, store};

/// Calls git in `folder` as somebody at work would, and returns what it says.
fn git(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]);
    let output =
        command.args(["-c", "protocol.file.allow=always"]).args(arguments).current_dir(folder).output();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    assert!(output.status.success(), "git {arguments:?}: {said} {}", String::from_utf8_lossy(&output.stderr));
    said
}

/// A repository with two commits on `main`, the first one tagged, in a folder of its own.
struct Origin(TempDir);

impl Origin {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let work = folder.path().join("work");
        std::fs::create_dir(&work).unwrap();
        git(&work, &["init", "-q"]);
        for (name, text) in [
            ("a.txt", "one\n"),
            ("gone.txt", "soon\n"),
            (".gitignore", "ignored*\n"),
            (".gitattributes", "*.txt text=auto\n"),
            ("src/main.rs", "fn main() {}\n"),
        ] {
            write(&work, name, text);
        }
        git(&work, &["add", "-A"]);
        git(&work, &["commit", "-qm", "one"]);
        git(&work, &["tag", "v1"]);
        write(&work, "a.txt", "two\n");
        git(&work, &["commit", "-qam", "two"]);
        git(folder.path(), &["clone", "-q", "--bare", "work", "project.git"]);
        Self(folder)
    }

    fn work(&self) -> PathBuf {
        self.0.path().join("work")
    }

    fn bare(&self) -> PathBuf {
        self.0.path().join("project.git")
    }

    fn address(&self) -> GitAddress {
        self.bare().display().to_string().try_into().unwrap()
    }

    fn source(&self, rev: Option<&str>) -> GitSource {
        GitSource { git: self.address(), rev: rev.map(str::to_owned), keep: None }
    }
}

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn run() -> RunId {
    RunId::new("r.1..x").unwrap()
}

/// A machine: its folder for workspaces, and what its user was told.
struct Machine {
    root: TempDir,
    told: Arc<Mutex<Vec<String>>>,
}

impl Machine {
    fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap(), told: Arc::default() }
    }

    async fn open(&self, tree: &GitTree) -> TravellingWorkspace {
        let told = Arc::clone(&self.told);
        let notice = move |text: &str| told.lock().unwrap().push(text.to_owned());
        let workspace = Workspace::Git(tree.clone());
        TravellingWorkspace::open(self.root.path(), &run(), &workspace, Arc::new(notice)).await.unwrap()
    }
}

async fn begun(origin: &Origin) -> GitTree {
    let machine = Machine::new();
    begin_git_tree(machine.root.path(), &run(), &origin.source(None)).await.unwrap().tree
}

async fn pin(place: &TravellingWorkspace) -> GitTree {
    match place.pin().await.unwrap() {
        Workspace::Git(tree) => tree,
        Workspace::None => panic!("nothing is kept"),
    }
}

/// All files but those of git, each with its kind and content.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(folder).unwrap().display().to_string();
            let about = std::fs::symlink_metadata(&path).unwrap();
            if name == ".git" {
            } else if about.is_symlink() {
                found.insert(name, format!("→ {}", std::fs::read_link(&path).unwrap().display()));
            } else if about.is_dir() {
                folders.push(path);
            } else {
                let kind = if about.permissions().mode() & 0o100 == 0 { "" } else { "x " };
                found.insert(
                    name,
                    format!("{kind}{}", String::from_utf8_lossy(&std::fs::read(&path).unwrap())),
                );
            }
        }
    }
    found
}

#[tokio::test]
async fn another_machine_has_the_files_and_branches_of_the_last_pin() {
    let origin = Origin::new();
    let tree = begun(&origin).await;
    let (here, there) = (Machine::new(), Machine::new());
    let place = here.open(&tree).await;
    let folder = place.folder();
    assert_eq!(folder.file_name().unwrap(), "project");
    assert_eq!(
        (
            git(folder, &["status", "--porcelain"]).as_str(),
            std::fs::read_to_string(folder.join("a.txt")).unwrap()
        ),
        ("", "two\n".into())
    );
    assert_eq!(git(folder, &["rev-parse", "--abbrev-ref", "main@{upstream}"]), "origin/main");
    // Nothing was done, so that nothing is kept.
    assert_eq!(pin(&place).await, tree);

    write(folder, "a.txt", "one\r\ntwo\n");
    write(folder, "new/deep.txt", "new\n");
    write(folder, "ignored.log", "a log\n");
    std::fs::write(folder.join("binary"), [0, 159, 146, 150]).unwrap();
    write(folder, "run.sh", "#!/bin/sh\n");
    std::fs::set_permissions(folder.join("run.sh"), std::fs::Permissions::from_mode(0o755)).unwrap();
    symlink("a.txt", folder.join("link")).unwrap();
    std::fs::remove_file(folder.join("gone.txt")).unwrap();
    git(folder, &["checkout", "-qb", "side"]);
    write(folder, "src/main.rs", "fn main() { run() }\n");
    git(folder, &["commit", "-qm", "mine", "src/main.rs"]);
    git(folder, &["branch", "-q", "other", "v1"]);
    let first = pin(&place).await;
    assert_eq!(pin(&place).await, first);
    assert!(first.pin.is_some() && first.base == tree.base);

    let same = there.open(&first).await;
    let mut expected = files(folder);
    assert_eq!(expected.remove("ignored.log").as_deref(), Some("a log\n"));
    assert_eq!(files(same.folder()), expected);
    for about in [
        &["log", "--format=%H %s", "--all", "--not", "--remotes"][..],
        &["for-each-ref", "refs/heads", "refs/remotes"],
        &["symbolic-ref", "HEAD"],
    ] {
        assert_eq!(git(same.folder(), about), git(folder, about), "{about:?}");
    }
    let changed = "M a.txt\nD gone.txt\n?? binary\n?? link\n?? new/\n?? run.sh".lines().map(str::to_owned);
    let status = git(same.folder(), &["status", "--porcelain"]);
    assert_eq!(
        status.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>(),
        changed.collect::<Vec<_>>()
    );

    // The other machine continues, and this one follows it: what git ignores is still there.
    std::fs::remove_file(same.folder().join("new/deep.txt")).unwrap();
    write(same.folder(), "a.txt", "three\n");
    git(same.folder(), &["checkout", "-q", "--detach"]);
    git(same.folder(), &["branch", "-qD", "other"]);
    let second = pin(&same).await;
    drop(place);
    let again = here.open(&second).await;
    let mut expected = files(same.folder());
    expected.insert("ignored.log".into(), "a log\n".into());
    assert_eq!((again.folder(), files(again.folder())), (folder_of(&here).as_path(), expected));
    let heads = ["log", "--no-walk", "--format=%D", "--all", "HEAD"];
    assert_eq!(git(again.folder(), &heads), git(same.folder(), &heads));
    assert!(here.told.lock().unwrap().is_empty() && there.told.lock().unwrap().is_empty());
    // One ref leads to all that checkpoints name, and the branches of the repository are as they were.
    let refs = git(&origin.bare(), &["for-each-ref", "--format=%(refname) %(objectname)", "refs/forge"]);
    assert_eq!(refs.lines().count(), 1, "{refs}");
    assert!(refs.ends_with(second.commit().as_str()), "{refs}");
    git(&origin.bare(), &["merge-base", "--is-ancestor", first.commit().as_str(), second.commit().as_str()]);
    assert_eq!(git(&origin.bare(), &["branch"]), "* main");
}

fn folder_of(machine: &Machine) -> PathBuf {
    machine.root.path().join("runs").join(run().to_string()).join("0/project")
}

#[tokio::test]
async fn what_was_done_after_the_last_checkpoint_is_undone_and_a_killed_slice_leaves_no_lock() {
    let origin = Origin::new();
    let here = Machine::new();
    let place = here.open(&begun(&origin).await).await;
    write(place.folder(), "a.txt", "kept\n");
    let kept = pin(&place).await;
    let expected = files(place.folder());
    write(place.folder(), "a.txt", "lost\n");
    write(place.folder(), "lost/b.txt", "lost\n");
    git(place.folder(), &["commit", "-qam", "lost"]);
    drop(place);
    let pins = here.root.path().join("runs").join(run().to_string()).join("0/.pins.git");
    std::fs::write(pins.join("index.lock"), "").unwrap();
    let again = here.open(&kept).await;
    assert_eq!(files(again.folder()), expected);
    assert_eq!(git(again.folder(), &["log", "--format=%s"]), "two\none");
    drop(again);
    // A damaged place is made anew.
    std::fs::write(pins.join("HEAD"), "nothing").unwrap();
    assert_eq!(files(here.open(&kept).await.folder()), expected);
}

#[tokio::test]
async fn a_frozen_slice_disturbs_no_other_and_one_that_is_over_leaves_nothing() {
    let origin = Origin::new();
    let here = Machine::new();
    let tree = begun(&origin).await;
    let frozen = here.open(&tree).await;
    let next = here.open(&tree).await;
    assert_ne!(frozen.folder(), next.folder());
    write(next.folder(), "a.txt", "next\n");
    let kept = pin(&next).await;
    write(frozen.folder(), "a.txt", "frozen\n");
    let stale = pin(&frozen).await;
    assert_ne!(kept.pin, stale.pin);
    // Both are there: the store decides which one counts.
    let there = Machine::new();
    assert_eq!(files(there.open(&kept).await.folder())["a.txt"], "next\n");
    next.close(Left::Over).await.unwrap();
    frozen.close(Left::Over).await.unwrap();
    assert!(!here.root.path().join("runs").join(run().to_string()).exists());
}

#[tokio::test]
async fn secrets_and_repositories_within_do_not_travel_and_that_is_said() {
    let origin = Origin::new();
    write(
        &origin.work(),
        "known.pem",
        "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n",
    );
    git(&origin.work(), &["add", "-A"]);
    git(&origin.work(), &["commit", "-qm", "a key that is there already"]);
    git(&origin.work(), &["push", "-q", "../project.git", "main"]);
    let (here, there) = (Machine::new(), Machine::new());
    let place = here.open(&begun(&origin).await).await;
    let folder = place.folder();
    write(folder, ".env", "TOKEN=1\n");
    write(folder, "notes [1].txt", &format!("key: AKIA{}\n", "Z7Q2M4X5K3P6W3T6"));
    write(folder, "known.pem", "-----BEGIN RSA PRIVATE KEY-----\nBBBB\n-----END RSA PRIVATE KEY-----\n");
    write(folder, "plain.txt", "plain\n");
    write(folder, "vendor/x.txt", "x\n");
    git(&folder.join("vendor"), &["init", "-q"]);
    git(&folder.join("vendor"), &["commit", "-q", "--allow-empty", "-m", "x"]);
    let first = pin(&place).await;
    // What had no secret when it was kept leaves the next pin when it has one.
    write(folder, "plain.txt", &format!("AKIA{}\n", "Z7Q2M4X5K3P6W3T7"));
    let second = pin(&place).await;
    assert_ne!(first.pin, second.pin);
    let mut told = here.told.lock().unwrap().clone();
    told.sort();
    let named =
        [".env does not travel", "notes [1].txt does not travel with the run: line 1 has", "plain.txt"];
    assert_eq!(told.len(), named.len(), "{told:?}");
    assert!(named.iter().zip(&told).all(|(name, told)| told.starts_with(name)), "{told:?}");
    let found = files(there.open(&second).await.folder());
    assert!(found["known.pem"].contains("BBBB"));
    for name in [".env", "notes [1].txt", "plain.txt"] {
        assert!(!found.contains_key(name), "{name}");
    }
    // A repository within travels as files, without its history.
    assert_eq!(found["vendor/x.txt"], "x\n");
    assert!(!found.keys().any(|name| name.contains(".git/")), "{found:?}");
}

#[tokio::test]
async fn settings_in_the_agents_repository_run_nothing_and_no_other_repository_is_read() {
    let origin = Origin::new();
    let private = Origin::new();
    write(&private.work(), "private.txt", "private\n");
    git(&private.work(), &["add", "-A"]);
    git(&private.work(), &["commit", "-qm", "private"]);
    let secret = git(&private.work(), &["rev-parse", "HEAD"]);
    let here = Machine::new();
    let place = here.open(&begun(&origin).await).await;
    let folder = place.folder();
    let trap = here.root.path().join("trap");
    let command = format!("touch {}", trap.display());
    for key in [
        "core.fsmonitor",
        "core.sshCommand",
        "core.pager",
        "uploadpack.packObjectsHook",
        "filter.x.clean",
        "filter.x.smudge",
    ] {
        git(folder, &["config", key, &command]);
    }
    write(folder, ".gitattributes", "* filter=x\n");
    for hook in ["pre-commit", "post-checkout", "post-index-change", "pre-push", "reference-transaction"] {
        let path = folder.join(".git/hooks").join(hook);
        write(folder, &format!(".git/hooks/{hook}"), &format!("#!/bin/sh\n{command}\n"));
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    write(folder, "a.txt", "changed\n");
    let first = pin(&place).await;
    drop(place);
    let place = here.open(&first).await;
    assert!(!trap.exists());

    // A repository that leads to another one is not followed.
    let objects = private.work().join(".git/objects");
    for trap in ["alternates", "commondir", "link", "file"] {
        let own = place.folder().join(".git");
        drop(std::fs::remove_file(own.join("objects/info/alternates")));
        drop(std::fs::remove_file(own.join("commondir")));
        let other = private.work().join(".git").display().to_string();
        match trap {
            "alternates" => write(&own, "objects/info/alternates", &format!("{}\n", objects.display())),
            "commondir" => write(&own, "commondir", &other),
            "link" => {
                std::fs::remove_dir_all(own.join("objects/pack")).unwrap();
                symlink(objects.join("pack"), own.join("objects/pack")).unwrap();
            }
            _ => {
                std::fs::remove_dir_all(&own).unwrap();
                std::fs::write(&own, format!("gitdir: {other}\n")).unwrap();
            }
        }
        if own.is_dir() {
            write(&own, "refs/heads/stolen", &format!("{secret}\n"));
        }
        write(place.folder(), "a.txt", trap);
        assert!(pin(&place).await.pin.is_some(), "{trap}");
    }
    let known =
        Command::new("git").args(["cat-file", "-e", &secret]).current_dir(origin.bare()).output().unwrap();
    assert!(!known.status.success());
    let told = here.told.lock().unwrap();
    assert!(
        told.len() == 2 && told[0].contains("cannot be read") && told[1].contains("no git repository"),
        "{told:?}"
    );
}

#[tokio::test]
async fn a_secret_stays_whatever_the_agents_rules_and_commits_say() {
    let origin = Origin::new();
    let (here, there) = (Machine::new(), Machine::new());
    let place = here.open(&begun(&origin).await).await;
    let folder = place.folder().to_owned();
    write(&folder, ".gitignore", "*\n!*.txt\n!.env\n!*.pem\n");
    write(&folder, ".env", "TOKEN=1\n");
    write(&folder, "a.txt", "first\n");
    let first = pin(&place).await;
    place.close(Left::Paused).await.unwrap();
    drop(place);
    // The next slice on this machine finds it, and judges it again.
    let place = here.open(&first).await;
    write(&folder, "b.pem", "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n");
    assert_eq!(pin(&place).await, first);
    assert!(folder.join(".env").exists());
    // What was committed does not travel, nor what follows it; the files do.
    git(&folder, &["add", "-f", ".env", "a.txt"]);
    git(&folder, &["commit", "-qm", "with a secret"]);
    write(&folder, "a.txt", "second\n");
    git(&folder, &["commit", "-qam", "after it"]);
    // Nor do they in the next slice on this machine.
    let tree = pin(&place).await;
    place.close(Left::Paused).await.unwrap();
    drop(place);
    let place = here.open(&tree).await;
    write(&folder, "c.txt", "c\n");
    let second = pin(&place).await;
    let same = there.open(&second).await;
    assert_eq!(git(same.folder(), &["log", "-1", "--format=%s"]), "two");
    let found = files(same.folder());
    assert!(!found.contains_key(".env") && !found.contains_key("b.pem"), "{found:?}");
    assert_eq!(found["a.txt"], "second\n");
    let told = here.told.lock().unwrap().join("\n");
    assert!(
        told.contains(".env does not travel") && told.contains("of its file .env, it is an environment file"),
        "{told}"
    );
    let all = git(&origin.bare(), &["rev-list", "--objects", "--all"]);
    assert!(!all.contains(".env") && !all.contains("b.pem"), "{all}");
}

#[tokio::test]
async fn odd_files_and_branches_are_restored_as_they_were() {
    use std::os::unix::ffi::OsStrExt;
    let origin = Origin::new();
    let (here, there) = (Machine::new(), Machine::new());
    write(&origin.work(), "dist/out.js", "old\n");
    write(&origin.work(), ".gitignore", "ignored*\ndist\n");
    git(&origin.work(), &["add", "-Af"]);
    git(&origin.work(), &["commit", "-qm", "a file that is tracked and ignored"]);
    git(&origin.work(), &["push", "-q", "../project.git", "main"]);
    let place = here.open(&begun(&origin).await).await;
    let folder = place.folder();
    for name in [&b"new\nline.txt"[..], b"quo\"te\\.txt", b"\xff\xfe.bin", b" blank ", b"-n"] {
        std::fs::write(folder.join(std::ffi::OsStr::from_bytes(name)), "odd\n").unwrap();
    }
    std::fs::remove_dir_all(folder.join("dist")).unwrap();
    pin(&place).await;
    write(folder, "dist/out.js", "new\n");
    write(folder, "dist/more.js", "ignored\n");
    // A file becomes a folder, a folder a link.
    std::fs::remove_file(folder.join("gone.txt")).unwrap();
    write(folder, "gone.txt/in.txt", "in\n");
    std::fs::remove_dir_all(folder.join("src")).unwrap();
    symlink("gone.txt", folder.join("src")).unwrap();
    git(folder, &["checkout", "-q", "--detach"]);
    git(folder, &["branch", "-qD", "main"]);
    git(folder, &["branch", "-q", "main/part"]);
    git(folder, &["checkout", "-q", "--orphan", "fresh"]);
    let fifo =
        Command::new("mkfifo").arg(folder.join("pipe")).arg(folder.join("gone.txt/.gitignore")).status();
    assert!(fifo.unwrap().success());
    std::fs::File::create(folder.join("huge")).unwrap().set_len(100_000_001).unwrap();
    let tree = pin(&place).await;
    let same = there.open(&tree).await;
    for pipe in ["pipe", "gone.txt/.gitignore", "huge", "dist/more.js"] {
        std::fs::remove_file(folder.join(pipe)).unwrap();
    }
    assert_eq!(files(same.folder()), files(folder));
    for about in [&["for-each-ref", "refs/heads"][..], &["symbolic-ref", "HEAD"]] {
        assert_eq!(git(same.folder(), about), git(folder, about), "{about:?}");
    }
    assert!(here.told.lock().unwrap().iter().any(|told| told.contains("huge") && told.contains("100 MB")));
}

#[tokio::test]
async fn a_file_that_became_too_large_keeps_its_last_state_until_it_is_removed() {
    let origin = Origin::new();
    let here = Machine::new();
    let place = here.open(&begun(&origin).await).await;
    let path = place.folder().join("grows");
    std::fs::write(&path, "small\n").unwrap();
    pin(&place).await;
    std::fs::File::create(&path).unwrap().set_len(100_000_001).unwrap();
    write(place.folder(), "a.txt", "a\n");
    assert_eq!(files(Machine::new().open(&pin(&place).await).await.folder())["grows"], "small\n");
    std::fs::remove_file(&path).unwrap();
    assert!(!files(Machine::new().open(&pin(&place).await).await.folder()).contains_key("grows"));
}

#[tokio::test]
async fn a_slice_that_paused_leaves_its_folder_as_it_is() {
    let origin = Origin::new();
    let here = Machine::new();
    let place = here.open(&begun(&origin).await).await;
    let folder = place.folder().to_owned();
    write(&folder, "a.txt", "staged\n");
    git(&folder, &["add", "a.txt"]);
    write(&folder, "ignored.log", "a log\n");
    let tree = pin(&place).await;
    place.close(Left::Paused).await.unwrap();
    drop(place);
    let before = std::fs::metadata(folder.join("a.txt")).unwrap().modified().unwrap();
    let place = here.open(&tree).await;
    assert_eq!(git(&folder, &["status", "--porcelain"]), "M  a.txt");
    assert_eq!(std::fs::metadata(folder.join("a.txt")).unwrap().modified().unwrap(), before);
    assert_eq!(pin(&place).await, tree);
    // One that broke off undoes what it did, and what git ignores stays.
    git(&folder, &["commit", "-qm", "lost"]);
    place.close(Left::Broken).await.unwrap();
    drop(place);
    let place = here.open(&tree).await;
    assert_eq!(git(&folder, &["status", "--porcelain"]), "M a.txt");
    assert!(folder.join("ignored.log").exists());
    assert_eq!(pin(&place).await, tree);
}

#[tokio::test]
async fn a_branch_whose_commits_are_not_there_keeps_its_last_one() {
    let origin = Origin::new();
    let here = Machine::new();
    let place = here.open(&begun(&origin).await).await;
    write(place.folder(), "a.txt", "one more\n");
    git(place.folder(), &["commit", "-qam", "broken"]);
    let blob = git(place.folder(), &["rev-parse", "HEAD:a.txt"]);
    std::fs::remove_file(place.folder().join(".git/objects").join(&blob[..2]).join(&blob[2..])).unwrap();
    let tree = pin(&place).await;
    assert!(here.told.lock().unwrap().iter().any(|told| told.contains("it cannot be read")));
    let there = Machine::new();
    let same = there.open(&tree).await;
    assert_eq!(git(same.folder(), &["log", "-1", "--format=%s"]), "two");
    assert_eq!(files(same.folder())["a.txt"], "one more\n");
}

#[tokio::test]
async fn a_run_begins_with_a_revision_that_there_is_and_can_be_kept() {
    let origin = Origin::new();
    let old = git(&origin.work(), &["rev-parse", "v1"]);
    let new = git(&origin.work(), &["rev-parse", "main"]);
    let machine = Machine::new();
    for (rev, expected) in [
        (None, Ok((&new, Some("main")))),
        (Some("main"), Ok((&new, Some("main")))),
        (Some("v1"), Ok((&old, None))),
        (Some(old.as_str()), Ok((&old, None))),
        (Some(&old[..9]), Ok((&old, None))),
        (Some("main~1"), Ok((&old, None))),
        (Some("gone"), Err("has no branch, tag or commit `gone`")),
        (Some("--help"), Err("has no branch, tag or commit `--help`")),
        (Some(&"a".repeat(40)[..]), Err("has no branch, tag or commit `aaaa")),
    ] {
        // Of one name there is one run.
        let run = RunId::new(format!("r-{}", rev.unwrap_or("none"))).unwrap();
        let begun = begin_git_tree(machine.root.path(), &run, &origin.source(rev)).await;
        let actual = begun.as_ref().map(|begun| (begun.tree.base.as_str(), begun.tree.branch.as_deref()));
        match (actual, expected) {
            (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{error}"),
            (actual, expected) => {
                assert_eq!(actual.ok(), expected.ok().map(|(id, at)| (id.as_str(), at)), "{rev:?}");
            }
        }
    }
    let nowhere =
        GitSource { keep: Some("/nowhere/kept.git".to_owned().try_into().unwrap()), ..origin.source(None) };
    let error = begin_git_tree(machine.root.path(), &run(), &nowhere).await.unwrap_err().to_string();
    assert!(error.contains("git push failed") && error.contains("/nowhere/kept.git"), "{error}");
    git(origin.0.path(), &["init", "-q", "--bare", "empty.git"]);
    let empty = origin.0.path().join("empty.git").display().to_string();
    let empty = GitSource { git: empty.try_into().unwrap(), ..origin.source(None) };
    let error = begin_git_tree(machine.root.path(), &run(), &empty).await.unwrap_err().to_string();
    assert!(error.contains("has no commit to begin with"), "{error}");

    // Pins may be kept elsewhere, and what does not travel is said.
    let kept = origin.0.path().join("kept.git");
    git(origin.0.path(), &["init", "-q", "--bare", "kept.git"]);
    write(&origin.work(), "big/.gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n");
    git(&origin.work(), &["submodule", "add", "-q", &origin.bare().display().to_string(), "sub"]);
    git(&origin.work(), &["add", "-A"]);
    git(&origin.work(), &["commit", "-qm", "three"]);
    git(&origin.work(), &["push", "-q", "../project.git", "main"]);
    let source =
        GitSource { keep: Some(kept.display().to_string().try_into().unwrap()), ..origin.source(None) };
    let begun = begin_git_tree(machine.root.path(), &run(), &source).await.unwrap();
    assert!(begun.notes.len() == 2 && begun.notes[0].starts_with("1 submodule"), "{:?}", begun.notes);
    let place = machine.open(&begun.tree).await;
    write(place.folder(), "a.txt", "kept elsewhere\n");
    let tree = pin(&place).await;
    assert!(git(&kept, &["for-each-ref"]).contains(tree.commit().as_str()));
    assert_eq!(files(Machine::new().open(&tree).await.folder())["a.txt"], "kept elsewhere\n");
}

#[tokio::test]
async fn an_empty_workspace_is_empty_for_each_slice() {
    let (machine, run) = (Machine::new(), run());
    for _ in 0..2 {
        let place = TravellingWorkspace::open(machine.root.path(), &run, &Workspace::None, Arc::new(|_| {}));
        let place = place.await.unwrap();
        assert!(files(place.folder()).is_empty());
        write(place.folder(), "a.txt", "a\n");
        assert_eq!(place.pin().await.unwrap(), Workspace::None);
        place.close(Left::Paused).await.unwrap();
    }
}

/// A workspace in which nothing was done yet.
struct Begun(GitTree);

#[async_trait::async_trait]
impl WorkspaceKeeper for Begun {
    async fn pin(&self) -> Result<Workspace, UnkeptFiles> {
        Ok(Workspace::Git(self.0.clone()))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_slice_has_the_files_of_the_last_checkpoint_on_whichever_machine_it_is() {
    let server = ScriptedServer::start(vec![
        Step::calls(&[("write", r#"{"path": "b.txt", "content": "b\n"}"#)]),
        Step::calls(&[("list", "{}")]),
        Step::text("done"),
    ]);
    let origin = Origin::new();
    let tree = begun(&origin).await;
    let forge = accepted_with(&server, Some(Arc::new(Begun(tree)))).await;
    let (here, there) = (Machine::new(), Machine::new());
    let slice = |machine: &Machine| {
        let folder = machine.root.path().display().to_string();
        let more = ["--workspaces", &folder];
        end_of(&Slice::start_with(&forge, 1, &json!([]), &more).end())
    };
    assert_eq!(slice(&here), (json!("paused"), 1));
    // The worker's own folder is not worked in.
    assert!(!forge.path("b.txt").exists());
    let place = here.root.path().join("runs/r/0/project");
    assert_eq!(std::fs::read_to_string(place.join("b.txt")).unwrap(), "b\n");

    assert_eq!(slice(&there), (json!("paused"), 2));
    assert_eq!(slice(&there), (json!({"done": "done"}), 3));
    let told = server.requests().last().unwrap()["messages"].to_string();
    assert!(told.contains("b.txt") && told.contains("src/"), "{told}");
    assert!(!there.root.path().join("runs/r").exists());

    // Somebody at a terminal is told where the files are.
    let (_, workspace) = saved_workspace(&store(&forge).await, &RunId::new("r").unwrap()).await.unwrap();
    let Some(Workspace::Git(tree)) = workspace else { panic!("{workspace:?}") };
    let place = format!("sqlite://{}", forge.path("runs.db").display());
    let more = ["--store", &place, "--resume", "r"];
    let refused = forge.run(&[&["run"][..], &more, &["Continue."]].concat());
    let said = [format!("git fetch {} {}", origin.address(), tree.commit()), "--on-change continue".into()];
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(said.iter().all(|said| refused.stderr.contains(said)), "{}", refused.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_kept_is_not_done() {
    let server = ScriptedServer::start(vec![
        Step::calls(&[("write", r#"{"path": "b.txt", "content": "b\n"}"#)]),
        Step::calls(&[("write", r#"{"path": "c.txt", "content": "c\n"}"#)]),
        Step::text("done"),
    ]);
    let origin = Origin::new();
    let tree = begun(&origin).await;
    let forge = accepted_with(&server, Some(Arc::new(Begun(tree)))).await;
    let machine = Machine::new();
    let folder = machine.root.path().display().to_string();
    let slice = || {
        let more = ["--workspaces", &*folder];
        Slice::start_with(&forge, 9, &json!([]), &more).end()
    };
    // The repository is away from the first pin on.
    let hook = origin.bare().join("hooks/pre-receive");
    std::fs::write(&hook, "#!/bin/sh\necho closed for today >&2\nexit 1\n").unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    let end = slice();
    let why = end["again"].as_str().unwrap_or_default();
    assert!(why.contains("closed for today"), "{end}");
    assert_eq!(server.requests().len(), 1);
    // When it is back, the run continues from what is kept: the call may have had its effect, and is not made again.
    std::fs::remove_file(&hook).unwrap();
    assert_eq!(end_of(&slice()), (json!({"done": "done"}), 3));
    let told = server.requests()[1]["messages"].to_string();
    assert!(told.contains("It may have had its effect"), "{told}");
}
