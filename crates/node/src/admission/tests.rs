//! Counts and rates of the admission table.

use super::*;

fn table(options: AdmissionOptions) -> Admission {
    Admission::new(options)
}

fn enter(table: &Admission, address: &str, now_ms: u64) -> Result<Pass, Limit> {
    let entered = table.enter(Entrance::Plain, address.parse().unwrap(), now_ms);
    entered.map_err(|refused| refused.limit)
}

fn per_address(connections_max: u32) -> AdmissionOptions {
    AdmissionOptions {
        connections_per_address_max: Some(connections_max),
        ..AdmissionOptions::default()
    }
}

#[test]
fn connections_of_an_address_have_a_maximum() {
    let table = table(AdmissionOptions {
        exempt: ["192.0.2.9/32"]
            .iter()
            .filter_map(|text| stdx::networks::Network::parse(text))
            .collect(),
        ..per_address(2)
    });
    let first = enter(&table, "192.0.2.1", 0).unwrap();
    enter(&table, "::ffff:192.0.2.1", 0).unwrap();
    assert_eq!(enter(&table, "192.0.2.1", 0), Err(Limit::AddressConnections));
    enter(&table, "192.0.2.2", 0).unwrap();
    table.leave(Entrance::Plain, first, 0);
    enter(&table, "192.0.2.1", 0).unwrap();
    for _ in 0..10 {
        assert_eq!(enter(&table, "192.0.2.9", 0), Ok(Pass::FREE));
    }
    let statistics = table.statistics();
    assert_eq!((statistics.address_connections, statistics.addresses), (1, 2));
}

#[test]
fn a_network_of_ipv6_has_no_more_for_having_many_addresses() {
    let table = table(per_address(2));
    enter(&table, "2001:db8:1:1::1", 0).unwrap();
    let last = enter(&table, "2001:db8:1:1:ffff::1", 0).unwrap();
    assert_eq!(enter(&table, "2001:db8:1:1::2", 0), Err(Limit::AddressConnections));
    let mut passes = vec![last];
    let mut refused = 0;
    for subnet in 2..0x1000 {
        match enter(&table, &format!("2001:db8:1:{subnet:x}::1"), 0) {
            Ok(pass) => passes.push(pass),
            Err(limit) => {
                assert_eq!(limit, Limit::AddressConnections);
                refused += 1;
            }
        }
    }
    assert_eq!(passes.len() + 1, 2 * NETWORK_SHARE as usize);
    assert_eq!(refused, 0xffe - 30);
    // Another network is not affected, and refused connections leave no entry.
    enter(&table, "2001:db8:2::1", 0).unwrap();
    assert_eq!(table.statistics().addresses, 31 + 1 + 2);
    for pass in passes {
        table.leave(Entrance::Plain, pass, 0);
    }
    assert_eq!(table.statistics().addresses, 2 + 2);
}

/// One address of a network tries far more often than the whole network may connect.
#[test]
fn a_refused_client_costs_its_neighbours_nothing() {
    let table = table(AdmissionOptions {
        connect_rate_per_address_max: Some(3),
        ..AdmissionOptions::default()
    });
    let tries = (0..1_000).map(|_| enter(&table, "2001:db8:1:1::1", 0));
    assert_eq!(tries.filter(Result::is_ok).count(), 3);
    for neighbour in 2..17 {
        let address = format!("2001:db8:1:{neighbour:x}::1");
        for _ in 0..3 {
            enter(&table, &address, 0).unwrap();
        }
        assert_eq!(enter(&table, &address, 0), Err(Limit::AddressRate));
    }
    assert_eq!(enter(&table, "2001:db8:1:99::1", 0), Err(Limit::AddressRate));
    enter(&table, "2001:db8:2:1::1", 0).unwrap();
}

#[test]
fn connects_of_an_address_have_a_rate() {
    let table = table(AdmissionOptions {
        connect_rate_per_address_max: Some(3),
        ..AdmissionOptions::default()
    });
    for now_ms in [0, 10_000] {
        for _ in 0..3 {
            let pass = enter(&table, "192.0.2.1", now_ms).unwrap();
            table.leave(Entrance::Plain, pass, now_ms);
        }
        assert_eq!(enter(&table, "192.0.2.1", now_ms), Err(Limit::AddressRate));
        enter(&table, "192.0.2.2", now_ms).unwrap();
    }
    enter(&table, "192.0.2.1", 10_400).unwrap();
    assert_eq!(enter(&table, "192.0.2.1", 10_400), Err(Limit::AddressRate));
}

#[test]
fn the_number_of_addresses_has_a_bound() {
    let table = table(AdmissionOptions { connect_rate_per_address_max: Some(3), ..per_address(3) });
    let attack = |count: u32| {
        for number in 0..count {
            let address = format!("10.{}.{}.{}", number >> 16, number >> 8 & 255, number & 255);
            let pass = enter(&table, &address, 0).unwrap();
            table.leave(Entrance::Plain, pass, 0);
        }
    };
    let most = (PARTS_COUNT * IDLE_MAX) as u64;
    attack(3 * most as u32);
    assert!(table.statistics().addresses <= most);
    assert!(table.statistics().addresses > most / 2);
    // Later connections find that the old ones have expired.
    for number in 0..2_000 {
        let address = format!("172.16.{}.{}", number >> 8, number & 255);
        let pass = enter(&table, &address, 100_000).unwrap();
        table.leave(Entrance::Plain, pass, 100_000);
    }
    assert!(table.statistics().addresses <= 2_000);
}

#[test]
fn a_connection_counts_for_its_present_client() {
    let table = table(per_address(1));
    let pass = enter(&table, "192.0.2.1", 0).unwrap();
    let other = "192.0.2.2".parse().unwrap();
    let pass = table.change(pass, other, 0).unwrap();
    let mine = enter(&table, "192.0.2.1", 0).unwrap();
    assert!(table.change(mine, other, 0).is_err());
    // A refused connection does not count for any address.
    enter(&table, "192.0.2.1", 0).unwrap();
    table.leave(Entrance::Plain, pass, 0);
    enter(&table, "192.0.2.2", 0).unwrap();
}

#[test]
fn a_kind_of_listener_has_limits() {
    let table = table(AdmissionOptions {
        tls: EntranceLimits { connections_max: Some(2), connect_rate_max: None },
        plain: EntranceLimits { connections_max: None, connect_rate_max: Some(2) },
        ..AdmissionOptions::default()
    });
    let address = "192.0.2.1".parse().unwrap();
    let enter = |entrance, now_ms| table.enter(entrance, address, now_ms).map_err(|no| no.code);
    for _ in 0..2 {
        enter(Entrance::Tls, 0).unwrap();
        enter(Entrance::Plain, 0).unwrap();
    }
    assert_eq!(enter(Entrance::Tls, 0), Err(ErrorCode::ConnectionsFull));
    assert_eq!(enter(Entrance::Plain, 0), Err(ErrorCode::RateLimited));
    table.leave(Entrance::Tls, Pass::FREE, 0);
    enter(Entrance::Tls, 0).unwrap();
    enter(Entrance::Plain, 500).unwrap();
    let statistics = table.statistics();
    assert_eq!((statistics.entrance_connections, statistics.entrance_rate), (1, 1));
}

#[test]
fn later_trusted_proxies_are_exempt() {
    let table = table(per_address(1));
    let address = "192.0.2.1";
    let first = enter(&table, address, 0).unwrap();
    assert!(enter(&table, address, 0).is_err());
    table.trust(stdx::networks::Network::parse("192.0.2.0/24").into_iter().collect());
    assert_eq!(enter(&table, address, 0), Ok(Pass::FREE));
    // An earlier connection still leaves.
    table.leave(Entrance::Plain, first, 0);
    table.trust(Networks::default());
    enter(&table, address, 0).unwrap();
    assert!(enter(&table, address, 0).is_err());
}

#[test]
fn threads_share_the_table() {
    let table = table(AdmissionOptions {
        connect_rate_per_address_max: Some(1_000_000),
        ..per_address(1_000)
    });
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let table = &table;
            scope.spawn(move || {
                for round in 0..2_000 {
                    let address = format!("2001:db8:{}::{thread:x}", round % 7);
                    let pass = enter(table, &address, 0).unwrap();
                    table.leave(Entrance::Plain, pass, 0);
                }
            });
        }
    });
    let connections: u32 = table
        .parts
        .iter()
        .flat_map(|part| {
            let part = lock(part);
            part.entries.iter().map(|(_, entry)| entry.connections).collect::<Vec<u32>>()
        })
        .sum();
    assert_eq!(connections, 0);
}
