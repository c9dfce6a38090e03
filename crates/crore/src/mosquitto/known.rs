//! Every option of mosquitto.conf(5), of Mosquitto 2.0 and 2.1, and its fate.

/// The fate of an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It becomes options of Crore (`broker`).
    Translated,
    /// It belongs to a bridge.
    Bridge,
    /// It has no meaning here, for this reason.
    Meaningless(&'static str),
    /// It cannot be expressed: the reason, and the way out.
    Impossible(&'static str, &'static str),
}

use Fate::{Bridge, Impossible, Meaningless, Translated};

const NO_PLUGINS: Fate = Impossible(
    "Crore has no plugins",
    "use tokens (docs/tokens.md), API keys, or a password file with [[grant]]",
);
const NO_PSK: Fate = Impossible("Crore has no pre-shared keys", "use certificates");
const NO_CLIENT_CERTIFICATES: Fate = Impossible(
    "certificates of clients hold for all listeners with TLS",
    "set tls.client_ca_file and its neighbours by hand (docs/entitlement.md)",
);
const OWN_CIPHERS: Fate = Meaningless("the node chooses ciphers that are safe");
const OWN_PROCESS: Fate = Meaningless("the service manager knows the process");
const NO_QUEUE: Fate = Meaningless(
    "a session has no queue: it reads from the log; see history_messages_max of [[rule]]",
);
const NO_IDENTITY: Fate = Impossible(
    "a client identifier says nothing about a user",
    "use {sub} in the filters of [[grant]]",
);
const NO_INTERVAL: Fate = Meaningless("the log is written at once");

/// The options in alphabetical order.
pub const OPTIONS: &[(&str, Fate)] = &[
    (
        "accept_protocol_versions",
        Impossible("every version is accepted", "none is needed: each client has its own"),
    ),
    ("acl_file", Translated),
    ("address", Bridge),
    ("addresses", Bridge),
    ("allow_anonymous", Translated),
    ("allow_duplicate_messages", Meaningless("overlapping subscriptions get a live message once")),
    ("allow_zero_length_clientid", Translated),
    ("auth_plugin", NO_PLUGINS),
    ("auth_plugin_deny_special_chars", NO_PLUGINS),
    (
        "auto_id_prefix",
        Impossible("identifiers of the node begin with auto-", "give clients identifiers"),
    ),
    ("autosave_interval", NO_INTERVAL),
    ("autosave_on_changes", NO_INTERVAL),
    ("bind_address", Translated),
    (
        "bind_interface",
        Impossible("Crore listens on addresses", "give the interface's address in mqtt.listen"),
    ),
    ("bridge_alpn", Bridge),
    ("bridge_attempt_unsubscribe", Bridge),
    ("bridge_bind_address", Bridge),
    ("bridge_cafile", Bridge),
    ("bridge_capath", Bridge),
    ("bridge_certfile", Bridge),
    ("bridge_ciphers", Bridge),
    ("bridge_ciphers_tls1.3", Bridge),
    ("bridge_clean_start", Bridge),
    ("bridge_identity", Bridge),
    ("bridge_insecure", Bridge),
    ("bridge_keyfile", Bridge),
    ("bridge_max_packet_size", Bridge),
    ("bridge_max_topic_alias", Bridge),
    ("bridge_outgoing_retain", Bridge),
    ("bridge_protocol_version", Bridge),
    ("bridge_psk", Bridge),
    ("bridge_receive_maximum", Bridge),
    ("bridge_reload_type", Bridge),
    ("bridge_require_ocsp", Bridge),
    ("bridge_session_expiry_interval", Bridge),
    ("bridge_tcp_keepalive", Bridge),
    ("bridge_tcp_user_timeout", Bridge),
    ("bridge_tls_use_os_certs", Bridge),
    ("bridge_tls_version", Bridge),
    ("cafile", NO_CLIENT_CERTIFICATES),
    ("capath", NO_CLIENT_CERTIFICATES),
    ("certfile", Translated),
    ("check_retain_source", Meaningless("a retained message was permitted when it was published")),
    ("ciphers", OWN_CIPHERS),
    ("ciphers_tls1.3", OWN_CIPHERS),
    ("cleansession", Bridge),
    ("clientid", Bridge),
    ("clientid_prefixes", NO_IDENTITY),
    ("connection", Bridge),
    (
        "connection_messages",
        Meaningless("connections are in the access log: logging.levels = [\"access=info\"]"),
    ),
    ("crlfile", NO_CLIENT_CERTIFICATES),
    ("dhparamfile", OWN_CIPHERS),
    ("disable_client_cert_date_checks", NO_CLIENT_CERTIFICATES),
    (
        "enable_control_api",
        Meaningless("commands such as `crore conn` and `crore topic` use the operators' port"),
    ),
    (
        "enable_proxy_protocol",
        Impossible(
            "the node needs the proxies' addresses",
            "set listen.proxy_protocol = \"required\" and listen.proxies",
        ),
    ),
    (
        "global_max_clients",
        Impossible("sessions are bounded by memory", "set limits.connections_max for connections"),
    ),
    ("global_max_connections", Translated),
    ("global_plugin", NO_PLUGINS),
    ("http_dir", Impossible("Crore serves no files", "use a web server")),
    ("idle_timeout", Bridge),
    ("include_dir", Translated),
    ("keepalive_interval", Bridge),
    ("keyfile", Translated),
    ("lazy", Bridge),
    ("listener", Translated),
    ("listener_allow_anonymous", Translated),
    (
        "listener_auto_id_prefix",
        Impossible("identifiers of the node begin with auto-", "give clients identifiers"),
    ),
    ("local_cleansession", Bridge),
    ("local_clientid", Bridge),
    ("local_password", Bridge),
    ("local_username", Bridge),
    ("log_dest", Meaningless("the log goes to standard output; the service manager stores it")),
    ("log_facility", Meaningless("the log goes to standard output; the service manager stores it")),
    ("log_timestamp", Meaningless("each line of the log has its time")),
    ("log_timestamp_format", Meaningless("times of the log are those of RFC 3339")),
    ("log_type", Translated),
    ("max_connections", Translated),
    (
        "max_inflight_bytes",
        Impossible("messages under way are counted, not their bytes", "set mqtt.inflight_max"),
    ),
    ("max_inflight_messages", Translated),
    ("max_keepalive", Translated),
    ("max_packet_size", Translated),
    ("max_qos", Translated),
    ("max_queued_bytes", NO_QUEUE),
    ("max_queued_messages", NO_QUEUE),
    ("max_topic_alias", Translated),
    ("max_topic_alias_broker", Translated),
    ("maximum_qos", Translated),
    ("memory_limit", Translated),
    ("message_size_limit", Translated),
    ("mount_point", Translated),
    ("notification_topic", Bridge),
    ("notifications", Bridge),
    ("notifications_local_only", Bridge),
    ("packet_buffer_size", Meaningless("the node has one buffer for all connections of a thread")),
    ("password", Bridge),
    ("password_file", Translated),
    ("per_listener_settings", Translated),
    ("persistence", Translated),
    ("persistence_file", Meaningless("logs are directories in node.data_dir")),
    (
        "persistence_location",
        Meaningless(
            "logs are in node.data_dir; sessions and retained messages of Mosquitto are not taken over",
        ),
    ),
    ("persistent_client_expiration", Translated),
    ("pid_file", OWN_PROCESS),
    ("plugin", NO_PLUGINS),
    ("plugin_load", NO_PLUGINS),
    ("plugin_use", NO_PLUGINS),
    ("port", Translated),
    ("protocol", Translated),
    (
        "proxy_protocol_v2_require_tls",
        Impossible(
            "the node does not read this from the header",
            "listen on tls.listen behind the proxy",
        ),
    ),
    ("psk_file", NO_PSK),
    ("psk_hint", Translated),
    (
        "queue_qos0_messages",
        Impossible(
            "a session that sleeps gets no messages with QoS 0",
            "publish and subscribe with QoS 1",
        ),
    ),
    ("remote_clientid", Bridge),
    ("remote_password", Bridge),
    ("remote_username", Bridge),
    ("require_certificate", Translated),
    ("restart_timeout", Bridge),
    ("retain_available", Translated),
    (
        "retain_expiry_interval",
        Impossible(
            "a retained message stays until another one or its own expiry",
            "publish with a message expiry",
        ),
    ),
    ("retained_persistence", Meaningless("the log of a topic has its retained message")),
    ("retry_interval", Meaningless("messages are sent again when the client reconnects")),
    ("round_robin", Bridge),
    ("set_tcp_nodelay", Meaningless("the node always sets it")),
    ("socket_domain", Translated),
    ("start_type", Bridge),
    ("store_clean_interval", NO_INTERVAL),
    ("sys_interval", Translated),
    ("threshold", Bridge),
    ("tls_engine", Impossible("keys are in files", "set tls.key_file")),
    ("tls_engine_kpass_sha1", Impossible("keys are in files", "set tls.key_file")),
    ("tls_keyform", Impossible("keys are in files", "set tls.key_file")),
    ("tls_keylog", Meaningless("keys of connections are never written")),
    ("tls_version", Translated),
    ("topic", Bridge),
    ("try_private", Bridge),
    (
        "upgrade_outgoing_qos",
        Impossible(
            "a message is never sent with a higher QoS than it was published with",
            "publish with a higher QoS",
        ),
    ),
    ("use_identity_as_username", NO_CLIENT_CERTIFICATES),
    ("use_subject_as_username", NO_CLIENT_CERTIFICATES),
    ("use_username_as_clientid", NO_IDENTITY),
    (
        "user",
        Meaningless(
            "the service manager starts the node as its user; after a start as root, node.user",
        ),
    ),
    ("username", Bridge),
    ("websockets_headers_size", Meaningless("limits.request_bytes_max bounds a request")),
    ("websockets_log_level", Meaningless("logging.levels sets levels of parts")),
    ("websockets_origin", Impossible("origins are those of HTTP", "set http.allowed_origins")),
];

/// The fate of an option; none of an unknown one.
pub fn fate(name: &str) -> Option<Fate> {
    if name.starts_with("auth_opt_") || name.starts_with("plugin_opt_") {
        return Some(NO_PLUGINS);
    }
    let at = OPTIONS.binary_search_by_key(&name, |(name, _)| name).ok()?;
    Some(OPTIONS[at].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_in_order() {
        assert!(OPTIONS.is_sorted_by(|(one, _), (next, _)| one < next));
        assert_eq!(fate("auth_opt_backends"), Some(NO_PLUGINS));
        assert_eq!(fate("listener"), Some(Translated));
        assert_eq!(fate("lisener"), None);
    }
}
