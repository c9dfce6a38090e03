//! The files of `spec/scenarios`: their form, and the rules of `spec/sdk.md` that they cover.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../spec/scenarios")
}

fn json(file: &PathBuf) -> Value {
    let text = std::fs::read_to_string(file).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn files() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| {
        file.extension().is_some_and(|it| it == "json") && !file.ends_with("schema.json")
    });
    assert!(files.len() >= 8, "{files:?}");
    files
}

/// The part of JSON Schema that `schema.json` uses, without patterns of texts.
fn check(root: &Value, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let place = reference.trim_start_matches('#');
        return check(root, root.pointer(place).expect("a known reference"), value, at);
    }
    if let Some(options) = schema["oneOf"].as_array() {
        let results: Vec<_> = options.iter().map(|it| check(root, it, value, at)).collect();
        let fits = results.iter().filter(|result| result.is_ok()).count();
        let key_fits = options.iter().zip(&results).filter(|(option, _)| {
            let first = option["required"].as_array().and_then(|all| all[0].as_str());
            first.is_some_and(|key| !value[key].is_null())
        });
        let closest = key_fits.filter_map(|(_, result)| result.as_ref().err()).next();
        return match (fits, closest) {
            (1, _) => Ok(()),
            (_, Some(why)) => Err(why.clone()),
            (count, None) => Err(format!("{at}: fits {count} of the forms: {value}")),
        };
    }
    if schema.get("const").is_some_and(|it| it != value) {
        return Err(format!("{at}: {value} is not {}", schema["const"]));
    }
    if schema["enum"].as_array().is_some_and(|all| !all.contains(value)) {
        return Err(format!("{at}: {value} is not one of {}", schema["enum"]));
    }
    let is_of_type = match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_u64() || value.is_i64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some(other) => panic!("unknown type {other}"),
        None => true,
    };
    if !is_of_type {
        return Err(format!("{at}: {value} is not of type {}", schema["type"]));
    }
    let number = value.as_f64();
    let is_below = number < schema["minimum"].as_f64().filter(|_| number.is_some());
    let maximum = schema["maximum"].as_f64();
    if is_below || maximum.is_some() && number > maximum {
        return Err(format!("{at}: {value} is out of bounds"));
    }
    for (place, element) in value.as_array().into_iter().flatten().enumerate() {
        check(root, &schema["items"], element, &format!("{at}[{place}]"))?;
    }
    for key in schema["required"].as_array().into_iter().flatten() {
        if value[key.as_str().unwrap()].is_null() {
            return Err(format!("{at}: no {key}"));
        }
    }
    for (key, field) in value.as_object().into_iter().flatten() {
        match schema["properties"].get(key) {
            Some(schema) => check(root, schema, field, &format!("{at}.{key}"))?,
            None if schema["additionalProperties"] == false => {
                return Err(format!("{at}: {key} is unknown"));
            }
            None => {}
        }
    }
    Ok(())
}

#[test]
fn every_file_has_the_form_of_the_schema() {
    let schema = json(&folder().join("schema.json"));
    for file in files() {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        check(&schema, &schema, &json(&file), &name).unwrap();
    }
    for wrong in [
        r#"{"about": "", "scenarios": []}"#,
        r#"{"about": "", "scenarios": [{"name": "without steps", "rules": ["C1"], "modes": ["core"]}]}"#,
        r#"{"about": "", "scenarios": [{"name": "an unknown step", "rules": ["C1"], "modes": ["core"],
            "steps": [{"dance": 1}]}]}"#,
        r#"{"about": "", "scenarios": [{"name": "an unknown field", "rules": ["C1"], "modes": ["core"],
            "steps": [{"connect": "a", "soon": true}]}]}"#,
    ] {
        let value = serde_json::from_str(wrong).unwrap();
        // The first one lacks a scenario, which this check does not see.
        let is_refused = check(&schema, &schema, &value, "").is_err();
        assert!(is_refused || value["scenarios"].as_array().unwrap().is_empty(), "{wrong}");
    }
}

#[test]
fn every_rule_has_a_scenario_or_a_test_of_each_sdk() {
    let mut named = BTreeSet::new();
    for file in files() {
        for scenario in json(&file)["scenarios"].as_array().unwrap() {
            let rules = scenario["rules"].as_array().unwrap().iter();
            named.extend(rules.map(|rule| rule.as_str().unwrap().to_owned()));
        }
    }
    let document = include_str!("../../../spec/sdk.md");
    let mut rules = BTreeSet::new();
    for line in document.lines() {
        let Some(cell) = line.strip_prefix("| ").and_then(|line| line.split(" |").next()) else {
            continue;
        };
        let (rule, mark) = cell.split_once(' ').unwrap_or((cell, ""));
        let is_rule = rule.starts_with(|it: char| it.is_ascii_uppercase())
            && rule.len() > 1
            && rule[1..].bytes().all(|byte| byte.is_ascii_digit());
        if is_rule {
            assert!(rules.insert(rule.to_owned()), "{rule} stands twice");
            assert!(mark == "†" || named.contains(rule), "{rule} has no scenario");
        }
    }
    assert!(rules.len() > 80, "{}", rules.len());
    let unknown: Vec<_> = named.difference(&rules).collect();
    assert!(unknown.is_empty(), "unknown rules: {unknown:?}");
}
