//! A trie of filters: it finds the filters that cover a topic, and the most specific of them.
//!
//! Place on the path: a home asks it which edges want a topic by filter, an edge which of its
//! sessions do, and the settings which rule governs a topic. There is never a trie of topics:
//! topics are many and filters few.
//!
//! Invariants: a node other than the root has a value or a descendant with one. A walk visits each
//! node at most once and keeps its own stack, which is never deeper than three entries for each
//! level of the topic, so that neither deep names nor hostile sets of filters can exhaust anything.
//! Children are ordered rather than hashed: clients choose the names, and order needs no seed
//! against collisions.
//!
//! A walk costs the nodes that stand for a beginning of the topic: with `+` beside a literal in
//! each of n levels up to 2^n in the last. That cannot be less where the filters cover the topic,
//! as each is found; where they differ behind that from the topic, they are as many nodes for
//! nothing. There are never more than levels of filters, and homes and edges look a topic up once
//! for each change of the filters, not for each message.

use crate::topic::Filter;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use stdx::handing::{Hand, Input, Layout};
use stdx::memory::{tree_bytes, vector_bytes};

/// Filters with a value each, found by topic.
#[derive(Clone)]
pub struct FilterTrie<T> {
    /// The root is node 0 and always there.
    nodes: Vec<Node<T>>,
    /// Nodes of removed filters, to be used again.
    free: Vec<u32>,
    len: usize,
}

#[derive(Clone)]
struct Node<T> {
    literals: BTreeMap<Box<str>, u32>,
    /// The node of `+`, or `NO_NODE`.
    single: u32,
    /// The value of the filter that ends here.
    value: Option<T>,
    /// The value of the filter that continues from here with `#`.
    rest: Option<T>,
}

const ROOT: u32 = 0;
/// The absence of a node: the root, as it is not the child of any.
const NO_NODE: u32 = ROOT;

impl<T> FilterTrie<T> {
    /// Bytes of its nodes, about: a level is one entry in its parent's map.
    pub fn memory_bytes(&self) -> usize {
        const LEVEL_NAME_BYTES: usize = 16;
        let levels = self.nodes.len() - self.free.len();
        vector_bytes::<Node<T>>(self.nodes.capacity())
            + vector_bytes::<u32>(self.free.capacity())
            + tree_bytes(levels, size_of::<(Box<str>, u32)>() + LEVEL_NAME_BYTES)
    }

    /// The number of filters.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no filter.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Gives a filter its value, and returns the former one.
    pub fn insert(&mut self, filter: Filter<'_>, value: T) -> Option<T> {
        let (levels, has_rest) = split(filter);
        let mut node = ROOT;
        for level in levels {
            node = match self.child(node, level) {
                Some(child) => child,
                None => self.add_child(node, level),
            };
        }
        let old = self.place(node, has_rest).replace(value);
        self.len += usize::from(old.is_none());
        old
    }

    /// The value of exactly this filter.
    pub fn get(&self, filter: Filter<'_>) -> Option<&T> {
        let (node, has_rest) = self.find(filter)?;
        let node = &self.nodes[node as usize];
        if has_rest { node.rest.as_ref() } else { node.value.as_ref() }
    }

    /// The value of exactly this filter, to change.
    pub fn get_mut(&mut self, filter: Filter<'_>) -> Option<&mut T> {
        let (node, has_rest) = self.find(filter)?;
        self.place(node, has_rest).as_mut()
    }

    /// Takes a filter out.
    pub fn remove(&mut self, filter: Filter<'_>) -> Option<T> {
        let (node, has_rest) = self.find(filter)?;
        let value = self.place(node, has_rest).take()?;
        self.len -= 1;
        self.prune(filter);
        Some(value)
    }

    /// Calls `found` with the value of every filter that covers the topic, the most specific one
    /// first.
    pub fn matches(&self, topic: &str, found: &mut dyn FnMut(&T)) {
        let _ = self.walk(topic, |value| {
            found(value);
            ControlFlow::<()>::Continue(())
        });
    }

    /// The value of the most specific filter that covers the topic. Level by level from the left, a
    /// literal level beats `+`, and `+` beats `#`. Of a filter in place of a topic it is the one
    /// that covers whatever that does.
    pub fn most_specific(&self, topic: &str) -> Option<&T> {
        match self.walk(topic, ControlFlow::Break) {
            ControlFlow::Break(value) => Some(value),
            ControlFlow::Continue(()) => None,
        }
    }

    /// Visits what covers the topic, literal levels before `+` before `#`, so that the most
    /// specific comes first.
    fn walk<'a, B>(
        &'a self,
        topic: &str,
        mut visit: impl FnMut(&'a T) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        enum Step<'a, 't, T> {
            /// A node, and what of the topic is still to be matched below it.
            Down(u32, Option<&'t str>),
            /// A `#` whose turn comes after all more specific filters.
            Rest(&'a T),
        }
        if self.is_empty() {
            return ControlFlow::Continue(());
        }
        // Beside the next step, so that a walk without a choice allocates nothing.
        let mut steps = Vec::new();
        let mut next = Some(Step::Down(ROOT, Some(topic)));
        while let Some(step) = next.take().or_else(|| steps.pop()) {
            let (place, left) = match step {
                Step::Rest(value) => {
                    visit(value)?;
                    continue;
                }
                Step::Down(place, left) => (place, left),
            };
            let node = &self.nodes[place as usize];
            let Some(left) = left else {
                for value in [&node.value, &node.rest].into_iter().flatten() {
                    visit(value)?;
                }
                continue;
            };
            // Levels are short: a plain loop beats a search.
            let (level, below) = match left.bytes().position(|byte| byte == b'/') {
                Some(end) => (&left[..end], Some(&left[end + 1..])),
                None => (left, None),
            };
            if level == "#" {
                // The levels of a filter: its rest is covered by `#` only. At its start that is as
                // much as `+/#`.
                steps.extend(node.rest.as_ref().map(Step::Rest));
                if place == ROOT && node.single != NO_NODE {
                    let below = &self.nodes[node.single as usize];
                    steps.extend(below.rest.as_ref().map(Step::Rest));
                }
                continue;
            }
            // No wildcard at the start of a filter covers `$...`.
            if place != ROOT || !level.starts_with('$') {
                steps.extend(node.rest.as_ref().map(Step::Rest));
                if node.single != NO_NODE {
                    steps.push(Step::Down(node.single, below));
                }
            }
            next = node.literals.get(level).map(|child| Step::Down(*child, below));
        }
        ControlFlow::Continue(())
    }

    fn find(&self, filter: Filter<'_>) -> Option<(u32, bool)> {
        let (mut levels, has_rest) = split(filter);
        let node = levels.try_fold(ROOT, |node, level| self.child(node, level))?;
        Some((node, has_rest))
    }

    fn child(&self, node: u32, level: &str) -> Option<u32> {
        let node = &self.nodes[node as usize];
        match level {
            "+" => Some(node.single).filter(|child| *child != NO_NODE),
            _ => node.literals.get(level).copied(),
        }
    }

    fn add_child(&mut self, node: u32, level: &str) -> u32 {
        let child = match self.free.pop() {
            Some(child) => child,
            None => {
                self.nodes.push(Node::default());
                (self.nodes.len() - 1) as u32
            }
        };
        let node = &mut self.nodes[node as usize];
        match level {
            "+" => node.single = child,
            _ => {
                node.literals.insert(level.into(), child);
            }
        }
        child
    }

    fn place(&mut self, node: u32, has_rest: bool) -> &mut Option<T> {
        let node = &mut self.nodes[node as usize];
        if has_rest { &mut node.rest } else { &mut node.value }
    }

    /// Takes away the nodes of the filter's path that hold nothing any more.
    fn prune(&mut self, filter: Filter<'_>) {
        let mut path = Vec::new();
        let mut node = ROOT;
        for level in split(filter).0 {
            let Some(child) = self.child(node, level) else {
                break;
            };
            path.push((node, level));
            node = child;
        }
        while let Some((parent, level)) = path.pop() {
            if !self.nodes[node as usize].is_empty() {
                return;
            }
            self.free.push(node);
            let above = &mut self.nodes[parent as usize];
            match level {
                "+" => above.single = NO_NODE,
                _ => {
                    above.literals.remove(level);
                }
            }
            node = parent;
        }
    }
}

impl<T> Node<T> {
    fn is_empty(&self) -> bool {
        self.literals.is_empty()
            && self.single == NO_NODE
            && self.value.is_none()
            && self.rest.is_none()
    }
}

impl<T> Default for Node<T> {
    fn default() -> Self {
        Node { literals: BTreeMap::new(), single: NO_NODE, value: None, rest: None }
    }
}

impl<T> Default for FilterTrie<T> {
    fn default() -> Self {
        FilterTrie { nodes: vec![Node::default()], free: Vec::new(), len: 0 }
    }
}

impl<T> fmt::Debug for FilterTrie<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "FilterTrie({} filters, {} nodes)",
            self.len,
            self.nodes.len() - self.free.len()
        )
    }
}

/// The levels before a final `#`, and whether there is one.
fn split(filter: Filter<'_>) -> (impl Iterator<Item = &str>, bool) {
    let text = filter.as_str();
    let (levels, has_rest) = match text.strip_suffix('#') {
        Some("") => (None, true),
        Some(before) => (Some(&before[..before.len() - 1]), true),
        None => (Some(text), false),
    };
    (levels.into_iter().flat_map(|levels| levels.split('/')), has_rest)
}

impl<T: Hand> Hand for FilterTrie<T> {
    fn give(&self, out: &mut Vec<u8>) {
        (self.nodes.len(), self.len).give(out);
        for node in &self.nodes {
            node.literals.give(out);
            node.single.give(out);
            node.value.give(out);
            node.rest.give(out);
        }
        self.free.give(out);
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        let (nodes_count, len) = <(usize, usize)>::take(input)?;
        let mut nodes = Vec::new();
        for _ in 0..nodes_count {
            nodes.push(Node {
                literals: Hand::take(input)?,
                single: Hand::take(input)?,
                value: Hand::take(input)?,
                rest: Hand::take(input)?,
            });
        }
        let free = Vec::take(input)?;
        Some(FilterTrie { nodes, free, len })
    }

    fn layout(layout: &mut Layout) {
        layout.name("FilterTrie");
        <BTreeMap<Box<str>, u32>>::layout(layout);
        T::layout(layout);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn trie_of(filters: &[&str]) -> FilterTrie<String> {
        let mut trie = FilterTrie::default();
        for filter in filters {
            assert_eq!(trie.insert(Filter::parse(filter).unwrap(), filter.to_string()), None);
        }
        trie
    }

    /// `a` or `+` in each of this number of levels, and then an end.
    fn hostile(levels: u32, end: &str) -> FilterTrie<u32> {
        let mut trie = FilterTrie::default();
        for number in 0..1 << levels {
            let level = |level| ["a", "+"][(number >> level & 1) as usize];
            let levels: Vec<&str> = (0..levels).map(level).collect();
            let filter = levels.join("/") + end;
            trie.insert(Filter::parse(&filter).unwrap(), number);
        }
        trie
    }

    /// The figures of `docs/reliability.md`.
    #[test]
    fn the_dearest_match() {
        let topic = "a/".repeat(15) + "a";
        let count = |trie: &FilterTrie<u32>, topic: &str| {
            let mut count = 0;
            trie.matches(topic, &mut |_| count += 1);
            count
        };
        let trie = hostile(16, "");
        // Every node stands for a beginning of the topic.
        assert_eq!((trie.len(), trie.nodes.len()), (65_536, 131_071));
        assert_eq!(count(&trie, &topic), 65_536);
        let trie = hostile(16, "/b");
        assert_eq!((trie.len(), trie.nodes.len()), (65_536, 196_607));
        assert_eq!(count(&trie, &format!("{topic}/c")), 0);
    }

    #[test]
    fn most_specific() {
        let trie = trie_of(&["#", "a/#", "a/+", "a/b", "a/b/#", "+/b", "+/+/c", "$x/#", "a/+/c"]);
        let cases = [
            ("z", Some("#")),
            ("a", Some("a/#")),
            ("a/", Some("a/+")),
            ("a/z", Some("a/+")),
            ("a/b", Some("a/b")),
            ("a/b/z", Some("a/b/#")),
            ("a/b/c", Some("a/b/#")), // the second level decides, before the third
            ("a/z/c", Some("a/+/c")),
            ("a/z/z", Some("a/#")),
            ("z/b", Some("+/b")),
            ("z/z/c", Some("+/+/c")),
            ("$y", None),
            ("$x", Some("$x/#")),
            ("$x/y", Some("$x/#")),
            // Filters that cover all of a filter.
            ("+", Some("#")),
            ("#", Some("#")),
            ("a/+", Some("a/+")),
            ("a/#", Some("a/#")),
            ("a/+/#", Some("a/#")),
            ("a/b/+", Some("a/b/#")),
            ("+/+/c", Some("+/+/c")),
            ("+/c", Some("#")),
            ("$x/+/#", Some("$x/#")),
            ("$y/#", None),
        ];
        for (topic, expected) in cases {
            assert_eq!(trie.most_specific(topic).map(String::as_str), expected, "{topic}");
        }
    }

    #[test]
    fn removed_filters_leave_nothing() {
        let filters = ["#", "+", "a/+/c/#", "a/+/c", "a", "/", "//#"];
        let mut trie = trie_of(&filters);
        assert_eq!(trie.len(), filters.len());
        let again = Filter::parse("a").unwrap();
        assert_eq!(trie.insert(again, "x".into()), Some("a".into()));
        assert_eq!(trie.get(again), Some(&"x".into()));
        *trie.get_mut(again).unwrap() = "a".into();
        for absent in ["a/+", "b", "a/#", "a/+/c/d"] {
            assert_eq!(trie.remove(Filter::parse(absent).unwrap()), None);
        }
        for filter in filters {
            assert_eq!(trie.remove(Filter::parse(filter).unwrap()).as_deref(), Some(filter));
        }
        assert!(trie.is_empty());
        assert_eq!(trie.nodes.len(), trie.free.len() + 1);
        assert_eq!(format!("{trie:?}"), "FilterTrie(0 filters, 1 nodes)");
    }

    #[test]
    fn deepest_names() {
        let deep = "/".repeat(255);
        let trie = trie_of(&[&deep, &format!("{}#", "+/".repeat(127)), "#"]);
        let mut found = Vec::new();
        trie.matches(&deep, &mut |filter| found.push(filter.len()));
        assert_eq!(found, [255, 255, 1]);
    }

    fn level() -> impl Strategy<Value = &'static str> {
        prop::sample::select(vec!["", "a", "b", "$", "+", "#"])
    }

    /// Topics of a filter of which whatever covers all of them covers it: no filter has the level
    /// `other`. A topic stands for itself.
    fn stands_for(filter: &str) -> Vec<String> {
        let filter = match filter.strip_suffix('#') {
            Some("") => "+/#".to_owned(),
            _ => filter.to_owned(),
        };
        let levels: Vec<&str> =
            filter.split('/').map(|level| if level == "+" { "other" } else { level }).collect();
        match levels.split_last() {
            Some((&"#", levels)) => {
                ["", "/other", "/other/other"].map(|rest| levels.join("/") + rest).into()
            }
            _ => vec![levels.join("/")],
        }
    }

    proptest! {
        /// The trie and the definition agree, whatever was inserted and removed before.
        #[test]
        fn agrees_with_the_definition(
            filters in prop::collection::vec((prop::collection::vec(level(), 1..5), any::<bool>()), 0..40),
            topics in prop::collection::vec(prop::collection::vec(level(), 1..5), 1..20),
        ) {
            let mut trie = FilterTrie::default();
            let mut model = BTreeSet::new();
            for (levels, keep) in &filters {
                let text = levels.join("/");
                let Ok(filter) = Filter::parse(&text) else { continue };
                if *keep {
                    prop_assert_eq!(trie.insert(filter, text.clone()).is_none(), model.insert(text.clone()));
                } else {
                    prop_assert_eq!(trie.remove(filter).is_some(), model.remove(&text));
                }
            }
            prop_assert_eq!(trie.len(), model.len());
            for topic in topics.iter().map(|levels| levels.join("/")) {
                if Filter::parse(&topic).is_err() {
                    continue;
                }
                let of_topic = stands_for(&topic);
                let mut found = Vec::new();
                trie.matches(&topic, &mut |filter: &String| found.push(filter.clone()));
                prop_assert_eq!(found.first(), trie.most_specific(&topic));
                let expected: Vec<String> = model.iter()
                    .filter(|filter| {
                        let filter = Filter::parse(filter).unwrap();
                        of_topic.iter().all(|topic| filter.matches(topic))
                    })
                    .cloned().collect();
                found.sort();
                prop_assert_eq!(found, expected);
            }
        }
    }
}
