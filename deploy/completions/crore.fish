# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_crore_global_optspecs
    string join \n h/help V/version
end

function __fish_crore_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_crore_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_crore_using_subcommand
    set -l cmd (__fish_crore_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c crore -n "__fish_crore_needs_command" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_needs_command" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_needs_command" -f -a "serve" -d 'Run a node'
complete -c crore -n "__fish_crore_needs_command" -f -a "demo" -d 'Run a demo: a node with thousands of subscribers, its rates and latencies. It needs no configuration and serves no TLS. With --break-it, it injects faults'
complete -c crore -n "__fish_crore_needs_command" -f -a "pub" -d 'Publish a message, or one for each line of standard input'
complete -c crore -n "__fish_crore_needs_command" -f -a "sub" -d 'Subscribe to topics or filters and print their messages'
complete -c crore -n "__fish_crore_needs_command" -f -a "mqtt" -d 'Publish and subscribe over MQTT, at a node or at another broker'
complete -c crore -n "__fish_crore_needs_command" -f -a "history" -d 'Print a topic\'s history'
complete -c crore -n "__fish_crore_needs_command" -f -a "top" -d 'Watch a running node: connections, rates, memory'
complete -c crore -n "__fish_crore_needs_command" -f -a "conn" -d 'List, show or close the connections of a running node'
complete -c crore -n "__fish_crore_needs_command" -f -a "topic" -d 'List or show the topics of a running node'
complete -c crore -n "__fish_crore_needs_command" -f -a "bench" -d 'Measure a node under load and verify every stream'
complete -c crore -n "__fish_crore_needs_command" -f -a "doctor" -d 'Examine this machine: how many connections it can hold, and how to raise that number'
complete -c crore -n "__fish_crore_needs_command" -f -a "plan" -d 'Predict the memory, processors and bandwidth that a load needs, and the first bottleneck'
complete -c crore -n "__fish_crore_needs_command" -f -a "log" -d 'Check, print, measure or repair a log on disk'
complete -c crore -n "__fish_crore_needs_command" -f -a "engine" -d 'Create or examine the topics of logs in an engine, which several nodes share'
complete -c crore -n "__fish_crore_needs_command" -f -a "cluster" -d 'Try several nodes out on this machine'
complete -c crore -n "__fish_crore_needs_command" -f -a "login" -d 'Print a link that logs a browser in to the operators\' page. The link works once, within an hour'
complete -c crore -n "__fish_crore_needs_command" -f -a "tls" -d 'Generate a self-signed certificate to try out TLS'
complete -c crore -n "__fish_crore_needs_command" -f -a "token" -d 'Create and check keys and tokens, and revoke tokens'
complete -c crore -n "__fish_crore_needs_command" -f -a "drain" -d 'Drain a node, then stop it'
complete -c crore -n "__fish_crore_needs_command" -f -a "health" -d 'Check whether a node is ready'
complete -c crore -n "__fish_crore_needs_command" -f -a "config" -d 'Show, check or explain the configuration'
complete -c crore -n "__fish_crore_needs_command" -f -a "bridge" -d 'Print the configuration that does what a configuration of Mosquitto does, with a remark on each line that has no equivalent'
complete -c crore -n "__fish_crore_needs_command" -f -a "upgrade" -d 'Upgrade a running node in place to the program now on disk. Clients stay connected and miss nothing'
complete -c crore -n "__fish_crore_needs_command" -f -a "metrics" -d 'Describe every metric of a node, as Markdown'
complete -c crore -n "__fish_crore_needs_command" -f -a "version" -d 'Print the version, the commit and the compiler'
complete -c crore -n "__fish_crore_needs_command" -f -a "completion" -d 'Print a completion script for a shell'
complete -c crore -n "__fish_crore_needs_command" -f -a "man" -d 'Print the manual page'
complete -c crore -n "__fish_crore_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c crore -n "__fish_crore_using_subcommand serve" -l config -d 'Configuration file. Without one, the defaults apply' -r -F
complete -c crore -n "__fish_crore_using_subcommand serve" -l listen -d 'Address for clients (listen.clients). May be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand serve" -l admin-listen -d 'Address for operators: health, metrics and the live page (listen.operators). May be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand serve" -l tls-listen -d 'Address for clients with TLS (tls.listen). May be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand serve" -l tls-certificate -d 'Server certificate with its chain, in PEM (tls.certificate_file)' -r
complete -c crore -n "__fish_crore_using_subcommand serve" -l tls-key -d 'Private key of the server certificate, in PEM (tls.key_file)' -r
complete -c crore -n "__fish_crore_using_subcommand serve" -l io-threads -d 'Number of I/O threads (node.io_threads)' -r
complete -c crore -n "__fish_crore_using_subcommand serve" -l data-dir -d 'Directory for logs on disk (node.data_dir)' -r
complete -c crore -n "__fish_crore_using_subcommand serve" -l log-format -d 'Format of log lines: `text` or `json` (logging.format)' -r
complete -c crore -n "__fish_crore_using_subcommand serve" -l set -d 'Set any option of the configuration. May be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand serve" -l open -d 'Serve every client that can reach the node, even with authentication off (listen.open)'
complete -c crore -n "__fish_crore_using_subcommand serve" -l end-with-stdin -d 'Drain and stop, as after SIGTERM, when standard input ends: the node stops with the process that started it'
complete -c crore -n "__fish_crore_using_subcommand serve" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand serve" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand demo" -l clients -d 'Number of subscribers, each with a topic of its own' -r
complete -c crore -n "__fish_crore_using_subcommand demo" -l rate -d 'Total message rate of all subscribers, in messages per second' -r
complete -c crore -n "__fish_crore_using_subcommand demo" -l size -d 'Size of each message in bytes' -r
complete -c crore -n "__fish_crore_using_subcommand demo" -l connect-rate -d 'Connection rate, in connects per second' -r
complete -c crore -n "__fish_crore_using_subcommand demo" -l duration -d 'Length of the run, such as `90s` or `5m`, or plain seconds. Without it, the demo runs until Ctrl-C. With `--break-it`, it is the maximum length; the default is then 30 seconds' -r
complete -c crore -n "__fish_crore_using_subcommand demo" -l break-it -d 'Inject three faults while messages flow, and count the messages: an upgrade in place, a `kill -9` and a drain. The log is on disk, in a temporary directory. The exit code is 1 if a message was lost'
complete -c crore -n "__fish_crore_using_subcommand demo" -l memory-log -d 'With `--break-it`: keep the log in memory. The `kill -9` then loses the log, and every subscriber gets a gap'
complete -c crore -n "__fish_crore_using_subcommand demo" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand demo" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand pub" -l content-type -d 'Media type of the messages' -r
complete -c crore -n "__fish_crore_using_subcommand pub" -l tag -d 'Tag of the messages. May be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand pub" -l idempotency-key -d 'Idempotency key: the message is appended once, and a repeat with this key returns the first position. With several lines, the line number is added to the key from the second line on. The server forgets a key after a while (5 minutes by default)' -r
complete -c crore -n "__fish_crore_using_subcommand pub" -l producer -d 'Producer ID: each sequence of this producer is appended once. The newest connection with this ID fences older ones' -r
complete -c crore -n "__fish_crore_using_subcommand pub" -l sequence -d 'Sequence of the message, or of the first line; each further line has the next number. The default is the time in microseconds since 1970, so that each run has a higher number' -r
complete -c crore -n "__fish_crore_using_subcommand pub" -l expected-epoch -d 'Append the message only if the topic\'s log has this epoch' -r
complete -c crore -n "__fish_crore_using_subcommand pub" -l timeout -d 'Time to wait for an acknowledgement, in seconds' -r
complete -c crore -n "__fish_crore_using_subcommand pub" -l url -d 'URL of the node: ws://host:port, or wss:// with TLS. http:// and https:// mean the same. Several URLs, separated by commas, are tried in turn' -r
complete -c crore -n "__fish_crore_using_subcommand pub" -l ca -d 'With TLS: trust the certificates of this PEM file instead of the system\'s' -r -F
complete -c crore -n "__fish_crore_using_subcommand pub" -l token -d 'Token to authenticate with. Other users of the machine can read a command line: use the environment or --token-file instead' -r
complete -c crore -n "__fish_crore_using_subcommand pub" -l token-file -d 'File with the token. The client reads it again when the token expires. It takes precedence over --token' -r -F
complete -c crore -n "__fish_crore_using_subcommand pub" -l retain -d 'Make the message the topic\'s retained message. An empty message removes the retained message'
complete -c crore -n "__fish_crore_using_subcommand pub" -s q -l quiet -d 'Print errors only'
complete -c crore -n "__fish_crore_using_subcommand pub" -l json -d 'Print one JSON object for each acknowledgement'
complete -c crore -n "__fish_crore_using_subcommand pub" -l insecure -d 'With TLS: accept any certificate. The connection is encrypted, but the server is not verified'
complete -c crore -n "__fish_crore_using_subcommand pub" -l compress -d 'Offer compression. The node accepts it if websocket.compression is on'
complete -c crore -n "__fish_crore_using_subcommand pub" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand pub" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand sub" -l since -d 'Replay the messages after this position, then continue live. Only for topics without wildcards' -r
complete -c crore -n "__fish_crore_using_subcommand sub" -l last -d 'Replay the newest N messages, then continue live. Only for topics without wildcards' -r
complete -c crore -n "__fish_crore_using_subcommand sub" -l count -d 'Stop after this number of messages' -r
complete -c crore -n "__fish_crore_using_subcommand sub" -l url -d 'URL of the node: ws://host:port, or wss:// with TLS. http:// and https:// mean the same. Several URLs, separated by commas, are tried in turn' -r
complete -c crore -n "__fish_crore_using_subcommand sub" -l ca -d 'With TLS: trust the certificates of this PEM file instead of the system\'s' -r -F
complete -c crore -n "__fish_crore_using_subcommand sub" -l token -d 'Token to authenticate with. Other users of the machine can read a command line: use the environment or --token-file instead' -r
complete -c crore -n "__fish_crore_using_subcommand sub" -l token-file -d 'File with the token. The client reads it again when the token expires. It takes precedence over --token' -r -F
complete -c crore -n "__fish_crore_using_subcommand sub" -l snapshot -d 'Begin with the retained message, else the newest one. Only for topics without wildcards'
complete -c crore -n "__fish_crore_using_subcommand sub" -l json -d 'Print one JSON object for each message and event, on standard output'
complete -c crore -n "__fish_crore_using_subcommand sub" -l insecure -d 'With TLS: accept any certificate. The connection is encrypted, but the server is not verified'
complete -c crore -n "__fish_crore_using_subcommand sub" -l compress -d 'Offer compression. The node accepts it if websocket.compression is on'
complete -c crore -n "__fish_crore_using_subcommand sub" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand sub" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand mqtt; and not __fish_seen_subcommand_from pub sub help" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand mqtt; and not __fish_seen_subcommand_from pub sub help" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand mqtt; and not __fish_seen_subcommand_from pub sub help" -f -a "pub" -d 'Publish a message over MQTT, or one for each line of standard input'
complete -c crore -n "__fish_crore_using_subcommand mqtt; and not __fish_seen_subcommand_from pub sub help" -f -a "sub" -d 'Subscribe to topics or filters over MQTT and print their messages'
complete -c crore -n "__fish_crore_using_subcommand mqtt; and not __fish_seen_subcommand_from pub sub help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from pub" -s t -l topic -d 'The topic' -r
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from pub" -s m -l message -d 'The message. Without it, each line of standard input is a message' -r
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from pub" -s q -l qos -d 'QoS: 0 is not acknowledged, 1 at least once, 2 exactly once' -r
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from pub" -l content-type -d 'Media type of the messages. Needs version 5, as the next three flags' -r
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from pub" -l response-topic -d 'Topic for answers' -r
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from pub" -l expiry -d 'Time after which the server drops the messages' -r
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from pub" -l property -d 'User property of the messages; a node of Crore makes it a tag. May be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from pub" -l timeout -d 'Time to wait for an acknowledgement, in seconds' -r
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from pub" -l url -d 'Address of the server: mqtt://host:port, or mqtts:// with TLS. A bare host means mqtt://' -r
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from pub" -l ca -d 'With TLS: trust the certificates of this PEM file instead of the system\'s' -r -F
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from pub" -l cert -d 'With TLS: PEM file with the client\'s certificate, for a server that asks for one' -r -F
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from pub" -l key -d 'PEM file with the private key of the client\'s certificate' -r -F
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from pub" -l mqtt-version -d 'Version of the protocol: 3 (3.1.1) or 5' -r
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from pub" -s i -l id -d 'Client identifier. The default is a random one' -r
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from pub" -s u -l user -d 'User name. A node of Crore does not use it' -r
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from pub" -l password -d 'Password; at a node of Crore, the token or API key. Other users of the machine can read a command line: use the environment or --password-file instead' -r
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from pub" -l password-file -d 'File with the password. It takes precedence over --password' -r -F
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from pub" -l session-expiry -d 'Time that the session outlives its connection: the server keeps subscriptions and messages. Without it, the session ends with the connection' -r
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from pub" -l keep-alive -d 'Longest silence of the client, in whole seconds; it then pings the server. 0s: none' -r
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from pub" -l will-topic -d 'Topic of the will: the message that the server publishes if it loses the client' -r
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from pub" -l will-message -d 'The will' -r
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from pub" -l will-qos -d 'QoS of the will' -r
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from pub" -l will-delay -d 'Time between the loss of the client and the will. Needs version 5' -r
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from pub" -s r -l retain -d 'Make the message the topic\'s retained message. An empty message removes the retained message'
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from pub" -l insecure -d 'With TLS: accept any certificate. The connection is encrypted, but the server is not verified'
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from pub" -l clean -d 'Begin a new session, even if the server has one of this client'
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from pub" -l will-retain -d 'Make the will the topic\'s retained message'
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from pub" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from pub" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from sub" -s t -l topic -d 'Topic or filter: `prices/eur`, `prices/+`, `prices/#`. May be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from sub" -s q -l qos -d 'Highest QoS of the messages' -r
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from sub" -l count -d 'Stop after this number of messages' -r
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from sub" -l url -d 'Address of the server: mqtt://host:port, or mqtts:// with TLS. A bare host means mqtt://' -r
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from sub" -l ca -d 'With TLS: trust the certificates of this PEM file instead of the system\'s' -r -F
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from sub" -l cert -d 'With TLS: PEM file with the client\'s certificate, for a server that asks for one' -r -F
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from sub" -l key -d 'PEM file with the private key of the client\'s certificate' -r -F
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from sub" -l mqtt-version -d 'Version of the protocol: 3 (3.1.1) or 5' -r
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from sub" -s i -l id -d 'Client identifier. The default is a random one' -r
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from sub" -s u -l user -d 'User name. A node of Crore does not use it' -r
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from sub" -l password -d 'Password; at a node of Crore, the token or API key. Other users of the machine can read a command line: use the environment or --password-file instead' -r
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from sub" -l password-file -d 'File with the password. It takes precedence over --password' -r -F
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from sub" -l session-expiry -d 'Time that the session outlives its connection: the server keeps subscriptions and messages. Without it, the session ends with the connection' -r
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from sub" -l keep-alive -d 'Longest silence of the client, in whole seconds; it then pings the server. 0s: none' -r
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from sub" -l will-topic -d 'Topic of the will: the message that the server publishes if it loses the client' -r
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from sub" -l will-message -d 'The will' -r
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from sub" -l will-qos -d 'QoS of the will' -r
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from sub" -l will-delay -d 'Time between the loss of the client and the will. Needs version 5' -r
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from sub" -s v -l verbose -d 'Print the topic before each message'
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from sub" -l json -d 'Print one JSON object for each message: topic, payload, QoS, retain flag, properties'
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from sub" -l insecure -d 'With TLS: accept any certificate. The connection is encrypted, but the server is not verified'
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from sub" -l clean -d 'Begin a new session, even if the server has one of this client'
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from sub" -l will-retain -d 'Make the will the topic\'s retained message'
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from sub" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from sub" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from help" -f -a "pub" -d 'Publish a message over MQTT, or one for each line of standard input'
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from help" -f -a "sub" -d 'Subscribe to topics or filters over MQTT and print their messages'
complete -c crore -n "__fish_crore_using_subcommand mqtt; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c crore -n "__fish_crore_using_subcommand history" -l limit -d 'Maximum number of messages to print' -r
complete -c crore -n "__fish_crore_using_subcommand history" -l since -d 'Print only messages after this position; with --reverse, only messages before it' -r
complete -c crore -n "__fish_crore_using_subcommand history" -l timeout -d 'Time to wait for an answer, in seconds' -r
complete -c crore -n "__fish_crore_using_subcommand history" -l url -d 'URL of the node: ws://host:port, or wss:// with TLS. http:// and https:// mean the same. Several URLs, separated by commas, are tried in turn' -r
complete -c crore -n "__fish_crore_using_subcommand history" -l ca -d 'With TLS: trust the certificates of this PEM file instead of the system\'s' -r -F
complete -c crore -n "__fish_crore_using_subcommand history" -l token -d 'Token to authenticate with. Other users of the machine can read a command line: use the environment or --token-file instead' -r
complete -c crore -n "__fish_crore_using_subcommand history" -l token-file -d 'File with the token. The client reads it again when the token expires. It takes precedence over --token' -r -F
complete -c crore -n "__fish_crore_using_subcommand history" -l reverse -d 'Print the newest message first'
complete -c crore -n "__fish_crore_using_subcommand history" -l json -d 'Print one JSON object for each message and each gap'
complete -c crore -n "__fish_crore_using_subcommand history" -l insecure -d 'With TLS: accept any certificate. The connection is encrypted, but the server is not verified'
complete -c crore -n "__fish_crore_using_subcommand history" -l compress -d 'Offer compression. The node accepts it if websocket.compression is on'
complete -c crore -n "__fish_crore_using_subcommand history" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand history" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand top" -l interval -d 'Time between two measurements, in seconds' -r
complete -c crore -n "__fish_crore_using_subcommand top" -l operators -l url -d 'URL of the node\'s operators\' port, or unix:PATH of its operators\' socket. The socket of a node on this machine is found automatically' -r
complete -c crore -n "__fish_crore_using_subcommand top" -l api-key-file -d 'File with an API key that has operate = true. It is required if the operators\' socket cannot be used' -r -F
complete -c crore -n "__fish_crore_using_subcommand top" -l once -d 'Print one screen and stop, after measuring for one interval'
complete -c crore -n "__fish_crore_using_subcommand top" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand top" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand conn; and not __fish_seen_subcommand_from list show kick help" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand conn; and not __fish_seen_subcommand_from list show kick help" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand conn; and not __fish_seen_subcommand_from list show kick help" -f -a "list" -d 'List connections'
complete -c crore -n "__fish_crore_using_subcommand conn; and not __fish_seen_subcommand_from list show kick help" -f -a "show" -d 'Show one connection and its subscriptions'
complete -c crore -n "__fish_crore_using_subcommand conn; and not __fish_seen_subcommand_from list show kick help" -f -a "kick" -d 'Close connections'
complete -c crore -n "__fish_crore_using_subcommand conn; and not __fish_seen_subcommand_from list show kick help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from list" -l address -d 'List only connections from this address or network (192.0.2.0/24)' -r
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from list" -l protocol -d 'List only connections of this protocol: native, json, events, echo or http' -r
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from list" -l sub -d 'List only connections whose token has a `sub` that begins with this text' -r
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from list" -l limit -d 'Maximum number of entries to print' -r
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from list" -l operators -l url -d 'URL of the node\'s operators\' port, or unix:PATH of its operators\' socket. The socket of a node on this machine is found automatically' -r
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from list" -l api-key-file -d 'File with an API key that has operate = true. It is required if the operators\' socket cannot be used' -r -F
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from list" -l lagging -d 'List only connections that read more slowly than the node sends to them'
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from list" -l json -d 'Print one JSON object on each line'
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from list" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from show" -l limit -d 'Maximum number of subscriptions to print' -r
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from show" -l operators -l url -d 'URL of the node\'s operators\' port, or unix:PATH of its operators\' socket. The socket of a node on this machine is found automatically' -r
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from show" -l api-key-file -d 'File with an API key that has operate = true. It is required if the operators\' socket cannot be used' -r -F
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from show" -l json -d 'Print one JSON object'
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from show" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from kick" -l operators -l url -d 'URL of the node\'s operators\' port, or unix:PATH of its operators\' socket. The socket of a node on this machine is found automatically' -r
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from kick" -l api-key-file -d 'File with an API key that has operate = true. It is required if the operators\' socket cannot be used' -r -F
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from kick" -l return -d 'Allow the clients to reconnect. Without this flag, the close code tells them not to'
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from kick" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from kick" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from help" -f -a "list" -d 'List connections'
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show one connection and its subscriptions'
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from help" -f -a "kick" -d 'Close connections'
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c crore -n "__fish_crore_using_subcommand topic; and not __fish_seen_subcommand_from list show help" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand topic; and not __fish_seen_subcommand_from list show help" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand topic; and not __fish_seen_subcommand_from list show help" -f -a "list" -d 'List topics'
complete -c crore -n "__fish_crore_using_subcommand topic; and not __fish_seen_subcommand_from list show help" -f -a "show" -d 'Show one topic: its I/O thread, its subscribers and its history'
complete -c crore -n "__fish_crore_using_subcommand topic; and not __fish_seen_subcommand_from list show help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c crore -n "__fish_crore_using_subcommand topic; and __fish_seen_subcommand_from list" -l limit -d 'Maximum number of entries to print' -r
complete -c crore -n "__fish_crore_using_subcommand topic; and __fish_seen_subcommand_from list" -l operators -l url -d 'URL of the node\'s operators\' port, or unix:PATH of its operators\' socket. The socket of a node on this machine is found automatically' -r
complete -c crore -n "__fish_crore_using_subcommand topic; and __fish_seen_subcommand_from list" -l api-key-file -d 'File with an API key that has operate = true. It is required if the operators\' socket cannot be used' -r -F
complete -c crore -n "__fish_crore_using_subcommand topic; and __fish_seen_subcommand_from list" -l json -d 'Print one JSON object on each line'
complete -c crore -n "__fish_crore_using_subcommand topic; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand topic; and __fish_seen_subcommand_from list" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand topic; and __fish_seen_subcommand_from show" -l operators -l url -d 'URL of the node\'s operators\' port, or unix:PATH of its operators\' socket. The socket of a node on this machine is found automatically' -r
complete -c crore -n "__fish_crore_using_subcommand topic; and __fish_seen_subcommand_from show" -l api-key-file -d 'File with an API key that has operate = true. It is required if the operators\' socket cannot be used' -r -F
complete -c crore -n "__fish_crore_using_subcommand topic; and __fish_seen_subcommand_from show" -l json -d 'Print one JSON object'
complete -c crore -n "__fish_crore_using_subcommand topic; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand topic; and __fish_seen_subcommand_from show" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand topic; and __fish_seen_subcommand_from help" -f -a "list" -d 'List topics'
complete -c crore -n "__fish_crore_using_subcommand topic; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show one topic: its I/O thread, its subscribers and its history'
complete -c crore -n "__fish_crore_using_subcommand topic; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c crore -n "__fish_crore_using_subcommand bench; and not __fish_seen_subcommand_from sub pub echo run report part help" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand bench; and not __fish_seen_subcommand_from sub pub echo run report part help" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand bench; and not __fish_seen_subcommand_from sub pub echo run report part help" -f -a "sub" -d 'Subscribe with many clients, measure latency, and verify order and completeness'
complete -c crore -n "__fish_crore_using_subcommand bench; and not __fish_seen_subcommand_from sub pub echo run report part help" -f -a "pub" -d 'Publish at a fixed rate and measure acknowledgements'
complete -c crore -n "__fish_crore_using_subcommand bench; and not __fish_seen_subcommand_from sub pub echo run report part help" -f -a "echo" -d 'Ping an echo service with many clients'
complete -c crore -n "__fish_crore_using_subcommand bench; and not __fish_seen_subcommand_from sub pub echo run report part help" -f -a "run" -d 'Run a named workload against its own server; write a report as JSON and HTML, beside published figures'
complete -c crore -n "__fish_crore_using_subcommand bench; and not __fish_seen_subcommand_from sub pub echo run report part help" -f -a "report" -d 'Compare reports of `bench run` side by side'
complete -c crore -n "__fish_crore_using_subcommand bench; and not __fish_seen_subcommand_from sub pub echo run report part help" -f -a "part" -d 'Load generator of `bench run`; it reads commands from standard input'
complete -c crore -n "__fish_crore_using_subcommand bench; and not __fish_seen_subcommand_from sub pub echo run report part help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l url -d 'URL of a node. May be repeated: clients are spread evenly over the URLs, and take another one after each loss. By default ws://127.0.0.1:8800, with --transport mqtt mqtt://127.0.0.1:1883' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l ca -d 'With wss://, https:// or mqtts://: trust the certificates of this PEM file instead of the system\'s' -r -F
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l token-file -d 'File with a token on each line, for a node that requires tokens; clients use them in turn' -r -F
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l local-addresses -d 'Source addresses as patterns: \'127.0.{1..20}.1\'. Their ports are chosen explicitly' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l interface -d 'Network interface for Crore\'s own TCP, in place of the kernel\'s sockets (docs/user-tcp.md). It takes all frames of the interface, has the addresses of --local-addresses, and needs root' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l device -d '--interface: device that carries the frames' -r -f -a "xdp\t'AF_XDP, with a program in the interface\'s driver'
xdp-generic\t'AF_XDP, with a program in the kernel, for any driver'
tun\t'A TUN interface'"
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l gateway -d '--interface: MAC address of the server, or of the router to it. --device tun needs none' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l connect-rate -d 'Connection rate in connects per second, in an open loop; 0: no limit' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l threads -d 'Number of worker threads; 0: one for each core, or more if the descriptor limit requires it' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l warm-up -d 'Length of the warm-up, whose latencies are not counted' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l duration -d 'Length of the run; 0: until Ctrl-C' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l interval -d 'Time between two reports' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l influx -d 'Also write InfluxDB lines to a file or to udp://host:port' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l seed -d 'Seed of random choices. Without it, every run differs' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l transport -d 'Protocol of the subscribers' -r -f -a "ws\t'The native protocol over WebSocket'
sse\t'Server-Sent Events'
http\t'Long polls'
mqtt\t'MQTT over TCP or TLS'"
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l qos -d 'With --transport mqtt: QoS of the subscriptions, 0 or 1' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l mqtt-version -d 'With --transport mqtt: version of the protocol, 3 (3.1.1) or 5' -r -f -a "3\t'MQTT 3.1.1'
5\t'MQTT 5.0'"
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l keep-alive -d 'With --transport mqtt: keep alive of each client, in whole seconds. It sends PINGREQ a third earlier; 0: none' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l session-expiry -d 'With --transport mqtt: time for which a session outlives its connection, in whole seconds; 0: the session ends with the connection. With version 3 the server chooses the time' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l clients -d 'Number of clients' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l topics -d 'Topics as a pattern: \'p/s{1..1200000}\'' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l choice -d 'Assignment of topics to clients' -r -f -a "one-to-one\t'Client i takes the i-th run of topics. Runs wrap around if there are more clients than topics'
random\t'Each client takes distinct random topics'
common\t'All clients take the same first topics: a common pool'"
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l topics-per-client -d 'Number of topics of each client' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l sample -d 'Number of clients with their own latency figures, for --csv' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l csv -d 'File for median, mean, p95 and p99 of each sampled client' -r -F
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l start -d 'Start of the streams: live, first (the oldest stored message), last:N, since:EPOCH:OFFSET' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l ledger -d 'File of `bench pub --ledger`, which may be written later. The run ends once all its messages have arrived. May be repeated' -r -F
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l count -d 'Stop after this number of distinct messages; 0: no limit' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l stall-after -d 'Time after which all clients stop reading' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l stall-for -d 'Length of the stall: the time during which clients do not read' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l receive-buffer -d 'Receive buffer of each socket in bytes (SO_RCVBUF); a small buffer simulates a slow reader' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l away-after -d 'Time after which all connections are closed at once' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l away-for -d 'Length of the absence; then all clients reconnect at --connect-rate' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l insecure -d 'Accept any certificate'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l tls-resume -d 'Resume TLS sessions with tickets on reconnect'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l tls12 -d 'Use TLS 1.2 only'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l busy-poll -d 'Let workers poll without sleeping, so that a server on the same machine spends no time on waking them'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l json -d 'Print one JSON object per interval, and a last one for the whole run'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l verify -d 'Audit every stream to the end: complete, with announced gaps or skips, or faulty'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l compress -d 'Offer compression (permessage-deflate). The node accepts it if websocket.compression is on'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l late-hello -d 'Send HELLO and subscriptions after the WebSocket handshake (over MQTT: after CONNACK) instead of with it, which costs one more round trip'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l url -d 'URL of a node. May be repeated: clients are spread evenly over the URLs, and take another one after each loss. By default ws://127.0.0.1:8800, with --transport mqtt mqtt://127.0.0.1:1883' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l ca -d 'With wss://, https:// or mqtts://: trust the certificates of this PEM file instead of the system\'s' -r -F
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l token-file -d 'File with a token on each line, for a node that requires tokens; clients use them in turn' -r -F
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l local-addresses -d 'Source addresses as patterns: \'127.0.{1..20}.1\'. Their ports are chosen explicitly' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l interface -d 'Network interface for Crore\'s own TCP, in place of the kernel\'s sockets (docs/user-tcp.md). It takes all frames of the interface, has the addresses of --local-addresses, and needs root' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l device -d '--interface: device that carries the frames' -r -f -a "xdp\t'AF_XDP, with a program in the interface\'s driver'
xdp-generic\t'AF_XDP, with a program in the kernel, for any driver'
tun\t'A TUN interface'"
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l gateway -d '--interface: MAC address of the server, or of the router to it. --device tun needs none' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l connect-rate -d 'Connection rate in connects per second, in an open loop; 0: no limit' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l threads -d 'Number of worker threads; 0: one for each core, or more if the descriptor limit requires it' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l warm-up -d 'Length of the warm-up, whose latencies are not counted' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l duration -d 'Length of the run; 0: until Ctrl-C' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l interval -d 'Time between two reports' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l influx -d 'Also write InfluxDB lines to a file or to udp://host:port' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l seed -d 'Seed of random choices. Without it, every run differs' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l transport -d 'Protocol of the publishers: ws or mqtt' -r -f -a "ws\t'The native protocol over WebSocket'
sse\t'Server-Sent Events'
http\t'Long polls'
mqtt\t'MQTT over TCP or TLS'"
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l mqtt-version -d 'With --transport mqtt: version of the protocol, 3 (3.1.1) or 5' -r -f -a "3\t'MQTT 3.1.1'
5\t'MQTT 5.0'"
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l keep-alive -d 'With --transport mqtt: keep alive of each client, in whole seconds. It sends PINGREQ a third earlier; 0: none' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l session-expiry -d 'With --transport mqtt: time for which a session outlives its connection, in whole seconds; 0: the session ends with the connection. With version 3 the server chooses the time' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l connections -d 'Number of connections that share the load' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l topics -d 'Topics as a pattern: \'p/s{1..1200000}\'' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l order -d 'Order of the topics' -r -f -a "round-robin\t'One after the other'
random\t'Each message for a random topic'"
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l rate -d 'Total rate in messages per second, in an open loop' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l send-every -d 'Send the messages that are due together, once in this time; 0s: each when it is due. The latency counts from the time at which a message was due' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l size -d 'Size of a message in bytes, at least 38; random characters' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l ack -d 'Acknowledgement of each message. Over MQTT, none means QoS 0 and appended QoS 1' -r -f -a "none\t'None: the message was written to the socket'
appended\t'The message is in its log'"
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l inflight-max -d 'Maximum number of unacknowledged messages of one connection' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l count -d 'Total number of messages; 0: no limit' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l ledger -d 'File for the acknowledged messages by topic, written at the end, for `bench sub --ledger`' -r -F
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l clock -d 'Clock of the timestamps in messages' -r -f -a "monotonic\t'The monotonic clock, for publisher and subscribers on one machine'
realtime\t'The wall clock, for several machines with synchronised clocks'"
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l insecure -d 'Accept any certificate'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l tls-resume -d 'Resume TLS sessions with tickets on reconnect'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l tls12 -d 'Use TLS 1.2 only'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l busy-poll -d 'Let workers poll without sleeping, so that a server on the same machine spends no time on waking them'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l json -d 'Print one JSON object per interval, and a last one for the whole run'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l exactly-once -d 'Send each message again after a connection loss until it is acknowledged. The log recognises repeats by the producer\'s numbers'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -l url -d 'URL of a node. May be repeated: clients are spread evenly over the URLs, and take another one after each loss. By default ws://127.0.0.1:8800, with --transport mqtt mqtt://127.0.0.1:1883' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -l ca -d 'With wss://, https:// or mqtts://: trust the certificates of this PEM file instead of the system\'s' -r -F
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -l token-file -d 'File with a token on each line, for a node that requires tokens; clients use them in turn' -r -F
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -l local-addresses -d 'Source addresses as patterns: \'127.0.{1..20}.1\'. Their ports are chosen explicitly' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -l interface -d 'Network interface for Crore\'s own TCP, in place of the kernel\'s sockets (docs/user-tcp.md). It takes all frames of the interface, has the addresses of --local-addresses, and needs root' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -l device -d '--interface: device that carries the frames' -r -f -a "xdp\t'AF_XDP, with a program in the interface\'s driver'
xdp-generic\t'AF_XDP, with a program in the kernel, for any driver'
tun\t'A TUN interface'"
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -l gateway -d '--interface: MAC address of the server, or of the router to it. --device tun needs none' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -l connect-rate -d 'Connection rate in connects per second, in an open loop; 0: no limit' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -l threads -d 'Number of worker threads; 0: one for each core, or more if the descriptor limit requires it' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -l warm-up -d 'Length of the warm-up, whose latencies are not counted' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -l duration -d 'Length of the run; 0: until Ctrl-C' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -l interval -d 'Time between two reports' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -l influx -d 'Also write InfluxDB lines to a file or to udp://host:port' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -l seed -d 'Seed of random choices. Without it, every run differs' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -l clients -d 'Number of clients at the start' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -l every -d 'Time between two pings of one client' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -l size -d 'Size of a ping in bytes, at least 38' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -l control -d 'Address of the control interface: POST and DELETE /clients, GET /stats and /metrics' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -l clients-max -d 'Maximum number of clients that the control interface may request' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -l insecure -d 'Accept any certificate'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -l tls-resume -d 'Resume TLS sessions with tickets on reconnect'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -l tls12 -d 'Use TLS 1.2 only'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -l busy-poll -d 'Let workers poll without sleeping, so that a server on the same machine spends no time on waking them'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -l json -d 'Print one JSON object per interval, and a last one for the whole run'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l scale -d 'Scale: auto (the capacity of this machine, at most the published size), a fraction such as 0.1 or 10%, or a number of clients' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l clients -d 'Number of clients, whatever the scale' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l rate -d 'Publication (or ping) rate per second. By default, it scales with the clients' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l send-every -d 'Publish the messages that are due together, once in this time; 0s: each when it is due. The latency counts from the time at which a message was due' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l size -d 'Size of a message in bytes, at least 38' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l transport -d 'Protocol of the clients: ws, sse or mqtt. Publishers use WebSocket for ws and sse' -r -f -a "ws\t'The native protocol over WebSocket'
sse\t'Server-Sent Events'
http\t'Long polls'
mqtt\t'MQTT over TCP or TLS'"
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l qos -d 'With --transport mqtt: QoS of the subscriptions, 0 or 1' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l mqtt-version -d 'With --transport mqtt: version of the protocol, 3 (3.1.1) or 5' -r -f -a "3\t'MQTT 3.1.1'
5\t'MQTT 5.0'"
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l keep-alive -d 'With --transport mqtt: keep alive of each client, in whole seconds. It sends PINGREQ a third earlier; 0: none' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l session-expiry -d 'With --transport mqtt: time for which a session outlives its connection, in whole seconds; 0: the session ends with the connection. With version 3 the server chooses the time' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l ack -d 'Acknowledgement that publishers request. Over MQTT, none means QoS 0 and appended QoS 1' -r -f -a "none\t'None: the message was written to the socket'
appended\t'The message is in its log'"
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l history -d 'Whether topics have a history on the started server' -r -f -a "on\t'The server\'s default'
off\t'No history: a client that falls behind has a gap'"
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l network -d 'Network of the subscribers: kernel (sockets on loopback) or user (Crore\'s own TCP between two interfaces that the run makes; needs root)' -r -f -a "kernel\t'The kernel\'s sockets, on loopback'
user\t'Crore\'s own TCP at both ends of a pair of interfaces'"
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l device -d '--network user: device at both ends, xdp or xdp-generic' -r -f -a "xdp\t'AF_XDP, with a program in the interface\'s driver'
xdp-generic\t'AF_XDP, with a program in the kernel, for any driver'
tun\t'A TUN interface'"
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l duration -d 'Length of the measurement' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l warm-up -d 'Time between the first message and the measurement' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l settle -d 'Time between the last connection and the first message' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l interval -d 'Time between two samples, and between two lines' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l connect-rate -d 'Connection rate in connects per second; 0: no limit. By default 5,000 for each core of the server' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l publisher-connections -d 'Number of connections that share the publishing' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l server-cores -d 'Cores of the server, such as 0-3,8. By default, the first half' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l client-cores -d 'Cores of the load generators. By default, the second half' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l io-threads -d 'Number of I/O threads of the started server. By default, as many as its descriptors require' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l server-set -d 'Set an option of the started server' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l url -d 'URL of a running server, to use instead of starting one' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l ca -d 'With wss:// or mqtts://: trust the certificates of this PEM file instead of the system\'s' -r -F
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l admin -d 'URL of the running server\'s operators\' port, for its metrics' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l server-pid -d 'Process ID of the running server, for its CPU and memory' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l away -d 'storm: time for which the clients or the server are away' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l step -d 'unicast --find: length of each step' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l p99-max -d 'unicast --find: highest p99 of a sustained rate' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l out -d 'Directory for the report. By default bench-reports/NAME-DATE' -r -F
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l plain -d 'Use no TLS, even if the workload does'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l no-pin -d 'Let every process use every core'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l insecure -d 'Accept any certificate'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l server-restarts -d 'storm: kill the server and restart it with its log on disk, instead of disconnecting the clients'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l find -d 'unicast: find the highest sustainable rate, and measure at half of it'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from report" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from report" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from part" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from part" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "sub" -d 'Subscribe with many clients, measure latency, and verify order and completeness'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "pub" -d 'Publish at a fixed rate and measure acknowledgements'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "echo" -d 'Ping an echo service with many clients'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "run" -d 'Run a named workload against its own server; write a report as JSON and HTML, beside published figures'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "report" -d 'Compare reports of `bench run` side by side'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "part" -d 'Load generator of `bench run`; it reads commands from standard input'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c crore -n "__fish_crore_using_subcommand doctor" -l target-connections -d 'Compare the machine with this number of connections (1M, 250k). The default is 100k, or the most that the memory can hold if that is less' -r
complete -c crore -n "__fish_crore_using_subcommand doctor" -l io-threads -d 'Number of I/O threads of the node. The default is one for each processor' -r
complete -c crore -n "__fish_crore_using_subcommand doctor" -l user-network -d 'Examine the machine for a node\'s own TCP on this interface (section user_network), not for the kernel\'s sockets. Opens its device for a moment, with the rights that a node needs' -r
complete -c crore -n "__fish_crore_using_subcommand doctor" -l device -d 'With --user-network: device (user_network.device)' -r -f -a "xdp\t'AF_XDP, with a program in the interface\'s driver'
xdp-generic\t'AF_XDP, with a program in the kernel, for any driver'
tun\t'A TUN interface'"
complete -c crore -n "__fish_crore_using_subcommand doctor" -l admin -d 'URL of the operators\' port of a running node, to print its memory by component. The default port is tried automatically' -r
complete -c crore -n "__fish_crore_using_subcommand doctor" -l root -d 'Examine the machine whose /proc and /sys are below this directory' -r -F
complete -c crore -n "__fish_crore_using_subcommand doctor" -l machine -d 'Examine a captured machine instead of this one' -r -F
complete -c crore -n "__fish_crore_using_subcommand doctor" -l capture -d 'Write everything that was read from the machine to a file, for --machine' -r -F
complete -c crore -n "__fish_crore_using_subcommand doctor" -l apply -d 'Show the proposed kernel parameters, ask for confirmation, and set them. Needs root'
complete -c crore -n "__fish_crore_using_subcommand doctor" -l yes -d 'With --apply: do not ask for confirmation'
complete -c crore -n "__fish_crore_using_subcommand doctor" -l json -d 'Print one JSON object'
complete -c crore -n "__fish_crore_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c crore -n "__fish_crore_using_subcommand doctor" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand plan" -l connections -d 'Number of clients, each with one subscription (10M, 250k)' -r
complete -c crore -n "__fish_crore_using_subcommand plan" -l nodes -d 'Number of nodes of a cluster that serve these clients. The plan is that of one node while another one is down' -r
complete -c crore -n "__fish_crore_using_subcommand plan" -l rate -d 'Publication rate, in publications per second (168k)' -r
complete -c crore -n "__fish_crore_using_subcommand plan" -l fan-out -d 'Number of receivers of each publication. There is one topic for each group of this size' -r
complete -c crore -n "__fish_crore_using_subcommand plan" -l size -d 'Size of a message in bytes' -r
complete -c crore -n "__fish_crore_using_subcommand plan" -l topic-size -d 'Length of a topic\'s name in bytes' -r
complete -c crore -n "__fish_crore_using_subcommand plan" -l transport -d 'Protocol of the clients' -r -f -a "ws\t'WebSocket, the native protocol'
sse\t'HTTP event streams'"
complete -c crore -n "__fish_crore_using_subcommand plan" -l network -d 'Network of the clients: kernel (its sockets) or user (the node\'s own TCP)' -r -f -a "kernel\t'The kernel\'s sockets'
user\t'The node\'s own TCP'"
complete -c crore -n "__fish_crore_using_subcommand plan" -l io-threads -d 'Number of I/O threads. Without it, one for each core' -r
complete -c crore -n "__fish_crore_using_subcommand plan" -l connect-rate -d 'Connection rate, in connects per second' -r
complete -c crore -n "__fish_crore_using_subcommand plan" -l ping-interval -d 'Time between pings to a quiet client (websocket.ping_interval); 0: no pings' -r
complete -c crore -n "__fish_crore_using_subcommand plan" -l age-max -d 'Time for which the log in memory keeps messages (log.age_max)' -r
complete -c crore -n "__fish_crore_using_subcommand plan" -l bytes-max -d 'Size of the log in memory (log.bytes_max)' -r
complete -c crore -n "__fish_crore_using_subcommand plan" -l cores -d 'Cores of the server. Without it, those of this machine' -r
complete -c crore -n "__fish_crore_using_subcommand plan" -l memory -d 'Memory of the server (96GB). Without it, the available memory of this machine' -r
complete -c crore -n "__fish_crore_using_subcommand plan" -l bandwidth -d 'Bandwidth in each direction, in bits per second (25G). Without it, bandwidth is not a limit' -r
complete -c crore -n "__fish_crore_using_subcommand plan" -l machine -d 'File of `crore doctor --capture`, to plan for its machine instead of this one' -r -F
complete -c crore -n "__fish_crore_using_subcommand plan" -l check -d 'Compare the prediction with reports of `crore bench run` (report.json) instead' -r -F
complete -c crore -n "__fish_crore_using_subcommand plan" -l within -d 'With --check: maximum deviation of a figure, in percent' -r
complete -c crore -n "__fish_crore_using_subcommand plan" -l tls -d 'Use TLS'
complete -c crore -n "__fish_crore_using_subcommand plan" -l json -d 'Print one JSON object'
complete -c crore -n "__fish_crore_using_subcommand plan" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c crore -n "__fish_crore_using_subcommand plan" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand log; and not __fish_seen_subcommand_from verify dump stats repair new-epoch help" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand log; and not __fish_seen_subcommand_from verify dump stats repair new-epoch help" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand log; and not __fish_seen_subcommand_from verify dump stats repair new-epoch help" -f -a "verify" -d 'Read and check the whole log. The exit code is 1 if anything is damaged. The node must not be running'
complete -c crore -n "__fish_crore_using_subcommand log; and not __fish_seen_subcommand_from verify dump stats repair new-epoch help" -f -a "dump" -d 'Print every message, in the order in which they became durable. The node must not be running'
complete -c crore -n "__fish_crore_using_subcommand log; and not __fish_seen_subcommand_from verify dump stats repair new-epoch help" -f -a "stats" -d 'Print counts: segments, bytes, messages, partitions and epochs'
complete -c crore -n "__fish_crore_using_subcommand log; and not __fish_seen_subcommand_from verify dump stats repair new-epoch help" -f -a "repair" -d 'Discard unreadable data, rebuild the indexes, and list every loss exactly. If acknowledged messages are lost, a new epoch begins. The node must not be running. Copy the directory first'
complete -c crore -n "__fish_crore_using_subcommand log; and not __fish_seen_subcommand_from verify dump stats repair new-epoch help" -f -a "new-epoch" -d 'Begin a new epoch, for a log that was restored from an older copy. Clients with newer positions than the copy then get a gap. The node must not be running'
complete -c crore -n "__fish_crore_using_subcommand log; and not __fish_seen_subcommand_from verify dump stats repair new-epoch help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c crore -n "__fish_crore_using_subcommand log; and __fish_seen_subcommand_from verify" -l json -d 'Print JSON: one object, or one for each entry'
complete -c crore -n "__fish_crore_using_subcommand log; and __fish_seen_subcommand_from verify" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand log; and __fish_seen_subcommand_from verify" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand log; and __fish_seen_subcommand_from dump" -l json -d 'Print JSON: one object, or one for each entry'
complete -c crore -n "__fish_crore_using_subcommand log; and __fish_seen_subcommand_from dump" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand log; and __fish_seen_subcommand_from dump" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand log; and __fish_seen_subcommand_from stats" -l json -d 'Print JSON: one object, or one for each entry'
complete -c crore -n "__fish_crore_using_subcommand log; and __fish_seen_subcommand_from stats" -l force -d 'Read the log even while a node has it open. The newest entries may then be missing'
complete -c crore -n "__fish_crore_using_subcommand log; and __fish_seen_subcommand_from stats" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand log; and __fish_seen_subcommand_from stats" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand log; and __fish_seen_subcommand_from repair" -l json -d 'Print JSON: one object, or one for each entry'
complete -c crore -n "__fish_crore_using_subcommand log; and __fish_seen_subcommand_from repair" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand log; and __fish_seen_subcommand_from repair" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand log; and __fish_seen_subcommand_from new-epoch" -l json -d 'Print JSON: one object, or one for each entry'
complete -c crore -n "__fish_crore_using_subcommand log; and __fish_seen_subcommand_from new-epoch" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand log; and __fish_seen_subcommand_from new-epoch" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand log; and __fish_seen_subcommand_from help" -f -a "verify" -d 'Read and check the whole log. The exit code is 1 if anything is damaged. The node must not be running'
complete -c crore -n "__fish_crore_using_subcommand log; and __fish_seen_subcommand_from help" -f -a "dump" -d 'Print every message, in the order in which they became durable. The node must not be running'
complete -c crore -n "__fish_crore_using_subcommand log; and __fish_seen_subcommand_from help" -f -a "stats" -d 'Print counts: segments, bytes, messages, partitions and epochs'
complete -c crore -n "__fish_crore_using_subcommand log; and __fish_seen_subcommand_from help" -f -a "repair" -d 'Discard unreadable data, rebuild the indexes, and list every loss exactly. If acknowledged messages are lost, a new epoch begins. The node must not be running. Copy the directory first'
complete -c crore -n "__fish_crore_using_subcommand log; and __fish_seen_subcommand_from help" -f -a "new-epoch" -d 'Begin a new epoch, for a log that was restored from an older copy. Clients with newer positions than the copy then get a gap. The node must not be running'
complete -c crore -n "__fish_crore_using_subcommand log; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c crore -n "__fish_crore_using_subcommand engine; and not __fish_seen_subcommand_from init check help" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand engine; and not __fish_seen_subcommand_from init check help" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand engine; and not __fish_seen_subcommand_from init check help" -f -a "init" -d 'Create the topics of logs in the engine that do not exist yet. Others stay as they are'
complete -c crore -n "__fish_crore_using_subcommand engine; and not __fish_seen_subcommand_from init check help" -f -a "check" -d 'Examine the topics of logs in the engine, and print what they lack. The exit code is 1 if a node would not start with them'
complete -c crore -n "__fish_crore_using_subcommand engine; and not __fish_seen_subcommand_from init check help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c crore -n "__fish_crore_using_subcommand engine; and __fish_seen_subcommand_from init" -l config -d 'Configuration file. Without one, the defaults apply' -r -F
complete -c crore -n "__fish_crore_using_subcommand engine; and __fish_seen_subcommand_from init" -l listen -d 'Address for clients (listen.clients). May be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand engine; and __fish_seen_subcommand_from init" -l admin-listen -d 'Address for operators: health, metrics and the live page (listen.operators). May be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand engine; and __fish_seen_subcommand_from init" -l tls-listen -d 'Address for clients with TLS (tls.listen). May be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand engine; and __fish_seen_subcommand_from init" -l tls-certificate -d 'Server certificate with its chain, in PEM (tls.certificate_file)' -r
complete -c crore -n "__fish_crore_using_subcommand engine; and __fish_seen_subcommand_from init" -l tls-key -d 'Private key of the server certificate, in PEM (tls.key_file)' -r
complete -c crore -n "__fish_crore_using_subcommand engine; and __fish_seen_subcommand_from init" -l io-threads -d 'Number of I/O threads (node.io_threads)' -r
complete -c crore -n "__fish_crore_using_subcommand engine; and __fish_seen_subcommand_from init" -l data-dir -d 'Directory for logs on disk (node.data_dir)' -r
complete -c crore -n "__fish_crore_using_subcommand engine; and __fish_seen_subcommand_from init" -l log-format -d 'Format of log lines: `text` or `json` (logging.format)' -r
complete -c crore -n "__fish_crore_using_subcommand engine; and __fish_seen_subcommand_from init" -l set -d 'Set any option of the configuration. May be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand engine; and __fish_seen_subcommand_from init" -l dry-run -d 'Print the missing topics, and create nothing'
complete -c crore -n "__fish_crore_using_subcommand engine; and __fish_seen_subcommand_from init" -l open -d 'Serve every client that can reach the node, even with authentication off (listen.open)'
complete -c crore -n "__fish_crore_using_subcommand engine; and __fish_seen_subcommand_from init" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand engine; and __fish_seen_subcommand_from init" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand engine; and __fish_seen_subcommand_from check" -l config -d 'Configuration file. Without one, the defaults apply' -r -F
complete -c crore -n "__fish_crore_using_subcommand engine; and __fish_seen_subcommand_from check" -l listen -d 'Address for clients (listen.clients). May be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand engine; and __fish_seen_subcommand_from check" -l admin-listen -d 'Address for operators: health, metrics and the live page (listen.operators). May be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand engine; and __fish_seen_subcommand_from check" -l tls-listen -d 'Address for clients with TLS (tls.listen). May be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand engine; and __fish_seen_subcommand_from check" -l tls-certificate -d 'Server certificate with its chain, in PEM (tls.certificate_file)' -r
complete -c crore -n "__fish_crore_using_subcommand engine; and __fish_seen_subcommand_from check" -l tls-key -d 'Private key of the server certificate, in PEM (tls.key_file)' -r
complete -c crore -n "__fish_crore_using_subcommand engine; and __fish_seen_subcommand_from check" -l io-threads -d 'Number of I/O threads (node.io_threads)' -r
complete -c crore -n "__fish_crore_using_subcommand engine; and __fish_seen_subcommand_from check" -l data-dir -d 'Directory for logs on disk (node.data_dir)' -r
complete -c crore -n "__fish_crore_using_subcommand engine; and __fish_seen_subcommand_from check" -l log-format -d 'Format of log lines: `text` or `json` (logging.format)' -r
complete -c crore -n "__fish_crore_using_subcommand engine; and __fish_seen_subcommand_from check" -l set -d 'Set any option of the configuration. May be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand engine; and __fish_seen_subcommand_from check" -l open -d 'Serve every client that can reach the node, even with authentication off (listen.open)'
complete -c crore -n "__fish_crore_using_subcommand engine; and __fish_seen_subcommand_from check" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand engine; and __fish_seen_subcommand_from check" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand engine; and __fish_seen_subcommand_from help" -f -a "init" -d 'Create the topics of logs in the engine that do not exist yet. Others stay as they are'
complete -c crore -n "__fish_crore_using_subcommand engine; and __fish_seen_subcommand_from help" -f -a "check" -d 'Examine the topics of logs in the engine, and print what they lack. The exit code is 1 if a node would not start with them'
complete -c crore -n "__fish_crore_using_subcommand engine; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c crore -n "__fish_crore_using_subcommand cluster; and not __fish_seen_subcommand_from demo help" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand cluster; and not __fish_seen_subcommand_from demo help" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand cluster; and not __fish_seen_subcommand_from demo help" -f -a "demo" -d 'Run three brokers of Apache Kafka and three nodes on this machine, with publishers and subscribers, and count every message. Keys kill and restart brokers and nodes. Without a terminal it follows a fixed schedule of kills. The exit code is 1 if a message was lost, delivered twice or out of order, or if a subscriber got a gap. It needs Java 17, three gigabytes of memory, and Kafka\'s jars'
complete -c crore -n "__fish_crore_using_subcommand cluster; and not __fish_seen_subcommand_from demo help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c crore -n "__fish_crore_using_subcommand cluster; and __fish_seen_subcommand_from demo" -l jars -d 'Folder with the jars of Apache Kafka 4: the folder `libs` of its archive, or the one that `cargo xtask kafka --fetch` fills' -r -F
complete -c crore -n "__fish_crore_using_subcommand cluster; and __fish_seen_subcommand_from demo" -l rate -d 'Publications of all publishers together, a second' -r
complete -c crore -n "__fish_crore_using_subcommand cluster; and __fish_seen_subcommand_from demo" -l scheduled -d 'Follow the schedule on a terminal, too'
complete -c crore -n "__fish_crore_using_subcommand cluster; and __fish_seen_subcommand_from demo" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand cluster; and __fish_seen_subcommand_from demo" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand cluster; and __fish_seen_subcommand_from help" -f -a "demo" -d 'Run three brokers of Apache Kafka and three nodes on this machine, with publishers and subscribers, and count every message. Keys kill and restart brokers and nodes. Without a terminal it follows a fixed schedule of kills. The exit code is 1 if a message was lost, delivered twice or out of order, or if a subscriber got a gap. It needs Java 17, three gigabytes of memory, and Kafka\'s jars'
complete -c crore -n "__fish_crore_using_subcommand cluster; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c crore -n "__fish_crore_using_subcommand login" -l operators -l url -d 'URL of the node\'s operators\' port, or unix:PATH of its operators\' socket. The socket of a node on this machine is found automatically' -r
complete -c crore -n "__fish_crore_using_subcommand login" -l api-key-file -d 'File with an API key that has operate = true. It is required if the operators\' socket cannot be used' -r -F
complete -c crore -n "__fish_crore_using_subcommand login" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand login" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand tls; and not __fish_seen_subcommand_from self-signed help" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand tls; and not __fish_seen_subcommand_from self-signed help" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand tls; and not __fish_seen_subcommand_from self-signed help" -f -a "self-signed" -d 'Generate a self-signed certificate to try out TLS: cert.pem and key.pem'
complete -c crore -n "__fish_crore_using_subcommand tls; and not __fish_seen_subcommand_from self-signed help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c crore -n "__fish_crore_using_subcommand tls; and __fish_seen_subcommand_from self-signed" -l name -d 'Host name or IP address of the certificate. May be repeated. Without it: localhost, 127.0.0.1 and ::1' -r
complete -c crore -n "__fish_crore_using_subcommand tls; and __fish_seen_subcommand_from self-signed" -l out -d 'Directory for the two files. The command creates it if it is missing' -r -F
complete -c crore -n "__fish_crore_using_subcommand tls; and __fish_seen_subcommand_from self-signed" -l days -d 'Validity of the certificate, in days' -r
complete -c crore -n "__fish_crore_using_subcommand tls; and __fish_seen_subcommand_from self-signed" -l force -d 'Overwrite existing files'
complete -c crore -n "__fish_crore_using_subcommand tls; and __fish_seen_subcommand_from self-signed" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand tls; and __fish_seen_subcommand_from self-signed" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand tls; and __fish_seen_subcommand_from help" -f -a "self-signed" -d 'Generate a self-signed certificate to try out TLS: cert.pem and key.pem'
complete -c crore -n "__fish_crore_using_subcommand tls; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c crore -n "__fish_crore_using_subcommand token; and not __fish_seen_subcommand_from gen check key revoke help" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand token; and not __fish_seen_subcommand_from gen check key revoke help" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand token; and not __fish_seen_subcommand_from gen check key revoke help" -f -a "gen" -d 'Create one or more tokens and print them'
complete -c crore -n "__fish_crore_using_subcommand token; and not __fish_seen_subcommand_from gen check key revoke help" -f -a "check" -d 'Print what a token or an API key permits at a node of this configuration, or why the node refuses it (exit code 1)'
complete -c crore -n "__fish_crore_using_subcommand token; and not __fish_seen_subcommand_from gen check key revoke help" -f -a "key" -d 'Generate a key: an API key, a secret (--algorithm HS256), or a key pair in two files (--algorithm EdDSA and others)'
complete -c crore -n "__fish_crore_using_subcommand token; and not __fish_seen_subcommand_from gen check key revoke help" -f -a "revoke" -d 'Revoke tokens at a running node, effective at once'
complete -c crore -n "__fish_crore_using_subcommand token; and not __fish_seen_subcommand_from gen check key revoke help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from gen" -l secret-file -d 'File with the secret of HS256, HS384 or HS512. A line ending at its end is ignored' -r -F
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from gen" -l key-file -d 'File with the private key in PEM: RSA, EC or Ed25519' -r -F
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from gen" -l algorithm -d 'HS256, HS384, HS512, RS256, RS384, RS512, ES256, ES384 or EdDSA. Without it, the algorithm that fits the key' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from gen" -l kid -d 'Key ID (`kid`)' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from gen" -l sub -d 'Subject of the token (`sub`)' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from gen" -l count -d 'Number of tokens to create, one on each line. Each has its own subject: the value of --sub, a hyphen, and a number that starts at 1' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from gen" -l expires -d 'Lifetime of the token: `90s`, `15m`, `1h` or `7d`. `never` omits `exp`' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from gen" -l jti -d 'Token ID (`jti`), for revocation. `random` generates one' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from gen" -l issuer -d 'Issuer of the token (`iss`)' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from gen" -l audience -d 'Audience of the token (`aud`). May be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from gen" -l subscribe -d 'Filter that the client may subscribe to. May be repeated. `{sub}` stands for the value of --sub, as a whole level' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from gen" -l publish -d 'Filter that the client may publish to. May be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from gen" -l history -d 'Filter whose history the client may read. May be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from gen" -l all -d 'Filter that the client may subscribe to, publish to and read the history of. May be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from gen" -l connections -d 'Maximum number of connections of the subject to one node' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from gen" -l subscriptions -d 'Maximum number of subscriptions of one connection' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from gen" -l publish-rate -d 'Maximum rate of one connection, in publications per second' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from gen" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from gen" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from check" -l subscribe -d 'Check whether the credential permits subscribing to this filter. The exit code is 1 if not' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from check" -l publish -d 'Check whether the credential permits publishing to this filter. The exit code is 1 if not' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from check" -l history -d 'Check whether the credential permits reading the history of this filter. The exit code is 1 if not' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from check" -l config -d 'Configuration file. Without one, the defaults apply' -r -F
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from check" -l listen -d 'Address for clients (listen.clients). May be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from check" -l admin-listen -d 'Address for operators: health, metrics and the live page (listen.operators). May be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from check" -l tls-listen -d 'Address for clients with TLS (tls.listen). May be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from check" -l tls-certificate -d 'Server certificate with its chain, in PEM (tls.certificate_file)' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from check" -l tls-key -d 'Private key of the server certificate, in PEM (tls.key_file)' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from check" -l io-threads -d 'Number of I/O threads (node.io_threads)' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from check" -l data-dir -d 'Directory for logs on disk (node.data_dir)' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from check" -l log-format -d 'Format of log lines: `text` or `json` (logging.format)' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from check" -l set -d 'Set any option of the configuration. May be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from check" -l open -d 'Serve every client that can reach the node, even with authentication off (listen.open)'
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from check" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from check" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from key" -l algorithm -d 'HS256, HS384 or HS512 for a secret; RS256, RS384, RS512, ES256, ES384 or EdDSA for a key pair. Without it, an API key' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from key" -s o -l out -d 'Secret or API key: a file that only its owner can read; without it, the command prints the key. Key pair: a directory for private.pem and public.pem, created if it is missing; without it, the current directory' -r -F
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from key" -l name -d 'Name of the API key, for the table that is printed with it' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from key" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from key" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from revoke" -l jti -d 'Revoke the token with this `jti`' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from revoke" -l sub -d 'Revoke all tokens of this `sub` that were issued before now, or before --issued-before' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from revoke" -l issuer -d 'With --sub: revoke only tokens of this `iss`' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from revoke" -l key -d 'Revoke all tokens that this key has signed: its name (`kid`), or the thumbprint of a key without one. `crore token check` prints both' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from revoke" -l issued-before -d 'Revoke tokens issued before this moment (seconds since 1970, or `2026-01-31T12:00:00Z`). Without --sub, this applies to all subjects' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from revoke" -l take-back -d 'Cancel the revocation with this number' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from revoke" -l ends -d 'Moment at which the node deletes the revocation. By default, when the last revoked token has expired; a revocation with --key stays forever' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from revoke" -l operators -l url -d 'URL of the node\'s operators\' port, or unix:PATH of its operators\' socket. The socket of a node on this machine is found automatically' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from revoke" -l api-key-file -d 'File with an API key that has operate = true. It is required if the operators\' socket cannot be used' -r -F
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from revoke" -l list -d 'List the revocations'
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from revoke" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from revoke" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from help" -f -a "gen" -d 'Create one or more tokens and print them'
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from help" -f -a "check" -d 'Print what a token or an API key permits at a node of this configuration, or why the node refuses it (exit code 1)'
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from help" -f -a "key" -d 'Generate a key: an API key, a secret (--algorithm HS256), or a key pair in two files (--algorithm EdDSA and others)'
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from help" -f -a "revoke" -d 'Revoke tokens at a running node, effective at once'
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c crore -n "__fish_crore_using_subcommand drain" -l window -d 'Time over which the clients\' reconnects are spread, such as `30s`. The default is the node\'s node.drain_window' -r
complete -c crore -n "__fish_crore_using_subcommand drain" -l operators -l url -d 'URL of the node\'s operators\' port, or unix:PATH of its operators\' socket. The socket of a node on this machine is found automatically' -r
complete -c crore -n "__fish_crore_using_subcommand drain" -l api-key-file -d 'File with an API key that has operate = true. It is required if the operators\' socket cannot be used' -r -F
complete -c crore -n "__fish_crore_using_subcommand drain" -l no-wait -d 'Return at once. Do not wait until the node has stopped'
complete -c crore -n "__fish_crore_using_subcommand drain" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand drain" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand health" -l operators -l url -d 'URL of the node\'s operators\' port, or unix:PATH of its operators\' socket. The socket of a node on this machine is found automatically' -r
complete -c crore -n "__fish_crore_using_subcommand health" -l api-key-file -d 'File with an API key that has operate = true. It is required if the operators\' socket cannot be used' -r -F
complete -c crore -n "__fish_crore_using_subcommand health" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand health" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand config; and not __fish_seen_subcommand_from print check default doc explain help" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand config; and not __fish_seen_subcommand_from print check default doc explain help" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand config; and not __fish_seen_subcommand_from print check default doc explain help" -f -a "print" -d 'Print the configuration in force, and the source of each value'
complete -c crore -n "__fish_crore_using_subcommand config; and not __fish_seen_subcommand_from print check default doc explain help" -f -a "check" -d 'Check the configuration and print every fault with its location. The exit code is 78 if there is a fault'
complete -c crore -n "__fish_crore_using_subcommand config; and not __fish_seen_subcommand_from print check default doc explain help" -f -a "default" -d 'Print a configuration file with every option, its default and help'
complete -c crore -n "__fish_crore_using_subcommand config; and not __fish_seen_subcommand_from print check default doc explain help" -f -a "doc" -d 'Print the reference page in Markdown, or the help of one section or option'
complete -c crore -n "__fish_crore_using_subcommand config; and not __fish_seen_subcommand_from print check default doc explain help" -f -a "explain" -d 'Print the rule that applies to a topic or filter, and the source of each of its values'
complete -c crore -n "__fish_crore_using_subcommand config; and not __fish_seen_subcommand_from print check default doc explain help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from print" -l config -d 'Configuration file. Without one, the defaults apply' -r -F
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from print" -l listen -d 'Address for clients (listen.clients). May be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from print" -l admin-listen -d 'Address for operators: health, metrics and the live page (listen.operators). May be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from print" -l tls-listen -d 'Address for clients with TLS (tls.listen). May be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from print" -l tls-certificate -d 'Server certificate with its chain, in PEM (tls.certificate_file)' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from print" -l tls-key -d 'Private key of the server certificate, in PEM (tls.key_file)' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from print" -l io-threads -d 'Number of I/O threads (node.io_threads)' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from print" -l data-dir -d 'Directory for logs on disk (node.data_dir)' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from print" -l log-format -d 'Format of log lines: `text` or `json` (logging.format)' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from print" -l set -d 'Set any option of the configuration. May be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from print" -l json -d 'Print JSON'
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from print" -l open -d 'Serve every client that can reach the node, even with authentication off (listen.open)'
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from print" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from print" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from check" -l config -d 'Configuration file. Without one, the defaults apply' -r -F
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from check" -l listen -d 'Address for clients (listen.clients). May be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from check" -l admin-listen -d 'Address for operators: health, metrics and the live page (listen.operators). May be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from check" -l tls-listen -d 'Address for clients with TLS (tls.listen). May be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from check" -l tls-certificate -d 'Server certificate with its chain, in PEM (tls.certificate_file)' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from check" -l tls-key -d 'Private key of the server certificate, in PEM (tls.key_file)' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from check" -l io-threads -d 'Number of I/O threads (node.io_threads)' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from check" -l data-dir -d 'Directory for logs on disk (node.data_dir)' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from check" -l log-format -d 'Format of log lines: `text` or `json` (logging.format)' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from check" -l set -d 'Set any option of the configuration. May be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from check" -l open -d 'Serve every client that can reach the node, even with authentication off (listen.open)'
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from check" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from check" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from default" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from default" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from doc" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from doc" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from explain" -l config -d 'Configuration file. Without one, the defaults apply' -r -F
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from explain" -l listen -d 'Address for clients (listen.clients). May be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from explain" -l admin-listen -d 'Address for operators: health, metrics and the live page (listen.operators). May be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from explain" -l tls-listen -d 'Address for clients with TLS (tls.listen). May be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from explain" -l tls-certificate -d 'Server certificate with its chain, in PEM (tls.certificate_file)' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from explain" -l tls-key -d 'Private key of the server certificate, in PEM (tls.key_file)' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from explain" -l io-threads -d 'Number of I/O threads (node.io_threads)' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from explain" -l data-dir -d 'Directory for logs on disk (node.data_dir)' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from explain" -l log-format -d 'Format of log lines: `text` or `json` (logging.format)' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from explain" -l set -d 'Set any option of the configuration. May be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from explain" -l open -d 'Serve every client that can reach the node, even with authentication off (listen.open)'
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from explain" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from explain" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "print" -d 'Print the configuration in force, and the source of each value'
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "check" -d 'Check the configuration and print every fault with its location. The exit code is 78 if there is a fault'
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "default" -d 'Print a configuration file with every option, its default and help'
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "doc" -d 'Print the reference page in Markdown, or the help of one section or option'
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "explain" -d 'Print the rule that applies to a topic or filter, and the source of each of its values'
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c crore -n "__fish_crore_using_subcommand bridge" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand bridge" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand upgrade" -l operators -l url -d 'URL of the node\'s operators\' port, or unix:PATH of its operators\' socket. The socket of a node on this machine is found automatically' -r
complete -c crore -n "__fish_crore_using_subcommand upgrade" -l api-key-file -d 'File with an API key that has operate = true. It is required if the operators\' socket cannot be used' -r -F
complete -c crore -n "__fish_crore_using_subcommand upgrade" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand upgrade" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand metrics" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand metrics" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand version" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand version" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand completion" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand completion" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand man" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand man" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub mqtt history top conn topic bench doctor plan log engine cluster login tls token drain health config bridge upgrade metrics version completion man help" -f -a "serve" -d 'Run a node'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub mqtt history top conn topic bench doctor plan log engine cluster login tls token drain health config bridge upgrade metrics version completion man help" -f -a "demo" -d 'Run a demo: a node with thousands of subscribers, its rates and latencies. It needs no configuration and serves no TLS. With --break-it, it injects faults'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub mqtt history top conn topic bench doctor plan log engine cluster login tls token drain health config bridge upgrade metrics version completion man help" -f -a "pub" -d 'Publish a message, or one for each line of standard input'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub mqtt history top conn topic bench doctor plan log engine cluster login tls token drain health config bridge upgrade metrics version completion man help" -f -a "sub" -d 'Subscribe to topics or filters and print their messages'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub mqtt history top conn topic bench doctor plan log engine cluster login tls token drain health config bridge upgrade metrics version completion man help" -f -a "mqtt" -d 'Publish and subscribe over MQTT, at a node or at another broker'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub mqtt history top conn topic bench doctor plan log engine cluster login tls token drain health config bridge upgrade metrics version completion man help" -f -a "history" -d 'Print a topic\'s history'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub mqtt history top conn topic bench doctor plan log engine cluster login tls token drain health config bridge upgrade metrics version completion man help" -f -a "top" -d 'Watch a running node: connections, rates, memory'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub mqtt history top conn topic bench doctor plan log engine cluster login tls token drain health config bridge upgrade metrics version completion man help" -f -a "conn" -d 'List, show or close the connections of a running node'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub mqtt history top conn topic bench doctor plan log engine cluster login tls token drain health config bridge upgrade metrics version completion man help" -f -a "topic" -d 'List or show the topics of a running node'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub mqtt history top conn topic bench doctor plan log engine cluster login tls token drain health config bridge upgrade metrics version completion man help" -f -a "bench" -d 'Measure a node under load and verify every stream'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub mqtt history top conn topic bench doctor plan log engine cluster login tls token drain health config bridge upgrade metrics version completion man help" -f -a "doctor" -d 'Examine this machine: how many connections it can hold, and how to raise that number'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub mqtt history top conn topic bench doctor plan log engine cluster login tls token drain health config bridge upgrade metrics version completion man help" -f -a "plan" -d 'Predict the memory, processors and bandwidth that a load needs, and the first bottleneck'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub mqtt history top conn topic bench doctor plan log engine cluster login tls token drain health config bridge upgrade metrics version completion man help" -f -a "log" -d 'Check, print, measure or repair a log on disk'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub mqtt history top conn topic bench doctor plan log engine cluster login tls token drain health config bridge upgrade metrics version completion man help" -f -a "engine" -d 'Create or examine the topics of logs in an engine, which several nodes share'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub mqtt history top conn topic bench doctor plan log engine cluster login tls token drain health config bridge upgrade metrics version completion man help" -f -a "cluster" -d 'Try several nodes out on this machine'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub mqtt history top conn topic bench doctor plan log engine cluster login tls token drain health config bridge upgrade metrics version completion man help" -f -a "login" -d 'Print a link that logs a browser in to the operators\' page. The link works once, within an hour'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub mqtt history top conn topic bench doctor plan log engine cluster login tls token drain health config bridge upgrade metrics version completion man help" -f -a "tls" -d 'Generate a self-signed certificate to try out TLS'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub mqtt history top conn topic bench doctor plan log engine cluster login tls token drain health config bridge upgrade metrics version completion man help" -f -a "token" -d 'Create and check keys and tokens, and revoke tokens'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub mqtt history top conn topic bench doctor plan log engine cluster login tls token drain health config bridge upgrade metrics version completion man help" -f -a "drain" -d 'Drain a node, then stop it'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub mqtt history top conn topic bench doctor plan log engine cluster login tls token drain health config bridge upgrade metrics version completion man help" -f -a "health" -d 'Check whether a node is ready'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub mqtt history top conn topic bench doctor plan log engine cluster login tls token drain health config bridge upgrade metrics version completion man help" -f -a "config" -d 'Show, check or explain the configuration'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub mqtt history top conn topic bench doctor plan log engine cluster login tls token drain health config bridge upgrade metrics version completion man help" -f -a "bridge" -d 'Print the configuration that does what a configuration of Mosquitto does, with a remark on each line that has no equivalent'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub mqtt history top conn topic bench doctor plan log engine cluster login tls token drain health config bridge upgrade metrics version completion man help" -f -a "upgrade" -d 'Upgrade a running node in place to the program now on disk. Clients stay connected and miss nothing'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub mqtt history top conn topic bench doctor plan log engine cluster login tls token drain health config bridge upgrade metrics version completion man help" -f -a "metrics" -d 'Describe every metric of a node, as Markdown'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub mqtt history top conn topic bench doctor plan log engine cluster login tls token drain health config bridge upgrade metrics version completion man help" -f -a "version" -d 'Print the version, the commit and the compiler'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub mqtt history top conn topic bench doctor plan log engine cluster login tls token drain health config bridge upgrade metrics version completion man help" -f -a "completion" -d 'Print a completion script for a shell'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub mqtt history top conn topic bench doctor plan log engine cluster login tls token drain health config bridge upgrade metrics version completion man help" -f -a "man" -d 'Print the manual page'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub mqtt history top conn topic bench doctor plan log engine cluster login tls token drain health config bridge upgrade metrics version completion man help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from mqtt" -f -a "pub" -d 'Publish a message over MQTT, or one for each line of standard input'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from mqtt" -f -a "sub" -d 'Subscribe to topics or filters over MQTT and print their messages'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from conn" -f -a "list" -d 'List connections'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from conn" -f -a "show" -d 'Show one connection and its subscriptions'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from conn" -f -a "kick" -d 'Close connections'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from topic" -f -a "list" -d 'List topics'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from topic" -f -a "show" -d 'Show one topic: its I/O thread, its subscribers and its history'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "sub" -d 'Subscribe with many clients, measure latency, and verify order and completeness'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "pub" -d 'Publish at a fixed rate and measure acknowledgements'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "echo" -d 'Ping an echo service with many clients'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "run" -d 'Run a named workload against its own server; write a report as JSON and HTML, beside published figures'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "report" -d 'Compare reports of `bench run` side by side'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "part" -d 'Load generator of `bench run`; it reads commands from standard input'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from log" -f -a "verify" -d 'Read and check the whole log. The exit code is 1 if anything is damaged. The node must not be running'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from log" -f -a "dump" -d 'Print every message, in the order in which they became durable. The node must not be running'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from log" -f -a "stats" -d 'Print counts: segments, bytes, messages, partitions and epochs'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from log" -f -a "repair" -d 'Discard unreadable data, rebuild the indexes, and list every loss exactly. If acknowledged messages are lost, a new epoch begins. The node must not be running. Copy the directory first'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from log" -f -a "new-epoch" -d 'Begin a new epoch, for a log that was restored from an older copy. Clients with newer positions than the copy then get a gap. The node must not be running'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from engine" -f -a "init" -d 'Create the topics of logs in the engine that do not exist yet. Others stay as they are'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from engine" -f -a "check" -d 'Examine the topics of logs in the engine, and print what they lack. The exit code is 1 if a node would not start with them'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from cluster" -f -a "demo" -d 'Run three brokers of Apache Kafka and three nodes on this machine, with publishers and subscribers, and count every message. Keys kill and restart brokers and nodes. Without a terminal it follows a fixed schedule of kills. The exit code is 1 if a message was lost, delivered twice or out of order, or if a subscriber got a gap. It needs Java 17, three gigabytes of memory, and Kafka\'s jars'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from tls" -f -a "self-signed" -d 'Generate a self-signed certificate to try out TLS: cert.pem and key.pem'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from token" -f -a "gen" -d 'Create one or more tokens and print them'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from token" -f -a "check" -d 'Print what a token or an API key permits at a node of this configuration, or why the node refuses it (exit code 1)'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from token" -f -a "key" -d 'Generate a key: an API key, a secret (--algorithm HS256), or a key pair in two files (--algorithm EdDSA and others)'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from token" -f -a "revoke" -d 'Revoke tokens at a running node, effective at once'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from config" -f -a "print" -d 'Print the configuration in force, and the source of each value'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from config" -f -a "check" -d 'Check the configuration and print every fault with its location. The exit code is 78 if there is a fault'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from config" -f -a "default" -d 'Print a configuration file with every option, its default and help'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from config" -f -a "doc" -d 'Print the reference page in Markdown, or the help of one section or option'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from config" -f -a "explain" -d 'Print the rule that applies to a topic or filter, and the source of each of its values'
