//! The world of a script: nodes, clients and the sockets between them; what a reactor and a network
//! do, as values.

mod counts;

use super::authenticator::{FakeJudge, certify};
use super::client::Client;
use super::journal;
use super::users::Users;
use super::{operator, request};
use broker::disk::{DiskLetter, DiskRequest};
use broker::edge::{Edge, Pressure, Written};
use broker::entitlement::{Authenticator, Decision, Question};
use broker::home::{Home, HomeOutputs};
use broker::inspect::{Answer, ConnectionId, Question as Asked};
use broker::mail::{Code, EdgeId, HomeId, PartitionId, ReadFilter, ReadTopic, ToEdge, ToHome};
use broker::now::Now;
use broker::settings::{Settings, TicketKey};
use log::HeapMemory;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use stdx::key::Key;

/// A thread: an edge, and perhaps a home.
struct Shard {
    edge: Edge,
    home: Option<Home>,
    memory: HeapMemory,
    out: HomeOutputs,
    ready: VecDeque<Key>,
    /// Places of connections that have gone, with the generation that comes next.
    free: Vec<Key>,
    places: u32,
    /// Requests and letters on their way to this shard, by sender.
    requests: VecDeque<(u16, ToHome)>,
    letters: VecDeque<(u16, ToEdge)>,
    /// With the verdicts of the moment when they were asked.
    questions: VecDeque<(Question, Decision)>,
}

/// A client's socket.
pub struct Socket {
    pub edge: usize,
    pub key: Key,
    /// Written by the client and not read by the edge.
    pub to_edge: VecDeque<u8>,
    pub has_ended: bool,
    /// Bytes that the socket still takes from the edge.
    pub room: usize,
    is_full: bool,
}

/// The turn in which sockets are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    Now,
    NextTurn,
    Never,
}

pub struct World<'a> {
    make: &'a dyn Fn() -> Settings,
    /// The changes of each `reload`, by its number.
    pub reload: &'a dyn Fn(usize, &mut Settings),
    /// Native clients speak JSON, and are shown like the others.
    pub speaks_json: bool,
    /// The present settings of the shards.
    settings: Arc<Settings>,
    now: Now,
    read_bytes: usize,
    shards: Vec<Shard>,
    clients: BTreeMap<String, Client>,
    sockets: BTreeMap<String, Socket>,
    homes_stopped: Vec<usize>,
    letters_stopped: bool,
    reading: Reading,
    /// Homes answer pages as if their disk could not be read.
    reads_fail: bool,
    authenticator: FakeJudge,
    authenticator_stopped: bool,
    /// Clients behind proxies that the shell does not let in.
    refused_clients: Vec<IpAddr>,
    users: Users,
}

/// The threads of a node that begins.
fn shards(settings: &Arc<Settings>, now: Now) -> Vec<Shard> {
    let home = |id| Home::new(settings.clone(), HomeId(id), (1, 2));
    let shard = |id| Shard {
        edge: Edge::new(settings.clone(), EdgeId(id), now),
        home: (id < settings.homes_count).then(|| home(id)),
        memory: HeapMemory::new(1 << 30),
        out: HomeOutputs::new(settings.edges_count),
        ready: VecDeque::new(),
        free: Vec::new(),
        places: 0,
        requests: VecDeque::new(),
        letters: VecDeque::new(),
        questions: VecDeque::new(),
    };
    (0..settings.edges_count).map(shard).collect()
}

/// The first command of several by one client, and the others: `a: reset; session kept`,
/// `a: flood news 1..3, other 4..6`.
fn first_of(line: &str) -> Option<(String, String)> {
    let (name, commands) = line.split_once(": ")?;
    let verb = commands.split([' ', ';']).next()?;
    let (first, rest) = match verb {
        "connect" | "session" | "reset" | "publish" => commands.split_once("; ")?,
        "flood" => commands.split_once(", ")?,
        _ => return None,
    };
    let again = if verb == "flood" { "flood " } else { "" };
    Some((format!("{name}: {first}"), format!("{name}: {again}{rest}")))
}

/// A session begins with the usual answers: these are left out of the transcript, and nothing else.
fn leave_out_the_usual(seen: &mut Vec<String>) {
    match &seen[..] {
        [upgraded, welcome, ..] if upgraded == "101 crore.v1" && welcome == "welcome ping 60s" => {
            seen.drain(..2);
        }
        [upgraded, _, ..] if upgraded == "101 crore.v1" => _ = seen.remove(0),
        [] => seen.push("no answer".into()),
        _ => {}
    }
}

const START_MS: u64 = 1_000_000;
/// Turns without an end are a bug.
const TURNS_MAX: usize = 500_000;

impl<'a> World<'a> {
    pub fn new(make: &'a dyn Fn() -> Settings, read_bytes: usize) -> World<'a> {
        let now = Now { monotonic_ms: START_MS, unix_ms: START_MS };
        let settings = Arc::new(make());
        World {
            make,
            reload: &|_, _| {},
            speaks_json: false,
            now,
            read_bytes,
            shards: shards(&settings, now),
            settings,
            clients: BTreeMap::new(),
            sockets: BTreeMap::new(),
            homes_stopped: Vec::new(),
            letters_stopped: false,
            reading: Reading::Now,
            reads_fail: false,
            authenticator: FakeJudge::default(),
            authenticator_stopped: false,
            refused_clients: Vec::new(),
            users: Users::default(),
        }
    }

    /// Runs one command, and returns the lines that it causes.
    pub fn run(&mut self, line: &str) -> Vec<String> {
        if let Some((first, rest)) = first_of(line) {
            let said = self.run(&first);
            assert_eq!(said, [""; 0], "answers to {first:?}, which is not the last of its line");
            return self.run(&rest);
        }
        let mut said = Vec::new();
        let mut sessions = Vec::new();
        match line.split_once(": ") {
            Some((names, how)) if how.split(' ').next() == Some("session") => {
                sessions = names.split(", ").collect();
                sessions.iter().for_each(|name| self.session(name, how));
            }
            Some((name, command)) if !name.contains(' ') => self.client(name, command),
            _ => self.command(line, &mut said),
        }
        self.settle();
        while self.acknowledge() {
            self.settle();
        }
        for shard in &mut self.shards {
            for (_, answer) in shard.edge.out.answers.drain(..) {
                said.extend(operator::told(answer).0);
            }
        }
        for (name, client) in &mut self.clients {
            let mut seen = client.seen();
            if sessions.contains(&&**name) {
                leave_out_the_usual(&mut seen);
            }
            said.extend(seen.into_iter().map(|text| format!("{name}: {text}")));
        }
        said
    }

    /// Another node in place of this one, with other keys for tickets if any are given: nothing of
    /// it is left.
    fn restart(&mut self, keys: &[&str]) {
        let mut settings = (self.make)();
        if !keys.is_empty() {
            let key = |byte: &&str| TicketKey::new([byte.parse().unwrap(); 32]);
            settings.tickets.keys = keys.iter().map(key).collect();
        }
        self.settings = Arc::new(settings);
        self.shards = shards(&self.settings, self.now);
        self.sockets.clear();
        self.users = Users::default();
    }

    /// Other settings for this node. Then homes hear of them, or edges, or both.
    fn reload(&mut self, number: &str, homes: bool, edges: bool) {
        let mut wanted = (self.make)();
        (self.reload)(number.parse().unwrap(), &mut wanted);
        self.settings = Arc::new(self.settings.renewed(wanted).0);
        for shard in &mut self.shards {
            if let Some(home) = shard.home.as_mut().filter(|_| homes) {
                home.set_settings(self.settings.clone());
            }
            if edges {
                shard.edge.set_settings(self.settings.clone());
            }
        }
    }

    fn command(&mut self, line: &str, said: &mut Vec<String>) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["time", step] => self.pass(step),
            ["counters", value] => {
                for shard in &mut self.shards {
                    shard.edge.begin_counters_at(value.parse().unwrap());
                }
            }
            ["homes", "stop"] => self.homes_stopped = (0..self.shards.len()).collect(),
            ["homes", "stop", home] => self.homes_stopped = vec![home.parse().unwrap()],
            ["homes", "go"] => self.homes_stopped.clear(),
            ["disks", "go"] => self.disks_go(),
            ["letters", what] => self.letters_stopped = what == "stop",
            ["sockets", "stop"] => self.reading = Reading::Never,
            ["letters", "go", "before", "sockets"] => {
                self.letters_stopped = false;
                self.reading = Reading::NextTurn;
            }
            ["authenticator", what] => self.authenticator_stopped = what == "stop",
            ["users"] => said.push(self.users.text()),
            ["users", "max", count] => self.users.connections_max = count.parse().ok(),
            ["users", what] => self.users.is_stopped = what == "stop",
            ["revoke", what] => {
                match what.parse() {
                    Ok(number) => self.authenticator.token_ids.insert(number),
                    Err(_) => self.authenticator.subjects.insert(what.into()),
                };
                for shard in &mut self.shards {
                    shard.edge.revocations_changed();
                }
            }
            ["reads", what] => self.reads_fail = what == "fail",
            ["drain", window_ms] => {
                for shard in &mut self.shards {
                    shard.edge.drain(window_ms.parse().unwrap());
                }
            }
            ["restart", ref keys @ ..] => self.restart(keys),
            // As the home of a partition of an engine would say.
            [what @ ("epoch" | "restarted"), partition, epoch] => {
                let partition = PartitionId(partition.parse().unwrap());
                self.begin_epoch(what, partition, epoch.parse().unwrap());
            }
            ["pressure", level] => {
                let pressure = Pressure::of(level.parse().unwrap());
                for shard in &mut self.shards {
                    shard.edge.set_pressure(pressure);
                }
            }
            ["shell", "refuses", ref clients @ ..] => {
                self.refused_clients = clients.iter().map(|text| text.parse().unwrap()).collect();
            }
            ["reload", number] => self.reload(number, true, true),
            ["reload", number, "edges"] => self.reload(number, false, true),
            ["reload", number, "homes"] => self.reload(number, true, false),
            ["large", "reads"] | ["only", "binary"] => {}
            ["operator", ref asked @ ..] => self.operate(asked, said),
            ["count", ref names @ ..] => said.push(self.count(names)),
            ["journal"] => {
                for shard in &mut self.shards {
                    let entries = std::mem::take(&mut shard.edge.out.journal);
                    said.extend(entries.iter().map(journal::text));
                }
            }
            _ => panic!("no such command: {line}"),
        }
    }

    fn begin_epoch(&mut self, what: &str, partition: PartitionId, epoch: u64) {
        for shard in &mut self.shards {
            let letter = match what {
                "epoch" => ToEdge::Epoch { partition, epoch },
                _ => ToEdge::Restarted { partition, epoch },
            };
            shard.edge.handle(HomeId(0), letter);
        }
    }

    /// Lets time pass, second by second: `+60s`, `+10ms`.
    fn pass(&mut self, step: &str) {
        let step = step.trim_start_matches('+');
        let mut left_ms = match step.strip_suffix("ms") {
            Some(ms) => ms.parse().unwrap(),
            None => step.trim_end_matches('s').parse::<u64>().unwrap() * 1_000,
        };
        while left_ms > 0 {
            let step_ms = left_ms.min(1_000);
            left_ms -= step_ms;
            self.now.monotonic_ms += step_ms;
            self.now.unix_ms += step_ms;
            self.settle();
        }
    }

    /// An operator asks the first shard.
    fn operate(&mut self, asked: &[&str], said: &mut Vec<String>) {
        let now_ms = self.now.unix_ms;
        let Shard { edge, home, .. } = &mut self.shards[0];
        let home = home.as_ref().unwrap();
        let mut ask = |question: Asked| match home.inspect(&question) {
            Answer::NotHere => edge.inspect(question, 1, &|_| None),
            answer => Some(answer),
        };
        let numbers = || asked[1..].iter().map(|text| text.parse().unwrap());
        let id_of = |name: &str| {
            let key = self.sockets[name].key;
            ConnectionId(u64::from(key.generation) << 24 | u64::from(key.index))
        };
        let question = match *asked {
            ["connections" | "topics", ..] => {
                let mut next = Some(0);
                while let Some(from) = next {
                    let answer = ask(operator::list_of(asked, from, now_ms)).unwrap();
                    let (lines, more) = operator::told(answer);
                    said.extend(lines);
                    said.extend(more.map(|_| "(next)".into()));
                    next = more;
                }
                return;
            }
            ["subscriptions", name, skipped] => Asked::Subscriptions {
                connection: id_of(name),
                skipped: skipped.parse().unwrap(),
                len_max: 2,
            },
            ["disconnect", name, ref how @ ..] => {
                Asked::Disconnect { connection: id_of(name), may_return: *how == ["return"] }
            }
            ["names", ..] => Asked::Names { edge: EdgeId(0), indexes: numbers().collect() },
            ["subscribers", ..] => {
                Asked::Subscribers { home: HomeId(0), indexes: numbers().collect() }
            }
            _ => operator::question_of(asked, now_ms),
        };
        if let Some(answer) = ask(question) {
            said.extend(operator::told(answer).0);
        }
    }

    /// Delivers all requests to disks so far, but questions: those hang for ever.
    fn disks_go(&mut self) {
        for shard in &mut self.shards {
            let asked = std::mem::take(&mut shard.out.disk);
            for (log, requests) in (0..).zip(asked) {
                for request in requests {
                    let DiskRequest::Append { generation, .. } = request else {
                        continue;
                    };
                    let letter = DiskLetter::Committed { generation, count: 1, result: Ok(()) };
                    let home = shard.home.as_mut().unwrap();
                    home.disk(self.now, log, letter, &mut shard.memory, &mut shard.out);
                }
            }
        }
    }

    /// `session [on 1]` sends HELLO at once, `session kept [on 1]` the HELLO of these words after
    /// the upgrade.
    fn session(&mut self, name: &str, how: &str) {
        let (how, edge) = how.split_once(" on ").unwrap_or((how, "0"));
        let hello = how.strip_prefix("session ");
        let protocol = if hello.is_some() { "ws" } else { "native" };
        self.connect(name, &[protocol, "on", edge]);
        self.settle();
        if let Some(hello) = hello {
            self.client(name, &format!("hello {hello}"));
            self.settle();
        }
    }

    fn client(&mut self, name: &str, command: &str) {
        let words: Vec<&str> = command.split_whitespace().collect();
        if let ["connect", ref what @ ..] = words[..] {
            return self.connect(name, what);
        }
        if !self.sockets.contains_key(name) && request::is_http(command) {
            self.connect(name, &[]);
            self.settle();
        }
        if let ["mqtt", "connect", .., place] = words[..]
            && !self.sockets.contains_key(name)
        {
            self.connect(name, &["mqtt", "on", place.strip_prefix("on=").unwrap_or("0")]);
        }
        let socket = self.sockets.get_mut(name).unwrap_or_else(|| panic!("{name}: {command}"));
        let shard = &mut self.shards[socket.edge];
        let mut room = |room: usize| {
            socket.room = room;
            if room > 0 && std::mem::take(&mut socket.is_full) {
                shard.edge.writable(socket.key);
            }
        };
        match words[..] {
            ["block"] => room(0),
            ["drain", bytes] => room(bytes.parse().unwrap()),
            ["open"] => room(usize::MAX),
            ["end"] => {
                socket.has_ended = true;
                shard.ready.push_back(socket.key);
            }
            ["reset" | "last", ..] => {
                if let Some(last) = command.strip_prefix("last ") {
                    let client = self.clients.get_mut(name).unwrap();
                    shard.edge.received(socket.key, &mut request::bytes_of(last, client));
                }
                shard.edge.lost(socket.key);
                self.gone(name);
            }
            _ => {
                let client = self.clients.get_mut(name).unwrap();
                let bytes = request::bytes_of(command, client);
                socket.to_edge.extend(bytes);
                shard.ready.push_back(socket.key);
            }
        }
    }

    /// Sends the acknowledgements of clients that send them at once. True if there were any.
    fn acknowledge(&mut self) -> bool {
        let mut is_busy = false;
        for (name, socket) in &mut self.sockets {
            let answers = std::mem::take(&mut self.clients.get_mut(name).unwrap().mqtt.answers);
            if !answers.is_empty() {
                is_busy = true;
                socket.to_edge.extend(answers);
                self.shards[socket.edge].ready.push_back(socket.key);
            }
        }
        is_busy
    }

    fn connect(&mut self, name: &str, what: &[&str]) {
        let edge = match what {
            [.., "on", edge] => edge.parse().unwrap(),
            _ => 0,
        };
        let shard = &mut self.shards[edge];
        let key = shard.free.pop().unwrap_or_else(|| {
            shard.places += 1;
            Key { index: shard.places - 1, generation: 0 }
        });
        let peer = [127, 0, 0, 1].into();
        shard.edge.accepted(key, peer);
        if what.contains(&"tls") {
            shard.edge.came_by_tls(key);
        }
        let what = certify(&mut shard.edge, key, what);
        if shard.edge.notes_origins() {
            shard.edge.accepted_through(key, peer, 0);
        }
        shard.ready.push_back(key);
        let before = self.clients.get_mut(name);
        let mut client = Client::default();
        client.speaks_json = self.speaks_json;
        client.ticket = before.map_or(Vec::new(), |before| std::mem::take(&mut before.ticket));
        let to_edge = request::opening(what, &mut client);
        self.clients.insert(name.into(), client);
        let socket = Socket {
            edge,
            key,
            to_edge: to_edge.into(),
            has_ended: false,
            room: usize::MAX,
            is_full: false,
        };
        let before = self.sockets.insert(name.into(), socket);
        assert!(before.is_none(), "{name} is connected already");
    }

    fn gone(&mut self, name: &str) {
        let socket = self.sockets.remove(name).unwrap();
        self.shards[socket.edge].free.push(Key {
            index: socket.key.index,
            generation: socket.key.generation.wrapping_add(1),
        });
    }

    /// Lets all shards take turns until none has anything to do.
    fn settle(&mut self) {
        for _ in 0..TURNS_MAX {
            let mut is_quiet = true;
            for at in 0..self.shards.len() {
                self.shards[at].edge.turn(self.now);
                is_quiet &= !self.read(at) & !self.mail(at);
                is_quiet &= !self.answer(at);
                self.flush(at);
                is_quiet &= !self.mail(at) & !self.shards[at].edge.has_more();
            }
            if self.reading == Reading::NextTurn {
                self.reading = Reading::Now;
                is_quiet = false;
            }
            if is_quiet {
                return;
            }
        }
        panic!("the nodes do not come to rest");
    }

    /// Questions of this turn, and what only the authenticator can tell.
    fn answer(&mut self, at: usize) -> bool {
        let Shard { edge, questions, .. } = &mut self.shards[at];
        let now_s = self.now.unix_ms / 1_000;
        for question in edge.out.questions.drain(..) {
            let Question { kind, ref credential, digest, .. } = question;
            let authenticated = self.authenticator.authenticate(kind, credential, digest, now_s);
            questions.push_back((question, authenticated));
        }
        let mut is_busy = false;
        while !self.authenticator_stopped
            && let Some((question, authenticated)) = questions.pop_front()
        {
            is_busy = true;
            let Question { connection, purpose, digest, .. } = question;
            edge.decided(connection, purpose, digest, authenticated.result);
        }
        edge.recheck(&self.authenticator);
        is_busy
    }

    fn read(&mut self, at: usize) -> bool {
        if self.reading != Reading::Now {
            return false;
        }
        let ready = std::mem::take(&mut self.shards[at].ready);
        let is_busy = !ready.is_empty();
        let mut buffer = vec![0; self.read_bytes];
        for key in ready {
            let found =
                self.sockets.values_mut().find(|socket| socket.edge == at && socket.key == key);
            let Some(socket) = found else {
                continue;
            };
            let shard = &mut self.shards[at];
            // A connection that is not read now gets no second event, like a socket.
            if !shard.edge.wants_read(key) {
                continue;
            }
            let count = socket.to_edge.len().min(buffer.len());
            for (place, byte) in buffer.iter_mut().zip(socket.to_edge.drain(..count)) {
                *place = byte;
            }
            if count > 0 {
                shard.edge.received(key, &mut buffer[..count]);
                shard.ready.push_back(key);
            } else if std::mem::take(&mut socket.has_ended) {
                shard.edge.ended(key);
            }
            if self.shards[at].edge.wants_flush() {
                self.flush(at);
            }
        }
        is_busy
    }

    /// Requests to homes and letters to edges, each in its sender's order. True if there were any.
    fn mail(&mut self, at: usize) -> bool {
        let mut is_busy = false;
        loop {
            let mut is_quiet = true;
            for home in 0..self.shards[at].edge.out.requests.len() {
                let requests = std::mem::take(&mut self.shards[at].edge.out.requests[home]);
                is_quiet &= requests.is_empty();
                let to = &mut self.shards[home].requests;
                to.extend(requests.into_iter().map(|request| (at as u16, request)));
            }
            if !self.homes_stopped.contains(&at) {
                is_quiet &= !self.handle(at);
            }
            for edge in 0..self.shards.len() {
                let letters = std::mem::take(&mut self.shards[at].out.letters[edge]);
                is_quiet &= letters.is_empty();
                let to = &mut self.shards[edge].letters;
                to.extend(letters.into_iter().map(|letter| (at as u16, letter)));
            }
            for occupancy in std::mem::take(&mut self.shards[at].out.occupancy) {
                is_quiet = false;
                self.shards[at].edge.publish_occupancy(&occupancy);
            }
            while !self.letters_stopped
                && let Some((from, letter)) = self.shards[at].letters.pop_front()
            {
                is_quiet = false;
                self.shards[at].edge.handle(HomeId(from), letter);
                if self.shards[at].edge.wants_flush() {
                    self.flush(at);
                }
            }
            if is_quiet {
                break;
            }
            is_busy = true;
        }
        for (key, client) in std::mem::take(&mut self.shards[at].edge.out.clients) {
            is_busy = true;
            let edge = &mut self.shards[at].edge;
            if self.refused_clients.contains(&client) {
                edge.client_refused(key, Code::TooManyConnections)
            } else {
                edge.client_admitted(key, client)
            }
        }
        is_busy |= self.users.take(&mut self.shards[at].edge);
        for (key, at_once) in std::mem::take(&mut self.shards[at].edge.out.closes) {
            self.closed(at, key, at_once);
        }
        let readable = std::mem::take(&mut self.shards[at].edge.out.readable);
        is_busy |= !readable.is_empty();
        self.shards[at].ready.extend(readable);
        is_busy
    }

    fn handle(&mut self, at: usize) -> bool {
        let now = self.now;
        let Shard { home: Some(home), memory, out, requests, .. } = &mut self.shards[at] else {
            return false;
        };
        let is_busy = !requests.is_empty();
        while let Some((from, request)) = requests.pop_front() {
            if let ToHome::Read(ReadTopic { subscription, .. })
            | ToHome::ReadFilter(ReadFilter { subscription, .. }) = &request
                && self.reads_fail
            {
                let letter =
                    ToEdge::Refused { subscription: *subscription, code: Code::LogUnavailable };
                out.letters[usize::from(from)].push(letter);
                continue;
            }
            home.handle(now, EdgeId(from), request, memory, out);
        }
        let more = home.pump(now, memory, out);
        home.finish_turn(out);
        is_busy || more
    }

    fn closed(&mut self, at: usize, key: Key, at_once: bool) {
        let name = self
            .sockets
            .iter()
            .find(|(_, socket)| socket.edge == at && socket.key == key)
            .map(|(name, _)| name.clone());
        let name = name.unwrap_or_else(|| panic!("closed and not open: {key:?}"));
        self.gone(&name);
        let client = self.clients.get_mut(&name).unwrap();
        client.closed(if at_once { "reset" } else { "closed" });
    }

    fn flush(&mut self, at: usize) {
        let World { shards, sockets, clients, .. } = self;
        shards[at].edge.flush(&mut |key, parts| {
            let found =
                sockets.iter_mut().find(|(_, socket)| socket.edge == at && socket.key == key);
            let Some((name, socket)) = found else {
                panic!("written to a connection that is closed: {key:?}");
            };
            let offered: usize = parts.iter().map(|part| part.len()).sum();
            let taken = offered.min(socket.room);
            if socket.room != usize::MAX {
                socket.room -= taken;
            }
            socket.is_full = taken < offered;
            let client = clients.get_mut(name).unwrap();
            let mut left = taken;
            for part in parts {
                let here = left.min(part.len());
                client.received(&part[..here]);
                left -= here;
            }
            match taken {
                0 => Written::Blocked,
                taken => Written::Bytes(taken),
            }
        });
    }
}
