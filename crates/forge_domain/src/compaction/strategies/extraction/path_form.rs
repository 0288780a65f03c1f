//! Forms of paths, in which stars stand for names: `src/*.rs`, `**/*.pyc`.

use super::root::is_short;
use crate::star_match::is_star_match;

/// Returns what the last name in a form with stars stands for in a path, with all that is below it; `None` if
/// the path does not begin so.
pub(super) fn named_by_form<'a>(path: &'a str, form: &str) -> Option<&'a str> {
    let mut slashes = path.match_indices('/').map(|(at, _)| at);
    let start = match form.matches('/').count() {
        0 => 0,
        n_folders => slashes.nth(n_folders - 1)? + 1,
    };
    let end = slashes.next().unwrap_or(path.len());
    has_form(&path[..end], form).then(|| &path[start..])
}

/// Returns the part of a form before its first star: all paths of the form begin with it.
pub(super) fn before_stars(form: &str) -> &str {
    form.split('*').next().unwrap_or_default()
}

/// Checks whether a path has a form with stars: two of them stand for any folders, one for no slash.
pub(super) fn has_form(path: &str, form: &str) -> bool {
    // Of many files, most begin otherwise.
    if !is_short(form) || !path.starts_with(before_stars(form)) {
        return false;
    }
    let (names, forms): (Vec<&str>, Vec<&str>) = (path.split('/').collect(), form.split('/').collect());
    let (mut name, mut nth) = (0, 0);
    // The form behind the last two stars, and the first name that those do not stand for.
    let mut behind_stars: Option<(usize, usize)> = None;
    while name < names.len() {
        if nth + 1 < forms.len() && forms[nth] == "**" {
            nth += 1;
            behind_stars = Some((nth, name));
        } else if forms.get(nth).is_some_and(|form| is_star_match(form, names[name])) {
            (name, nth) = (name + 1, nth + 1);
        } else if let Some((behind, first)) = behind_stars {
            (name, nth) = (first + 1, behind);
            behind_stars = Some((behind, first + 1));
        } else {
            return false;
        }
    }
    nth == forms.len()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_form_of_a_folder_stands_for_all_that_is_in_it() {
        for (path, form, expected) in [
            ("app/api/src/a.ts", "app/*", Some("api/src/a.ts")),
            ("app/a.ts", "app/*", Some("a.ts")),
            ("app/api/src/a.ts", "*", Some("app/api/src/a.ts")),
            ("/w/app/api/a.ts", "/w/app/a*", Some("api/a.ts")),
            ("app/web/a.ts", "app/a*", None),
            ("lib/api/a.ts", "app/*", None),
            ("app", "app/*", None),
        ] {
            assert_eq!(named_by_form(path, form), expected, "{path}");
        }
    }

    #[test]
    fn two_stars_in_a_form_stand_for_any_folders() {
        for (path, form, expected) in [
            ("a/x.rs", "**/*.rs", true),
            ("x.rs", "**/*.rs", true),
            ("a/b/c/x.rs", "a/**/c/*.rs", true),
            ("a/c/b/c/x.rs", "a/**/c/*.rs", true),
            ("a/c/x.rs", "**/a/**/c/**/x.rs", true),
            ("a/b/x.rs", "a/**/c/*.rs", false),
            ("a/b/x.rs", "a/*", false),
            ("a/b", "a/**", true),
            ("a/b/c", "a/**", false),
            ("a", "a/*", false),
            ("a/b", "a", false),
        ] {
            assert_eq!(has_form(path, form), expected, "{path} {form}");
        }
        // Each of the stars could stand for any number of folders.
        assert!(!has_form(&"a/".repeat(200), &format!("{}y", "**/".repeat(100))));
        assert!(!has_form("a", &"*".repeat(100_000)));
    }
}
