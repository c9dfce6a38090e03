//! Admission of publications: both protocols check in the same order and answer with the same code.
//!
//! `closed` is a topic that no client may publish to. A message has at most 4 bytes.

use crate::support::check_with;
use broker::settings::{PublishSettings, Publishers, RuleSettings, Settings};
use broker::topic::Filter;

fn with_bounds(settings: &mut Settings) {
    settings.limits.message_bytes_max = 4;
    settings.limits.publish_rate_max = 1;
    let number = settings.rules.len() as u16;
    settings.rule_filters.insert(Filter::parse("closed").unwrap(), number);
    settings.rules.push(RuleSettings {
        filter: "closed".into(),
        publishing: Some(Box::new(PublishSettings {
            publishers: Publishers::Nobody,
            ..PublishSettings::default()
        })),
        ..settings.rules[0].clone()
    });
}

#[test]
fn each_fault_has_one_code_in_all_protocols() {
    let name = "n".repeat(256);
    check_with(
        with_bounds,
        &format!(
            "
            only binary
            a: session
            b: connect
            a: publish 1 {name} large => a: error request 1 topic_too_long limit 255
            b: POST /publish > {{\"topic\":\"{name}\",\"data\":\"large\"}} => b: 400 topic_too_long
            a: publish 2 a+ large => a: error request 2 malformed_topic
            b: POST /publish > {{\"topic\":\"a+\",\"data\":\"large\"}} => b: 400 malformed_topic
            a: publish 3 closed large => a: error request 3 forbidden
            b: POST /publish > {{\"topic\":\"closed\",\"data\":\"large\"}} => b: 403 forbidden
            a: publish 4 open large => a: error request 4 message_too_large limit 4
            b: POST /publish > {{\"topic\":\"open\",\"data\":\"large\"}} => b: 413 message_too_large
            a: publish 5 open fits => a: published 5 7:1
            b: POST /publish > {{\"topic\":\"open\",\"data\":\"fits\"}}
                b: 200 {{\"epoch\":\"7\",\"offset\":2,\"duplicate\":false}}
            a: publish 6 open fits => a: error request 6 rate_limited limit 1
            b: POST /publish > {{\"topic\":\"open\",\"data\":\"fits\"}} => b: 429 [retry-after: 1] rate_limited
            "
        ),
    );
}
