//! The audit of whole runs: streams against their ledger, readers that come later, stand still or
//! return, publishing once.

mod server;

use std::thread;
use std::time::{Duration, Instant};

use bench::audit::{Entry, Findings, Ledger};
use bench::engine::{
    Absence, Beginning, Publishers, PublishersConfig, Subscribers, SubscribersConfig, Tally,
};
use server::{PATIENCE, Plant, Server, wait};

/// 4 audited clients of 2 topics each, which begin with the oldest message, and 40 messages for
/// them.
fn audited(plant: Plant, change: impl FnOnce(&mut SubscribersConfig)) -> (Tally, Findings) {
    let server = Server::start(plant);
    let topics = || "t/{1..8}".parse().unwrap();
    let mut config = SubscribersConfig::new(server.common(), topics(), 4);
    config.topics.per_client = 2;
    config.is_audited = true;
    config.beginning = Beginning::First;
    change(&mut config);
    let returns = u64::from(config.away.is_some());
    let mut subscribers = Subscribers::start(config).unwrap();
    wait(&mut subscribers, |total| total.clients_live == 4);
    let mut load = PublishersConfig::new(server.common(), topics(), 0.0);
    load.load.count = 40;
    let mut publishers = Publishers::start(load).unwrap();
    wait(&mut publishers, |total| total.received == 40);
    publishers.stop();
    assert!(!subscribers.has_all_acknowledged(), "nothing is known yet");
    let mut ledger = Ledger::default();
    for topic in 1..=8 {
        let entry = Entry { acknowledged: 5, sequence: 5 };
        ledger.insert(format!("t/{topic}"), entry);
    }
    subscribers.set_ledger(ledger);
    let since = Instant::now();
    while !subscribers.has_all_acknowledged() {
        assert!(since.elapsed() < PATIENCE, "{:?}", subscribers.total());
        thread::sleep(Duration::from_millis(5));
    }
    // Whether they were away before, during or after that is the machine's choice.
    wait(&mut subscribers, |total| total.clients_live == 4 && total.return_time.count() >= returns);
    let summary = subscribers.stop();
    (summary.total, summary.findings.unwrap())
}

#[test]
fn streams_are_audited_to_their_ledger() {
    let (total, findings) = audited(Plant::Nothing, |_| {});
    assert!(findings.is_good(), "{findings:?}");
    assert_eq!((findings.streams, findings.complete), (8, 8));
    assert_eq!((findings.messages, total.messages), (40, 40));
    assert_eq!(findings.ledger_acknowledged, Some(40));
    for plant in [Plant::Lose, Plant::Repeat] {
        let (_, findings) = audited(plant, |_| {});
        assert_eq!((findings.complete, findings.faulty), (7, 1), "{plant:?}");
        assert!(findings.examples[0].starts_with("t/"), "{findings:?}");
    }
}

#[test]
fn an_auditor_that_comes_later_begins_with_the_oldest() {
    let server = Server::start(Plant::Nothing);
    let mut load = PublishersConfig::new(server.common(), "t".parse().unwrap(), 0.0);
    load.load.count = 20;
    let mut publishers = Publishers::start(load).unwrap();
    wait(&mut publishers, |total| total.received == 20);
    for (beginning, messages) in [(Beginning::First, 20), (Beginning::Last(5), 5)] {
        let mut config = SubscribersConfig::new(server.common(), "t".parse().unwrap(), 1);
        config.beginning = beginning;
        config.is_audited = true;
        let mut auditor = Subscribers::start(config).unwrap();
        wait(&mut auditor, |total| total.clients_live == 1);
        let summary = auditor.stop();
        assert_eq!((summary.total.messages, summary.total.recovered), (messages, messages));
        assert_eq!(summary.findings.unwrap().complete, 1);
    }
    // The fake node knows epoch 7 only: a position of another one is a gap.
    for (beginning, gaps) in [(Beginning::Since(7, 3), 0), (Beginning::Since(8, 3), 1)] {
        let mut config = SubscribersConfig::new(server.common(), "t".parse().unwrap(), 1);
        config.beginning = beginning;
        config.is_audited = true;
        let mut auditor = Subscribers::start(config).unwrap();
        wait(&mut auditor, |total| total.clients_live == 1);
        let summary = auditor.stop();
        assert_eq!((summary.total.gaps, summary.total.epochs_lost), (gaps, gaps));
        let findings = summary.findings.unwrap();
        assert!(findings.is_good(), "{findings:?}");
        assert_eq!(findings.with_gaps, gaps);
    }
}

#[test]
fn what_is_published_once_is_there_once() {
    let server = Server::start(Plant::Cut);
    let mut load = PublishersConfig::new(server.common(), "t/{1..3}".parse().unwrap(), 300.0);
    load.load.count = 60;
    load.load.exactly_once = true;
    let mut publishers = Publishers::start(load).unwrap();
    wait(&mut publishers, |total| total.received == 60);
    let summary = publishers.stop();
    let total = summary.total;
    assert_eq!((total.sent, total.inflight, total.unacknowledged), (60, 0, 0));
    assert_eq!(total.refused, 0, "{:?}", total.trouble);
    assert!(total.disconnects > 0 && total.repeated_sends > 0 && total.duplicates > 0);
    let ledger = summary.ledger.unwrap();
    let entry = Entry { acknowledged: 20, sequence: 20 };
    assert_eq!(ledger.acknowledged(), 60);
    assert_eq!(ledger.entry("t/1"), Some(entry));
    // A fresh reader finds each once, and in order.
    let mut config = SubscribersConfig::new(server.common(), "t/{1..3}".parse().unwrap(), 3);
    config.is_audited = true;
    config.beginning = Beginning::First;
    let mut auditor = Subscribers::start(config).unwrap();
    auditor.set_ledger(ledger);
    let since = Instant::now();
    while !auditor.has_all_acknowledged() {
        assert!(since.elapsed() < PATIENCE, "{:?}", auditor.total());
        thread::sleep(Duration::from_millis(5));
    }
    let findings = auditor.stop().findings.unwrap();
    assert_eq!((findings.complete, findings.messages), (3, 60), "{findings:?}");
}

#[test]
fn clients_that_do_not_read_lose_nothing() {
    let (total, findings) = audited(Plant::Nothing, |config| {
        config.stall =
            Some(Absence { after: Duration::from_millis(200), span: Duration::from_millis(600) });
        config.receive_bytes = Some(4096);
    });
    assert_eq!((findings.complete, total.disconnects), (8, 0));
}

#[test]
fn clients_that_were_away_return_all_at_once() {
    let (total, findings) = audited(Plant::Nothing, |config| {
        config.away =
            Some(Absence { after: Duration::from_millis(300), span: Duration::from_millis(300) });
    });
    assert_eq!((findings.complete, findings.messages), (8, 40));
    assert!(total.connects > 4, "they came back");
    assert_eq!(total.disconnects, 0, "they left by themselves");
}
