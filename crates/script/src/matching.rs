//! The comparison of frames and effects with the expectations of steps, and a scenario's variables.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// The values of `$names`.
#[derive(Debug, Default)]
pub struct Variables(BTreeMap<String, Value>);

impl Variables {
    /// Checks `came` against `expected`, field by field; a new variable takes its value.
    ///
    /// # Errors
    /// The first difference.
    pub fn check(&mut self, expected: &Value, came: &Value) -> Result<(), String> {
        self.check_at("", expected, came)
    }

    fn check_at(&mut self, at: &str, expected: &Value, came: &Value) -> Result<(), String> {
        let differs = || Err(format!("{at}: expected {expected}, came {came}"));
        match (expected, came) {
            (Value::String(name), came) if is_variable(name) => match self.0.get(name) {
                Some(known) if !is_equal(known, came) => {
                    Err(format!("{at}: {name} is {known}, came {came}"))
                }
                Some(_) => Ok(()),
                None if came.is_null() => differs(),
                None => {
                    self.0.insert(name.clone(), came.clone());
                    Ok(())
                }
            },
            (Value::String(any), came) if any == "*" => {
                if came.is_null() {
                    differs()
                } else {
                    Ok(())
                }
            }
            (Value::Object(expected), Value::Object(came)) => {
                for (key, expected) in expected {
                    let (key, expected) = spelled(key, expected);
                    let came = came.get(&key).unwrap_or(&Value::Null);
                    self.check_at(&format!("{at}.{key}"), &expected, came)?;
                }
                Ok(())
            }
            (Value::Array(expected), Value::Array(came)) if expected.len() == came.len() => {
                for (place, (expected, came)) in expected.iter().zip(came).enumerate() {
                    self.check_at(&format!("{at}[{place}]"), expected, came)?;
                }
                Ok(())
            }
            (expected, came) if is_equal(expected, came) => Ok(()),
            _ => differs(),
        }
    }

    /// Replaces the variables in `value`, and `text` by its payload.
    ///
    /// # Errors
    /// A variable without a value.
    pub fn fill(&self, value: &Value) -> Result<Value, String> {
        Ok(match value {
            Value::String(name) if is_variable(name) => {
                self.0.get(name).cloned().ok_or_else(|| format!("{name} has no value"))?
            }
            Value::Array(list) => {
                Value::Array(list.iter().map(|value| self.fill(value)).collect::<Result<_, _>>()?)
            }
            Value::Object(fields) => {
                let mut filled = Map::new();
                for (key, value) in fields {
                    let (key, value) = spelled(key, value);
                    filled.insert(key, self.fill(&value)?);
                }
                Value::Object(filled)
            }
            other => other.clone(),
        })
    }
}

/// `$x`, but not the topic `$sys/x`.
fn is_variable(text: &str) -> bool {
    text.strip_prefix('$').is_some_and(|name| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

/// `text` is `payload` in UTF-8.
fn spelled(key: &str, value: &Value) -> (String, Value) {
    match value.as_str() {
        Some(text) if key == "text" => ("payload".to_owned(), json!(hex(text.as_bytes()))),
        _ => (key.to_owned(), value.clone()),
    }
}

/// Numbers equal their decimal text: fields of 64 bits are texts.
fn is_equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(number), Value::String(text))
        | (Value::String(text), Value::Number(number)) => number.to_string() == *text,
        _ => one == other,
    }
}

/// Hex digits of bytes.
pub fn hex(bytes: &[u8]) -> String {
    crate::native_json::files::hex(bytes)
}

/// The bytes of hex digits.
pub fn bytes(hex: &str) -> Result<Vec<u8>, String> {
    let digits = (0..hex.len()).step_by(2).map(|at| hex.get(at..at + 2));
    let bytes = digits.map(|two| u8::from_str_radix(two?, 16).ok());
    bytes.collect::<Option<Vec<u8>>>().ok_or_else(|| format!("`{hex}` is not hex"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_take_the_first_value_and_compare_the_next() {
        let mut variables = Variables::default();
        variables.check(&json!({"a": "$x", "b": "*"}), &json!({"a": 7, "b": 1, "c": 2})).unwrap();
        variables.check(&json!({"a": "$x"}), &json!({"a": "7"})).unwrap();
        assert!(variables.check(&json!({"a": "$x"}), &json!({"a": 8})).is_err());
        assert!(variables.check(&json!({"a": "*"}), &json!({})).is_err());
        variables.check(&json!({"a": null, "text": "hi"}), &json!({"payload": "6869"})).unwrap();
        assert!(variables.check(&json!([1, 2]), &json!([1])).is_err());
        assert_eq!(variables.fill(&json!({"n": ["$x"]})), Ok(json!({"n": [7]})));
        assert!(variables.fill(&json!("$unknown")).is_err());
    }
}
