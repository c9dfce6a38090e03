//! `crore mqtt`: publish and subscribe over MQTT, at a node or at any other broker.
//!
//! The codec is the node's own (`wire::mqtt`); `link` has packets over a socket, `session` the
//! beginning of a session, and each command its own side of the exchanges.

mod arguments;
mod link;
mod output;
mod publish;
mod session;
mod subscribe;
mod window;

use crate::exit::Ending;

/// Arguments of `mqtt`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Publish a message over MQTT, or one for each line of standard input.
    #[command(name = "pub")]
    Publish(publish::Arguments),
    /// Subscribe to topics or filters over MQTT and print their messages.
    #[command(name = "sub")]
    Subscribe(subscribe::Arguments),
}

/// Runs a command of `mqtt`.
///
/// # Errors
/// The command failed.
pub fn run(arguments: &Arguments) -> Result<(), Ending> {
    match &arguments.command {
        Command::Publish(arguments) => publish::run(arguments),
        Command::Subscribe(arguments) => subscribe::run(arguments),
    }
}
