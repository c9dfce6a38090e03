//! The engine's log by its own clients: a producer that knows nothing of nodes, and a consumer that
//! lists all records.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use brokers::Kafka;

use super::history::{Kept, Name, Topic, topic_of, topic_text};
use super::world::TOPIC;

/// The number of the foreign producer in the names of its messages.
pub const FOREIGN: u16 = 99;
/// The pause between two batches of the foreign producer.
const TICK: Duration = Duration::from_millis(100);
/// The consumer ends after so long without a record.
const CONSUMER_SILENCE: &str = "20000";

/// Kafka's console producer, with a record for each line.
#[derive(Debug)]
pub struct Foreign {
    thread: JoinHandle<u64>,
    is_ending: Arc<AtomicBool>,
}

impl Foreign {
    /// Begins to write on these topics, so many records a second.
    pub fn begin(kafka: &Kafka, topics: &[Topic], rate: f64) -> Foreign {
        let is_ending = Arc::new(AtomicBool::new(false));
        let mut tool = kafka.tool("org.apache.kafka.tools.ConsoleProducer");
        tool.args(["--bootstrap-server", &kafka.bootstrap(), "--topic", TOPIC]);
        tool.args(["--reader-property", "parse.key=true", "--reader-property", "key.separator=="]);
        // It must outlast the longest fault: by itself it gives a record up after three attempts.
        tool.args(["--message-send-max-retries", "1000000"]);
        tool.args(["--command-property", "delivery.timeout.ms=600000"]);
        let tool = tool.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = tool.spawn().expect("the producer starts");
        let (ending, topics) = (is_ending.clone(), topics.to_vec());
        let thread = thread::spawn(move || write(child, &topics, rate, &ending));
        Foreign { thread, is_ending }
    }

    /// Ends when the engine has all records. Returns how many were written.
    pub fn end(self) -> u64 {
        self.is_ending.store(true, Ordering::Relaxed);
        self.thread.join().expect("a producer without faults")
    }
}

fn write(mut child: Child, topics: &[Topic], rate: f64, is_ending: &AtomicBool) -> u64 {
    let began = Instant::now();
    let mut input = child.stdin.take().expect("its input");
    let mut written = 0;
    while !is_ending.load(Ordering::Relaxed) {
        let due = (began.elapsed().as_secs_f64() * rate) as u64;
        let mut lines = String::new();
        while written < due {
            written += 1;
            let topic = topic_text(topics[written as usize % topics.len()]);
            let name = Name { publisher: FOREIGN, number: written };
            lines += &format!("{topic}={}\n", name.payload());
        }
        input.write_all(lines.as_bytes()).expect("the producer reads");
        thread::sleep(TICK);
    }
    drop(input);
    assert!(child.wait().expect("it ends").success(), "the producer has failed");
    written
}

/// All records of the engine, by Kafka's console consumer.
pub fn records(kafka: &Kafka) -> Vec<Kept> {
    let mut tool = kafka.tool("org.apache.kafka.tools.consumer.ConsoleConsumer");
    tool.args(["--bootstrap-server", &kafka.bootstrap(), "--topic", TOPIC, "--from-beginning"]);
    tool.args(["--timeout-ms", CONSUMER_SILENCE]);
    tool.args(["--isolation-level", "read_committed"]);
    for property in ["print.key=true", "print.offset=true", "print.value=true"] {
        tool.args(["--formatter-property", property]);
    }
    let tool = tool.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = tool.spawn().expect("the consumer starts");
    let output = BufReader::new(child.stdout.take().expect("its output"));
    let records: Vec<Kept> =
        output.lines().map_while(Result::ok).filter_map(|line| record(&line)).collect();
    // It ends by its timeout, which is an error in its eyes.
    let _ = child.wait();
    records
}

/// A line of the consumer: `Offset:12<tab>KEY<tab>VALUE`.
fn record(line: &str) -> Option<Kept> {
    let mut fields = line.split('\t');
    let offset: u64 = fields.next()?.strip_prefix("Offset:")?.parse().ok()?;
    let topic = topic_of(fields.next()?)?;
    Some(Kept { topic, offset: offset + 1, name: Name::of_payload(fields.next()?)? })
}
