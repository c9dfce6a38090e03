//! Requests of operators to a running node: questions to its shards, and their combined answers.
//!
//! Place: beside [`Node::statistics`]; `broker::inspect` is the shards' part. Invariants: a caller
//! waits at most [`ANSWER_TIMEOUT`] for a shard, and gets the part of a list found within
//! `LIST_TIMEOUT`, with the place to continue from; at most `QUESTIONS_MAX` questions (`asker`)
//! wait at a shard, for any number of callers and even if it hangs.

use crate::asker::enter;
use crate::mailbox::{Control, Post};
use crate::running::Node;
use broker::inspect::{
    Answer, Connection, ConnectionId, ConnectionsWanted, Question, Subscribers, Subscription,
    Topic, TopicDetail, TopicsWanted,
};
use broker::mail::{
    Appended, Code, EdgeId, HistoryPage, HomeId, PageLimits, Publication, PublishRefusal,
};
use broker::position::Position;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time limit for the answer of one shard.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// Time limit for a list; the entries found by then are its page.
const LIST_TIMEOUT: Duration = Duration::from_secs(1);
/// Time limit for a publication or a page of history, which may need the disk.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);

/// The place where a list continues: a shard, and a place there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cursor {
    /// The shard.
    pub shard: u16,
    /// The place.
    pub place: u32,
}

impl fmt::Display for Cursor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.shard, self.place)
    }
}

impl FromStr for Cursor {
    type Err = ();

    fn from_str(text: &str) -> Result<Cursor, ()> {
        let (shard, place) = text.split_once('.').ok_or(())?;
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(shard) || !is_number(place) {
            return Err(());
        }
        Ok(Cursor { shard: shard.parse().map_err(|_| ())?, place: place.parse().map_err(|_| ())? })
    }
}

/// The reason for a missing answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InspectError {
    /// Too many questions are waiting.
    Busy,
    /// A shard did not answer in time, or has stopped.
    Silent,
}

/// A page of a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page<T> {
    /// The entries, in the order of the shards and their places.
    pub found: Vec<T>,
    /// The place to continue from; none at the end. A page may be shorter than requested and still
    /// have a successor.
    pub next: Option<Cursor>,
}

/// A subscription with the name of its topic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedSubscription {
    /// The subscription.
    pub subscription: Subscription,
    /// The topic's name of a plain subscription; none if it has ended in the meantime or is not
    /// granted.
    pub name: Option<Box<str>>,
}

/// A topic and its subscribers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubscribedTopic {
    /// The topic.
    pub topic: Topic,
    /// The names by edge, in the order of `topic.edges`.
    pub subscribers: Vec<Subscribers>,
}

/// Milliseconds since 1970-01-01 UTC: the time stamps of records.
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_millis() as u64
}

fn wait(answered: &Receiver<Answer>, deadline: Instant) -> Result<Answer, InspectError> {
    let left = deadline.saturating_duration_since(Instant::now());
    answered.recv_timeout(left).map_err(|_| InspectError::Silent)
}

impl Node {
    fn send_question(
        &self,
        shard: u16,
        question: Question,
    ) -> Result<Receiver<Answer>, InspectError> {
        let shard = usize::from(shard);
        let waiting = self.questions.get(shard).ok_or(InspectError::Silent)?;
        let (asker, answered) = enter(waiting).ok_or(InspectError::Busy)?;
        self.address_of(shard).send(Post::Control(Control::Inspect(question, asker)));
        Ok(answered)
    }

    fn ask(&self, shard: u16, question: Question) -> Result<Answer, InspectError> {
        let answered = self.send_question(shard, question)?;
        wait(&answered, Instant::now() + ANSWER_TIMEOUT)
    }

    /// A page of the matching connections.
    ///
    /// # Errors
    /// [`InspectError`].
    pub fn connections(
        &self,
        wanted: &ConnectionsWanted,
        from: Cursor,
        len_max: u32,
    ) -> Result<Page<Connection>, InspectError> {
        let shards = self.questions.len() as u16;
        list(shards, from, len_max, |cursor, len_max| {
            let question =
                Question::Connections { from: cursor.place, wanted: wanted.clone(), len_max };
            match self.ask(cursor.shard, question)? {
                Answer::Connections(found, next) => Ok((found, next)),
                _ => Ok((Vec::new(), None)),
            }
        })
    }

    /// One connection; none if it does not exist.
    ///
    /// # Errors
    /// [`InspectError`].
    pub fn connection(&self, id: ConnectionId) -> Result<Option<Connection>, InspectError> {
        if !self.is_shard(id.edge().0) {
            return Ok(None);
        }
        match self.ask(id.edge().0, Question::Connection(id))? {
            Answer::Connection(found) => Ok(found),
            _ => Ok(None),
        }
    }

    /// The subscriptions of a connection, newest first, without the `skipped` newest ones, and
    /// whether more follow. None if there is no such connection.
    ///
    /// # Errors
    /// [`InspectError`].
    pub fn subscriptions(
        &self,
        id: ConnectionId,
        skipped: u32,
        len_max: u32,
    ) -> Result<Option<(Vec<NamedSubscription>, bool)>, InspectError> {
        if !self.is_shard(id.edge().0) {
            return Ok(None);
        }
        let question = Question::Subscriptions { connection: id, skipped, len_max };
        let Answer::Subscriptions(Some((found, more))) = self.ask(id.edge().0, question)? else {
            return Ok(None);
        };
        let names = self.names_of(id.edge(), &found)?;
        let named = found.into_iter().map(|subscription| NamedSubscription {
            name: subscription.topic.and_then(|topic| names.get(&topic).cloned()),
            subscription,
        });
        Ok(Some((named.collect(), more)))
    }

    /// Closes a connection; false if it does not exist.
    ///
    /// # Errors
    /// [`InspectError`].
    pub fn disconnect(&self, id: ConnectionId, may_return: bool) -> Result<bool, InspectError> {
        let question = Question::Disconnect { connection: id, may_return };
        if !self.is_shard(id.edge().0) {
            return Ok(false);
        }
        let answer = self.ask(id.edge().0, question)?;
        Ok(matches!(answer, Answer::Disconnected(true)))
    }

    /// A page of the matching topics.
    ///
    /// # Errors
    /// [`InspectError`].
    pub fn topics(
        &self,
        wanted: &TopicsWanted,
        from: Cursor,
        len_max: u32,
    ) -> Result<Page<SubscribedTopic>, InspectError> {
        let homes = self.settings().homes_count;
        let now_ms = now_ms();
        list(homes, from, len_max, |cursor, len_max| {
            let question =
                Question::Topics { from: cursor.place, wanted: wanted.clone(), len_max, now_ms };
            match self.ask(cursor.shard, question)? {
                Answer::Topics(found, next) => Ok((self.count(cursor.shard, found)?, next)),
                _ => Ok((Vec::new(), None)),
            }
        })
    }

    /// One topic; none if its home does not know it. The name is valid.
    ///
    /// # Errors
    /// [`InspectError`].
    pub fn topic(
        &self,
        name: &str,
    ) -> Result<Option<(TopicDetail, Vec<Subscribers>)>, InspectError> {
        let settings = self.settings();
        let (_, partition) = settings.locate(name);
        let HomeId(home) = settings.home_of(partition);
        let question = Question::Topic { partition, name: name.into(), now_ms: now_ms() };
        let Answer::Topic(Some(detail)) = self.ask(home, question)? else {
            return Ok(None);
        };
        let counted = self.count(home, vec![detail.topic.clone()])?;
        let subscribers = counted.into_iter().next().map(|topic| topic.subscribers);
        Ok(Some((*detail, subscribers.unwrap_or_default())))
    }

    /// A page of a topic's history; the name is valid.
    ///
    /// # Errors
    /// [`InspectError`]; the result contains the answer of the home.
    pub fn history(
        &self,
        name: &str,
        beyond: Option<Position>,
        reverse: bool,
        limits: PageLimits,
    ) -> Result<Result<HistoryPage, Code>, InspectError> {
        let question = Question::History { topic: name.into(), beyond, reverse, limits };
        let answered = self.send_question(self.beside(name), question)?;
        match wait(&answered, Instant::now() + REQUEST_TIMEOUT)? {
            Answer::History(result) => Ok(result),
            _ => Err(InspectError::Silent),
        }
    }

    /// Publishes with the authority of the node's operators; the topic's name is valid.
    ///
    /// # Errors
    /// [`InspectError`]: if it is `Silent`, the fate of the publication is unknown. The result
    /// contains the answer of the home.
    pub fn publish(
        &self,
        name: &str,
        publication: Publication,
    ) -> Result<Result<Appended, PublishRefusal>, InspectError> {
        let answered = self.send_question(self.beside(name), Question::Publish(publication))?;
        match wait(&answered, Instant::now() + REQUEST_TIMEOUT)? {
            Answer::Published(result) => Ok(result),
            _ => Err(InspectError::Silent),
        }
    }

    /// The shard of the topic's home: its edge reaches it without a mailbox.
    fn beside(&self, name: &str) -> u16 {
        let settings = self.settings();
        let (_, partition) = settings.locate(name);
        settings.home_of(partition).0
    }

    fn is_shard(&self, shard: u16) -> bool {
        usize::from(shard) < self.questions.len()
    }

    /// Asks the interested edges of these topics of a home for their numbers of subscriptions.
    fn count(&self, home: u16, topics: Vec<Topic>) -> Result<Vec<SubscribedTopic>, InspectError> {
        let mut wanted: BTreeMap<EdgeId, Vec<u32>> = BTreeMap::new();
        for (edge, index) in topics.iter().flat_map(|topic| &topic.edges) {
            wanted.entry(*edge).or_default().push(*index);
        }
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        let mut asked = Vec::new();
        for (edge, indexes) in wanted {
            let question = Question::Subscribers { home: HomeId(home), indexes: indexes.clone() };
            asked.push((edge, indexes, self.send_question(edge.0, question)?));
        }
        let mut counts: BTreeMap<(EdgeId, u32), Subscribers> = BTreeMap::new();
        for (edge, indexes, answered) in asked {
            if let Answer::Subscribers(found) = wait(&answered, deadline)? {
                let keys = indexes.into_iter().map(|index| (edge, index));
                counts.extend(keys.zip(found));
            }
        }
        let counted = topics.into_iter().map(|topic| SubscribedTopic {
            subscribers: topic
                .edges
                .iter()
                .map(|key| counts.get(key).copied().unwrap_or_default())
                .collect(),
            topic,
        });
        Ok(counted.collect())
    }

    /// The names of the topics of plain subscriptions, by their homes and indexes.
    fn names_of(
        &self,
        edge: EdgeId,
        found: &[Subscription],
    ) -> Result<BTreeMap<(HomeId, u32), Box<str>>, InspectError> {
        let mut wanted: BTreeMap<HomeId, Vec<u32>> = BTreeMap::new();
        for (home, index) in found.iter().filter_map(|found| found.topic) {
            wanted.entry(home).or_default().push(index);
        }
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        let mut asked = Vec::new();
        for (home, indexes) in wanted {
            let question = Question::Names { edge, indexes: indexes.clone() };
            asked.push((home, indexes, self.send_question(home.0, question)?));
        }
        let mut names = BTreeMap::new();
        for (home, indexes, answered) in asked {
            if let Answer::Names(found) = wait(&answered, deadline)? {
                let keys = indexes.into_iter().map(|index| (home, index));
                names.extend(keys.zip(found).filter(|(_, name)| !name.is_empty()));
            }
        }
        Ok(names)
    }
}

/// Asks one shard after the other until the page is full, all shards have answered, or time has run
/// out.
fn list<T>(
    shards: u16,
    from: Cursor,
    len_max: u32,
    mut ask: impl FnMut(Cursor, u32) -> Result<(Vec<T>, Option<u32>), InspectError>,
) -> Result<Page<T>, InspectError> {
    let deadline = Instant::now() + LIST_TIMEOUT;
    let mut found: Vec<T> = Vec::new();
    let mut cursor = from;
    while cursor.shard < shards {
        let left = len_max.saturating_sub(found.len() as u32);
        if left == 0 || Instant::now() >= deadline {
            return Ok(Page { found, next: Some(cursor) });
        }
        let (some, next) = ask(cursor, left)?;
        found.extend(some);
        cursor = match next {
            Some(place) => Cursor { place, ..cursor },
            None => Cursor { shard: cursor.shard + 1, place: 0 },
        };
    }
    Ok(Page { found, next: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asker::QUESTIONS_MAX;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn a_cursor_there_and_back() {
        for cursor in [Cursor::default(), Cursor { shard: 7, place: u32::MAX }] {
            assert_eq!(cursor.to_string().parse(), Ok(cursor));
        }
        for text in ["", "1", "1.", ".1", "+1.2", "1.-2", "1.2.3", "70000.1"] {
            assert!(text.parse::<Cursor>().is_err(), "{text}");
        }
    }

    #[test]
    fn questions_at_a_shard_have_a_maximum() {
        let waiting = Arc::new(AtomicU32::new(0));
        let mut askers: Vec<_> = (0..QUESTIONS_MAX).map(|_| enter(&waiting)).collect();
        assert!(askers.iter().all(Option::is_some) && enter(&waiting).is_none());
        // A caller that gives up makes no room: the shard still has the question.
        let (asker, answered) = askers.pop().flatten().unwrap();
        drop(answered);
        assert!(enter(&waiting).is_none());
        asker.answer(Answer::NotHere);
        assert!(enter(&waiting).is_some());
    }

    #[test]
    fn a_list_covers_all_shards_and_stops_when_it_is_full() {
        // Each of three shards has ten entries, and returns four in an answer.
        let ask = |cursor: Cursor, len_max: u32| {
            let end = (cursor.place + len_max.min(4)).min(10);
            let found: Vec<(u16, u32)> = (cursor.place..end).map(|at| (cursor.shard, at)).collect();
            Ok((found, (end < 10).then_some(end)))
        };
        let all = list(3, Cursor::default(), 100, ask).unwrap();
        assert_eq!((all.found.len(), all.next), (30, None));
        let mut paged = Vec::new();
        let mut next = Some(Cursor::default());
        while let Some(cursor) = next {
            let page = list(3, cursor, 7, ask).unwrap();
            paged.extend(page.found);
            next = page.next;
        }
        assert_eq!(paged, all.found);
        assert_eq!(list(3, Cursor { shard: 3, place: 0 }, 7, ask).unwrap().found, []);
    }
}
