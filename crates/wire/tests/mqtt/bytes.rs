//! Bytes as readable text: hexadecimal digits, text in quotes, and `*n` behind either to repeat it.

/// Reads bytes. Panics if the text has another form.
pub fn read(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (unit, after) = if let Some(quoted) = rest.strip_prefix('"') {
            let (quoted, after) = quoted.split_once('"').expect("a closing quote");
            (quoted.as_bytes().to_vec(), after)
        } else {
            let end = rest.find([' ', '*', '\n']).unwrap_or(rest.len());
            (hex(&rest[..end]), &rest[end..])
        };
        let (count, after) = match after.strip_prefix('*') {
            None => (1, after),
            Some(counted) => {
                let end = counted.find([' ', '\n']).unwrap_or(counted.len());
                (counted[..end].parse().expect("a number"), &counted[end..])
            }
        };
        bytes.extend(unit.repeat(count));
        rest = after.trim_start();
    }
    bytes
}

fn hex(digits: &str) -> Vec<u8> {
    assert!(digits.len().is_multiple_of(2), "{digits}");
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal digits");
    (0..digits.len()).step_by(2).map(byte).collect()
}
