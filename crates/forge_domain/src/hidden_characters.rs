//! Characters that are not seen, or that change how others are seen.

/// Checks whether a character steers a terminal, ends a line, changes the direction of the following text, or
/// is invisible: controls, format characters, and all that Unicode tells displays to ignore, such as
/// variation selectors and tags.
pub const fn is_hidden(c: char) -> bool {
    matches!(c,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}'
        | '\u{70f}' | '\u{890}'..='\u{891}' | '\u{8e2}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{110bd}'
        | '\u{110cd}' | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_told_from_letters_and_pictures() {
        let hidden = "\0\t\n\u{1b}\u{7f}\u{85}\u{ad}\u{61c}\u{200b}\u{200d}\u{200e}\u{200f}\u{202e}\u{2066}\u{3164}\u{fe0f}\u{feff}\u{e0041}";
        assert_eq!(hidden.chars().filter(|c| !is_hidden(*c)).collect::<String>(), "");
        let seen = " aé~言שم👩🚀\u{a0}\u{301}\u{20e3}";
        assert_eq!(seen.chars().filter(|c| is_hidden(*c)).collect::<String>(), "");
    }
}
