//! The errors of PowerShell, whose reason stands between lines that only tell where it was.

/// The lines below an error of Windows PowerShell 5: what kind it is, and its name.
const KIND: &str = "+ CategoryInfo";
const NAME: &str = "+ FullyQualifiedErrorId";
/// The name that any line has which a program wrote to its stream of errors: it says nothing of a failure.
const OF_PROGRAM: &str = "NativeCommandError";
/// The line of PowerShell 7 before the lines of the script.
const HEAD: &str = "Line |";
/// Most lines that a reason takes: they are as wide as the terminal.
const MOST_LINES: usize = 4;

/// Returns the reason of the first error of PowerShell in a text.
pub(super) fn reason(text: &str) -> Option<String> {
    if !text.contains(KIND) && !text.contains(HEAD) {
        return None;
    }
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let reason =
        (0..lines.len()).find_map(|at| reason_around(&lines, at).or_else(|| reason_below(&lines, at)));
    reason.filter(|reason| reason.contains(char::is_alphanumeric))
}

/// Checks whether a text has an error of PowerShell other than what a program wrote to its stream of errors.
pub(super) fn has_error(text: &str) -> bool {
    let names_cmdlet = |at: usize| {
        let before = text[..at].trim_end_matches([' ', '\t']);
        let mut lines = text[at..].lines().map(str::trim).take(MOST_LINES);
        (before.is_empty() || before.ends_with('\n'))
            && lines.find(|line| line.starts_with(NAME)).is_some_and(|name| !name.contains(OF_PROGRAM))
    };
    text.match_indices(KIND).any(|(at, _)| names_cmdlet(at)) || text.contains(HEAD) && reason(text).is_some()
}

/// Returns a text without the lines by which Windows PowerShell 5 tells where an error was.
pub(super) fn without_places(text: &str) -> Option<String> {
    if !text.contains(KIND) {
        return None;
    }
    let lines: Vec<&str> = text.lines().collect();
    let tells_place = |at: usize| is_of_script(lines[at]) || is_place(&lines, at);
    let kept = (0..lines.len()).filter(|at| !tells_place(*at)).map(|at| lines[at]);
    Some(kept.collect::<Vec<_>>().join("\n"))
}

/// Checks for a line that Windows PowerShell 5 writes below the place of an error.
fn is_of_script(line: &str) -> bool {
    line.trim_start().starts_with("+ ")
}

/// Checks whether the line at `at` is the one of Windows PowerShell 5 that tells the place, in whatever
/// language: above those of the script, with two numbers behind colons, of which one ends it.
fn is_place(lines: &[&str], at: usize) -> bool {
    const COLONS: [char; 2] = [':', '：'];
    let line = lines[at].trim();
    let words = line.trim_end_matches(|c: char| c.is_ascii_digit());
    let before = words.trim_end().strip_suffix(COLONS).filter(|_| words.len() < line.len());
    let begins_number = |part: &str| part.trim_start().starts_with(|c: char| c.is_ascii_digit());
    !is_of_script(line)
        && before.is_some_and(|before| before.split(COLONS).skip(1).any(begins_number))
        && lines.get(at + 1).is_some_and(|next| is_of_script(next))
}

/// Returns the reason of an error of Windows PowerShell 5 whose place stands at `at`: what is below the lines
/// of the script or, if nothing is, what is above the place.
fn reason_around(lines: &[&str], at: usize) -> Option<String> {
    let below = lines.get(at + 1..).filter(|_| is_place(lines, at))?;
    let is_above_reason = |line: &&&str| is_of_script(line) && !line.starts_with(KIND);
    let below = &below[below.iter().take_while(is_above_reason).count()..];
    let end = below.iter().take(MOST_LINES + 1).position(|line| line.starts_with(KIND))?;
    let is_of_program = |line: &&str| line.starts_with(NAME) && line.contains(OF_PROGRAM);
    if below[end..].iter().take(MOST_LINES).any(is_of_program) {
        return None;
    }
    if end > 0 {
        return Some(below[..end].join(" "));
    }
    // The name of what failed is before the reason.
    let start = lines[..at].iter().rev().take(MOST_LINES).position(|line| line.contains(" : ")).unwrap_or(0);
    Some(lines[at.saturating_sub(start + 1)..at].join(" "))
}

/// Returns the reason of an error of PowerShell 7, whose lines of the script stand below `at`: what is behind
/// the bars below the mark of its place.
fn reason_below(lines: &[&str], at: usize) -> Option<String> {
    let below = lines.get(at + 1..).filter(|_| lines[at] == HEAD)?;
    let behind_bar = |line: &&str| line.strip_prefix('|').map(|rest| rest.trim().to_owned());
    let is_mark = |line: &&str| {
        line.strip_prefix('|')
            .is_some_and(|rest| rest.contains('~') && rest.trim_matches([' ', '~']).is_empty())
    };
    let mark = below.iter().take(MOST_LINES).position(is_mark)?;
    let said: Vec<String> = below[mark + 1..].iter().map_while(behind_bar).take(MOST_LINES).collect();
    (!said.is_empty()).then(|| said.join(" "))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn the_reason_of_powershell_stands_around_the_place() {
        let trailer = "    + CategoryInfo          : ObjectNotFound: (mill:String) [], CommandNotFoundException\n    \
                       + FullyQualifiedErrorId : CommandNotFoundException\n";
        let of_program = "    + CategoryInfo          : NotSpecified: (Compiling:String) [], RemoteException\n    \
                          + FullyQualifiedErrorId : NativeCommandError\n";
        for (text, expected) in [
            (
                format!("At line:1 char:6\n+ grind && sift\n+       ~~\nThe token '&&' is no separator.\n{trailer}"),
                Some("The token '&&' is no separator."),
            ),
            (
                format!("It begins\nmill : The term 'mill' is not \nrecognized here.\nAt line:1 char:1\n+ mill\n+ ~~~~\n{trailer}"),
                Some("mill : The term 'mill' is not recognized here."),
            ),
            (
                format!("No grain\nAt C:\\w\\a.ps1:3 char:5\n+     throw\n+     ~~~~~\n{trailer}"),
                Some("No grain"),
            ),
            (
                "ParserError: \nLine |\n   1 |  if (\n     |      ~\n     | A condition is missing\n     | behind 'if ('."
                    .to_owned(),
                Some("A condition is missing behind 'if ('."),
            ),
            (
                "Get-Item: C:\\w\\a.ps1:3\nLine |\n   3 |  Get-Item x\n     |  ~~~~~~~~~~\n     | Cannot find path 'x'.\n\ndone"
                    .to_owned(),
                Some("Cannot find path 'x'."),
            ),
            (format!("cc :    Compiling\nAt line:1 char:1\n+ cc\n+ ~~\n{of_program}error: it broke"), None),
            (
                format!("行:1 字符: 14\n+ grind && sift\n+       ~~\n标记“&&”不是有效语句分隔符。\n{trailer}"),
                Some("标记“&&”不是有效语句分隔符。"),
            ),
            (
                format!("In Zeile:1 Zeichen:6\n+ grind && sift\n+       ~~\nDas Token \"&&\" trennt nicht.\n{trailer}"),
                Some("Das Token \"&&\" trennt nicht."),
            ),
            (
                format!("mill : Имя \"mill\" не распознано.\nC:\\w\\a.ps1:3 знак:5\n+ mill\n+ ~~~~\n{trailer}"),
                Some("mill : Имя \"mill\" не распознано."),
            ),
            (
                format!("mill : Le terme n'est pas reconnu.\nAu caractère Ligne:1 : 5\n+ mill\n+ ~~~~\n{trailer}"),
                Some("mill : Le terme n'est pas reconnu."),
            ),
            // No place is told.
            (format!("It is 12:30\nmill\n{trailer}"), None),
            ("+ CategoryInfo alone".to_owned(), None),
            ("Line | Ulm".to_owned(), None),
        ] {
            assert_eq!(reason(&text).as_deref(), expected, "{text}");
        }
        let text = format!("cc : a\nAt line:1 char:1\n+ cc\n+ ~~\n{of_program}error: it broke");
        assert_eq!(without_places(&text).as_deref(), Some("cc : a\nerror: it broke"));
        let text = format!("cc : a\nВ строке:1 знак:1\n+ cc\n+ ~~\n{of_program}error: it broke");
        assert_eq!(without_places(&text).as_deref(), Some("cc : a\nerror: it broke"));
        assert_eq!(without_places("+ a\n- b"), None);
    }

    #[test]
    fn an_error_of_powershell_is_known_by_its_trailer() {
        let trailer = |name: &str| format!("    + CategoryInfo : x\n    + FullyQualifiedErrorId : {name}\n");
        for (text, expected) in [
            (format!("mill : 无法识别。\n行:1 字符: 1\n+ mill\n+ ~~\n{}", trailer("NotFound")), true),
            (format!("cc : a\n行:1 字符: 1\n+ cc\n+ ~~\n{}", trailer("NativeCommandError")), false),
            (format!("{}{}", trailer("NativeCommandError"), trailer("NotFound")), true),
            ("Line |\n   1 |  if (\n     |      ~\n     | A condition is missing".to_owned(), true),
            ("a.log:7:    + CategoryInfo : x\na.log:8:    + FullyQualifiedErrorId : y".to_owned(), false),
            ("+ CategoryInfo alone".to_owned(), false),
        ] {
            assert_eq!(has_error(&text), expected, "{text}");
        }
    }
}
