//! Patterns in which a star stands for any text.

/// Checks whether `text` matches `pattern`, in which `*` matches any text, even none.
pub fn is_star_match(pattern: &str, text: &str) -> bool {
    let mut rest = text;
    let Some((first, others)) = pattern.split_once('*') else { return rest == pattern };
    let Some(behind) = rest.strip_prefix(first) else { return false };
    rest = behind;
    let (between, last) = others.rsplit_once('*').unwrap_or(("", others));
    for part in between.split('*') {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}
