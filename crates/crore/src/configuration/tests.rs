//! The configuration as its users see it, by subject.

mod assembled;
mod documents;
mod engine;
mod faults;
mod sources;
mod user_network;

use super::*;

fn faults_of(text: &str) -> String {
    match load_text(Path::new("crore.toml"), text) {
        Ok(_) => String::new(),
        Err(faults) => faults.to_string(),
    }
}

fn sources(variables: &[(&str, &str)], flags: &[(&str, &str)]) -> Sources {
    Sources {
        file: None,
        variables: variables.iter().map(|(a, b)| ((*a).into(), (*b).into())).collect(),
        flags: flags.iter().map(|(a, b)| ("--set", (*a).into(), (*b).into())).collect(),
    }
}

fn assemble_without_chance(configuration: &Configuration) -> broker::settings::Settings {
    let mut settings = assemble::node_options(configuration, 4).settings;
    settings.logs.iter_mut().for_each(|log| log.epoch = 0);
    settings.tickets.keys.clear();
    settings
}
