//! The places below a home folder that hold keys, tokens and what was typed.

/// Files and folders of a home folder that hold keys wherever they stand, also in the folder of a project.
const PRIVATE: [&str; 37] = [
    ".ssh",
    ".aws",
    ".azure",
    ".gnupg",
    ".kube",
    ".password-store",
    ".netrc",
    "_netrc",
    ".git-credentials",
    ".pypirc",
    ".pgpass",
    ".my.cnf",
    ".vault-token",
    ".docker/config.json",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".terraform.d/credentials.tfrc.json",
    ".config/gh",
    ".config/glab-cli",
    ".config/hub",
    ".config/git/credentials",
    ".config/gcloud",
    ".config/op",
    ".config/containers/auth.json",
    ".config/sops",
    ".config/google-chrome",
    ".config/chromium",
    ".config/forge",
    ".local/state/forge",
    ".local/share/keyrings",
    ".mozilla",
    ".claude/.credentials.json",
    ".codex/auth.json",
    ".bash_history",
    ".zsh_history",
    ".python_history",
];

/// Files and folders with settings that projects have as well, mostly without keys.
const SHARED: [&str; 6] =
    [".npmrc", ".yarnrc.yml", ".m2/settings.xml", ".gradle/gradle.properties", ".claude", ".codex"];

/// Returns every place below a home folder that may hold keys.
pub(super) fn key_places() -> impl Iterator<Item = &'static str> {
    PRIVATE.into_iter().chain(SHARED)
}

/// Checks whether a path in the workspace, which may be a home folder, leads to a place that holds keys.
pub fn holds_keys(path: &str) -> bool {
    // Most paths lead to none.
    if !path.split('/').any(|name| name.starts_with(['.', '_'])) {
        return false;
    }
    let names: Vec<&str> = path.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
    PRIVATE.iter().any(|place| {
        let place: Vec<&str> = place.split('/').collect();
        let is_place =
            |names: &[&str]| names.iter().zip(&place).all(|(one, other)| one.eq_ignore_ascii_case(other));
        names.windows(place.len()).any(is_place)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_known_with_all_below_it_and_in_any_folder() {
        for (path, expected) in [
            (".config/gh/hosts.yml", true),
            (".config/gh", true),
            ("me/.config/gh/hosts.yml", true),
            (".Config/./GH//hosts.yml", true),
            (".ssh/id_ed25519", true),
            (".docker/config.json", true),
            (".config", false),
            (".config/other/gh/hosts.yml", false),
            ("config/gh/hosts.yml", false),
            (".config/gh.yml", false),
            (".docker/Dockerfile", false),
            // A project has it as well.
            (".npmrc", false),
            (".", false),
        ] {
            assert_eq!(holds_keys(path), expected, "{path}");
        }
    }
}
