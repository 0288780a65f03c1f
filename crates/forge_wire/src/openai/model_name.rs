//! The names of OpenAI's models, by which the form of a request depends.

/// Checks whether `model` is one of OpenAI's reasoning models. They refuse `max_tokens`; many compatible
/// servers do not know its successor and would ignore the limit.
pub(super) fn is_reasoning(model: &str) -> bool {
    number_in(model, "o").is_some() || number_in(model, "gpt-").is_some_and(|number| number >= (5, 0))
}

/// Returns the number of a model of OpenAI's `family`, major and minor: (5, 6) of `openai/gpt-5.6-sol`.
pub(super) fn number_in(model: &str, family: &str) -> Option<(u32, u32)> {
    let name = model.rsplit('/').next().unwrap_or(model);
    let (major, rest) = leading_number(name.strip_prefix(family)?)?;
    let (minor, rest) = rest.strip_prefix('.').and_then(leading_number).unwrap_or((0, rest));
    (rest.is_empty() || rest.starts_with(['-', '.'])).then_some((major, minor))
}

/// Splits `text` after the digits that it begins with.
fn leading_number(text: &str) -> Option<(u32, &str)> {
    let (digits, rest) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    Some((digits.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn the_output_limit_goes_by_the_name_that_the_model_takes() {
        for (model, expected) in [
            ("gpt-4o", false),
            ("o3-mini", true),
            ("openai/gpt-5.1", true),
            ("gpt-5", true),
            ("gpt-6-mini", true),
            ("gpt-4.1", false),
            ("o5-pro", true),
            ("o3x", false),
            ("olmo-7b", false),
            ("llama3:8b", false),
        ] {
            assert_eq!(is_reasoning(model), expected, "{model}");
        }
    }
}
