//! The commands, one file each.

pub mod bench;
pub mod bridge;
pub mod cluster;
pub mod completion;
pub mod config;
pub mod conn;
mod connection;
pub mod demo;
pub mod drain;
pub mod engine;
mod gaps;
pub mod health;
pub mod history;
mod listing;
pub mod log;
pub mod login;
mod man;
mod messages;
mod metrics;
pub mod mqtt;
mod operators;
pub mod publish;
pub mod serve;
pub mod subscribe;
mod table;
pub mod tls;
pub mod token;
mod token_revoke;
pub mod top;
pub mod topic;
pub mod upgrade;
mod version;

use crate::cli::Command;
use crate::exit::Ending;

/// Runs a command to its end.
///
/// # Errors
/// The command failed, or a signal stopped it.
pub fn run(command: Command) -> Result<(), Ending> {
    match command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Publish(arguments) => publish::run(&arguments),
        Command::Subscribe(arguments) => subscribe::run(&arguments),
        Command::Mqtt(arguments) => mqtt::run(&arguments),
        Command::History(arguments) => history::run(&arguments),
        Command::Top(arguments) => top::run(&arguments),
        Command::Conn(arguments) => conn::run(&arguments),
        Command::Topic(arguments) => topic::run(&arguments),
        Command::Bench(arguments) => bench::run(arguments),
        Command::Doctor(arguments) => crate::doctor::run(&arguments),
        Command::Plan(arguments) => crate::plan::run(&arguments),
        Command::Log(arguments) => log::run(&arguments),
        Command::Engine(arguments) => engine::run(&arguments),
        Command::Cluster(arguments) => cluster::run(&arguments),
        Command::Login(arguments) => login::run(&arguments),
        Command::Tls(arguments) => tls::run(&arguments),
        Command::Token(arguments) => token::run(&arguments),
        Command::Drain(arguments) => drain::run(&arguments),
        Command::Health(arguments) => health::run(&arguments),
        Command::Config(arguments) => config::run(&arguments),
        Command::Bridge(arguments) => bridge::run(&arguments),
        Command::Metrics => metrics::run(),
        Command::Upgrade(arguments) => upgrade::run(&arguments),
        Command::Version => version::run(),
        Command::Completion(arguments) => {
            completion::run(&arguments, <crate::cli::Arguments as clap::CommandFactory>::command())
        }
        Command::Man => man::run(),
    }
}
