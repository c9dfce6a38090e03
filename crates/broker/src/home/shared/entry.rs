//! A client's name in the log: its records, and the entry that they make.
//!
//! Pure: every node reads the same records in the same order, and gets the same entry.

use crate::mail::{SleepingSession, Will};
use stdx::handing::{Hand, Input};

/// The form of the records. A node passes over records of another form.
const FORM: u8 = 5;

/// A claim of a name: the run of the home that has made it, and its number there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hand)]
pub struct ClaimId {
    /// Random; of one start of a node's home.
    pub run: u64,
    /// Rises with each claim of the home.
    pub number: u64,
}

/// The meaning of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
pub enum Step {
    /// A connection takes the name.
    Claim {
        /// The session that the name has ends.
        is_clean: bool,
    },
    /// A holder whose claim was lost with a part of the log takes the name with its session.
    Again,
    /// The session of the connection that has the name.
    Kept,
    /// The connection has ended.
    Left,
    /// The connection has lost the name before it got it.
    Withdrawn,
    /// The holder waits no longer: what holders before write from now on does not count.
    Taken,
}

/// A record of a name.
#[derive(Clone, PartialEq, Eq, Debug, Hand)]
pub struct SessionRecord {
    /// The claim of the connection that it is about.
    pub by: ClaimId,
    /// The user, as a hash: the name belongs to it.
    pub user: u64,
    /// The name of the connection's node.
    pub node: Box<str>,
    /// The meaning.
    pub step: Step,
    /// The session. Of a claim it is that before, for readers from whom compaction has taken it.
    pub session: Option<Box<SleepingSession>>,
}

impl SessionRecord {
    /// The payload of a record.
    pub fn encode(&self) -> Vec<u8> {
        let mut payload = vec![FORM];
        self.give(&mut payload);
        payload
    }

    /// The record of a payload; none if it has another form.
    pub fn decode(payload: &[u8]) -> Option<SessionRecord> {
        match payload.split_first() {
            Some((&FORM, record)) => SessionRecord::take(&mut Input::new(record)),
            _ => None,
        }
    }
}

/// A name, as the log has it.
#[derive(Clone, PartialEq, Eq, Debug, Hand)]
pub struct Entry {
    /// The user, as a hash.
    pub user: u64,
    /// The claim of the holder, or of the last one.
    pub last: ClaimId,
    /// The node of that.
    pub node: Box<str>,
    /// A connection has the name; else the session sleeps.
    pub is_held: bool,
    /// Holders before, whose last sessions may still come. Empty once the holder has written.
    pub leaving: Vec<ClaimId>,
    /// The holder begins a new session, and has not written it.
    pub is_clean: bool,
    /// The newest session that was written.
    pub session: Option<Box<SleepingSession>>,
}

/// A record of the tail, as its reader knows it.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// The engine's time of the record, in milliseconds since 1970.
    pub time_ms: u64,
    /// Compaction may have removed records of the name before it.
    pub may_lack: bool,
}

impl Entry {
    fn of(record: SessionRecord) -> Entry {
        let SessionRecord { by, user, node, step, session } = record;
        let is_held = step != Step::Left;
        Entry { user, last: by, node, is_held, leaving: Vec::new(), is_clean: false, session }
    }

    /// Whether the name is free at this time: no connection has it, and no session sleeps.
    pub fn is_over(&self, time_ms: u64) -> bool {
        !self.is_held && self.session.as_ref().is_none_or(|session| session.expires_ms <= time_ms)
    }

    /// The will of the holder's connection, if that ends now. It does not wait longer than the
    /// session (MQTT 5.0, section 3.1.3.2.2).
    pub fn will_now(&self) -> Option<Will> {
        let session = self.session.as_ref().filter(|_| self.is_held)?;
        let will = session.will.as_deref()?;
        Some(Will { delay_s: will.delay_s.min(session.expiry_s), ..will.clone() })
    }

    /// The time at which the sleeping session ends, in milliseconds since 1970.
    pub fn expires_ms(&self) -> Option<u64> {
        let asleep = self.session.as_ref().filter(|_| !self.is_held)?;
        (asleep.expires_ms < u64::MAX).then_some(asleep.expires_ms)
    }
}

/// The entry behind a record, and whether the record counts. Without a record the name is removed,
/// which a holder's name is not.
pub fn entry_behind(
    entry: Option<Entry>,
    record: Option<SessionRecord>,
    reading: Reading,
) -> (Option<Entry>, bool) {
    let Some(record) = record else {
        let kept = entry.filter(|entry| entry.is_held);
        let counts = kept.is_none();
        return (kept, counts);
    };
    match record.step {
        Step::Claim { is_clean } => claimed(entry, record, is_clean, reading),
        Step::Again => match entry {
            Some(entry) if entry.is_held && entry.last != record.by => (Some(entry), false),
            Some(entry) if entry.user != record.user && !entry.is_over(reading.time_ms) => {
                (Some(entry), false)
            }
            Some(_) | None => (Some(Entry::of(record)), true),
        },
        Step::Kept | Step::Left => written(entry, record, reading),
        Step::Taken => match entry {
            Some(mut entry) if entry.last == record.by => {
                entry.leaving.clear();
                (Some(entry), true)
            }
            Some(entry) => (Some(entry), false),
            None => (reading.may_lack.then(|| Entry::of(record)), reading.may_lack),
        },
        Step::Withdrawn => {
            let mut entry = entry;
            let leaving = entry.as_mut().map(|entry| &mut entry.leaving);
            let counts = leaving.as_ref().is_none_or(|leaving| leaving.contains(&record.by));
            if let Some(leaving) = leaving {
                leaving.retain(|leaving| *leaving != record.by);
            }
            (entry, counts)
        }
    }
}

fn claimed(
    entry: Option<Entry>,
    record: SessionRecord,
    is_clean: bool,
    reading: Reading,
) -> (Option<Entry>, bool) {
    let Some(mut entry) = entry.filter(|entry| !entry.is_over(reading.time_ms)) else {
        let is_wanted = reading.may_lack && !is_clean;
        let session = record.session.clone().filter(|session| {
            is_wanted && (session.is_awake || session.expires_ms > reading.time_ms)
        });
        return (Some(Entry { session, is_clean, ..Entry::of(record) }), true);
    };
    if entry.user != record.user {
        return (Some(entry), false);
    }
    if entry.is_held {
        entry.leaving.push(entry.last);
    }
    entry.last = record.by;
    entry.node = record.node;
    entry.is_held = true;
    entry.is_clean = is_clean;
    if is_clean {
        entry.session = None;
    }
    (Some(entry), true)
}

/// A session was written, by the holder or by one before it that has not left.
fn written(entry: Option<Entry>, record: SessionRecord, reading: Reading) -> (Option<Entry>, bool) {
    let has_left = record.step == Step::Left;
    let Some(mut entry) = entry else {
        let entry = Entry::of(record);
        let is_entry = reading.may_lack && !entry.is_over(reading.time_ms);
        return (is_entry.then_some(entry), reading.may_lack);
    };
    if entry.last == record.by {
        entry.leaving.clear();
        entry.is_clean = false;
        entry.is_held &= !has_left;
        entry.session = record.session;
        let is_over = !entry.is_held && entry.session.is_none();
        return ((!is_over).then_some(entry), true);
    }
    let is_leaving = entry.leaving.contains(&record.by);
    if is_leaving {
        if !entry.is_clean {
            entry.session = record.session;
        }
        if has_left {
            entry.leaving.retain(|leaving| *leaving != record.by);
        }
    }
    (Some(entry), is_leaving)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ClaimId = ClaimId { run: 1, number: 1 };
    const B: ClaimId = ClaimId { run: 2, number: 1 };
    const CLEAN: Step = Step::Claim { is_clean: true };
    const CLAIM: Step = Step::Claim { is_clean: false };

    /// A session of this instance, which ends at 100 ms.
    fn session(instance: u64) -> Option<Box<SleepingSession>> {
        let expires_ms = 100;
        Some(Box::new(SleepingSession { instance, expires_ms, ..SleepingSession::default() }))
    }

    fn record(by: ClaimId, step: Step, instance: u64) -> Option<SessionRecord> {
        let session = if instance == 0 { None } else { session(instance) };
        Some(SessionRecord { by, user: 1, node: "n".into(), step, session })
    }

    /// The entry behind some records at 1 ms, and which of them count.
    fn read(records: Vec<Option<SessionRecord>>) -> (Option<Entry>, Vec<bool>) {
        let reading = Reading { time_ms: 1, may_lack: false };
        records.into_iter().fold((None, Vec::new()), |(entry, mut counted), record| {
            let (entry, counts) = entry_behind(entry, record, reading);
            counted.push(counts);
            (entry, counted)
        })
    }

    fn instance(entry: Option<&Entry>) -> u64 {
        entry.and_then(|entry| entry.session.as_ref()).map_or(0, |session| session.instance)
    }

    #[test]
    fn the_last_session_of_the_loser_is_the_winners() {
        let before = vec![record(A, CLAIM, 0), record(A, Step::Kept, 1), record(B, CLAIM, 0)];
        let (entry, counted) = read(before.clone());
        assert_eq!(counted, [true, true, true]);
        let entry = entry.expect("it is held");
        assert_eq!((entry.last, &entry.leaving[..], entry.is_held), (B, &[A][..], true));
        let (entry, counted) = read([before, vec![record(A, Step::Left, 2)]].concat());
        assert_eq!((instance(entry.as_ref()), counted.last()), (2, Some(&true)));
        assert!(entry.is_some_and(|entry| entry.leaving.is_empty() && entry.is_held));
    }

    #[test]
    fn a_loser_that_is_late_changes_nothing() {
        let records = vec![
            record(A, CLAIM, 0),
            record(B, CLAIM, 0),
            record(B, Step::Kept, 3),
            record(A, Step::Kept, 1),
            record(A, Step::Left, 2),
        ];
        let (entry, counted) = read(records);
        assert_eq!((instance(entry.as_ref()), counted), (3, vec![true, true, true, false, false]));
    }

    #[test]
    fn a_clean_claim_ends_the_session_whatever_its_holder_writes() {
        let before = vec![record(A, CLAIM, 0), record(A, Step::Kept, 1), record(B, CLEAN, 1)];
        let (entry, _) = read([before.clone(), vec![record(A, Step::Left, 2)]].concat());
        assert_eq!(instance(entry.as_ref()), 0);
        assert!(entry.is_some_and(|entry| entry.is_held && entry.leaving.is_empty()));
        let (entry, counted) = read([before, vec![record(B, Step::Left, 0)]].concat());
        assert_eq!((entry, counted.last()), (None, Some(&true)));
    }

    #[test]
    fn a_session_that_has_ended_does_not_come_back() {
        let ended = vec![record(A, CLAIM, 0), record(A, Step::Kept, 1), record(A, Step::Left, 0)];
        let (entry, _) = read([ended.clone(), vec![record(B, CLAIM, 1)]].concat());
        assert_eq!(instance(entry.as_ref()), 0);
        let (entry, counted) = read([ended, vec![record(A, Step::Kept, 1)]].concat());
        assert_eq!((entry, counted.last()), (None, Some(&false)));
        let asleep = vec![record(A, CLAIM, 0), record(A, Step::Left, 1)];
        let (entry, _) = read(asleep);
        let late = Reading { time_ms: 100, may_lack: false };
        let (entry, counts) = entry_behind(entry, record(B, CLAIM, 1), late);
        assert!(counts && instance(entry.as_ref()) == 0);
    }

    #[test]
    fn a_loser_that_never_had_the_name_leaves_no_session() {
        let before = vec![record(A, CLAIM, 0), record(A, Step::Kept, 1), record(B, CLAIM, 0)];
        let third = ClaimId { run: 3, number: 1 };
        let after = vec![record(third, CLAIM, 0), record(B, Step::Withdrawn, 9)];
        let (entry, counted) = read([before, after].concat());
        assert_eq!((instance(entry.as_ref()), counted.last()), (1, Some(&true)));
        assert!(entry.is_some_and(|entry| entry.leaving == [A] && entry.last == third));
    }

    #[test]
    fn a_holder_that_has_waited_takes_what_was_written_before() {
        let before = vec![record(A, CLAIM, 0), record(B, CLAIM, 0), record(A, Step::Kept, 1)];
        let after = vec![record(B, Step::Taken, 0), record(A, Step::Left, 2)];
        let (entry, counted) = read([before, after].concat());
        assert_eq!((instance(entry.as_ref()), &counted[2..]), (1, &[true, true, false][..]));
    }

    #[test]
    fn a_name_of_another_user_is_refused() {
        let mut other = record(B, CLAIM, 0);
        if let Some(record) = &mut other {
            record.user = 2;
        }
        let (entry, counted) = read(vec![record(A, CLAIM, 0), other]);
        assert_eq!((entry.map(|entry| entry.last), counted), (Some(A), vec![true, false]));
    }

    #[test]
    fn a_name_is_removed_only_while_nobody_has_it() {
        let (entry, counted) = read(vec![record(A, CLAIM, 0), None]);
        assert_eq!((entry.is_some(), counted), (true, vec![true, false]));
        let (entry, counted) = read(vec![record(A, CLAIM, 0), record(A, Step::Left, 1), None]);
        assert_eq!((entry, counted.last()), (None, Some(&true)));
    }

    /// Compaction has left the newest record of the name.
    #[test]
    fn a_reader_begins_with_any_record() {
        let compacted = Reading { time_ms: 1, may_lack: true };
        for (step, is_held) in
            [(CLAIM, true), (Step::Kept, true), (Step::Left, false), (Step::Again, true)]
        {
            let (entry, counts) = entry_behind(None, record(A, step, 1), compacted);
            assert_eq!((instance(entry.as_ref()), counts), (1, true), "{step:?}");
            assert_eq!(entry.map(|entry| entry.is_held), Some(is_held), "{step:?}");
        }
        let (entry, _) = entry_behind(None, record(A, CLEAN, 1), compacted);
        assert_eq!(instance(entry.as_ref()), 0);
    }

    #[test]
    fn a_holder_comes_back_after_a_loss_unless_another_has_the_name() {
        let (entry, counted) = read(vec![record(A, Step::Again, 1)]);
        assert_eq!((instance(entry.as_ref()), counted), (1, vec![true]));
        let (entry, counted) = read(vec![record(B, CLAIM, 0), record(A, Step::Again, 1)]);
        assert_eq!((entry.map(|entry| entry.last), counted), (Some(B), vec![true, false]));
    }

    #[test]
    fn records_keep_their_content_and_their_form() {
        let written = record(A, CLEAN, 1).expect("a record");
        let mut payload = written.encode();
        assert_eq!(SessionRecord::decode(&payload), Some(written));
        payload[0] += 1;
        assert_eq!(SessionRecord::decode(&payload), None);
    }
}
