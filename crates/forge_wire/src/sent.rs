//! A request as it leaves: the body of its protocol, and the fields of `extra_body` that it lacks.

use forge_domain::ExtraBody;
use serde::ser::Error;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

/// A body with the fields of `extra_body`. Serializing it fails if the body is refused, or if a field would
/// replace one of the body's: then nothing is sent.
pub(crate) struct Sent<'a, B> {
    pub(crate) body: B,
    pub(crate) extra: Option<&'a ExtraBody>,
    /// The reason why the protocol cannot express what is wanted.
    pub(crate) refusal: Option<String>,
}

impl<B: Serialize> Serialize for Sent<'_, B> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Some(refusal) = &self.refusal {
            return Err(S::Error::custom(refusal));
        }
        let Some(extra) = self.extra else { return self.body.serialize(serializer) };
        let Value::Object(mut body) = serde_json::to_value(&self.body).map_err(S::Error::custom)? else {
            return Err(S::Error::custom("the body of a request is an object"));
        };
        add(&mut body, extra.fields(), "").map_err(S::Error::custom)?;
        body.serialize(serializer)
    }
}

/// Adds `fields` to an object; of objects on both sides, the fields are added.
fn add(object: &mut Map<String, Value>, fields: &Map<String, Value>, path: &str) -> Result<(), String> {
    for (name, value) in fields {
        let path = format!("{path}{name}");
        match (object.get_mut(name), value) {
            (None, value) => drop(object.insert(name.clone(), value.clone())),
            (Some(Value::Object(known)), Value::Object(fields)) => add(known, fields, &format!("{path}."))?,
            (Some(_), _) => return Err(format!("`extra_body` cannot replace `{path}`, which Forge sends")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_is_added_and_none_is_replaced() {
        let body = json!({"model": "m", "store": false, "options": {"num_gpu": 1}});
        for (extra, expected) in [
            (json!({"a": 1}), Ok(r#"{"model":"m","store":false,"options":{"num_gpu":1},"a":1}"#)),
            (
                json!({"options": {"b": 2}}),
                Ok(r#"{"model":"m","store":false,"options":{"num_gpu":1,"b":2}}"#),
            ),
            (json!({"store": true}), Err("`extra_body` cannot replace `store`, which Forge sends")),
            (
                json!({"options": {"num_gpu": 2}}),
                Err("`extra_body` cannot replace `options.num_gpu`, which Forge sends"),
            ),
        ] {
            let extra: ExtraBody = serde_json::from_value(extra).unwrap();
            let sent = Sent { body: &body, extra: Some(&extra), refusal: None };
            let actual = serde_json::to_string(&sent).map_err(|error| error.to_string());
            assert_eq!(actual.as_deref(), expected.map_err(str::to_owned).as_ref().copied(), "{extra:?}");
        }
    }
}
