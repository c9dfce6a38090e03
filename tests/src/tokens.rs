//! Keys and tokens: created by `crore token` as operators do, and forged by `openssl` as attackers
//! would.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::curl::{Answer, curl};
use crate::server::{Place, Server};
use crate::tools::crore;

/// All signature algorithms of tokens.
pub const ALGORITHMS: [&str; 9] =
    ["HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "ES256", "ES384", "EdDSA"];

/// An issuer: signs tokens with one key.
#[derive(Debug)]
pub struct Issuer {
    /// The algorithm of its signatures.
    pub algorithm: &'static str,
    /// The key ID; may be empty.
    pub kid: String,
    /// The secret, or the private key in PEM.
    file: PathBuf,
    /// The public key in PEM; for a secret, the same file.
    public: PathBuf,
}

/// An API key, and its table in the configuration.
#[derive(Debug)]
pub struct ApiKey {
    /// The key.
    pub key: String,
    /// The name and hash, as printed by the command that created it.
    pub table: String,
}

impl Issuer {
    /// Creates a key with this ID, in a folder of the place.
    pub fn new(place: &Place, algorithm: &'static str, kid: &str) -> Issuer {
        let folder = place.path(&format!("issuer-{algorithm}-{kid}"));
        fs::create_dir_all(&folder).expect("the folder is ours");
        let (out, file, public) = if algorithm.starts_with("HS") {
            let file = folder.join("secret");
            (file.clone(), file.clone(), file)
        } else {
            (folder.clone(), folder.join("private.pem"), folder.join("public.pem"))
        };
        let out = out.to_str().expect("a path of ours");
        crore_says(&["token", "key", "--algorithm", algorithm, "--out", out]);
        Issuer { algorithm, kid: kid.to_owned(), file, public }
    }

    /// Its `[[token_key]]` table.
    pub fn table(&self) -> String {
        let (algorithm, file) = (self.algorithm, &self.public);
        let name = if self.is_secret() { "secret_file" } else { "public_key_file" };
        let id = match self.kid.as_str() {
            "" => String::new(),
            kid => format!("id = \"{kid}\"\n"),
        };
        format!("[[token_key]]\nalgorithm = \"{algorithm}\"\n{name} = {file:?}\n{id}")
    }

    /// Creates a token with these flags of `crore token gen`, separated by spaces.
    pub fn token(&self, flags: &str) -> String {
        let file = self.file.to_str().expect("a path of ours");
        let with = if self.is_secret() { "--secret-file" } else { "--key-file" };
        let mut arguments = vec!["token", "gen", with, file, "--algorithm", self.algorithm];
        if !self.kid.is_empty() {
            arguments.extend(["--kid", &self.kid]);
        }
        arguments.extend(flags.split_whitespace());
        crore_says(&arguments).trim_end().to_owned()
    }

    /// Creates a token with exactly these claims, even if `crore token gen` would refuse them. Only
    /// for a secret for HS256.
    pub fn sign(&self, claims: &Value) -> String {
        assert_eq!(self.algorithm, "HS256");
        let header = match self.kid.as_str() {
            "" => json!({"alg": "HS256"}),
            kid => json!({"alg": "HS256", "kid": kid}),
        };
        forged(&header, claims, self.secret().as_bytes())
    }

    /// The secret.
    pub fn secret(&self) -> String {
        assert!(self.is_secret());
        let text = fs::read_to_string(&self.file).expect("a file of ours");
        text.trim_end().to_owned()
    }

    /// The public key in PEM.
    pub fn public_pem(&self) -> String {
        assert!(!self.is_secret());
        fs::read_to_string(&self.public).expect("a file of ours")
    }

    /// The public key as an element of a key set.
    pub fn jwk(&self) -> Value {
        let der = openssl(&["pkey", "-pubin", "-outform", "DER", "-in"], &self.public);
        let tail = |bytes: usize| &der[der.len() - bytes..];
        // The coordinates of the point are at its end.
        let ec = |curve: &str, bytes: usize| {
            let (x, y) = tail(2 * bytes).split_at(bytes);
            json!({"kty": "EC", "crv": curve, "x": base64(x), "y": base64(y)})
        };
        let mut key = match self.algorithm {
            "ES256" => ec("P-256", 32),
            "ES384" => ec("P-384", 48),
            "EdDSA" => json!({"kty": "OKP", "crv": "Ed25519", "x": base64(tail(32))}),
            _ => {
                let printed =
                    openssl(&["rsa", "-pubin", "-modulus", "-noout", "-in"], &self.public);
                let text = String::from_utf8(printed).expect("text");
                let digits = text.trim().strip_prefix("Modulus=").expect("a modulus");
                json!({"kty": "RSA", "n": base64(&bytes_of(digits)), "e": "AQAB"})
            }
        };
        key["use"] = "sig".into();
        key["alg"] = self.algorithm.into();
        key["kid"] = self.kid.as_str().into();
        key
    }

    fn is_secret(&self) -> bool {
        self.algorithm.starts_with("HS")
    }
}

impl ApiKey {
    /// Creates a key with these permissions: lines of its table.
    pub fn new(name: &str, lines: &str) -> ApiKey {
        let printed = crore_says(&["token", "key", "--name", name]);
        let key = printed.lines().next().expect("a key").to_owned();
        // Its lists are empty; the given ones replace them.
        let is_kept = |line: &&str| {
            ["[[api_key]]", "name", "sha256"].iter().any(|word| line.starts_with(word))
        };
        let table: Vec<&str> = printed.lines().filter(is_kept).chain([lines]).collect();
        ApiKey { key, table: table.join("\n") + "\n" }
    }
}

/// The configuration of a node that requires tokens of these issuers: lines of the section, and the
/// tables of keys.
pub fn configuration(lines: &str, issuers: &[&Issuer]) -> String {
    let tables: String = issuers.iter().map(|issuer| issuer.table()).collect();
    format!("[entitlement]\nmode = \"tokens\"\n{lines}{tables}")
}

/// Starts a node with a data directory that requires tokens of an issuer with a secret; these lines
/// are in its section.
pub fn started(lines: &str) -> (Place, Issuer, Server) {
    let mut place = Place::new("127.0.0.1:0");
    let issuer = Issuer::new(&place, "HS256", "");
    let node = format!("[node]\ndata_dir = {:?}\n", place.path("data"));
    place.configure(&(node + &configuration(lines, &[&issuer])));
    let server = place.start();
    (place, issuer, server)
}

/// Requests a revocation with this body.
pub fn revoke(server: &Server, body: &str) -> Answer {
    let url = server.operators_url("/api/v1/revocations");
    let json = "Content-Type: application/json";
    curl(&["-H", json, "-d", body, &url])
}

/// A token with this header and these claims, signed with HMAC-SHA256 regardless of the header.
pub fn forged(header: &Value, claims: &Value, secret: &[u8]) -> String {
    let message = message(header, claims);
    let key: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    let option = format!("hexkey:{key}");
    let mut command = Command::new("openssl");
    command.args(["dgst", "-sha256", "-mac", "HMAC", "-macopt", &option, "-binary"]);
    let signature = said(crate::process::with_input(&mut command, message.as_bytes()));
    format!("{message}.{}", base64(&signature))
}

/// The header and claims of a token, without the signature.
pub fn message(header: &Value, claims: &Value) -> String {
    let part = |value: &Value| base64(value.to_string().as_bytes());
    format!("{}.{}", part(header), part(claims))
}

/// Seconds since 1970.
pub fn now_s() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.expect("after 1970").as_secs()
}

/// Base64 for URLs, without padding (RFC 4648, section 5).
pub fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let number = (0..3).fold(0_usize, |number, at| {
            number << 8 | chunk.get(at).map_or(0, |byte| usize::from(*byte))
        });
        for at in 0..=chunk.len() {
            text.push(char::from(ALPHABET[number >> (18 - 6 * at) & 63]));
        }
    }
    text
}

fn crore_says(arguments: &[&str]) -> String {
    let mut command = crore();
    let output = command.args(arguments).output().expect("the binary starts");
    String::from_utf8(said(output)).expect("text")
}

fn openssl(arguments: &[&str], file: &Path) -> Vec<u8> {
    let mut command = Command::new("openssl");
    said(command.args(arguments).arg(file).output().expect("openssl is installed"))
}

fn said(output: Output) -> Vec<u8> {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{} {errors}", output.status);
    output.stdout
}

fn bytes_of(digits: &str) -> Vec<u8> {
    let pairs = (0..digits.len()).step_by(2).map(|at| &digits[at..at + 2]);
    let bytes = pairs.map(|pair| u8::from_str_radix(pair, 16).expect("two digits"));
    bytes.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_every_length() {
        let texts = ["", "f", "fo", "foo", "foob", "fooba", "foobar"];
        let expected = ["", "Zg", "Zm8", "Zm9v", "Zm9vYg", "Zm9vYmE", "Zm9vYmFy"];
        for (text, expected) in texts.iter().zip(expected) {
            assert_eq!(base64(text.as_bytes()), expected);
        }
        assert_eq!(base64(&[0xfb, 0xff]), "-_8");
    }

    #[test]
    fn a_forged_token_has_three_parts() {
        let token = forged(&json!({"alg": "HS256"}), &json!({"sub": "a"}), &[7; 32]);
        let parts: Vec<&str> = token.split('.').collect();
        assert_eq!(parts[..2], ["eyJhbGciOiJIUzI1NiJ9", "eyJzdWIiOiJhIn0"]);
        assert_eq!(parts[2].len(), 43);
    }
}
