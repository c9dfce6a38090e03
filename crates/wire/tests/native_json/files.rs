//! The files of `spec/vectors/`.

use serde_json::Value;

const FILES: [(&str, &str); 4] = [
    ("client_frames.json", include_str!("../../../../spec/vectors/client_frames.json")),
    ("server_frames.json", include_str!("../../../../spec/vectors/server_frames.json")),
    ("partitions.json", include_str!("../../../../spec/vectors/partitions.json")),
    ("proof.json", include_str!("../../../../spec/vectors/proof.json")),
];

/// The list `key` of a file of test vectors.
pub fn list(file: &str, key: &str) -> Vec<Value> {
    let (_, contents) = FILES.iter().find(|(name, _)| *name == file).unwrap();
    let document: Value = serde_json::from_str(contents).unwrap();
    let list = super::field(&document, key).as_array().unwrap().clone();
    assert!(!list.is_empty(), "{file} has no {key}");
    list
}

/// The bytes of a string of hex digits.
pub fn bytes(hex: &Value) -> Vec<u8> {
    let hex = super::text(hex);
    assert_eq!(hex.len() % 2, 0, "{hex}");
    (0..hex.len())
        .step_by(2)
        .map(|index| u8::from_str_radix(&hex[index..index + 2], 16).unwrap())
        .collect()
}

/// Hex digits of bytes.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
