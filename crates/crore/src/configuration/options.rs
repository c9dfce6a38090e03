//! Every option, declared once. The file `crore.toml`, `crore config doc`, the environment's names,
//! `--set` and validation all come from these tables, and from the limits of shards, which
//! `broker::limits` declares.
//!
//! Bounds here are those of one option; relations between options are in `relations.rs`.

mod engine;
pub mod entitlement;
mod limits;
mod listen;
mod metrics;
mod mqtt;
mod node;
mod operators;
mod serving;
pub mod spec;
mod sys;
mod tables;
mod typed;
mod user_network;

pub use broker::limits::Apply;
use broker::limits::{LIMITS, Limit};
pub use engine::{Engine, Mechanism};
pub use entitlement::{ApiKeyTable, Entitlement, GrantTable, TokenKeyTable};
pub use limits::NodeLimits;
pub use listen::{ClientCertificates, Listen, ProxyProtocol, Tls, TlsVersion};
pub use metrics::MetricsPush;
pub use mqtt::{Mqtt, SharedOrder, V3Refusals};
pub use node::Node;
pub use operators::{ApiKeyNeed, Operators};
pub use serving::{Http, Logging, Tickets, WebSocket};
pub use spec::{Declared, OptionSpec, Section, milliseconds_of};
use std::sync::LazyLock;
pub use sys::Sys;
pub use tables::{LogTable, RuleTable};
pub use user_network::{UserDevice, UserFrames, UserNetwork};

/// The sections, in the order of the file: names, a sentence for each, and the options that are no
/// limits of shards.
pub const SECTIONS: &[Declared] = &[
    Node::SECTION,
    Listen::SECTION,
    Tls::SECTION,
    UserNetwork::SECTION,
    Mqtt::SECTION,
    Operators::SECTION,
    Logging::SECTION,
    Http::SECTION,
    WebSocket::SECTION,
    Tickets::SECTION,
    MetricsPush::SECTION,
    NodeLimits::SECTION,
    Entitlement::SECTION,
    Sys::SECTION,
    Engine::SECTION,
];

/// Tables of which there may be several.
pub const TABLES: &[Declared] = &[
    LogTable::SECTION,
    RuleTable::SECTION,
    TokenKeyTable::SECTION,
    ApiKeyTable::SECTION,
    GrantTable::SECTION,
];

/// Options that stand once, section by section; those of limits first.
pub static OPTIONS: LazyLock<Vec<OptionSpec>> = LazyLock::new(|| {
    let options = |&(name, _, own): &Declared| {
        let of_section = move |limit: &&Limit| {
            limit.option.split_once('.').is_some_and(|(section, _)| section == name)
        };
        LIMITS.iter().filter(of_section).map(OptionSpec::of_limit).chain(own.iter().copied())
    };
    SECTIONS.iter().flat_map(options).collect()
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::fault::Origin;
    use crate::configuration::value::{Kind, Values};

    /// Fields take the default, the example, and the greatest number of each option, and none.
    fn check_fields<T: Section>() {
        let greatest = |spec: &OptionSpec| match spec.kind {
            Kind::Count { max, .. }
            | Kind::Size { max, .. }
            | Kind::Duration { max_ms: max, .. } => Some(spec.kind.value_of(max)),
            _ => spec.kind.read_text(spec.example).ok(),
        };
        for value in [greatest, OptionSpec::default_value] {
            let values = T::OPTIONS.iter().filter_map(|spec| {
                let value = value(spec).or_else(|| spec.default_value())?;
                Some((spec.key, (value, Origin::Default)))
            });
            T::of(&values.collect::<Values>());
        }
    }

    #[test]
    fn fields_take_the_values_of_their_options() {
        check_fields::<Node>();
        check_fields::<Listen>();
        check_fields::<Tls>();
        check_fields::<UserNetwork>();
        check_fields::<Operators>();
        check_fields::<Logging>();
        check_fields::<Http>();
        check_fields::<WebSocket>();
        check_fields::<Tickets>();
        check_fields::<MetricsPush>();
        check_fields::<NodeLimits>();
        check_fields::<Entitlement>();
        check_fields::<Sys>();
        check_fields::<Engine>();
        check_fields::<LogTable>();
        check_fields::<RuleTable>();
        check_fields::<TokenKeyTable>();
        check_fields::<ApiKeyTable>();
        check_fields::<GrantTable>();
    }

    #[test]
    fn declarations_are_sound() {
        let mut keys = Vec::new();
        for spec in OPTIONS.iter() {
            let (section, _) = spec.key.split_once('.').expect("a section");
            assert!(SECTIONS.iter().any(|(name, ..)| *name == section), "{}", spec.key);
            keys.push(spec.key);
        }
        for (name, _, specs) in SECTIONS.iter().chain(TABLES) {
            for spec in *specs {
                let has_example = !spec.example.is_empty();
                assert!(spec.default_value().is_some() != has_example, "{name} {}", spec.key);
                assert!(!has_example || spec.kind.read_text(spec.example).is_ok(), "{}", spec.key);
                assert!(spec.help.ends_with('.') && !spec.help.contains("  "), "{}", spec.key);
            }
        }
        let count = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), count);
        // The file shows sections as blocks.
        let order: Vec<&str> =
            OPTIONS.iter().map(|spec| spec.key.split_once('.').unwrap().0).collect();
        let mut blocks = order;
        blocks.dedup();
        assert_eq!(blocks, SECTIONS.iter().map(|(name, ..)| *name).collect::<Vec<_>>());
    }
}
