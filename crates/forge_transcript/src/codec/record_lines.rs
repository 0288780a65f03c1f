//! The records of a line: usually one, but two may be run together.

use serde_json::value::RawValue;

/// Passes each JSON value of a line to `take`. Returns how many lines are not JSON to their end, none or one.
pub(crate) fn each_record<'a>(line: &'a str, take: &mut dyn FnMut(&'a str)) -> usize {
    let mut values = serde_json::Deserializer::from_str(line).into_iter::<&'a RawValue>();
    loop {
        match values.next() {
            None => return 0,
            Some(Ok(value)) => take(value.get()),
            Some(Err(_)) => return 1,
        }
    }
}
