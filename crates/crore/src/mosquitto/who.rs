//! Access control: `allow_anonymous`, the password file and the access list.

use super::access::{self, Access, Who};
use super::broker::Broker;
use super::source::{self, Line, quote};
use broker::entitlement::{Permissions, SUBJECT_PLACE};
use entitlement::password_file::{self, LineFault};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Access control of the result.
#[derive(Default, Debug)]
pub struct Control {
    /// Whether clients present credentials; every client may do everything otherwise.
    pub is_closed: bool,
    /// The users.
    pub users_file: Option<PathBuf>,
    /// The permissions of clients without a user.
    pub anonymous: Permissions,
    /// The grants, by user; none: every user.
    pub grants: Vec<(Option<String>, Permissions)>,
}

/// The file of users where there is none and one is needed.
const NEW_FILE: &str = "/etc/crore/users";

/// Decides, with remarks on files and their lines.
pub fn decide(broker: &mut Broker, directory: &Path) -> Control {
    let is_open = broker.is_open();
    let names = broker.password_file.clone().and_then(|(line, file)| {
        let file = directory.join(file);
        users_of(broker, &line, &file)
    });
    let list = broker.acl_file.clone().map(|(line, file)| {
        let file = directory.join(file);
        let list = list_of(broker, &line, &file);
        // One list would permit what another one forbids.
        if broker.has_several_lists { Access::default() } else { list }
    });
    if is_open && list.is_none() && broker.password_file.is_none() {
        return Control::default();
    }
    let mut control = Control {
        is_closed: true,
        users_file: broker.password_file.as_ref().map(|(_, file)| directory.join(file)),
        ..Control::default()
    };
    match list {
        None => {
            let everything = everything();
            if is_open {
                control.anonymous = everything.clone();
            }
            control.grants.push((None, everything));
        }
        Some(access) => apply(&mut control, access, is_open),
    }
    let may_nothing = control.anonymous.is_empty();
    if control.users_file.is_none() && (may_nothing || !control.grants.is_empty()) {
        let what = "there is no password_file";
        let place = broker.acl_file.as_ref().map_or("the file", |(line, _)| &line.place).to_owned();
        let text = format!(
            "{what}: create {NEW_FILE} with mosquitto_passwd; a user needs a password here"
        );
        broker.remarks.push(source::Remark { place, text });
        control.users_file = Some(NEW_FILE.into());
    }
    if let Some(names) = names {
        for user in control.grants.iter().filter_map(|(user, _)| user.as_deref()) {
            if !names.contains(user) {
                let place =
                    broker.acl_file.as_ref().map_or(String::new(), |(line, _)| line.place.clone());
                let text = format!(
                    "the user {} of the access list is not in the password file",
                    quote(user)
                );
                broker.remarks.push(source::Remark { place, text });
            }
        }
    }
    control
}

fn everything() -> Permissions {
    Permissions {
        subscribe: vec!["#".into(), broker::sys::MQTT_FILTER.into()],
        // Bridges of Mosquitto tell of themselves.
        publish: vec!["#".into(), "$SYS/broker/connection/+/state".into()],
        ..Permissions::default()
    }
}

/// Permissions of an access list.
fn apply(control: &mut Control, access: Access, is_open: bool) {
    for (who, permissions) in access.permissions {
        match who {
            Who::Anonymous if is_open => add(&mut control.anonymous, &permissions),
            Who::Anonymous => {}
            Who::All => {
                if is_open {
                    add(&mut control.anonymous, &without_names(&permissions));
                }
                control.grants.push((None, permissions));
            }
            Who::User(user) => control.grants.push((Some(user), permissions)),
        }
    }
}

/// Clients without a user have no name.
fn without_names(permissions: &Permissions) -> Permissions {
    let nameless = |filters: &[Box<str>]| {
        let is_name = |level: &str| level == SUBJECT_PLACE;
        let all = filters.iter();
        all.filter(|filter| !filter.split('/').any(is_name)).cloned().collect()
    };
    Permissions {
        subscribe: nameless(&permissions.subscribe),
        publish: nameless(&permissions.publish),
        history: Vec::new(),
    }
}

fn add(permissions: &mut Permissions, more: &Permissions) {
    permissions.subscribe.extend_from_slice(&more.subscribe);
    permissions.publish.extend_from_slice(&more.publish);
}

/// The names of a password file, if it is one.
fn users_of(broker: &mut Broker, line: &Line, file: &Path) -> Option<HashSet<Box<str>>> {
    let name = quote(&file.display().to_string());
    let parsed = source::read(file).map_err(|error| format!("cannot read {name}: {error}"));
    let parsed = parsed.and_then(|text| {
        password_file::parse(text.as_bytes()).map_err(|LineFault { line, problem }| {
            format!("{name}, line {line}: {problem}; the node would refuse to start")
        })
    });
    match parsed {
        Ok(users) => Some(users.into_iter().map(|user| user.name).collect()),
        Err(problem) => {
            broker.remarks.push(line.remark(problem));
            None
        }
    }
}

/// The permissions of an access list; none at all if it cannot be read.
fn list_of(broker: &mut Broker, line: &Line, file: &Path) -> Access {
    match source::read(file) {
        Ok(text) => {
            let mut access = access::translate(&source::lines(&text, Some(file)));
            broker.remarks.append(&mut access.remarks);
            access
        }
        Err(error) => {
            let name = quote(&file.display().to_string());
            broker.remarks.push(line.remark(format!("cannot read {name}: {error}")));
            Access::default()
        }
    }
}
