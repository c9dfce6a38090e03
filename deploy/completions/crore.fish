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
complete -c crore -n "__fish_crore_needs_command" -f -a "demo" -d 'Start a node, connect thousands of subscribers, and show rates and latencies; or break it (--break-it). No configuration, no TLS'
complete -c crore -n "__fish_crore_needs_command" -f -a "pub" -d 'Publish a message, or one for each line of standard input'
complete -c crore -n "__fish_crore_needs_command" -f -a "sub" -d 'Subscribe to topics or filters and print what comes'
complete -c crore -n "__fish_crore_needs_command" -f -a "history" -d 'Print a topic\'s history'
complete -c crore -n "__fish_crore_needs_command" -f -a "top" -d 'Watch a running node: connections, rates, memory'
complete -c crore -n "__fish_crore_needs_command" -f -a "conn" -d 'List, show or end the connections of a running node'
complete -c crore -n "__fish_crore_needs_command" -f -a "topic" -d 'List or show the topics of a running node'
complete -c crore -n "__fish_crore_needs_command" -f -a "bench" -d 'Measure a node under load, and verify every stream'
complete -c crore -n "__fish_crore_needs_command" -f -a "doctor" -d 'Examine the machine: how many connections it can hold, and how to raise that number'
complete -c crore -n "__fish_crore_needs_command" -f -a "plan" -d 'Predict what a load needs: memory, processors and bandwidth, and which of them runs out first'
complete -c crore -n "__fish_crore_needs_command" -f -a "log" -d 'Check, print, measure or repair a log on disk'
complete -c crore -n "__fish_crore_needs_command" -f -a "login" -d 'Print a link that logs a browser in at the operators\' page. It works once, for an hour'
complete -c crore -n "__fish_crore_needs_command" -f -a "tls" -d 'Make a self-signed certificate to try out TLS'
complete -c crore -n "__fish_crore_needs_command" -f -a "token" -d 'Make and check keys and tokens, and revoke tokens'
complete -c crore -n "__fish_crore_needs_command" -f -a "drain" -d 'Drain a node: send its clients away, then end it'
complete -c crore -n "__fish_crore_needs_command" -f -a "health" -d 'Ask a node whether it is ready'
complete -c crore -n "__fish_crore_needs_command" -f -a "config" -d 'Show, check or explain the configuration'
complete -c crore -n "__fish_crore_needs_command" -f -a "upgrade" -d 'Upgrade a running node in place to the program now on disk. Clients stay connected and miss nothing'
complete -c crore -n "__fish_crore_needs_command" -f -a "metrics" -d 'Describe every metric of a node, as Markdown'
complete -c crore -n "__fish_crore_needs_command" -f -a "version" -d 'Print the version, the commit and the compiler'
complete -c crore -n "__fish_crore_needs_command" -f -a "completion" -d 'Print a completion script for a shell'
complete -c crore -n "__fish_crore_needs_command" -f -a "man" -d 'Print the manual page'
complete -c crore -n "__fish_crore_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c crore -n "__fish_crore_using_subcommand serve" -l config -d 'Configuration file. Without one, the defaults hold' -r -F
complete -c crore -n "__fish_crore_using_subcommand serve" -l listen -d 'Address for clients (listen.clients); may be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand serve" -l admin-listen -d 'Address for operators: health, metrics, live page (listen.operators); may be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand serve" -l tls-listen -d 'Address for clients with TLS; may be repeated (tls.listen)' -r
complete -c crore -n "__fish_crore_using_subcommand serve" -l tls-certificate -d 'Certificate of the TLS server, with its chain, in PEM (tls.certificate_file)' -r
complete -c crore -n "__fish_crore_using_subcommand serve" -l tls-key -d 'Private key of the TLS server, in PEM (tls.key_file)' -r
complete -c crore -n "__fish_crore_using_subcommand serve" -l io-threads -d 'I/O threads (node.io_threads)' -r
complete -c crore -n "__fish_crore_using_subcommand serve" -l data-dir -d 'Directory of logs on disk (node.data_dir)' -r
complete -c crore -n "__fish_crore_using_subcommand serve" -l log-format -d '`text` or `json` (logging.format)' -r
complete -c crore -n "__fish_crore_using_subcommand serve" -l set -d 'Any option of the configuration; may be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand serve" -l open -d 'Serve every client that can reach the node, even with authentication off (listen.open)'
complete -c crore -n "__fish_crore_using_subcommand serve" -l end-with-stdin -d 'Ends like SIGTERM when standard input ends: with whoever started it, in whatever way that one ends'
complete -c crore -n "__fish_crore_using_subcommand serve" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand serve" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand demo" -l clients -d 'Subscribers, each with a topic of its own' -r
complete -c crore -n "__fish_crore_using_subcommand demo" -l rate -d 'Messages per second to all of them together' -r
complete -c crore -n "__fish_crore_using_subcommand demo" -l size -d 'Bytes of each message' -r
complete -c crore -n "__fish_crore_using_subcommand demo" -l connect-rate -d 'Connects per second' -r
complete -c crore -n "__fish_crore_using_subcommand demo" -l duration -d 'End after so long, such as `90s` or `5m`, or plain seconds. Without it the demo runs until Ctrl-C. With `--break-it` the demo takes no longer than this; without it, 30 seconds' -r
complete -c crore -n "__fish_crore_using_subcommand demo" -l break-it -d 'Break the node while messages flow, and count: an upgrade in place, a `kill -9` and a drain. The log is on disk, in a temporary directory. The exit code is 1 if a message was lost'
complete -c crore -n "__fish_crore_using_subcommand demo" -l memory-log -d 'With `--break-it`: keep the log in memory. The `kill -9` then loses the log, and every subscriber is told of a gap'
complete -c crore -n "__fish_crore_using_subcommand demo" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand demo" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand pub" -l content-type -d 'Media type of the messages' -r
complete -c crore -n "__fish_crore_using_subcommand pub" -l tag -d 'A tag; may be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand pub" -l idempotency-key -d 'Append the message only once: a repeat with this key is answered with the first position. With several lines, each line after the first has its number added to the key. The server forgets a key after a while (5 minutes by default)' -r
complete -c crore -n "__fish_crore_using_subcommand pub" -l producer -d 'Append the message only once, by this producer and its sequence. The newest connection with this id fences older ones' -r
complete -c crore -n "__fish_crore_using_subcommand pub" -l sequence -d 'Sequence of the message, or of the first line; each further line has the next number. The default is the time in microseconds since 1970, so that it is higher the next time' -r
complete -c crore -n "__fish_crore_using_subcommand pub" -l expected-epoch -d 'Append only if this is the epoch of the topic\'s log' -r
complete -c crore -n "__fish_crore_using_subcommand pub" -l timeout -d 'Give up after so many seconds without an acknowledgement' -r
complete -c crore -n "__fish_crore_using_subcommand pub" -l url -d 'The node: ws://host:port, or wss:// with TLS (http:// and https:// mean the same); several, separated by commas, are tried in turn' -r
complete -c crore -n "__fish_crore_using_subcommand pub" -l ca -d 'With TLS: trust the certificates of this PEM file instead of the system\'s' -r -F
complete -c crore -n "__fish_crore_using_subcommand pub" -l token -d 'The token to show. Other users of the machine can read a command line: use the environment or --token-file instead' -r
complete -c crore -n "__fish_crore_using_subcommand pub" -l token-file -d 'A file with the token. It is read again when the token expires. It takes precedence over --token' -r -F
complete -c crore -n "__fish_crore_using_subcommand pub" -l retain -d 'Make it the topic\'s retained message. An empty text removes the retained message'
complete -c crore -n "__fish_crore_using_subcommand pub" -s q -l quiet -d 'Print errors only'
complete -c crore -n "__fish_crore_using_subcommand pub" -l json -d 'Print one JSON object for each acknowledgement'
complete -c crore -n "__fish_crore_using_subcommand pub" -l insecure -d 'With TLS: accept any certificate. The connection is encrypted, but the server may be anyone'
complete -c crore -n "__fish_crore_using_subcommand pub" -l compress -d 'Offer compression. The node accepts it if websocket.compression is on'
complete -c crore -n "__fish_crore_using_subcommand pub" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand pub" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand sub" -l since -d 'Replay what came after this position, then go on live; for plain topics' -r
complete -c crore -n "__fish_crore_using_subcommand sub" -l last -d 'Replay the newest N messages, then go on live; for plain topics' -r
complete -c crore -n "__fish_crore_using_subcommand sub" -l count -d 'End after so many messages' -r
complete -c crore -n "__fish_crore_using_subcommand sub" -l url -d 'The node: ws://host:port, or wss:// with TLS (http:// and https:// mean the same); several, separated by commas, are tried in turn' -r
complete -c crore -n "__fish_crore_using_subcommand sub" -l ca -d 'With TLS: trust the certificates of this PEM file instead of the system\'s' -r -F
complete -c crore -n "__fish_crore_using_subcommand sub" -l token -d 'The token to show. Other users of the machine can read a command line: use the environment or --token-file instead' -r
complete -c crore -n "__fish_crore_using_subcommand sub" -l token-file -d 'A file with the token. It is read again when the token expires. It takes precedence over --token' -r -F
complete -c crore -n "__fish_crore_using_subcommand sub" -l snapshot -d 'Begin with the retained message, else the newest one; for plain topics'
complete -c crore -n "__fish_crore_using_subcommand sub" -l json -d 'One JSON object for each message and event, on standard output'
complete -c crore -n "__fish_crore_using_subcommand sub" -l insecure -d 'With TLS: accept any certificate. The connection is encrypted, but the server may be anyone'
complete -c crore -n "__fish_crore_using_subcommand sub" -l compress -d 'Offer compression. The node accepts it if websocket.compression is on'
complete -c crore -n "__fish_crore_using_subcommand sub" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand sub" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand history" -l limit -d 'Print at most so many messages' -r
complete -c crore -n "__fish_crore_using_subcommand history" -l since -d 'Only messages after this position; with --reverse, before it' -r
complete -c crore -n "__fish_crore_using_subcommand history" -l timeout -d 'Give up after so many seconds without an answer' -r
complete -c crore -n "__fish_crore_using_subcommand history" -l url -d 'The node: ws://host:port, or wss:// with TLS (http:// and https:// mean the same); several, separated by commas, are tried in turn' -r
complete -c crore -n "__fish_crore_using_subcommand history" -l ca -d 'With TLS: trust the certificates of this PEM file instead of the system\'s' -r -F
complete -c crore -n "__fish_crore_using_subcommand history" -l token -d 'The token to show. Other users of the machine can read a command line: use the environment or --token-file instead' -r
complete -c crore -n "__fish_crore_using_subcommand history" -l token-file -d 'A file with the token. It is read again when the token expires. It takes precedence over --token' -r -F
complete -c crore -n "__fish_crore_using_subcommand history" -l reverse -d 'Newest first'
complete -c crore -n "__fish_crore_using_subcommand history" -l json -d 'Print one JSON object for each message and each gap'
complete -c crore -n "__fish_crore_using_subcommand history" -l insecure -d 'With TLS: accept any certificate. The connection is encrypted, but the server may be anyone'
complete -c crore -n "__fish_crore_using_subcommand history" -l compress -d 'Offer compression. The node accepts it if websocket.compression is on'
complete -c crore -n "__fish_crore_using_subcommand history" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand history" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand top" -l interval -d 'Seconds between two looks' -r
complete -c crore -n "__fish_crore_using_subcommand top" -l operators -l url -d 'The node\'s operators\' port, or unix:PATH of its operators\' socket. For a node on this machine the socket is found automatically' -r
complete -c crore -n "__fish_crore_using_subcommand top" -l api-key-file -d 'A file with an API key that has operate = true. It is needed if the operators\' socket cannot be used' -r -F
complete -c crore -n "__fish_crore_using_subcommand top" -l once -d 'Print one screen and end; it measures for one interval'
complete -c crore -n "__fish_crore_using_subcommand top" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand top" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand conn; and not __fish_seen_subcommand_from list show kick help" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand conn; and not __fish_seen_subcommand_from list show kick help" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand conn; and not __fish_seen_subcommand_from list show kick help" -f -a "list" -d 'List connections'
complete -c crore -n "__fish_crore_using_subcommand conn; and not __fish_seen_subcommand_from list show kick help" -f -a "show" -d 'Show one connection and what it is subscribed to'
complete -c crore -n "__fish_crore_using_subcommand conn; and not __fish_seen_subcommand_from list show kick help" -f -a "kick" -d 'End a connection'
complete -c crore -n "__fish_crore_using_subcommand conn; and not __fish_seen_subcommand_from list show kick help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from list" -l address -d 'Only from this address or network (192.0.2.0/24)' -r
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from list" -l protocol -d 'Only those that speak this: native, events, echo or http' -r
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from list" -l sub -d 'Only those whose token\'s `sub` begins so' -r
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from list" -l limit -d 'At most so many' -r
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from list" -l operators -l url -d 'The node\'s operators\' port, or unix:PATH of its operators\' socket. For a node on this machine the socket is found automatically' -r
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from list" -l api-key-file -d 'A file with an API key that has operate = true. It is needed if the operators\' socket cannot be used' -r -F
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from list" -l lagging -d 'Only those that do not take what they are sent as fast as it comes'
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from list" -l json -d 'One JSON object a line'
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from list" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from show" -l limit -d 'At most so many subscriptions' -r
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from show" -l operators -l url -d 'The node\'s operators\' port, or unix:PATH of its operators\' socket. For a node on this machine the socket is found automatically' -r
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from show" -l api-key-file -d 'A file with an API key that has operate = true. It is needed if the operators\' socket cannot be used' -r -F
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from show" -l json -d 'One JSON object'
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from show" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from kick" -l operators -l url -d 'The node\'s operators\' port, or unix:PATH of its operators\' socket. For a node on this machine the socket is found automatically' -r
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from kick" -l api-key-file -d 'A file with an API key that has operate = true. It is needed if the operators\' socket cannot be used' -r -F
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from kick" -l return -d 'Tell the clients that they may come back'
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from kick" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from kick" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from help" -f -a "list" -d 'List connections'
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show one connection and what it is subscribed to'
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from help" -f -a "kick" -d 'End a connection'
complete -c crore -n "__fish_crore_using_subcommand conn; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c crore -n "__fish_crore_using_subcommand topic; and not __fish_seen_subcommand_from list show help" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand topic; and not __fish_seen_subcommand_from list show help" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand topic; and not __fish_seen_subcommand_from list show help" -f -a "list" -d 'List topics'
complete -c crore -n "__fish_crore_using_subcommand topic; and not __fish_seen_subcommand_from list show help" -f -a "show" -d 'Show one topic: where it lives, who is subscribed, what is kept of it'
complete -c crore -n "__fish_crore_using_subcommand topic; and not __fish_seen_subcommand_from list show help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c crore -n "__fish_crore_using_subcommand topic; and __fish_seen_subcommand_from list" -l limit -d 'At most so many' -r
complete -c crore -n "__fish_crore_using_subcommand topic; and __fish_seen_subcommand_from list" -l operators -l url -d 'The node\'s operators\' port, or unix:PATH of its operators\' socket. For a node on this machine the socket is found automatically' -r
complete -c crore -n "__fish_crore_using_subcommand topic; and __fish_seen_subcommand_from list" -l api-key-file -d 'A file with an API key that has operate = true. It is needed if the operators\' socket cannot be used' -r -F
complete -c crore -n "__fish_crore_using_subcommand topic; and __fish_seen_subcommand_from list" -l json -d 'One JSON object a line'
complete -c crore -n "__fish_crore_using_subcommand topic; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand topic; and __fish_seen_subcommand_from list" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand topic; and __fish_seen_subcommand_from show" -l operators -l url -d 'The node\'s operators\' port, or unix:PATH of its operators\' socket. For a node on this machine the socket is found automatically' -r
complete -c crore -n "__fish_crore_using_subcommand topic; and __fish_seen_subcommand_from show" -l api-key-file -d 'A file with an API key that has operate = true. It is needed if the operators\' socket cannot be used' -r -F
complete -c crore -n "__fish_crore_using_subcommand topic; and __fish_seen_subcommand_from show" -l json -d 'One JSON object'
complete -c crore -n "__fish_crore_using_subcommand topic; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand topic; and __fish_seen_subcommand_from show" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand topic; and __fish_seen_subcommand_from help" -f -a "list" -d 'List topics'
complete -c crore -n "__fish_crore_using_subcommand topic; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show one topic: where it lives, who is subscribed, what is kept of it'
complete -c crore -n "__fish_crore_using_subcommand topic; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c crore -n "__fish_crore_using_subcommand bench; and not __fish_seen_subcommand_from sub pub echo run report part help" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand bench; and not __fish_seen_subcommand_from sub pub echo run report part help" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand bench; and not __fish_seen_subcommand_from sub pub echo run report part help" -f -a "sub" -d 'Subscribe with many clients; measure latency, and verify order and completeness'
complete -c crore -n "__fish_crore_using_subcommand bench; and not __fish_seen_subcommand_from sub pub echo run report part help" -f -a "pub" -d 'Publish at a steady rate; measure acknowledgements'
complete -c crore -n "__fish_crore_using_subcommand bench; and not __fish_seen_subcommand_from sub pub echo run report part help" -f -a "echo" -d 'Ping an echo service with many clients'
complete -c crore -n "__fish_crore_using_subcommand bench; and not __fish_seen_subcommand_from sub pub echo run report part help" -f -a "run" -d 'Run a named workload with a server of its own: figures beside published ones, a report as JSON and HTML'
complete -c crore -n "__fish_crore_using_subcommand bench; and not __fish_seen_subcommand_from sub pub echo run report part help" -f -a "report" -d 'Show reports of `bench run` side by side'
complete -c crore -n "__fish_crore_using_subcommand bench; and not __fish_seen_subcommand_from sub pub echo run report part help" -f -a "part" -d 'A load generator of `bench run`, which takes its orders from standard input'
complete -c crore -n "__fish_crore_using_subcommand bench; and not __fish_seen_subcommand_from sub pub echo run report part help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l url -d 'Address of a node; several are used in turn' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l ca -d 'Where the address is wss:// or https://: believe the certificates of this PEM file instead of the system\'s' -r -F
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l token-file -d 'A file with a token on each line, for a node that asks for them; clients show them in turn' -r -F
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l local-addresses -d 'Source addresses, as patterns: \'127.0.{1..20}.1\'; their ports are chosen explicitly' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l connect-rate -d 'Connects per second, in an open loop; 0: as fast as it goes' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l threads -d 'Worker threads; 0: as many as cores, or as the descriptor limit needs' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l warm-up -d 'Latencies of this first span are not counted' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l duration -d 'Length of the run; 0: until Ctrl-C' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l interval -d 'Between two reports' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l influx -d 'Also write InfluxDB lines to a file or to udp://host:port' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l seed -d 'Seed of random choices; without it every run differs' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l transport -d 'How to receive' -r -f -a "ws\t'The native protocol over WebSocket'
sse\t'Server-Sent Events'
http\t'Long polls'"
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l clients -d 'How many clients' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l topics -d 'Topics, as a pattern: \'p/s{1..1200000}\'' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l choice -d 'How topics are given to clients' -r -f -a "one-to-one\t'Client i takes the i-th run of topics; runs wrap around when there are more clients than topics'
random\t'Each client takes distinct random topics'
common\t'All clients take the same first topics: a common pool'"
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l topics-per-client -d 'Topics of each client' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l sample -d 'So many clients keep their own latencies, for --csv' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l csv -d 'Median, mean, p95 and p99 of each sampled client' -r -F
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l start -d 'Where streams begin: live, first (the oldest message that is held), last:N, since:EPOCH:OFFSET' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l ledger -d 'What `bench pub --ledger` wrote, now or later: end once all of it has come; several may be given' -r -F
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l count -d 'End after so many different messages; 0: no end' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l stall-after -d 'All clients stop reading after this span of the run' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l stall-for -d 'So long they do not read' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l receive-buffer -d 'Receive buffer of each socket in bytes (SO_RCVBUF); a small one makes a slow reader' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l away-after -d 'All connections are dropped at once after this span of the run' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l away-for -d 'So long they stay away; then all return, by --connect-rate' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l insecure -d 'Believe any certificate'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l tls-resume -d 'Come back with session tickets'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l tls12 -d 'Speak TLS 1.2 and nothing newer'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l busy-poll -d 'Workers look for something to do without ever sleeping: a server on the same machine then does not pay for waking them'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l json -d 'One JSON object per interval, and a last one for the whole run'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l verify -d 'Audit every stream to the end: complete, with announced gaps or skips, or faulty'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l compress -d 'Offer compressed messages (permessage-deflate); the node takes that where websocket.compression is on'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -l late-hello -d 'Send HELLO and subscriptions after the WebSocket handshake, not with it: one round trip more'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from sub" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l url -d 'Address of a node; several are used in turn' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l ca -d 'Where the address is wss:// or https://: believe the certificates of this PEM file instead of the system\'s' -r -F
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l token-file -d 'A file with a token on each line, for a node that asks for them; clients show them in turn' -r -F
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l local-addresses -d 'Source addresses, as patterns: \'127.0.{1..20}.1\'; their ports are chosen explicitly' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l connect-rate -d 'Connects per second, in an open loop; 0: as fast as it goes' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l threads -d 'Worker threads; 0: as many as cores, or as the descriptor limit needs' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l warm-up -d 'Latencies of this first span are not counted' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l duration -d 'Length of the run; 0: until Ctrl-C' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l interval -d 'Between two reports' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l influx -d 'Also write InfluxDB lines to a file or to udp://host:port' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l seed -d 'Seed of random choices; without it every run differs' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l connections -d 'Connections that share the load' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l topics -d 'Topics, as a pattern: \'p/s{1..1200000}\'' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l order -d 'Which topic is next' -r -f -a "round-robin\t'One after the other'
random\t'Each message for a random topic'"
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l rate -d 'Messages per second in total, in an open loop' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l size -d 'Bytes of a message, at least 38; random characters' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l ack -d 'What to wait for' -r -f -a "none\t'None: only that the socket took it'
appended\t'That the message stands in its log'"
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l inflight-max -d 'Acknowledgements that one connection may wait for' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l count -d 'Messages in total; 0: no end' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l ledger -d 'Write what was acknowledged, by topic, at the end: for `bench sub --ledger`' -r -F
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l clock -d 'The clock that the messages carry' -r -f -a "monotonic\t'Publisher and subscribers on one machine'
realtime\t'On several machines with synchronised clocks'"
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l insecure -d 'Believe any certificate'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l tls-resume -d 'Come back with session tickets'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l tls12 -d 'Speak TLS 1.2 and nothing newer'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l busy-poll -d 'Workers look for something to do without ever sleeping: a server on the same machine then does not pay for waking them'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l json -d 'One JSON object per interval, and a last one for the whole run'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -l exactly-once -d 'Send each message again after a loss of its connection until it is acknowledged; the log knows repeats by the producer\'s numbers'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from pub" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -l url -d 'Address of a node; several are used in turn' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -l ca -d 'Where the address is wss:// or https://: believe the certificates of this PEM file instead of the system\'s' -r -F
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -l token-file -d 'A file with a token on each line, for a node that asks for them; clients show them in turn' -r -F
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -l local-addresses -d 'Source addresses, as patterns: \'127.0.{1..20}.1\'; their ports are chosen explicitly' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -l connect-rate -d 'Connects per second, in an open loop; 0: as fast as it goes' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -l threads -d 'Worker threads; 0: as many as cores, or as the descriptor limit needs' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -l warm-up -d 'Latencies of this first span are not counted' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -l duration -d 'Length of the run; 0: until Ctrl-C' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -l interval -d 'Between two reports' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -l influx -d 'Also write InfluxDB lines to a file or to udp://host:port' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -l seed -d 'Seed of random choices; without it every run differs' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -l clients -d 'How many clients at first' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -l every -d 'Between two pings of one client' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -l size -d 'Bytes of a ping, at least 38' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -l control -d 'Serve the control interface here: POST and DELETE /clients, GET /stats and /metrics' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -l clients-max -d 'Clients that the control interface may ask for' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -l insecure -d 'Believe any certificate'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -l tls-resume -d 'Come back with session tickets'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -l tls12 -d 'Speak TLS 1.2 and nothing newer'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -l busy-poll -d 'Workers look for something to do without ever sleeping: a server on the same machine then does not pay for waking them'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -l json -d 'One JSON object per interval, and a last one for the whole run'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from echo" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l scale -d 'How large: auto (what this machine holds, at most as published), a share such as 0.1 or 10%, or a number of clients' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l clients -d 'So many clients, whatever the scale' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l rate -d 'Messages published (or pings sent) per second, instead of as many as go with the clients' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l size -d 'Bytes of a message, at least 38' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l transport -d 'How clients receive: ws or sse' -r -f -a "ws\t'The native protocol over WebSocket'
sse\t'Server-Sent Events'
http\t'Long polls'"
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l ack -d 'The acknowledgement that publishers wait for' -r -f -a "none\t'None'
appended\t'That the message stands in its log'"
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l history -d 'Whether topics have a history on the server that is started' -r -f -a "on\t'As a server has it by itself'
off\t'None: who falls behind has a gap'"
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l duration -d 'Length of the measured span' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l warm-up -d 'From the first message to the measured span' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l settle -d 'From the last connection to the first message' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l interval -d 'Between two samples, and two lines' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l connect-rate -d 'Connects per second; 0: as fast as it goes. By default 5,000 for each core of the server' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l publisher-connections -d 'Connections that share the publishing' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l server-cores -d 'Cores of the server, such as 0-3,8; by default the first half' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l client-cores -d 'Cores of the load generators; by default the second half' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l io-threads -d 'I/O threads of the server that is started; by default as many as its descriptors need' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l server-set -d 'An option of the server that is started' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l url -d 'A server that is there already, instead of one of its own' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l ca -d 'Where its address is wss://: believe the certificates of this PEM file instead of the system\'s' -r -F
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l admin -d 'Its operators\' address, for its metrics' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l server-pid -d 'Its process, for its CPU and memory' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l away -d 'storm: how long clients, or the server, are away' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l step -d 'unicast --find: the length of each step' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l p99-max -d 'unicast --find: the highest p99 of a rate that counts as sustained' -r
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l out -d 'Where the report goes; by default bench-reports/NAME-DATE' -r -F
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l plain -d 'Without TLS where the workload has it'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l no-pin -d 'Let every process use every core'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l insecure -d 'Believe any certificate'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l server-restarts -d 'storm: the server is killed and started again with its log on disk, instead of the clients going'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -l find -d 'unicast: find the highest sustainable rate, and measure at half of it'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from run" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from report" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from report" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from part" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from part" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "sub" -d 'Subscribe with many clients; measure latency, and verify order and completeness'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "pub" -d 'Publish at a steady rate; measure acknowledgements'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "echo" -d 'Ping an echo service with many clients'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "run" -d 'Run a named workload with a server of its own: figures beside published ones, a report as JSON and HTML'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "report" -d 'Show reports of `bench run` side by side'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "part" -d 'A load generator of `bench run`, which takes its orders from standard input'
complete -c crore -n "__fish_crore_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c crore -n "__fish_crore_using_subcommand doctor" -l target-connections -d 'Judge the machine against this number of connections (1M, 250k). The default is 100k, or what its memory has room for if that is less' -r
complete -c crore -n "__fish_crore_using_subcommand doctor" -l io-threads -d 'I/O threads of the node. The default is one for each processor' -r
complete -c crore -n "__fish_crore_using_subcommand doctor" -l admin -d 'The operators\' port of a running node, whose memory is printed by component. The default port is tried by itself' -r
complete -c crore -n "__fish_crore_using_subcommand doctor" -l root -d 'Examine the machine whose /proc and /sys are below this directory' -r -F
complete -c crore -n "__fish_crore_using_subcommand doctor" -l machine -d 'Judge a captured machine instead of this one' -r -F
complete -c crore -n "__fish_crore_using_subcommand doctor" -l capture -d 'Write everything that was read of the machine to a file, for --machine' -r -F
complete -c crore -n "__fish_crore_using_subcommand doctor" -l apply -d 'Show the proposed kernel parameters, ask, and set them. Needs root'
complete -c crore -n "__fish_crore_using_subcommand doctor" -l yes -d 'With --apply: do not ask'
complete -c crore -n "__fish_crore_using_subcommand doctor" -l json -d 'One JSON object'
complete -c crore -n "__fish_crore_using_subcommand doctor" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand doctor" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand plan" -l connections -d 'Clients, each with one subscription (10M, 250k)' -r
complete -c crore -n "__fish_crore_using_subcommand plan" -l rate -d 'Publications per second (168k)' -r
complete -c crore -n "__fish_crore_using_subcommand plan" -l fan-out -d 'Clients that receive each of them; topics are as many as groups of that size' -r
complete -c crore -n "__fish_crore_using_subcommand plan" -l size -d 'Bytes of a message' -r
complete -c crore -n "__fish_crore_using_subcommand plan" -l topic-size -d 'Bytes of a topic\'s name' -r
complete -c crore -n "__fish_crore_using_subcommand plan" -l transport -d 'How clients receive' -r -f -a "ws\t'WebSocket, the native protocol'
sse\t'HTTP event streams'"
complete -c crore -n "__fish_crore_using_subcommand plan" -l io-threads -d 'I/O threads; without it one for each core' -r
complete -c crore -n "__fish_crore_using_subcommand plan" -l connect-rate -d 'Connects per second while clients come' -r
complete -c crore -n "__fish_crore_using_subcommand plan" -l ping-interval -d 'Pings to quiet clients (websocket.ping_interval); 0: none' -r
complete -c crore -n "__fish_crore_using_subcommand plan" -l age-max -d 'How long the log in memory keeps messages (log.age_max)' -r
complete -c crore -n "__fish_crore_using_subcommand plan" -l bytes-max -d 'How much it keeps (log.bytes_max)' -r
complete -c crore -n "__fish_crore_using_subcommand plan" -l cores -d 'Cores of the server; without it this machine\'s' -r
complete -c crore -n "__fish_crore_using_subcommand plan" -l memory -d 'Memory of the server (96GB); without it what this machine has available' -r
complete -c crore -n "__fish_crore_using_subcommand plan" -l bandwidth -d 'Bandwidth in each direction, in bits per second (25G); without it none is assumed to be missing' -r
complete -c crore -n "__fish_crore_using_subcommand plan" -l machine -d 'A machine that `crore doctor --capture` wrote, instead of this one' -r -F
complete -c crore -n "__fish_crore_using_subcommand plan" -l check -d 'Hold the prediction against reports of `crore bench run` (report.json), instead' -r -F
complete -c crore -n "__fish_crore_using_subcommand plan" -l within -d 'With --check: how far off a figure may be, in percent' -r
complete -c crore -n "__fish_crore_using_subcommand plan" -l tls -d 'Over TLS'
complete -c crore -n "__fish_crore_using_subcommand plan" -l json -d 'One JSON object'
complete -c crore -n "__fish_crore_using_subcommand plan" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c crore -n "__fish_crore_using_subcommand plan" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand log; and not __fish_seen_subcommand_from verify dump stats repair new-epoch help" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand log; and not __fish_seen_subcommand_from verify dump stats repair new-epoch help" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand log; and not __fish_seen_subcommand_from verify dump stats repair new-epoch help" -f -a "verify" -d 'Read everything and check it; exit code 1 if anything is damaged. The node must not be running'
complete -c crore -n "__fish_crore_using_subcommand log; and not __fish_seen_subcommand_from verify dump stats repair new-epoch help" -f -a "dump" -d 'Print every message, in the order in which they became durable. The node must not be running'
complete -c crore -n "__fish_crore_using_subcommand log; and not __fish_seen_subcommand_from verify dump stats repair new-epoch help" -f -a "stats" -d 'Print counts: segments, bytes, messages, partitions, epochs'
complete -c crore -n "__fish_crore_using_subcommand log; and not __fish_seen_subcommand_from verify dump stats repair new-epoch help" -f -a "repair" -d 'Give up what cannot be read, make the indexes again, and say exactly what is lost; a new epoch begins if acknowledged messages are. The node must not be running. Make a copy of the directory first'
complete -c crore -n "__fish_crore_using_subcommand log; and not __fish_seen_subcommand_from verify dump stats repair new-epoch help" -f -a "new-epoch" -d 'Begin a new epoch: for a log that was put back from an older copy. Clients that had more than the copy has are told so. The node must not be running'
complete -c crore -n "__fish_crore_using_subcommand log; and not __fish_seen_subcommand_from verify dump stats repair new-epoch help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c crore -n "__fish_crore_using_subcommand log; and __fish_seen_subcommand_from verify" -l json -d 'JSON: one object, or one for each thing found'
complete -c crore -n "__fish_crore_using_subcommand log; and __fish_seen_subcommand_from verify" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand log; and __fish_seen_subcommand_from verify" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand log; and __fish_seen_subcommand_from dump" -l json -d 'JSON: one object, or one for each thing found'
complete -c crore -n "__fish_crore_using_subcommand log; and __fish_seen_subcommand_from dump" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand log; and __fish_seen_subcommand_from dump" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand log; and __fish_seen_subcommand_from stats" -l json -d 'JSON: one object, or one for each thing found'
complete -c crore -n "__fish_crore_using_subcommand log; and __fish_seen_subcommand_from stats" -l force -d 'Even while a node has the log open: what is seen of its end may be a moment old'
complete -c crore -n "__fish_crore_using_subcommand log; and __fish_seen_subcommand_from stats" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand log; and __fish_seen_subcommand_from stats" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand log; and __fish_seen_subcommand_from repair" -l json -d 'JSON: one object, or one for each thing found'
complete -c crore -n "__fish_crore_using_subcommand log; and __fish_seen_subcommand_from repair" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand log; and __fish_seen_subcommand_from repair" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand log; and __fish_seen_subcommand_from new-epoch" -l json -d 'JSON: one object, or one for each thing found'
complete -c crore -n "__fish_crore_using_subcommand log; and __fish_seen_subcommand_from new-epoch" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand log; and __fish_seen_subcommand_from new-epoch" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand log; and __fish_seen_subcommand_from help" -f -a "verify" -d 'Read everything and check it; exit code 1 if anything is damaged. The node must not be running'
complete -c crore -n "__fish_crore_using_subcommand log; and __fish_seen_subcommand_from help" -f -a "dump" -d 'Print every message, in the order in which they became durable. The node must not be running'
complete -c crore -n "__fish_crore_using_subcommand log; and __fish_seen_subcommand_from help" -f -a "stats" -d 'Print counts: segments, bytes, messages, partitions, epochs'
complete -c crore -n "__fish_crore_using_subcommand log; and __fish_seen_subcommand_from help" -f -a "repair" -d 'Give up what cannot be read, make the indexes again, and say exactly what is lost; a new epoch begins if acknowledged messages are. The node must not be running. Make a copy of the directory first'
complete -c crore -n "__fish_crore_using_subcommand log; and __fish_seen_subcommand_from help" -f -a "new-epoch" -d 'Begin a new epoch: for a log that was put back from an older copy. Clients that had more than the copy has are told so. The node must not be running'
complete -c crore -n "__fish_crore_using_subcommand log; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c crore -n "__fish_crore_using_subcommand login" -l operators -l url -d 'The node\'s operators\' port, or unix:PATH of its operators\' socket. For a node on this machine the socket is found automatically' -r
complete -c crore -n "__fish_crore_using_subcommand login" -l api-key-file -d 'A file with an API key that has operate = true. It is needed if the operators\' socket cannot be used' -r -F
complete -c crore -n "__fish_crore_using_subcommand login" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand login" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand tls; and not __fish_seen_subcommand_from self-signed help" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand tls; and not __fish_seen_subcommand_from self-signed help" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand tls; and not __fish_seen_subcommand_from self-signed help" -f -a "self-signed" -d 'Make a certificate that signs itself, to try TLS out: cert.pem and key.pem'
complete -c crore -n "__fish_crore_using_subcommand tls; and not __fish_seen_subcommand_from self-signed help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c crore -n "__fish_crore_using_subcommand tls; and __fish_seen_subcommand_from self-signed" -l name -d 'Host name or IP address that it is for; may be repeated. Without any: localhost, 127.0.0.1 and ::1' -r
complete -c crore -n "__fish_crore_using_subcommand tls; and __fish_seen_subcommand_from self-signed" -l out -d 'Directory for the two files; made if it is not there' -r -F
complete -c crore -n "__fish_crore_using_subcommand tls; and __fish_seen_subcommand_from self-signed" -l days -d 'How long it is valid, in days' -r
complete -c crore -n "__fish_crore_using_subcommand tls; and __fish_seen_subcommand_from self-signed" -l force -d 'Replace files that are there'
complete -c crore -n "__fish_crore_using_subcommand tls; and __fish_seen_subcommand_from self-signed" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand tls; and __fish_seen_subcommand_from self-signed" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand tls; and __fish_seen_subcommand_from help" -f -a "self-signed" -d 'Make a certificate that signs itself, to try TLS out: cert.pem and key.pem'
complete -c crore -n "__fish_crore_using_subcommand tls; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c crore -n "__fish_crore_using_subcommand token; and not __fish_seen_subcommand_from gen check key revoke help" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand token; and not __fish_seen_subcommand_from gen check key revoke help" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand token; and not __fish_seen_subcommand_from gen check key revoke help" -f -a "gen" -d 'Make a token, or many, and print them'
complete -c crore -n "__fish_crore_using_subcommand token; and not __fish_seen_subcommand_from gen check key revoke help" -f -a "check" -d 'Say what a token or an API key is allowed at a node of this configuration, or why it is refused (exit code 1)'
complete -c crore -n "__fish_crore_using_subcommand token; and not __fish_seen_subcommand_from gen check key revoke help" -f -a "key" -d 'Make a key: an API key, a secret (--algorithm HS256), or a pair of files (--algorithm EdDSA and others)'
complete -c crore -n "__fish_crore_using_subcommand token; and not __fish_seen_subcommand_from gen check key revoke help" -f -a "revoke" -d 'Revoke tokens at a running node, at once'
complete -c crore -n "__fish_crore_using_subcommand token; and not __fish_seen_subcommand_from gen check key revoke help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from gen" -l secret-file -d 'Secret of HS256, HS384 or HS512, from a file; its line\'s end is not part of it' -r -F
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from gen" -l key-file -d 'Private key in PEM: RSA, EC or Ed25519' -r -F
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from gen" -l algorithm -d 'HS256, HS384, HS512, RS256, RS384, RS512, ES256, ES384 or EdDSA; without it, what fits the key' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from gen" -l kid -d 'Name of the key (`kid`)' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from gen" -l sub -d 'Who the token is for (`sub`)' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from gen" -l count -d 'So many tokens, one on each line, each for a name of its own: that of --sub, a hyphen, and a number from 1 on' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from gen" -l expires -d 'How long it holds: `90s`, `15m`, `1h`, `7d`; `never` leaves `exp` out' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from gen" -l jti -d 'Number of the token (`jti`), by which it can be revoked. `random` makes one' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from gen" -l issuer -d 'Who makes it (`iss`)' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from gen" -l audience -d 'For whom it is made (`aud`); may be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from gen" -l subscribe -d 'Filter that it may subscribe to; may be repeated. `{sub}` is the name of --sub, as a whole level' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from gen" -l publish -d 'Filter that it may publish to; may be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from gen" -l history -d 'Filter whose history it may read; may be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from gen" -l all -d 'Filter with which it may do all of these; may be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from gen" -l connections -d 'Connections that its subject may have at one node' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from gen" -l subscriptions -d 'Subscriptions of one connection' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from gen" -l publish-rate -d 'Publications of one connection in a second' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from gen" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from gen" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from check" -l subscribe -d 'Say whether it may subscribe to this filter, publish to it or read its history; refused is exit code 1' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from check" -l publish -d 'As --subscribe' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from check" -l history -d 'As --subscribe' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from check" -l config -d 'Configuration file. Without one, the defaults hold' -r -F
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from check" -l listen -d 'Address for clients (listen.clients); may be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from check" -l admin-listen -d 'Address for operators: health, metrics, live page (listen.operators); may be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from check" -l tls-listen -d 'Address for clients with TLS; may be repeated (tls.listen)' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from check" -l tls-certificate -d 'Certificate of the TLS server, with its chain, in PEM (tls.certificate_file)' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from check" -l tls-key -d 'Private key of the TLS server, in PEM (tls.key_file)' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from check" -l io-threads -d 'I/O threads (node.io_threads)' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from check" -l data-dir -d 'Directory of logs on disk (node.data_dir)' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from check" -l log-format -d '`text` or `json` (logging.format)' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from check" -l set -d 'Any option of the configuration; may be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from check" -l open -d 'Serve every client that can reach the node, even with authentication off (listen.open)'
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from check" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from check" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from key" -l algorithm -d 'HS256, HS384 or HS512 for a secret; RS256, RS384, RS512, ES256, ES384 or EdDSA for a pair of files. Without it, an API key' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from key" -s o -l out -d 'A file for the secret or the API key, which only its owner can read; without it they are printed. For a pair: a directory for the files private.pem and public.pem, made if it is not there; without it, this one' -r -F
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from key" -l name -d 'Name of an API key, for the table that is printed with it' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from key" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from key" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from revoke" -l jti -d 'The one token with this `jti`' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from revoke" -l sub -d 'All tokens of this `sub` that were issued until now, or before --issued-before' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from revoke" -l issuer -d 'Of --sub: the tokens of this `iss` alone' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from revoke" -l key -d 'All that this key has signed, by its name (`kid`) or, of a key without one, its thumbprint (`crore token check` shows both)' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from revoke" -l issued-before -d 'Tokens that were issued before this moment (seconds since 1970, or `2026-01-31T12:00:00Z`); without --sub, of everybody' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from revoke" -l take-back -d 'Take back the revocation of this number' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from revoke" -l ends -d 'Until when it is kept; without it, until the last such token has expired, and of --key for ever' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from revoke" -l operators -l url -d 'The node\'s operators\' port, or unix:PATH of its operators\' socket. For a node on this machine the socket is found automatically' -r
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from revoke" -l api-key-file -d 'A file with an API key that has operate = true. It is needed if the operators\' socket cannot be used' -r -F
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from revoke" -l list -d 'List what was revoked'
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from revoke" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from revoke" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from help" -f -a "gen" -d 'Make a token, or many, and print them'
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from help" -f -a "check" -d 'Say what a token or an API key is allowed at a node of this configuration, or why it is refused (exit code 1)'
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from help" -f -a "key" -d 'Make a key: an API key, a secret (--algorithm HS256), or a pair of files (--algorithm EdDSA and others)'
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from help" -f -a "revoke" -d 'Revoke tokens at a running node, at once'
complete -c crore -n "__fish_crore_using_subcommand token; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c crore -n "__fish_crore_using_subcommand drain" -l window -d 'The time over which the clients\' returns are spread, such as `30s`; the default is the node\'s node.drain_window' -r
complete -c crore -n "__fish_crore_using_subcommand drain" -l operators -l url -d 'The node\'s operators\' port, or unix:PATH of its operators\' socket. For a node on this machine the socket is found automatically' -r
complete -c crore -n "__fish_crore_using_subcommand drain" -l api-key-file -d 'A file with an API key that has operate = true. It is needed if the operators\' socket cannot be used' -r -F
complete -c crore -n "__fish_crore_using_subcommand drain" -l no-wait -d 'Return at once; do not wait until the node has ended'
complete -c crore -n "__fish_crore_using_subcommand drain" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand drain" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand health" -l operators -l url -d 'The node\'s operators\' port, or unix:PATH of its operators\' socket. For a node on this machine the socket is found automatically' -r
complete -c crore -n "__fish_crore_using_subcommand health" -l api-key-file -d 'A file with an API key that has operate = true. It is needed if the operators\' socket cannot be used' -r -F
complete -c crore -n "__fish_crore_using_subcommand health" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand health" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand config; and not __fish_seen_subcommand_from print check default doc explain help" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand config; and not __fish_seen_subcommand_from print check default doc explain help" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand config; and not __fish_seen_subcommand_from print check default doc explain help" -f -a "print" -d 'Print what is in force, and where each value comes from'
complete -c crore -n "__fish_crore_using_subcommand config; and not __fish_seen_subcommand_from print check default doc explain help" -f -a "check" -d 'Say what is wrong, and where; exit code 78 if anything is'
complete -c crore -n "__fish_crore_using_subcommand config; and not __fish_seen_subcommand_from print check default doc explain help" -f -a "default" -d 'Print a file with every option, its default and help'
complete -c crore -n "__fish_crore_using_subcommand config; and not __fish_seen_subcommand_from print check default doc explain help" -f -a "doc" -d 'Print the reference page, in Markdown; of one section or option its help'
complete -c crore -n "__fish_crore_using_subcommand config; and not __fish_seen_subcommand_from print check default doc explain help" -f -a "explain" -d 'Print the rule that governs a topic or a filter, and where each of its values comes from'
complete -c crore -n "__fish_crore_using_subcommand config; and not __fish_seen_subcommand_from print check default doc explain help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from print" -l config -d 'Configuration file. Without one, the defaults hold' -r -F
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from print" -l listen -d 'Address for clients (listen.clients); may be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from print" -l admin-listen -d 'Address for operators: health, metrics, live page (listen.operators); may be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from print" -l tls-listen -d 'Address for clients with TLS; may be repeated (tls.listen)' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from print" -l tls-certificate -d 'Certificate of the TLS server, with its chain, in PEM (tls.certificate_file)' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from print" -l tls-key -d 'Private key of the TLS server, in PEM (tls.key_file)' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from print" -l io-threads -d 'I/O threads (node.io_threads)' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from print" -l data-dir -d 'Directory of logs on disk (node.data_dir)' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from print" -l log-format -d '`text` or `json` (logging.format)' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from print" -l set -d 'Any option of the configuration; may be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from print" -l json -d 'As JSON, for programs'
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from print" -l open -d 'Serve every client that can reach the node, even with authentication off (listen.open)'
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from print" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from print" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from check" -l config -d 'Configuration file. Without one, the defaults hold' -r -F
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from check" -l listen -d 'Address for clients (listen.clients); may be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from check" -l admin-listen -d 'Address for operators: health, metrics, live page (listen.operators); may be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from check" -l tls-listen -d 'Address for clients with TLS; may be repeated (tls.listen)' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from check" -l tls-certificate -d 'Certificate of the TLS server, with its chain, in PEM (tls.certificate_file)' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from check" -l tls-key -d 'Private key of the TLS server, in PEM (tls.key_file)' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from check" -l io-threads -d 'I/O threads (node.io_threads)' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from check" -l data-dir -d 'Directory of logs on disk (node.data_dir)' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from check" -l log-format -d '`text` or `json` (logging.format)' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from check" -l set -d 'Any option of the configuration; may be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from check" -l open -d 'Serve every client that can reach the node, even with authentication off (listen.open)'
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from check" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from check" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from default" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from default" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from doc" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from doc" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from explain" -l config -d 'Configuration file. Without one, the defaults hold' -r -F
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from explain" -l listen -d 'Address for clients (listen.clients); may be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from explain" -l admin-listen -d 'Address for operators: health, metrics, live page (listen.operators); may be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from explain" -l tls-listen -d 'Address for clients with TLS; may be repeated (tls.listen)' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from explain" -l tls-certificate -d 'Certificate of the TLS server, with its chain, in PEM (tls.certificate_file)' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from explain" -l tls-key -d 'Private key of the TLS server, in PEM (tls.key_file)' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from explain" -l io-threads -d 'I/O threads (node.io_threads)' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from explain" -l data-dir -d 'Directory of logs on disk (node.data_dir)' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from explain" -l log-format -d '`text` or `json` (logging.format)' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from explain" -l set -d 'Any option of the configuration; may be repeated' -r
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from explain" -l open -d 'Serve every client that can reach the node, even with authentication off (listen.open)'
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from explain" -s h -l help -d 'Print help'
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from explain" -s V -l version -d 'Print version'
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "print" -d 'Print what is in force, and where each value comes from'
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "check" -d 'Say what is wrong, and where; exit code 78 if anything is'
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "default" -d 'Print a file with every option, its default and help'
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "doc" -d 'Print the reference page, in Markdown; of one section or option its help'
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "explain" -d 'Print the rule that governs a topic or a filter, and where each of its values comes from'
complete -c crore -n "__fish_crore_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c crore -n "__fish_crore_using_subcommand upgrade" -l operators -l url -d 'The node\'s operators\' port, or unix:PATH of its operators\' socket. For a node on this machine the socket is found automatically' -r
complete -c crore -n "__fish_crore_using_subcommand upgrade" -l api-key-file -d 'A file with an API key that has operate = true. It is needed if the operators\' socket cannot be used' -r -F
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
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub history top conn topic bench doctor plan log login tls token drain health config upgrade metrics version completion man help" -f -a "serve" -d 'Run a node'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub history top conn topic bench doctor plan log login tls token drain health config upgrade metrics version completion man help" -f -a "demo" -d 'Start a node, connect thousands of subscribers, and show rates and latencies; or break it (--break-it). No configuration, no TLS'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub history top conn topic bench doctor plan log login tls token drain health config upgrade metrics version completion man help" -f -a "pub" -d 'Publish a message, or one for each line of standard input'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub history top conn topic bench doctor plan log login tls token drain health config upgrade metrics version completion man help" -f -a "sub" -d 'Subscribe to topics or filters and print what comes'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub history top conn topic bench doctor plan log login tls token drain health config upgrade metrics version completion man help" -f -a "history" -d 'Print a topic\'s history'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub history top conn topic bench doctor plan log login tls token drain health config upgrade metrics version completion man help" -f -a "top" -d 'Watch a running node: connections, rates, memory'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub history top conn topic bench doctor plan log login tls token drain health config upgrade metrics version completion man help" -f -a "conn" -d 'List, show or end the connections of a running node'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub history top conn topic bench doctor plan log login tls token drain health config upgrade metrics version completion man help" -f -a "topic" -d 'List or show the topics of a running node'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub history top conn topic bench doctor plan log login tls token drain health config upgrade metrics version completion man help" -f -a "bench" -d 'Measure a node under load, and verify every stream'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub history top conn topic bench doctor plan log login tls token drain health config upgrade metrics version completion man help" -f -a "doctor" -d 'Examine the machine: how many connections it can hold, and how to raise that number'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub history top conn topic bench doctor plan log login tls token drain health config upgrade metrics version completion man help" -f -a "plan" -d 'Predict what a load needs: memory, processors and bandwidth, and which of them runs out first'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub history top conn topic bench doctor plan log login tls token drain health config upgrade metrics version completion man help" -f -a "log" -d 'Check, print, measure or repair a log on disk'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub history top conn topic bench doctor plan log login tls token drain health config upgrade metrics version completion man help" -f -a "login" -d 'Print a link that logs a browser in at the operators\' page. It works once, for an hour'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub history top conn topic bench doctor plan log login tls token drain health config upgrade metrics version completion man help" -f -a "tls" -d 'Make a self-signed certificate to try out TLS'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub history top conn topic bench doctor plan log login tls token drain health config upgrade metrics version completion man help" -f -a "token" -d 'Make and check keys and tokens, and revoke tokens'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub history top conn topic bench doctor plan log login tls token drain health config upgrade metrics version completion man help" -f -a "drain" -d 'Drain a node: send its clients away, then end it'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub history top conn topic bench doctor plan log login tls token drain health config upgrade metrics version completion man help" -f -a "health" -d 'Ask a node whether it is ready'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub history top conn topic bench doctor plan log login tls token drain health config upgrade metrics version completion man help" -f -a "config" -d 'Show, check or explain the configuration'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub history top conn topic bench doctor plan log login tls token drain health config upgrade metrics version completion man help" -f -a "upgrade" -d 'Upgrade a running node in place to the program now on disk. Clients stay connected and miss nothing'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub history top conn topic bench doctor plan log login tls token drain health config upgrade metrics version completion man help" -f -a "metrics" -d 'Describe every metric of a node, as Markdown'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub history top conn topic bench doctor plan log login tls token drain health config upgrade metrics version completion man help" -f -a "version" -d 'Print the version, the commit and the compiler'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub history top conn topic bench doctor plan log login tls token drain health config upgrade metrics version completion man help" -f -a "completion" -d 'Print a completion script for a shell'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub history top conn topic bench doctor plan log login tls token drain health config upgrade metrics version completion man help" -f -a "man" -d 'Print the manual page'
complete -c crore -n "__fish_crore_using_subcommand help; and not __fish_seen_subcommand_from serve demo pub sub history top conn topic bench doctor plan log login tls token drain health config upgrade metrics version completion man help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from conn" -f -a "list" -d 'List connections'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from conn" -f -a "show" -d 'Show one connection and what it is subscribed to'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from conn" -f -a "kick" -d 'End a connection'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from topic" -f -a "list" -d 'List topics'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from topic" -f -a "show" -d 'Show one topic: where it lives, who is subscribed, what is kept of it'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "sub" -d 'Subscribe with many clients; measure latency, and verify order and completeness'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "pub" -d 'Publish at a steady rate; measure acknowledgements'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "echo" -d 'Ping an echo service with many clients'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "run" -d 'Run a named workload with a server of its own: figures beside published ones, a report as JSON and HTML'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "report" -d 'Show reports of `bench run` side by side'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "part" -d 'A load generator of `bench run`, which takes its orders from standard input'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from log" -f -a "verify" -d 'Read everything and check it; exit code 1 if anything is damaged. The node must not be running'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from log" -f -a "dump" -d 'Print every message, in the order in which they became durable. The node must not be running'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from log" -f -a "stats" -d 'Print counts: segments, bytes, messages, partitions, epochs'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from log" -f -a "repair" -d 'Give up what cannot be read, make the indexes again, and say exactly what is lost; a new epoch begins if acknowledged messages are. The node must not be running. Make a copy of the directory first'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from log" -f -a "new-epoch" -d 'Begin a new epoch: for a log that was put back from an older copy. Clients that had more than the copy has are told so. The node must not be running'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from tls" -f -a "self-signed" -d 'Make a certificate that signs itself, to try TLS out: cert.pem and key.pem'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from token" -f -a "gen" -d 'Make a token, or many, and print them'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from token" -f -a "check" -d 'Say what a token or an API key is allowed at a node of this configuration, or why it is refused (exit code 1)'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from token" -f -a "key" -d 'Make a key: an API key, a secret (--algorithm HS256), or a pair of files (--algorithm EdDSA and others)'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from token" -f -a "revoke" -d 'Revoke tokens at a running node, at once'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from config" -f -a "print" -d 'Print what is in force, and where each value comes from'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from config" -f -a "check" -d 'Say what is wrong, and where; exit code 78 if anything is'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from config" -f -a "default" -d 'Print a file with every option, its default and help'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from config" -f -a "doc" -d 'Print the reference page, in Markdown; of one section or option its help'
complete -c crore -n "__fish_crore_using_subcommand help; and __fish_seen_subcommand_from config" -f -a "explain" -d 'Print the rule that governs a topic or a filter, and where each of its values comes from'
