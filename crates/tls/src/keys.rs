//! One direction's keys: nonces, the AEAD, and the next generation of keys (RFC 8446, sections 5.2,
//! 5.3 and 7.2).
//!
//! Place: under `record`. An idle connection has raw bytes; the expanded AEAD key, which is larger,
//! is created for a batch of records and dropped with it. Invariants: a sequence number is used
//! once for each key, and again only if its record has never left the process ([`Keys::rewind`]);
//! secrets are wiped when they are dropped.

use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, MAX_TAG_LEN,
    NONCE_LEN, Nonce, UnboundKey,
};
use aws_lc_rs::hkdf::{HKDF_SHA256, HKDF_SHA384, KeyType, Prk};
use rustls::ConnectionTrafficSecrets;
use stdx::handing::{Hand, Input, Layout};
use zeroize::Zeroize;

use crate::alert::Fault;

/// Number of bytes that each AEAD adds.
pub(crate) const TAG_BYTES: usize = MAX_TAG_LEN;
/// Maximum number of records that AES-GCM seals with one key: below the 2^24.5 of RFC 8446, section
/// 5.5.
const GCM_RECORDS_MAX: u64 = 1 << 24;
const KEY_BYTES_MAX: usize = 32;
const SECRET_BYTES_MAX: usize = 48;

/// A traffic secret of TLS 1.3, from which the keys of all later generations follow.
#[derive(Clone)]
pub(crate) struct Secret {
    bytes: [u8; SECRET_BYTES_MAX],
    len: u8,
}

impl Secret {
    /// None for a length that is not that of a hash of TLS 1.3.
    pub(crate) fn new(bytes: &[u8]) -> Option<Secret> {
        if bytes.len() != 32 && bytes.len() != 48 {
            return None;
        }
        let mut secret = Secret { bytes: [0; SECRET_BYTES_MAX], len: bytes.len() as u8 };
        secret.bytes[..bytes.len()].copy_from_slice(bytes);
        Some(secret)
    }

    /// HKDF-Expand-Label with an empty context.
    fn expand(&self, label: &[u8], output: &mut [u8]) -> Result<(), Fault> {
        let algorithm = if self.len == 32 { HKDF_SHA256 } else { HKDF_SHA384 };
        let secret = Prk::new_less_safe(algorithm, &self.bytes[..usize::from(self.len)]);
        let length = (output.len() as u16).to_be_bytes();
        let label_length = [(PREFIX.len() + label.len()) as u8];
        let info = [&length[..], &label_length, PREFIX, label, &[0]];
        let expanded = secret.expand(&info, Length(output.len()));
        expanded.and_then(|expanded| expanded.fill(output)).map_err(|_| Fault::Internal)
    }
}

/// In place, so that no copy remains; the owner of the bytes wipes them.
impl Hand for Secret {
    fn give(&self, out: &mut Vec<u8>) {
        out.push(self.len);
        out.extend_from_slice(&self.bytes[..usize::from(self.len)]);
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        let len = u8::take(input)?;
        Secret::new(input.bytes(usize::from(len))?)
    }

    fn layout(layout: &mut Layout) {
        layout.name("Secret");
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.bytes.zeroize();
    }
}

const PREFIX: &[u8] = b"tls13 ";

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
enum Aead {
    Aes128Gcm,
    Aes256Gcm,
    ChaCha20Poly1305,
}

impl Aead {
    fn algorithm(self) -> &'static Algorithm {
        match self {
            Aead::Aes128Gcm => &AES_128_GCM,
            Aead::Aes256Gcm => &AES_256_GCM,
            Aead::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        }
    }
}

/// The keys of one direction.
pub(crate) struct Keys {
    /// The number of the next record.
    sequence: u64,
    key: [u8; KEY_BYTES_MAX],
    iv: [u8; NONCE_LEN],
    /// TLS 1.3 only.
    secret: Option<Secret>,
    aead: Aead,
}

impl Keys {
    /// The keys after the handshake: the number of the next record, its keys, and in TLS 1.3 their
    /// secret.
    ///
    /// # Errors
    /// There is no AEAD for these keys.
    pub(crate) fn new(
        (sequence, secrets): (u64, ConnectionTrafficSecrets),
        secret: Option<Secret>,
    ) -> Result<Keys, Fault> {
        let (aead, key, iv) = match &secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (Aead::Aes128Gcm, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (Aead::Aes256Gcm, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => {
                (Aead::ChaCha20Poly1305, key, iv)
            }
            _ => return Err(Fault::Internal),
        };
        let mut keys = Keys { sequence, key: [0; KEY_BYTES_MAX], iv: [0; NONCE_LEN], secret, aead };
        let (key, iv) = (key.as_ref(), iv.as_ref());
        if key.len() != aead.algorithm().key_len() || iv.len() != NONCE_LEN {
            return Err(Fault::Internal);
        }
        keys.key[..key.len()].copy_from_slice(key);
        keys.iv.copy_from_slice(iv);
        // Four derivations for each handshake, in tests only.
        if cfg!(debug_assertions) && keys.secret.is_some() {
            let (key, iv) = (keys.key, keys.iv);
            keys.derive()?;
            debug_assert!((keys.key, keys.iv) == (key, iv), "keys of another secret");
        }
        Ok(keys)
    }

    /// The expanded key, for a batch of records.
    pub(crate) fn context(&self) -> Result<LessSafeKey, Fault> {
        let algorithm = self.aead.algorithm();
        UnboundKey::new(algorithm, &self.key[..algorithm.key_len()])
            .map(LessSafeKey::new)
            .map_err(|_| Fault::Internal)
    }

    /// The nonces of TLS 1.2 with AES-GCM travel with the record (RFC 5288); all others are
    /// implicit.
    pub(crate) fn has_explicit_nonce(&self) -> bool {
        self.secret.is_none() && self.aead != Aead::ChaCha20Poly1305
    }

    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The nonce of the next record: the number exclusive-or the initialization vector.
    pub(crate) fn nonce(&self) -> [u8; NONCE_LEN] {
        let mut nonce = self.iv;
        for (byte, number) in nonce[NONCE_LEN - 8..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= number;
        }
        nonce
    }

    /// The nonce that the peer chose for its record, in TLS 1.2 with AES-GCM.
    pub(crate) fn nonce_with(&self, explicit: [u8; 8]) -> [u8; NONCE_LEN] {
        let mut nonce = self.iv;
        nonce[NONCE_LEN - 8..].copy_from_slice(&explicit);
        nonce
    }

    pub(crate) fn advance(&mut self) {
        // 2^64 records take longer than any connection lives.
        self.sequence = self.sequence.wrapping_add(1);
    }

    /// Takes back numbers of dropped records: no byte sealed with them was sent.
    pub(crate) fn rewind(&mut self, sequence: u64) {
        debug_assert!(sequence <= self.sequence);
        self.sequence = sequence;
    }

    /// Number of records that this key may still seal.
    pub(crate) fn records_left(&self, records_max: u64) -> u64 {
        let limit = match self.aead {
            Aead::ChaCha20Poly1305 => u64::MAX,
            Aead::Aes128Gcm | Aead::Aes256Gcm => GCM_RECORDS_MAX,
        };
        limit.min(records_max).saturating_sub(self.sequence)
    }

    /// Whether there is a next generation of keys: TLS 1.3.
    pub(crate) fn can_update(&self) -> bool {
        self.secret.is_some()
    }

    /// The next generation (RFC 8446, section 7.2).
    pub(crate) fn update(&mut self) -> Result<(), Fault> {
        let secret = self.secret.as_mut().ok_or(Fault::Internal)?;
        let mut next = secret.clone();
        let len = usize::from(secret.len);
        secret.expand(b"traffic upd", &mut next.bytes[..len])?;
        *secret = next;
        self.sequence = 0;
        self.derive()
    }

    fn derive(&mut self) -> Result<(), Fault> {
        let secret = self.secret.as_ref().ok_or(Fault::Internal)?;
        let len = self.aead.algorithm().key_len();
        secret.expand(b"key", &mut self.key[..len])?;
        secret.expand(b"iv", &mut self.iv)
    }
}

/// All fields, with the number of the next record.
impl Hand for Keys {
    fn give(&self, out: &mut Vec<u8>) {
        self.sequence.give(out);
        out.extend_from_slice(&self.key);
        out.extend_from_slice(&self.iv);
        self.secret.give(out);
        self.aead.give(out);
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        Some(Keys {
            sequence: u64::take(input)?,
            key: input.bytes(KEY_BYTES_MAX)?.try_into().ok()?,
            iv: input.bytes(NONCE_LEN)?.try_into().ok()?,
            secret: Hand::take(input)?,
            aead: Aead::take(input)?,
        })
    }

    fn layout(layout: &mut Layout) {
        layout.name("Keys: sequence, key, iv, secret, aead");
        Secret::layout(layout);
        Aead::layout(layout);
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.key.zeroize();
        self.iv.zeroize();
    }
}

/// Seals in place, and returns the tag.
pub(crate) fn seal(
    context: &LessSafeKey,
    nonce: [u8; NONCE_LEN],
    additional: &[u8],
    text: &mut [u8],
) -> Result<[u8; TAG_BYTES], Fault> {
    let tag = context
        .seal_in_place_separate_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(additional),
            text,
        )
        .map_err(|_| Fault::Internal)?;
    tag.as_ref().try_into().map_err(|_| Fault::Internal)
}

/// Opens in place, and returns the text without the tag.
pub(crate) fn open<'a>(
    context: &LessSafeKey,
    nonce: [u8; NONCE_LEN],
    additional: &[u8],
    sealed: &'a mut [u8],
) -> Result<&'a mut [u8], Fault> {
    context
        .open_in_place(Nonce::assume_unique_for_key(nonce), Aad::from(additional), sealed)
        .map_err(|_| Fault::BadRecordMac)
}

/// Keys without a handshake, for tests of the record layer.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod testing {
    use super::*;

    pub(crate) fn aes_128_gcm(secret: &[u8]) -> Keys {
        let mut keys = Keys {
            sequence: 0,
            key: [0; KEY_BYTES_MAX],
            iv: [0; NONCE_LEN],
            secret: Secret::new(secret),
            aead: Aead::Aes128Gcm,
        };
        let derived = keys.derive();
        assert_eq!(derived, Ok(()));
        keys
    }

    pub(crate) fn gcm_of_tls12() -> Keys {
        Keys {
            sequence: 0,
            key: [7; KEY_BYTES_MAX],
            iv: [9; NONCE_LEN],
            secret: None,
            aead: Aead::Aes256Gcm,
        }
    }

    #[cfg(test)]
    /// The first record of TLS 1.3 under this secret, of any inner text.
    pub(crate) fn seal_13(secret: &[u8], inner: &mut [u8]) -> Vec<u8> {
        let keys = aes_128_gcm(secret);
        let [high, low] = ((inner.len() + TAG_BYTES) as u16).to_be_bytes();
        let header = [23, 3, 3, high, low];
        let tag = seal(&keys.context().unwrap(), keys.nonce(), &header, inner).unwrap();
        [&header, &*inner, &tag].concat()
    }

    #[test]
    fn keys_follow_from_secrets_as_in_rfc_8448() {
        let secret = [
            0xa1, 0x1a, 0xf9, 0xf0, 0x55, 0x31, 0xf8, 0x56, 0xad, 0x47, 0x11, 0x6b, 0x45, 0xa9,
            0x50, 0x32, 0x82, 0x04, 0xb4, 0xf4, 0x4b, 0xfb, 0x6b, 0x3a, 0x4b, 0x4f, 0x1f, 0x3f,
            0xcb, 0x63, 0x16, 0x43,
        ];
        let keys = aes_128_gcm(&secret);
        let key = [
            0x9f, 0x02, 0x28, 0x3b, 0x6c, 0x9c, 0x07, 0xef, 0xc2, 0x6b, 0xb9, 0xf2, 0xac, 0x92,
            0xe3, 0x56,
        ];
        let iv = [0xcf, 0x78, 0x2b, 0x88, 0xdd, 0x83, 0x54, 0x9a, 0xad, 0xf1, 0xe9, 0x84];
        assert_eq!((&keys.key[..16], keys.iv), (&key[..], iv));
    }
}
