//! `crore tls`: generates a certificate to try out TLS.

use crate::exit::Ending;
use anyhow::Context;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Flags of `tls`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Generate a self-signed certificate to try out TLS: cert.pem and key.pem.
    SelfSigned(SelfSigned),
}

#[derive(Debug, clap::Args)]
struct SelfSigned {
    /// Host name or IP address of the certificate. May be repeated. Without it: localhost,
    /// 127.0.0.1 and ::1.
    #[arg(long = "name", value_name = "NAME")]
    names: Vec<String>,
    /// Directory for the two files. The command creates it if it is missing.
    #[arg(long, value_name = "DIRECTORY", default_value = ".")]
    out: PathBuf,
    /// Validity of the certificate, in days.
    #[arg(long, value_name = "DAYS", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    days: u32,
    /// Overwrite existing files.
    #[arg(long)]
    force: bool,
}

/// Tolerance for the clock of another machine.
const BACKDATED_S: u64 = 3_600;

/// Runs the command.
///
/// # Errors
/// A file exists already, or cannot be written.
pub fn run(arguments: &Arguments) -> Result<(), Ending> {
    let Command::SelfSigned(arguments) = &arguments.command;
    let mut names = arguments.names.clone();
    if names.is_empty() {
        names = ["localhost", "127.0.0.1", "::1"].map(String::from).into();
    }
    if let Some(bad) = names.iter().find(|name| !is_name(name)) {
        let problem = format!("`{bad}` is neither a host name nor an IP address");
        return Err(Ending::Usage(problem));
    }
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let made = tls::self_signed(&names, arguments.days, now_s.saturating_sub(BACKDATED_S))
        .map_err(|_| anyhow::anyhow!("the system provides no random numbers"))?;
    let directory = &arguments.out;
    fs::create_dir_all(directory)
        .with_context(|| format!("cannot create {}", directory.display()))?;
    let certificate = directory.join("cert.pem");
    let key = directory.join("key.pem");
    // Both files or none: check before writing.
    if let Some(there) = [&certificate, &key].into_iter().find(|file| file.exists())
        && !arguments.force
    {
        let there = there.display();
        return Err(anyhow::anyhow!("{there} exists already; --force overwrites it").into());
    }
    write(&key, &made.key_pem(), 0o600)?;
    write(&certificate, &made.certificate_pem(), 0o644)?;
    println!("{}\n{}", certificate.display(), key.display());
    Ok(())
}

/// The server name as a value of the certificate.
fn is_name(name: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && part.len() <= 63
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_*".contains(&byte))
    };
    name.parse::<std::net::IpAddr>().is_ok() || (name.len() <= 253 && name.split('.').all(is_part))
}

/// Writes a file with these permissions, even if it exists with others.
fn write(file: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    let attempt = || {
        if file.exists() {
            fs::remove_file(file)?;
        }
        let mut opened = OpenOptions::new().write(true).create_new(true).mode(mode).open(file)?;
        opened.write_all(text.as_bytes())
    };
    attempt().with_context(|| format!("cannot write {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["localhost", "a.example", "*.example", "127.0.0.1", "::1"] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", ".", "a..b", "a b", "https://a", "a:1", "é"] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
