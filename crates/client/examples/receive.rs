//! Messages per second of the client beside a bare loop of tungstenite, in turn: the medians of
//! some rounds. A thread sends prepared messages of 100 bytes as fast as the receiver takes them.
//!
//! `cargo run --release -p client --example receive`; with `client N` or `bare N` one run of N
//! messages, for tools that count allocations; with `idle URL N` the memory of N idle clients.

use std::error::Error;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Instant;

use client::{Client, Event, Options, Start};
use tungstenite::client::IntoClientRequest;
use wire::Step;
use wire::http::{HeadLimits, HeadScan, Request};
use wire::websocket::handshake::Upgrade;
use wire::websocket::{Opcode, frame};

type Outcome = Result<(), Box<dyn Error>>;

const ROUNDS: usize = 11;
const MESSAGES: u64 = 500_000;
/// The type of MESSAGE.
const MESSAGE: u8 = 0x84;

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [] => compare(),
        ["bare", count] => bare(&serve(count.parse()?)?, count.parse()?),
        ["client", count] => received(&serve(count.parse()?)?, count.parse()?),
        ["idle", url, count] => idle(url, count.parse()?),
        _ => Err("receive, receive bare|client N, or receive idle URL N".into()),
    }
}

fn compare() -> Outcome {
    let address = serve(MESSAGES)?;
    let rate = |run: fn(&str, u64) -> Outcome| {
        let begin = Instant::now();
        run(&address, MESSAGES).map(|()| MESSAGES as f64 / begin.elapsed().as_secs_f64())
    };
    let (mut of_bare, mut of_client, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (bare, client) = (rate(bare)?, rate(received)?);
        of_bare.push(bare);
        of_client.push(client);
        ratios.push(100.0 * client / bare);
    }
    let [bare, client, ratio] = [of_bare, of_client, ratios].map(|mut of| {
        of.sort_by(f64::total_cmp);
        of[ROUNDS / 2]
    });
    println!("bare {bare:.0}/s, client {client:.0}/s: {ratio:.0} %");
    Ok(())
}

/// Answers each connection with the same messages; returns the address.
fn serve(messages: u64) -> Result<String, Box<dyn Error>> {
    let mut frames = Vec::new();
    let mut add = |payload: &[u8]| frame::encode(&mut frames, true, Opcode::Binary, payload, None);
    add(&[&[0x81, 0, 1][..], &[0; 13]].concat());
    add(&[0x82, 0, 1, 5, 7, 0]);
    for offset in 1..=messages {
        let mut message = vec![MESSAGE, 0, 5];
        wire::native::varint::encode(offset, &mut message);
        message.push(1);
        message.extend_from_slice(&[b'x'; 100]);
        add(&message);
    }
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // The receiver leaves when it has all of them: an error is the end.
            let _ = answer(stream, &frames);
        }
    });
    Ok(address)
}

fn answer(mut stream: TcpStream, frames: &[u8]) -> Outcome {
    let mut head = Vec::new();
    let mut buffer = [0; 4096];
    while !head.ends_with(b"\r\n\r\n") {
        let bytes = stream.read(&mut buffer)?;
        head.extend_from_slice(&buffer[..bytes]);
    }
    let step = Request::decode(&head, &mut HeadScan::new(), &HeadLimits::default());
    let Ok(Step::Done { value: request, .. }) = step else { return Err("no request".into()) };
    let upgrade = Upgrade::check(&request).map_err(|refusal| format!("{refusal:?}"))?;
    let mut response = Vec::new();
    upgrade.encode_response(&mut response, Some("crore.v1"));
    stream.write_all(&response)?;
    // SUBSCRIBE, or any frame of the bare loop.
    if stream.read(&mut buffer)? > 0 {
        stream.write_all(frames)?;
    }
    while stream.read(&mut buffer)? > 0 {}
    Ok(())
}

/// The loop that an application without a client library writes.
fn bare(address: &str, messages: u64) -> Outcome {
    let mut request = format!("ws://{address}/crore").into_client_request()?;
    request.headers_mut().insert("Sec-WebSocket-Protocol", "crore.v1".parse()?);
    let (mut socket, _) = tungstenite::client(request, TcpStream::connect(address)?)?;
    socket.send(vec![0x01, 0, 1, 0].into())?;
    let mut count = 0;
    while count < messages {
        let message = socket.read()?;
        count += u64::from(message.into_data().first() == Some(&MESSAGE));
    }
    Ok(())
}

fn received(address: &str, messages: u64) -> Outcome {
    let (client, events) = Client::connect(Options::new(format!("ws://{address}")))?;
    client.subscribe("t", Start::Live)?;
    let mut count = 0;
    while count < messages {
        match events.next_event() {
            Some(Event::Message(_)) => count += 1,
            Some(Event::Gap { .. }) | None => return Err("a message is missing".into()),
            Some(_) => {}
        }
    }
    Ok(())
}

/// Prints the resident memory of each client that has subscribed and waits.
fn idle(url: &str, count: usize) -> Outcome {
    let connect = || {
        let (client, events) = Client::connect(Options::new(url))?;
        client.subscribe("t", Start::Live)?;
        while !matches!(events.next_event().ok_or("ended")?, Event::CaughtUp { .. }) {}
        Ok::<_, Box<dyn Error>>((client, events))
    };
    let first = connect()?;
    let before = resident_kib()?;
    let clients = (0..count).map(|_| connect()).collect::<Result<Vec<_>, _>>()?;
    let after = resident_kib()?;
    println!("{:.1} KiB for each of {count} clients", (after - before) / clients.len() as f64);
    drop(first);
    Ok(())
}

fn resident_kib() -> Result<f64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.split_whitespace().nth(1).ok_or("no number")?.parse()?)
}
