//! The entries of `spec/vectors/mqtt.txt`.

use super::bytes;
use wire::mqtt::Version;

const DOCUMENT: &str = include_str!("../../../../spec/vectors/mqtt.txt");

/// A packet of the file.
#[derive(Debug)]
pub struct Vector {
    pub name: &'static str,
    pub is_from_client: bool,
    pub version: Version,
    pub bytes: Vec<u8>,
    /// The decoded value as text.
    pub value: &'static str,
    /// The bytes that the value encodes to.
    pub encoded: Vec<u8>,
}

/// All packets.
pub fn all() -> Vec<Vector> {
    DOCUMENT.split("\n## ").skip(1).map(entry).collect()
}

fn entry(text: &'static str) -> Vector {
    let mut lines = text.lines();
    let mut line = || lines.next().unwrap_or_default();
    let name = line();
    let (sender, version) = line().split_once(' ').expect("sender and version");
    let packet = bytes::read(line());
    let value = line().strip_prefix("= ").expect("a value");
    let encoded = line().strip_prefix("> ").map_or_else(|| packet.clone(), bytes::read);
    Vector {
        name,
        is_from_client: sender == "client",
        version: version_of(version),
        bytes: packet,
        value,
        encoded,
    }
}

/// The version with this name.
pub fn version_of(name: &str) -> Version {
    match name {
        "3.1" => Version::V3_1,
        "3.1.1" => Version::V3_1_1,
        "5" => Version::V5,
        other => panic!("no version {other}"),
    }
}

/// A line of `spec/vectors/mqtt_malformed.txt`.
#[derive(Debug)]
pub struct Malformed {
    pub reason: u8,
    pub statement: &'static str,
    pub is_from_client: bool,
    /// `None`: before CONNECT.
    pub version: Option<Version>,
    pub bytes: Vec<u8>,
    pub name: &'static str,
}

/// All malformed packets.
pub fn malformed() -> Vec<Malformed> {
    let lines = MALFORMED.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(malformed_line).collect()
}

const MALFORMED: &str = include_str!("../../../../spec/vectors/mqtt_malformed.txt");

fn malformed_line(line: &'static str) -> Malformed {
    let fields: Vec<&str> = line.split(" | ").collect();
    let [reason, statement, sender, packet, name] = fields[..] else {
        panic!("five fields: {line}");
    };
    let (sender, version) = sender.split_once(' ').expect("sender and version");
    Malformed {
        reason: u8::from_str_radix(reason, 16).expect("a reason code"),
        statement,
        is_from_client: sender == "client",
        version: (version != "new").then(|| version_of(version)),
        bytes: bytes::read(packet),
        name,
    }
}
