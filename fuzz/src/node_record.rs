//! The target of the records that nodes write for each other into an engine: sessions of MQTT and
//! groups. Every producer with the right to write into the engine's topic can forge them.

use broker::engine::{
    EngineLetter, EngineRequest, LineageStart, Restart, RunName, Tail, TailRecord,
};
use broker::home::{Home, HomeOutputs};
use broker::mail::{
    Claim, EdgeId, GroupRequest, HomeId, JoinGroup, Member, PartitionId, Publication, ToHome,
};
use broker::now::Now;
use broker::settings::{Durability, LogSettings, RuleSettings, Settings};
use log::HeapMemory;
use std::sync::Arc;
use stdx::chunk::Slice;
use stdx::key::Key;

const PARTITION: PartitionId = PartitionId(0);
/// The topic of the session whose records the target writes.
const SESSION: &[u8] = b"$mqtt/s/x";

/// A home that shares sessions and groups, and its log.
struct Node {
    home: Home,
    memory: HeapMemory,
    out: HomeOutputs,
    offset: u64,
    now_ms: u64,
    /// The records that it has proposed.
    proposed: Vec<(Publication, RunName, bool)>,
}

impl Node {
    fn new(living: &[&str]) -> Node {
        let settings = Settings {
            edges_count: 1,
            homes_count: 1,
            node_name: "n0".into(),
            logs: vec![LogSettings {
                name: "log".into(),
                partitions_count: 1,
                durability: Durability::Engine,
                is_compacted: true,
                log_bytes_max: 1 << 20,
                age_max_ms: 1 << 40,
                segment_bytes: 4_096,
                retained_bytes_max: 1 << 20,
                ..LogSettings::default()
            }],
            rules: vec![RuleSettings {
                history_messages_max: 1_000,
                history_age_max_ms: 1 << 40,
                message_bytes_max: 1 << 16,
                ..RuleSettings::default()
            }],
            ..Settings::default()
        };
        let mut node = Node {
            home: Home::new(Arc::new(settings), HomeId(0), (1, 2)),
            memory: HeapMemory::new(1 << 22),
            out: HomeOutputs::new(1),
            offset: 0,
            now_ms: 1_700_000_000_000,
            proposed: Vec::new(),
        };
        node.letter(EngineLetter::Restart(Restart {
            partition: PARTITION,
            topic_id: 1,
            lineages: vec![LineageStart { lineage: 1, start: 1 }],
            after: 0,
            complete_from_ms: 0,
            primed_through: 0,
            follows_mirror: false,
            head: 0,
        }));
        node.letter(EngineLetter::Available { partition: PARTITION, is_available: true });
        let living: Vec<String> = living.iter().map(|name| (*name).to_owned()).collect();
        node.home.nodes_live(node.now(), &living);
        let (connection, is_clean) = (Key { index: 1, generation: 1 }, false);
        let name = Slice::copy_of(b"x");
        node.ask(ToHome::Claim(Claim { name, user: 1, connection, is_clean, lasts: true }));
        let member = Member { connection, number: 1, client: 1 };
        let (group, since) = (Slice::copy_of(b"g/a/#"), Vec::new());
        let join = Box::new(JoinGroup { group, member, room: 1, since });
        node.ask(ToHome::Group(GroupRequest::Join(join)));
        node
    }

    fn now(&self) -> Now {
        Now { monotonic_ms: self.now_ms - 1_699_999_990_000, unix_ms: self.now_ms }
    }

    fn ask(&mut self, request: ToHome) {
        let now = self.now();
        self.home.handle(now, EdgeId(0), request, &mut self.memory, &mut self.out);
        self.turn();
    }

    fn letter(&mut self, letter: EngineLetter) {
        self.home.engine(self.now(), letter, &mut self.memory, &mut self.out);
        self.turn();
    }

    fn turn(&mut self) {
        while self.home.pump(self.now(), &mut self.memory, &mut self.out) {}
        self.home.finish_turn(&mut self.out);
        for request in std::mem::take(&mut self.out.engine) {
            if let EngineRequest::Publish(it) = request {
                self.proposed.push((it.publication, it.name, it.is_register));
            }
        }
        self.out.letters[0].clear();
    }

    fn read(&mut self, publication: Publication, name: RunName, is_register: bool) {
        self.offset += 1;
        let record = TailRecord {
            offset: self.offset,
            lineage: 1,
            time_ms: self.now_ms,
            name: Some(name),
            publication,
            restored: None,
            is_register,
        };
        let (records, through) = (vec![record], self.offset);
        let tail = Tail { partition: PARTITION, records, through, ended_ago_ms: Some(0) };
        self.letter(EngineLetter::Tail(tail));
        self.now_ms += 700;
    }

    /// Reads what it has proposed.
    fn read_own(&mut self) {
        for (publication, name, is_register) in std::mem::take(&mut self.proposed) {
            self.read(publication, name, is_register);
        }
    }
}

/// Records of another node, each behind a byte for its kind and two for its length; the home's own
/// records between them. Assertion: no panic.
pub fn node_record(mut data: &[u8]) {
    let mut node = Node::new(&["n0", "n1"]);
    let mut counter = 0;
    while let [kind, low, high, rest @ ..] = data {
        let len = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        let (payload, after) = rest.split_at(len);
        data = after;
        counter += 1;
        let is_register = kind & 1 == 1;
        let topic = if is_register { b"$groups/n1" } else { SESSION };
        let (topic, payload) = (Slice::copy_of(topic), Slice::copy_of(payload));
        let retain = payload.is_empty();
        let publication = Publication { topic, payload, retain, ..Publication::default() };
        let run = 7 + u64::from(kind >> 1 & 1);
        node.read(publication, RunName { run, counter }, is_register);
        if kind & 4 == 4 {
            node.read_own();
        }
    }
    node.read_own();
}

/// The records of a node that takes a name and joins a group, one by one and together.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut node = Node::new(&["n0"]);
    let mut records = Vec::new();
    for _ in 0..6 {
        for (publication, name, is_register) in std::mem::take(&mut node.proposed) {
            let len = (publication.payload.len() as u16).to_le_bytes();
            let kind = [4 | u8::from(is_register)];
            records.push([&kind, &len[..], &publication.payload].concat());
            node.read(publication, name, is_register);
        }
        node.now_ms += 3_000;
        node.turn();
    }
    let all = records.concat();
    records.push(all);
    records
}
