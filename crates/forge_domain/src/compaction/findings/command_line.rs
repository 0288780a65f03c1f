//! The parts of a command line.

/// Returns the steps of a command line, split outside quotes; the content of a here-document is not a step.
pub(super) fn steps(command: &str) -> Vec<&str> {
    let command = command.split("<<").next().unwrap_or_default();
    let (mut steps, mut start) = (Vec::new(), 0);
    for (at, _) in outside_quotes(command).filter(|(_, c)| matches!(c, '\n' | ';' | '|' | '&')) {
        steps.push(command[start..at].trim());
        start = at + 1;
    }
    steps.push(command[start..].trim());
    steps
}

/// Iterates over the characters of a command line that are not in quotes, with their positions.
pub(super) fn outside_quotes(command: &str) -> impl Iterator<Item = (usize, char)> {
    let mut quote = None;
    command.char_indices().filter(move |(_, c)| {
        let is_outside = quote.is_none() && !matches!(c, '\'' | '"');
        quote = match quote {
            Some(open) => Some(open).filter(|open| open != c),
            None => (!is_outside).then_some(*c),
        };
        is_outside
    })
}

/// Returns the name of a program without the folder that it is in.
pub(super) fn without_folder(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// Returns one name for a file of the working folder.
pub(super) fn without_dot(path: &str) -> &str {
    path.strip_prefix("./").unwrap_or(path)
}
