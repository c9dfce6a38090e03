//! Starts brokers, prints their addresses, and ends them when its input ends or it is interrupted:
//! `cargo xtask kafka`.

#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used)]

use brokers::{Kafka, Plan};
use std::env;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (Some(folder), Some(brokers)) =
        (arguments.first(), arguments.get(1).and_then(|count| count.parse().ok()))
    else {
        eprintln!("usage: brokers <folder of the jars> <number of brokers>");
        return ExitCode::from(2);
    };
    let started = brokers::fetch(&PathBuf::from(folder))
        .and_then(|jars| Kafka::start(&jars, &Plan::new(brokers)));
    match started {
        Ok(kafka) => {
            println!("{}", kafka.bootstrap());
            // The terminal's interrupt goes to the brokers as well, so they end with this process.
            loop {
                thread::park();
            }
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
