//! `crore token`: creates keys and tokens, checks them as a node would, and revokes tokens.

use crate::commands::token_revoke;
use crate::configuration;
use crate::entitled::{self, secret_of_file};
use crate::exit::Ending;
use crate::flags::ConfigurationArguments;
use anyhow::{Context, anyhow};
use broker::entitlement::{Action, CREDENTIAL_BYTES_MAX, CredentialKind, Entitlement, NEVER};
use entitlement::TokenAuthenticator;
use entitlement::algorithm::{Algorithm, Family};
use entitlement::api_keys::{API_KEY_PREFIX, new_api_key, sha256};
use entitlement::issue::{SigningKey, new_pair, new_secret};
use entitlement::notices::Notices;
use entitlement::refusal::Refusal;
use entitlement::revocation_file;
use serde_json::{Map, Value, json};
use std::fs::{self, OpenOptions};
use std::io::{BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use zeroize::Zeroizing;

/// Flags of `token`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Create one or more tokens and print them.
    Gen(Box<Generate>),
    /// Print what a token or an API key permits at a node of this configuration, or why the node
    /// refuses it (exit code 1).
    Check(Box<Check>),
    /// Generate a key: an API key, a secret (--algorithm HS256), or a key pair in two files
    /// (--algorithm EdDSA and others).
    Key(Key),
    /// Revoke tokens at a running node, effective at once.
    Revoke(token_revoke::Arguments),
}

#[derive(Debug, clap::Args)]
struct Generate {
    /// File with the secret of HS256, HS384 or HS512. A line ending at its end is ignored.
    #[arg(long, value_name = "FILE", conflicts_with = "key_file")]
    secret_file: Option<PathBuf>,
    /// File with the private key in PEM: RSA, EC or Ed25519.
    #[arg(long, value_name = "FILE", required_unless_present = "secret_file")]
    key_file: Option<PathBuf>,
    /// HS256, HS384, HS512, RS256, RS384, RS512, ES256, ES384 or EdDSA. Without it, the algorithm
    /// that fits the key.
    #[arg(long, value_name = "NAME", value_parser = algorithm)]
    algorithm: Option<Algorithm>,
    /// Key ID (`kid`).
    #[arg(long, value_name = "ID")]
    kid: Option<String>,
    /// Subject of the token (`sub`).
    #[arg(long, value_name = "NAME")]
    sub: Option<String>,
    /// Number of tokens to create, one on each line. Each has its own subject: the value of --sub,
    /// a hyphen, and a number that starts at 1.
    #[arg(long, value_name = "N", requires = "sub", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    count: Option<u32>,
    /// Lifetime of the token: `90s`, `15m`, `1h` or `7d`. `never` omits `exp`.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = lifetime)]
    expires: Lifetime,
    /// Token ID (`jti`), for revocation. `random` generates one.
    #[arg(long, value_name = "ID")]
    jti: Option<String>,
    /// Issuer of the token (`iss`).
    #[arg(long, value_name = "NAME")]
    issuer: Option<String>,
    /// Audience of the token (`aud`). May be repeated.
    #[arg(long, value_name = "NAME")]
    audience: Vec<String>,
    /// Filter that the client may subscribe to. May be repeated. `{sub}` stands for the value of
    /// --sub, as a whole level.
    #[arg(long, value_name = "FILTER", value_parser = filter)]
    subscribe: Vec<String>,
    /// Filter that the client may publish to. May be repeated.
    #[arg(long, value_name = "FILTER", value_parser = filter)]
    publish: Vec<String>,
    /// Filter whose history the client may read. May be repeated.
    #[arg(long, value_name = "FILTER", value_parser = filter)]
    history: Vec<String>,
    /// Filter that the client may subscribe to, publish to and read the history of. May be
    /// repeated.
    #[arg(long, value_name = "FILTER", value_parser = filter)]
    all: Vec<String>,
    /// Maximum number of connections of the subject to one node.
    #[arg(long, value_name = "N")]
    connections: Option<u32>,
    /// Maximum number of subscriptions of one connection.
    #[arg(long, value_name = "N")]
    subscriptions: Option<u32>,
    /// Maximum rate of one connection, in publications per second.
    #[arg(long, value_name = "N")]
    publish_rate: Option<u32>,
}

#[derive(Debug, clap::Args)]
struct Check {
    /// Token or API key. With `-` or without a value, the command reads it from standard input,
    /// which keeps it out of process lists.
    credential: Option<String>,
    /// Check whether the credential permits subscribing to this filter. The exit code is 1 if not.
    #[arg(long, value_name = "FILTER", value_parser = filter)]
    subscribe: Vec<String>,
    /// Check whether the credential permits publishing to this filter. The exit code is 1 if not.
    #[arg(long, value_name = "FILTER", value_parser = filter)]
    publish: Vec<String>,
    /// Check whether the credential permits reading the history of this filter. The exit code is 1
    /// if not.
    #[arg(long, value_name = "FILTER", value_parser = filter)]
    history: Vec<String>,
    #[command(flatten)]
    configuration: ConfigurationArguments,
}

#[derive(Debug, clap::Args)]
struct Key {
    /// HS256, HS384 or HS512 for a secret; RS256, RS384, RS512, ES256, ES384 or EdDSA for a key
    /// pair. Without it, an API key.
    #[arg(long, value_name = "NAME", value_parser = algorithm)]
    algorithm: Option<Algorithm>,
    /// Secret or API key: a file that only its owner can read; without it, the command prints
    /// the key. Key pair: a directory for private.pem and public.pem, created if it is
    /// missing; without it, the current directory.
    #[arg(long, short, value_name = "PATH")]
    out: Option<PathBuf>,
    /// Name of the API key, for the table that is printed with it.
    #[arg(long, value_name = "NAME", default_value = "server")]
    name: String,
}

#[derive(Clone, Copy, Debug)]
enum Lifetime {
    Never,
    Span(Duration),
}

/// Runs the command.
///
/// # Errors
/// A key cannot be read or written, a token is refused, or a node refuses the request.
pub fn run(arguments: &Arguments) -> Result<(), Ending> {
    match &arguments.command {
        Command::Gen(arguments) => generate(arguments),
        Command::Check(arguments) => check(arguments),
        Command::Key(arguments) => key(arguments),
        Command::Revoke(arguments) => token_revoke::run(arguments),
    }
}

fn generate(arguments: &Generate) -> Result<(), Ending> {
    let signing = signing_key(arguments)?;
    let now_s = now_s();
    let mut output = BufWriter::new(std::io::stdout().lock());
    let Some(count) = arguments.count else {
        let token = token(arguments, &signing, arguments.sub.clone(), now_s)?;
        writeln!(output, "{token}")?;
        return Ok(output.flush()?);
    };
    let name = arguments.sub.as_deref().unwrap_or_default();
    for number in 1..=count {
        let token = token(arguments, &signing, Some(format!("{name}-{number}")), now_s)?;
        writeln!(output, "{token}")?;
    }
    Ok(output.flush()?)
}

/// Signs one token for this subject.
fn token(
    arguments: &Generate,
    signing: &SigningKey,
    subject: Option<String>,
    now_s: u64,
) -> Result<String, Ending> {
    let claims = claims(arguments, subject, now_s)?;
    let token =
        signing.token(arguments.kid.as_deref(), &claims).map_err(|problem| anyhow!(problem))?;
    if token.len() > CREDENTIAL_BYTES_MAX {
        let bytes = token.len();
        return Err(anyhow!(
            "the token would have {bytes} bytes, more than the {CREDENTIAL_BYTES_MAX} bytes that nodes accept"
        )
        .into());
    }
    Ok(token)
}

fn signing_key(arguments: &Generate) -> anyhow::Result<SigningKey> {
    if let Some(file) = &arguments.secret_file {
        let secret = secret_of_file(file).map_err(|problem| anyhow!(problem))?;
        let algorithm = arguments.algorithm.unwrap_or(Algorithm::HS256);
        return SigningKey::of_secret(algorithm, &secret).map_err(|problem| anyhow!(problem));
    }
    let file = arguments.key_file.as_deref().unwrap_or(Path::new(""));
    let of_file = |problem| anyhow!("{}: {problem}", file.display());
    let pem = entitled::read(file, 64 << 10).map_err(of_file)?;
    SigningKey::of_pem(arguments.algorithm, &pem).map_err(of_file)
}

fn claims(arguments: &Generate, subject: Option<String>, now_s: u64) -> Result<Value, Ending> {
    let mut claims = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            claims.insert(name.into(), value);
        }
    };
    put("iss", arguments.issuer.clone().map(Value::from));
    put("sub", subject.map(Value::from));
    put(
        "aud",
        match arguments.audience.as_slice() {
            [] => None,
            [one] => Some(one.as_str().into()),
            several => Some(several.into()),
        },
    );
    put("iat", Some(now_s.into()));
    if let Lifetime::Span(span) = arguments.expires {
        put("exp", Some((now_s + span.as_secs()).into()));
    }
    let jti = match arguments.jti.as_deref() {
        Some("random") => Some(random_id()?),
        given => given.map(String::from),
    };
    put("jti", jti.map(Value::from));
    let lists = [
        ("subscribe", &arguments.subscribe),
        ("publish", &arguments.publish),
        ("history", &arguments.history),
        ("all", &arguments.all),
    ];
    let given = lists.iter().filter(|(_, filters)| !filters.is_empty());
    let permissions: Map<String, Value> =
        given.map(|(name, filters)| ((*name).into(), json!(filters))).collect();
    put("permissions", Some(permissions.into()));
    let limits = [
        ("connections", arguments.connections),
        ("subscriptions", arguments.subscriptions),
        ("publish_rate", arguments.publish_rate),
    ];
    let limits: Map<String, Value> = limits
        .iter()
        .filter_map(|(name, number)| Some(((*name).into(), (*number)?.into())))
        .collect();
    put("limits", (!limits.is_empty()).then(|| limits.into()));
    let claims = Value::from(claims);
    // Refuse a token that no node would accept.
    entitlement::claims::Claims::parse(claims.to_string().as_bytes())
        .map_err(|refusal| Ending::Usage(refusal.to_string()))?;
    Ok(claims)
}

fn random_id() -> anyhow::Result<String> {
    let bytes = new_secret(16).context("the system provides no random numbers")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn check(arguments: &Check) -> Result<(), Ending> {
    let configuration = configuration::load(&arguments.configuration.sources())?;
    let settings = entitled::authenticator_settings(&configuration)?;
    let fetched = entitled::fetch_once(&configuration)?;
    let revocations = match entitled::data_dir(&configuration) {
        Some(directory) => revocation_file::read(&directory)
            .with_context(|| format!("cannot read {}", directory.display()))?,
        None => entitlement::revocations::Revocations::default(),
    };
    let (notices, _) = Notices::new();
    let authenticator = TokenAuthenticator::new(settings, revocations, 0, None, notices);
    authenticator.replace_fetched(fetched);
    let credential = credential(arguments)?;
    let kind = if credential.starts_with(API_KEY_PREFIX) {
        CredentialKind::ApiKey
    } else {
        CredentialKind::Token
    };
    match authenticator.explain(kind, credential.as_bytes(), now_s()) {
        Ok(entitlement) => say_allowed(arguments, &entitlement),
        Err(refusal) => {
            say_refused(&refusal)?;
            Err(Ending::FailedAndTold)
        }
    }
}

fn credential(arguments: &Check) -> anyhow::Result<String> {
    match arguments.credential.as_deref() {
        Some(given) if given != "-" => Ok(given.into()),
        _ => {
            let mut text = String::new();
            let input = std::io::stdin().take(2 * CREDENTIAL_BYTES_MAX as u64);
            let mut input = std::io::BufReader::new(input);
            input.read_to_string(&mut text).context("cannot read standard input")?;
            Ok(text.trim_end_matches(['\n', '\r']).into())
        }
    }
}

fn say_refused(refusal: &Refusal) -> Result<(), Ending> {
    let code = refusal.code().name();
    writeln!(std::io::stdout(), "refused ({code}): {refusal}")?;
    Ok(())
}

fn say_allowed(arguments: &Check, entitlement: &Entitlement) -> Result<(), Ending> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "valid")?;
    if !entitlement.subject.is_empty() {
        writeln!(output, "subject        {}", entitlement.subject)?;
    }
    let signer = &entitlement.terms.signer;
    if !signer.issuer.is_empty() {
        writeln!(output, "issuer         {}", signer.issuer)?;
    }
    if entitlement.kind() == CredentialKind::Token {
        // `crore token revoke --key` accepts either name.
        let key = [&*signer.key_id, &signer.thumbprint()].join(" ");
        writeln!(output, "key            {}", key.trim_start())?;
    }
    let expires = match entitlement.expires_s {
        NEVER => "never".into(),
        expires_s => crate::logging::rfc3339(UNIX_EPOCH + Duration::from_secs(expires_s.into())),
    };
    writeln!(output, "expires        {expires}")?;
    let permissions = &entitlement.terms.permissions;
    for (name, action) in [
        ("subscribe", Action::Subscribe),
        ("publish", Action::Publish),
        ("history", Action::History),
    ] {
        let filters = permissions.of(action);
        let list = if filters.is_empty() { "nothing".into() } else { filters.join(" ") };
        writeln!(output, "{name:<14} {list}")?;
    }
    let limits = &entitlement.terms.limits;
    for (name, limit) in [
        ("connections", limits.connections_max),
        ("subscriptions", limits.subscriptions_max),
        ("publish_rate", limits.publish_rate_max),
    ] {
        if let Some(limit) = limit {
            writeln!(output, "{name:<14} {limit}")?;
        }
    }
    let mut is_permitted = true;
    for (name, action, wanted) in [
        ("subscribe", Action::Subscribe, &arguments.subscribe),
        ("publish", Action::Publish, &arguments.publish),
        ("history", Action::History, &arguments.history),
    ] {
        for text in wanted {
            let filter = broker::topic::Filter::parse(text);
            let may = filter.is_ok_and(|filter| entitlement.permits(action, filter));
            is_permitted &= may;
            let word = if may { "permitted" } else { "forbidden" };
            writeln!(output, "{word:<14} {name} {text}")?;
        }
    }
    if is_permitted { Ok(()) } else { Err(Ending::FailedAndTold) }
}

fn key(arguments: &Key) -> Result<(), Ending> {
    let Some(algorithm) = arguments.algorithm else {
        return api_key(arguments);
    };
    if algorithm.family() == Family::Hmac {
        let bytes = match algorithm {
            Algorithm::HS256 => 32,
            Algorithm::HS384 => 48,
            _ => 64,
        };
        let secret = new_secret(bytes).context(NO_RANDOMNESS)?;
        let digits: Vec<String> = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        return give_secret(arguments, &Zeroizing::new(digits.concat()));
    }
    let pair = new_pair(algorithm).context(NO_RANDOMNESS)?;
    let directory = arguments.out.as_deref().unwrap_or(Path::new("."));
    fs::create_dir_all(directory)
        .with_context(|| format!("cannot create {}", directory.display()))?;
    let files = [
        ("private.pem", pair.private.as_str(), 0o600),
        ("public.pem", pair.public.as_str(), 0o644),
    ];
    for (name, ..) in files {
        let file = directory.join(name);
        if file.exists() {
            return Err(anyhow!("{} exists already", file.display()).into());
        }
    }
    for (name, text, mode) in files {
        let file = directory.join(name);
        write_new(&file, text, mode)?;
        writeln!(std::io::stdout(), "{}", file.display())?;
    }
    Ok(())
}

const NO_RANDOMNESS: &str = "the system provides no random numbers";

/// The API key, and the table that declares it to a node.
fn api_key(arguments: &Key) -> Result<(), Ending> {
    let api_key = new_api_key().context(NO_RANDOMNESS)?;
    let hash = sha256(api_key.as_bytes());
    let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    let name = configuration::value::quote(&arguments.name);
    give_secret(arguments, &api_key)?;
    let remark = match arguments.out {
        Some(_) => "# The node stores only the hash of the key.",
        None => "\n# The key is shown only once; the node stores its hash.",
    };
    writeln!(
        std::io::stdout(),
        "{remark}\n[[api_key]]\nname = {name}\nsha256 = \"{hash}\"\npublish = []\nsubscribe = []\nhistory = []"
    )?;
    Ok(())
}

/// Writes the key to its file, or to standard output.
fn give_secret(arguments: &Key, secret: &str) -> Result<(), Ending> {
    let line = Zeroizing::new(format!("{secret}\n"));
    match &arguments.out {
        Some(file) => write_new(file, &line, 0o600)?,
        None => std::io::stdout().write_all(line.as_bytes())?,
    }
    Ok(())
}

/// Creates a new file with these permissions, whatever the umask is.
fn write_new(file: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(file)
        .and_then(|mut opened| opened.write_all(text.as_bytes()));
    written.with_context(|| format!("cannot write {}", file.display()))
}

fn algorithm(text: &str) -> Result<Algorithm, String> {
    Algorithm::of(text).ok_or_else(|| {
        let names = Algorithm::ALL.map(Algorithm::name);
        format!("expected one of {}", names.join(", "))
    })
}

fn filter(text: &str) -> Result<String, String> {
    match broker::topic::Filter::parse(text) {
        Ok(_) => Ok(text.into()),
        Err(_) => Err("not a topic filter".into()),
    }
}

fn lifetime(text: &str) -> Result<Lifetime, String> {
    if text == "never" {
        return Ok(Lifetime::Never);
    }
    let span_ms = configuration::value::parse_duration(text);
    let span = span_ms.map(Duration::from_millis);
    span.map(Lifetime::Span)
        .ok_or_else(|| "expected a time such as 90s, 15m, 1h or 7d, or never".into())
}

fn now_s() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    since_1970.unwrap_or_default().as_secs()
}
