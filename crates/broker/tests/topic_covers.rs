//! That one filter covers another says what it must: every filter of up to three levels against
//! every other, held against every topic of up to four. Permissions rest on it.

use broker::topic::Filter;

/// A level that no filter names stands for all others.
const TOPIC_LEVELS: [&str; 4] = ["a", "", "$s", "z"];
const FILTER_LEVELS: [&str; 4] = ["a", "", "$s", "+"];

/// All names of up to `levels_max` levels.
fn names(levels: &[&str], levels_max: usize) -> Vec<String> {
    let mut all: Vec<String> = levels.iter().map(|level| (*level).to_owned()).collect();
    let mut longest = all.clone();
    for _ in 1..levels_max {
        longest = longest
            .iter()
            .flat_map(|name| levels.iter().map(move |level| format!("{name}/{level}")))
            .collect();
        all.extend(longest.iter().cloned());
    }
    all.retain(|name| !name.is_empty());
    all
}

fn filters() -> Vec<String> {
    let mut filters = names(&FILTER_LEVELS, 3);
    let below: Vec<String> = [String::new()]
        .into_iter()
        .chain(names(&FILTER_LEVELS, 2))
        .map(|name| match &*name {
            "" => "#".to_owned(),
            name => format!("{name}/#"),
        })
        .collect();
    filters.extend(below);
    filters
}

#[test]
fn a_filter_covers_another_if_and_only_if_it_matches_all_that_the_other_does() {
    let topics = names(&TOPIC_LEVELS, 4);
    let filters = filters();
    let matched: Vec<Vec<bool>> = filters
        .iter()
        .map(|filter| {
            let filter = Filter::parse(filter).unwrap();
            topics.iter().map(|topic| filter.matches(topic)).collect()
        })
        .collect();
    let mut covered_count = 0;
    for (one, by_one) in filters.iter().zip(&matched) {
        for (other, by_other) in filters.iter().zip(&matched) {
            let counterexample = topics
                .iter()
                .zip(by_one.iter().zip(by_other))
                .find(|(_, (by_one, by_other))| **by_other && !**by_one);
            let covers = Filter::parse(one).unwrap().covers(Filter::parse(other).unwrap());
            assert_eq!(covers, counterexample.is_none(), "{one} and {other}: {counterexample:?}");
            covered_count += u32::from(covers);
        }
    }
    assert!(covered_count as usize > filters.len());
}
