//! A certificate that signs itself, to try TLS out: an X.509 certificate (RFC 5280) written as DER.
//!
//! Place: behind `crore tls self-signed`, and in tests. ECDSA on P-256, for a server, no authority
//! for others.

use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use std::net::IpAddr;

/// A certificate and its key, in DER.
pub struct SelfSigned {
    /// The certificate.
    pub certificate: Vec<u8>,
    /// The private key, as PKCS #8.
    pub key: Vec<u8>,
}

/// Makes a certificate for these names, host names or addresses, the first of which is the subject.
/// It is valid for so many days from `now_s`, in seconds since 1970.
///
/// # Errors
/// What the library says when it has no randomness.
pub fn self_signed(
    names: &[String],
    days: u32,
    now_s: u64,
) -> Result<SelfSigned, aws_lc_rs::error::Unspecified> {
    let random = SystemRandom::new();
    let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random)?;
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, key.as_ref())
        .map_err(|_| aws_lc_rs::error::Unspecified)?;
    let mut serial = [0; 16];
    random.fill(&mut serial)?;
    // Positive, and as short as it can be.
    serial[0] = serial[0] & 0x7f | 0x40;

    let algorithm = sequence(&[OBJECT_ECDSA_SHA256]);
    let subject = name(names.first().map_or("", String::as_str));
    let validity = sequence(&[&time(now_s), &time(now_s + u64::from(days) * SECONDS_OF_DAY)]);
    let public =
        sequence(&[&sequence(&[OBJECT_EC_KEY, OBJECT_P256]), &bits(pair.public_key().as_ref())]);
    let to_sign = sequence(&[
        &element(0xa0, &element(0x02, &[2])),
        &element(0x02, &serial),
        &algorithm,
        &subject,
        &validity,
        &subject,
        &public,
        &element(0xa3, &sequence(&[&alternative_names(names)])),
    ]);
    let signature = pair.sign(&random, &to_sign)?;
    Ok(SelfSigned {
        certificate: sequence(&[&to_sign, &algorithm, &bits(signature.as_ref())]),
        key: key.as_ref().to_vec(),
    })
}

impl SelfSigned {
    /// The certificate as PEM.
    pub fn certificate_pem(&self) -> String {
        pem("CERTIFICATE", &self.certificate)
    }

    /// The key as PEM.
    pub fn key_pem(&self) -> String {
        pem("PRIVATE KEY", &self.key)
    }
}

const SECONDS_OF_DAY: u64 = 86_400;
/// 1.2.840.10045.4.3.2
const OBJECT_ECDSA_SHA256: &[u8] = &[0x06, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
/// 1.2.840.10045.2.1
const OBJECT_EC_KEY: &[u8] = &[0x06, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
/// 1.2.840.10045.3.1.7
const OBJECT_P256: &[u8] = &[0x06, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
/// 2.5.4.3
const OBJECT_COMMON_NAME: &[u8] = &[0x06, 3, 0x55, 4, 3];
/// 2.5.29.17
const OBJECT_ALTERNATIVE_NAMES: &[u8] = &[0x06, 3, 0x55, 0x1d, 0x11];

fn name(common: &str) -> Vec<u8> {
    // A common name has at most 64 characters; programs look at the alternative names.
    let common: String = common.chars().take(64).collect();
    let pair = sequence(&[OBJECT_COMMON_NAME, &element(0x0c, common.as_bytes())]);
    sequence(&[&element(0x31, &pair)])
}

fn alternative_names(names: &[String]) -> Vec<u8> {
    let names: Vec<Vec<u8>> = names
        .iter()
        .map(|name| match name.parse() {
            Ok(IpAddr::V4(address)) => element(0x87, &address.octets()),
            Ok(IpAddr::V6(address)) => element(0x87, &address.octets()),
            Err(_) => element(0x82, name.as_bytes()),
        })
        .collect();
    let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
    sequence(&[OBJECT_ALTERNATIVE_NAMES, &element(0x04, &sequence(&names))])
}

/// Until 2049 in two digits of the year, later in four (RFC 5280, section 4.1.2.5).
fn time(seconds: u64) -> Vec<u8> {
    let (year, month, day) = date(seconds / SECONDS_OF_DAY);
    let of_day = seconds % SECONDS_OF_DAY;
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    let rest = format!("{month:02}{day:02}{hour:02}{minute:02}{second:02}Z");
    if year < 2050 {
        element(0x17, format!("{:02}{rest}", year % 100).as_bytes())
    } else {
        element(0x18, format!("{year:04}{rest}").as_bytes())
    }
}

/// The day so many days after 1 January 1970, by counting; it is done twice for a certificate.
fn date(mut days: u64) -> (u64, usize, u64) {
    let mut year = 1970;
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

fn bits(content: &[u8]) -> Vec<u8> {
    element(0x03, &[&[0], content].concat())
}

fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    element(0x30, &parts.concat())
}

/// Kind, length, content.
fn element(kind: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let mut element = vec![kind];
    match length {
        0..=0x7f => element.push(length as u8),
        0x80..=0xff => element.extend_from_slice(&[0x81, length as u8]),
        _ => {
            element.push(0x82);
            element.extend_from_slice(&(length as u16).to_be_bytes());
        }
    }
    element.extend_from_slice(content);
    element
}

fn pem(label: &str, content: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = format!("-----BEGIN {label}-----\n");
    for line in content.chunks(48) {
        for triple in line.chunks(3) {
            let byte = |place: usize| u32::from(triple.get(place).copied().unwrap_or(0));
            let word = byte(0) << 16 | byte(1) << 8 | byte(2);
            for place in 0..4 {
                let digit = DIGITS[(word >> (18 - 6 * place) & 63) as usize];
                text.push(if place > triple.len() { '=' } else { char::from(digit) });
            }
        }
        text.push('\n');
    }
    text.push_str(&format!("-----END {label}-----\n"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(date(0), (1970, 1, 1));
        assert_eq!(date(59), (1970, 3, 1));
        assert_eq!(date(11_016), (2000, 2, 29));
        assert_eq!(date(20_454), (2026, 1, 1));
        assert_eq!(date(47_540), (2100, 2, 28));
        assert_eq!(date(47_541), (2100, 3, 1));
    }
}
