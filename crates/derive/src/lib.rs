//! Derives of `stdx`: from the declaration of a structure, they generate its encoding for a live
//! upgrade, or its addition.
//!
//! Place: at compile time only. `stdx` exports the derives; generated code names `::stdx`.

#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used)]

mod counters;
mod hand;
mod metrics;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Derives `stdx::handing::Hand`: fields in their order; an enum writes its variant as one byte
/// before its fields.
#[proc_macro_derive(Hand)]
pub fn hand(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    hand::derive(input).unwrap_or_else(|error| error.to_compile_error()).into()
}

/// Derives `AddAssign`: every field is added; a field with `#[counters(max)]` keeps the larger of
/// the two values. `#[counters(shared = Name)]` on a structure of `u64` declares `Name` as well: an
/// atomic for each field, and `statistics` to read them.
#[proc_macro_derive(Counters, attributes(counters))]
pub fn counters(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    counters::derive(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}

/// Derives `stdx::metrics::Metrics`: fields with `#[metric("name")]` declare families, with their
/// doc comments as help.
#[proc_macro_derive(Metrics, attributes(metric))]
pub fn metrics(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    metrics::derive(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}

#[cfg(test)]
mod tests {
    use super::{counters, hand, metrics};
    use syn::DeriveInput;

    fn refusal(declaration: &str) -> (String, String) {
        let parsed = || syn::parse_str::<DeriveInput>(declaration).expect("a declaration");
        let text = |result: syn::Result<_>| match result {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        };
        (text(hand::derive(parsed())), text(counters::derive(&parsed())))
    }

    #[test]
    fn a_refusal_gives_its_reason() {
        let both = |declaration, hand: &str, counters: &str| {
            assert_eq!(refusal(declaration), (hand.into(), counters.into()), "{declaration}");
        };
        let no_struct =
            "Counters can be derived for a struct only: its fields are added one by one";
        both("struct Fine { count: u64 }", "", "");
        both("enum Choice { One }", "", no_struct);
        both(
            "union Both { a: u32, b: f32 }",
            "Hand cannot be derived for a union: its bytes do not say which field is valid",
            no_struct,
        );
        both(
            "enum Never {}",
            "Hand cannot be derived for an enum without variants: it has no value to read",
            no_struct,
        );
        both(
            "struct Least { #[counters(min)] age: u64 }",
            "",
            "unknown option of `counters`; the only one is `max`",
        );
        both(
            "#[counters(split = Parts)] struct Odd { count: u64 }",
            "",
            "unknown option of `counters` for a struct; the only one is `shared`",
        );
        let variants: String = (0..257).map(|at| format!("V{at},")).collect();
        let many = "Hand encodes a variant as one byte: an enum has at most 256";
        assert_eq!(refusal(&format!("enum Many {{ {variants} }}")).0, many);
    }

    #[test]
    fn a_metric_has_a_name_and_a_help() {
        let check = |declaration: &str, expected: &str| {
            let parsed = syn::parse_str::<DeriveInput>(declaration).expect("a declaration");
            let found =
                metrics::derive(&parsed).map_or_else(|error| error.to_string(), |_| "".into());
            assert_eq!(found, expected, "{declaration}");
        };
        check(
            "struct Fine { /// Pings.\n #[metric(\"pings_total\", limit = \"a\")] pings: u64 }",
            "",
        );
        let unfit = "Metrics can be derived for a struct with named fields only";
        check("struct Pair(u64, u64);", unfit);
        check("enum Choice { One }", unfit);
        let no_help = "a metric needs a doc comment: it is its help";
        check("struct Bare { #[metric(\"pings_total\")] pings: u64 }", no_help);
        let unknown = "unknown option of `metric`; options are `by` and `limit`";
        check("struct Odd { #[metric(of = \"a\")] pings: u64 }", unknown);
    }
}
