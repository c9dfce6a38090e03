//! The user of the process, and the secrecy of its memory after a crash.
//!
//! Place: the first action of `serve`, while there is one thread: identity and capabilities belong
//! to threads, and each thread inherits those of its creator. Names are looked up in `/etc/passwd`
//! and `/etc/group` only; users of a directory service need a number.
//!
//! Invariants: a node with a configured user runs as that user with that user's groups, or does not
//! start. Of root's rights it keeps only those to bind low ports and, with `[user_network]`, to
//! open its devices; `net` removes them from each thread as soon as it listens.

use crate::configuration::Configuration;
use crate::configuration::fault::{Fault, Faults};
use crate::configuration::options::{Node, UserNetwork};
use crate::exit::Ending;
use crate::logging::{Level, Log};
use anyhow::Context;
use net::system::{DEVICES, LOW_PORTS};
use rustix::process::{
    DumpableBehavior, Gid, Resource, Rlimit, Uid, getegid, geteuid, set_dumpable_behavior,
    setrlimit,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_keep_capabilities,
    set_no_new_privs, set_thread_gid, set_thread_groups, set_thread_uid,
};
use std::fs;
use std::io;

/// A user to switch to.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Identity {
    user: u32,
    group: u32,
    /// Additional groups.
    groups: Vec<u32>,
}

/// Switches to the configured user, and keeps secrets out of core dumps.
///
/// # Errors
/// The configuration has an unknown user or group, or one that this process may not switch to; or
/// the system call failed.
pub fn settle(configuration: &Configuration, log: &Log) -> Result<(), Ending> {
    let Node { core_dumps, user, group, .. } = configuration.read();
    if !core_dumps {
        forbid_core_dumps().context("cannot disable core dumps")?;
    }
    let Some(user) = user else {
        if geteuid().is_root() {
            let advice = "The node runs as root; node.user, or a service manager, can change that.";
            log.write(Level::Info, advice, &[]);
        }
        return Ok(());
    };
    let fault = |key: &'static str, problem: String, expected: &str| {
        Ending::Configuration(Faults(vec![Fault {
            origin: configuration.get(key).1.clone(),
            key: key.into(),
            problem,
            expected: expected.into(),
        }]))
    };
    let files = Files::read();
    let Some(mut identity) = files.user(&user) else {
        let problem = format!("unknown user {user}");
        return Err(fault("node.user", problem, "a name in /etc/passwd, or a number"));
    };
    if let Some(group) = group {
        let Some(group_id) = files.group(&group) else {
            let problem = format!("unknown group {group}");
            return Err(fault("node.group", problem, "a name in /etc/group, or a number"));
        };
        identity.group = group_id;
    }
    let is_already = geteuid().as_raw() == identity.user && getegid().as_raw() == identity.group;
    if !is_already && !geteuid().is_root() {
        let problem = format!("only root can become {user}");
        return Err(fault("node.user", problem, "start the node as root, or as that user"));
    }
    let has_devices = configuration.read::<UserNetwork>().interface.is_some();
    let rights = if has_devices { LOW_PORTS | DEVICES } else { LOW_PORTS };
    if geteuid().is_root() && identity.user != 0 {
        identity.take(rights).with_context(|| format!("cannot become the user {user}"))?;
    }
    Ok(())
}

/// The number of a group in `/etc/group`, by its name or number.
pub fn group_id(name: &str) -> Option<u32> {
    Files::read().group(name)
}

impl Identity {
    /// Switches to the user permanently; only these rights remain.
    fn take(&self, rights: CapabilitySet) -> io::Result<()> {
        let groups: Vec<Gid> = self.groups.iter().map(|id| Gid::from_raw(*id)).collect();
        set_keep_capabilities(true)?;
        set_thread_groups(&groups)?;
        set_thread_gid(Gid::from_raw(self.group))?;
        set_thread_uid(Uid::from_raw(self.user))?;
        // In a container, root may not have had these rights.
        let kept = capabilities(None)?.permitted & rights;
        set_capabilities(
            None,
            CapabilitySets {
                effective: kept,
                permitted: kept,
                inheritable: CapabilitySet::empty(),
            },
        )?;
        set_no_new_privs(true)?;
        // After a change of user, a process may not read its own tables of memory and descriptors
        // unless it is dumpable, and its metrics would lack them.
        set_dumpable_behavior(DumpableBehavior::Dumpable)?;
        Ok(())
    }
}

/// The limit is one byte instead of zero: with zero, the kernel would still start a program that
/// receives core dumps through a pipe.
fn forbid_core_dumps() -> io::Result<()> {
    let one = Rlimit { current: Some(1), maximum: Some(1) };
    // A limit that is already zero cannot be raised to one, and need not be.
    match setrlimit(Resource::Core, one) {
        Err(rustix::io::Errno::PERM | rustix::io::Errno::INVAL) => {
            setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?
        }
        result => result?,
    }
    Ok(())
}

/// The content of the system's list of users or groups; empty if it is missing.
struct Files {
    users: String,
    groups: String,
}

impl Files {
    fn read() -> Files {
        Files {
            users: fs::read_to_string("/etc/passwd").unwrap_or_default(),
            groups: fs::read_to_string("/etc/group").unwrap_or_default(),
        }
    }

    /// A user by name or number. An unlisted user has the group with the same number.
    fn user(&self, wanted: &str) -> Option<Identity> {
        let line = self.users.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            let [name, _, user, group, ..] = fields[..] else {
                return None;
            };
            let is_wanted = name == wanted || user == wanted;
            is_wanted.then(|| Some((name, number(user)?, number(group)?)))?
        });
        match line {
            Some((name, user, group)) => {
                Some(Identity { user, group, groups: self.groups_of(name) })
            }
            None => number(wanted).map(|id| Identity { user: id, group: id, groups: Vec::new() }),
        }
    }

    fn group(&self, wanted: &str) -> Option<u32> {
        let mut listed = self.groups.lines().filter_map(|line| {
            let mut fields = line.split(':');
            let (name, id) = (fields.next()?, fields.nth(1)?);
            (name == wanted).then(|| number(id))?
        });
        listed.next().or_else(|| number(wanted))
    }

    /// Groups that list the user as a member.
    fn groups_of(&self, user: &str) -> Vec<u32> {
        let of_line = |line: &str| {
            let fields: Vec<&str> = line.split(':').collect();
            let [_, _, id, members] = fields[..] else {
                return None;
            };
            let is_member = members.split(',').any(|member| member == user);
            is_member.then(|| number(id))?
        };
        self.groups.lines().filter_map(of_line).collect()
    }
}

/// Parses digits only; the highest number is reserved.
fn number(text: &str) -> Option<u32> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let id = is_number.then(|| text.parse::<u32>().ok())??;
    (id != u32::MAX).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_groups_are_found() {
        let files = Files {
            users: "root:x:0:0:root:/root:/bin/sh\n\nbroken:x\ncrore:x:990:991::/var/lib/crore:/bin/false\n".into(),
            groups: "root:x:0:\nssl-cert:x:120:www,crore\ncrored:x:121:crored\ncrore:x:991:\n".into(),
        };
        let crore = Identity { user: 990, group: 991, groups: vec![120] };
        assert_eq!(files.user("crore"), Some(crore.clone()));
        assert_eq!(files.user("990"), Some(crore));
        let stranger = Identity { user: 4_000, group: 4_000, groups: Vec::new() };
        assert_eq!(files.user("4000"), Some(stranger));
        for nobody in ["", "cror", "broken", "-1", "+5", "4294967295", "4294967296"] {
            assert_eq!(files.user(nobody), None, "{nobody}");
            assert_eq!(files.group(nobody), None, "{nobody}");
        }
        assert_eq!(files.group("ssl-cert"), Some(120));
        assert_eq!(files.group("7"), Some(7));
    }
}
