//! The options of a subscription in one number, which is the client's number of the subscription:
//! so a subscription takes no further memory.
//!
//! MQTT has no numbers of its own for subscriptions. The number holds the subscription identifier
//! (28 bits), the QoS, and two options (MQTT 5.0, section 3.8.3.1). While a subscription waits for
//! its home, the number names its place in SUBSCRIBE instead ([`Options::pending`]).

/// The options of a granted subscription.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Options {
    /// Maximum QoS, 0 to 2.
    pub qos: u8,
    /// The client's own publications are left out.
    pub no_local: bool,
    /// Messages keep the RETAIN flag that they were published with.
    pub retain_as_published: bool,
    /// The subscription identifier; 0: none.
    pub identifier: u32,
}

const IDENTIFIER_MASK: u32 = (1 << 28) - 1;
const NO_LOCAL: u32 = 1 << 28;
const RETAIN_AS_PUBLISHED: u32 = 1 << 29;
const QOS_SHIFT: u32 = 30;
/// In place of a QoS.
const PENDING: u32 = 3 << QOS_SHIFT;

impl Options {
    /// The options as a subscription's number.
    pub fn number(self) -> u32 {
        let flag = |is_set: bool, bit: u32| if is_set { bit } else { 0 };
        self.identifier & IDENTIFIER_MASK
            | flag(self.no_local, NO_LOCAL)
            | flag(self.retain_as_published, RETAIN_AS_PUBLISHED)
            | u32::from(self.qos.min(2)) << QOS_SHIFT
    }

    /// The options of a granted subscription.
    pub fn of(number: u32) -> Options {
        Options {
            qos: ((number >> QOS_SHIFT) as u8).min(2),
            no_local: number & NO_LOCAL != 0,
            retain_as_published: number & RETAIN_AS_PUBLISHED != 0,
            identifier: number & IDENTIFIER_MASK,
        }
    }

    /// The number of a subscription that waits for its home.
    pub fn pending(place: u32) -> u32 {
        PENDING | place & !PENDING
    }

    /// The place of a subscription that waits.
    pub fn place(number: u32) -> u32 {
        number & !PENDING
    }

    /// Whether the number is that of a subscription that waits.
    pub fn is_pending(number: u32) -> bool {
        number & PENDING == PENDING
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_survive_as_a_number() {
        for qos in 0..3 {
            for bits in 0..4 {
                for identifier in [0, 1, IDENTIFIER_MASK] {
                    let options = Options {
                        qos,
                        no_local: bits & 1 != 0,
                        retain_as_published: bits & 2 != 0,
                        identifier,
                    };
                    assert_eq!(Options::of(options.number()), options);
                    assert!(!Options::is_pending(options.number()), "{options:?}");
                }
            }
        }
        assert!(Options::is_pending(Options::pending(0)));
        assert_ne!(Options::pending(1), Options::pending(2));
    }
}
