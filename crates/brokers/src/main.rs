//! Starts brokers, prints their addresses, and ends them when it is interrupted (`cargo xtask
//! kafka`). With zero brokers it only fetches the jars, and prints their folder.

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
        eprintln!("usage: brokers <folder of the jars> <number of brokers, or 0 to fetch only>");
        return ExitCode::from(2);
    };
    let jars = match brokers::fetch(&PathBuf::from(folder)) {
        Ok(jars) => jars,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    if brokers == 0 {
        println!("{}", jars.display());
        return ExitCode::SUCCESS;
    }
    match Kafka::start(&jars, &Plan::new(brokers)) {
        Ok(kafka) => {
            println!("{}", kafka.bootstrap());
            // The brokers end with this process.
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
