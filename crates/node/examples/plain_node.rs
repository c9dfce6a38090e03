//! A node with defaults and nothing else, for trying things out: `cargo run -p node --example plain_node -- 8800 2`.

use broker::filters::FilterTrie;
use broker::settings::{Limits, LogSettings, RuleSettings, Settings};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let port: u16 = arguments.next().map_or(Ok(8800), |text| text.parse())?;
    let threads: u16 = arguments.next().map_or(Ok(2), |text| text.parse())?;
    net::kernel::raise_nofile_limit();
    let limits = Limits::default();
    let settings = Settings {
        edges_count: threads,
        homes_count: threads.min(2),
        logs: vec![LogSettings {
            name: "default".to_owned(),
            partitions_count: 64,
            first_partition: 0,
            epoch: u64::from(std::process::id()),
            log_bytes_max: 256 << 20,
            age_max_ms: 180_000,
            segment_bytes: 1 << 20,
            retained_bytes_max: 64 << 20,
        }],
        rules: vec![RuleSettings {
            log: 0,
            history_messages_max: 1_000,
            history_age_max_ms: 180_000,
            message_bytes_max: limits.message_bytes_max,
        }],
        rule_filters: FilterTrie::default(),
        limits,
        node_name: "plain".to_owned(),
        allowed_origins: Vec::new(),
    };
    let node = node::start(node::NodeOptions {
        settings,
        listen: vec![([127, 0, 0, 1], port).into()],
        socket_send_bytes: 32 << 10,
        backlog_max: 4096,
        private_tables: true,
        hash_seed: (1, 2),
    })?;
    println!("listening clients http://{}", node.addresses()[0]);
    loop {
        std::thread::sleep(std::time::Duration::from_secs(3_600));
    }
}
