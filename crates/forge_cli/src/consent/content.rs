//! The files that commands name: their content is part of the demand.

use std::collections::HashSet;
use std::io::Read as _;
use std::path::Path;

use forge_services::workflow::Power;
use sha2::{Digest as _, Sha256};

use super::command_names::CommandNames;

/// Returns a power for every file that the command of `power` names by a relative path, or inside `folder`,
/// in which it runs, and one for those that cannot be known. Installed programs change with every update and
/// do not belong to the project.
pub(super) fn files_of(power: &Power, folder: &Path) -> Vec<Power> {
    let (names, line, folder) = match power {
        Power::RunHook { command, .. } => {
            (CommandNames::of_line(command), command.clone(), folder.to_owned())
        }
        Power::StartServer { command, folder: own, env, .. } => {
            let mut names = CommandNames::of_arguments(command);
            names.add_variables(env, command, folder);
            let folder = own.as_ref().map_or_else(|| folder.to_owned(), |own| folder.join(own));
            (names, command.join(" "), folder)
        }
        _ => return Vec::new(),
    };
    let mut files: Vec<Power> = Vec::new();
    let mut seen = HashSet::new();
    for word in names.words.iter().filter(|word| !word.is_empty() && seen.insert(word.as_str())) {
        let is_inside = Path::new(word).is_relative() || Path::new(word).starts_with(&folder);
        let Some(sha256) = is_inside.then(|| hash_of(&folder.join(word))).flatten() else { continue };
        files.push(Power::UseFile { file: word.clone(), sha256 });
    }
    if names.has_others {
        files.push(Power::UseUnwatched { command: line });
    }
    files
}

/// The most bytes of a file that are hashed: a hostile one may be practically endless.
const MOST_BYTES: u64 = 64 << 20;

/// Returns the hash of a regular file's content, after following links. For a file that is too large to hash,
/// its length and the time of its last change stand for the rest.
fn hash_of(path: &Path) -> Option<String> {
    let metadata = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    let mut file = std::fs::File::open(path).ok()?.take(MOST_BYTES);
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; 64 << 10]);
    if metadata.len() > MOST_BYTES {
        hash.update(format!("{} {:?}", metadata.len(), metadata.modified()));
    }
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Some(hex::encode(hash.finalize())),
            Ok(n) => hash.update(buffer.get(..n)?),
            // What cannot be read is told apart from what was consented to.
            Err(error) => return Some(format!("unreadable: {}", error.kind())),
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_command_names_the_files_that_it_uses() {
        let folder = std::env::temp_dir().join(format!("forge-content-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("tools")).unwrap();
        std::fs::write(folder.join("check.sh"), "true").unwrap();
        std::fs::write(folder.join("tools/a b.py"), "pass").unwrap();
        let absolute = folder.join("check.sh").display().to_string();
        for (command, expected) in [
            ("./check.sh --fast", &["./check.sh"][..]),
            ("X=1 sh 'check.sh'; ls >out && ./check.sh", &["check.sh", "./check.sh"]),
            ("cat > check.sh", &[]),
            ("cat >>'check.sh' 2>&1", &[]),
            ("cat > check.sh; sh check.sh", &["check.sh"]),
            ("cat <> check.sh", &["check.sh"]),
            ("tools/a b.py", &["tools/a b.py"]),
            ("cargo test", &[]),
            ("cd tools && './a b.py'", &["tools/a b.py"]),
            ("ls tools", &[]),
            ("/bin/sh -c ls", &[]),
            (&absolute, &[&absolute]),
            ("\"tools/a b.py\"", &["tools/a b.py"]),
            (r"\./check.sh", &["./check.sh"]),
            ("./check\"\"'.sh'", &["./check.sh"]),
            ("./check.sh; ./*.sh", &["./check.sh", "?"]),
        ] {
            let power = Power::RunHook { point: "p".into(), agent: None, command: command.into() };
            let files = files_of(&power, &folder);
            let actual: Vec<&str> = files
                .iter()
                .map(|power| match power {
                    Power::UseFile { file, sha256 } if sha256.len() == 64 => file.as_str(),
                    _ => "?",
                })
                .collect();
            assert_eq!(actual, expected, "{command}");
        }
        let server = |command: [&str; 2], env: &[(&str, &str)]| Power::StartServer {
            server: "s".into(),
            command: command.map(str::to_owned).into(),
            folder: Some("tools".into()),
            env: env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        };
        let inside = folder.join("tools").display().to_string();
        std::fs::write(folder.join("tools/sh"), "true").unwrap();
        std::fs::write(folder.join("tools/s.cjs"), "").unwrap();
        let none: &[(&str, &str)] = &[];
        for (command, env, expected) in [
            (["python3", "a b.py"], none, 1),
            (["sh", "-l"], none, 1),
            (["x", "-l"], &[("PATH", "$PATH:/usr/bin")], 0),
            // A program of the project may come before the installed one: itself, and whatever else is there.
            (["x", "-l"], &[("PATH", ".:$PATH")], 1),
            (["x", "-l"], &[("PATH", inside.as_str())], 1),
            (["x", "-l"], &[("PATH", "/usr/bin:")], 1),
            (["x", "-l"], &[("PATH", "${NOT_SET:-./bin}")], 1),
            (["x", "-l"], &[("LD_PRELOAD", "./a b.py"), ("NODE_OPTIONS", "--require ./sh")], 2),
            (["x", "-l"], &[("PERL5OPT", "-w -I./lib")], 1),
            (["x", "-l"], &[("PERL5OPT", "-Mlib=lib")], 1),
            (["x", "-l"], &[("PERL5OPT", "-w -I/usr/share/perl5")], 0),
            (["x", "-l"], &[("RUBYOPT", "-W0 -I lib")], 1),
            (["x", "-l"], &[("RUBYOPT", "-W0 -r./sh")], 1),
            (["x", "-l"], &[("NODE_OPTIONS", "--require=./s")], 1),
            (["x", "-l"], &[("NODE_OPTIONS", "--import hook")], 1),
            (["x", "-l"], &[("NODE_OPTIONS", "--max-old-space-size=4096")], 0),
        ] {
            assert_eq!(files_of(&server(command, env), &folder).len(), expected, "{command:?} {env:?}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
