//! What settings must be.

use lineside_account::Budget;
use lineside_balancer::{Health, HttpCheck, Nat, Settings, SettingsError};

use crate::bench::*;

fn error(change: impl FnOnce(&mut Settings)) -> String {
    let mut settings = settings();
    change(&mut settings);
    settings.check().expect_err("refused").to_string()
}

#[test]
fn settings_that_do_not_fit_are_named() {
    assert_eq!(settings().check(), Ok(()));
    let texts = [
        error(|all| all.ports.clear()),
        error(|all| all.ports[0].mtu = 500),
        error(|all| all.ports[1].name = "clients".into()),
        error(|all| all.services.clear()),
        error(|all| all.services[1] = all.services[0].clone()),
        error(|all| all.services[0].nodes.clear()),
        error(|all| all.services[0].nodes[1] = all.services[0].nodes[0]),
        error(|all| {
            all.services[0]
                .nodes
                .iter_mut()
                .for_each(|node| node.weight = 0)
        }),
        error(|all| all.services[0].nodes[0].address = socket("[::2]:1")),
        error(|all| all.services[0].nodes[0].address = socket("10.9.2.100:1")),
        error(|all| all.nat = vec![address("10.9.2.100")]),
        error(|all| all.nat.push(address("10.9.2.100"))),
        error(|all| all.nat.push(address("224.0.0.1"))),
        error(|all| all.services[0].address = socket("10.9.1.100:0")),
        error(|all| all.services[0].multicast = true),
        error(|all| all.connections_max = 0),
        error(|all| {
            let http = Some(HttpCheck {
                path: "/ x".into(),
                host: "a".into(),
                status: 200..=299,
            });
            all.services[0].health = Some(Health {
                http,
                ..Health::default()
            });
        }),
    ];
    let expected = [
        "no port is given",
        "port clients has an MTU of 500 bytes, which is not from 576 to 65535: 'ip link set clients mtu 1500'",
        "port clients is given twice",
        "no service is given",
        "service tcp 10.9.1.100:80 is given twice",
        "service 10.9.1.100:80 has no node",
        "service 10.9.1.100:80 has node 10.9.2.2:8080 twice: give it a higher weight instead",
        "every node of service 10.9.1.100:80 has weight 0: give one a weight of at least 1",
        "service 10.9.1.100:80 has node [::2]:1 of the other IP version",
        "address 10.9.2.100 is given twice",
        "service [fd00:1::100]:80 needs a NAT address of its IP version: give one, or keep the client",
        "address 10.9.2.100 is given twice",
        "224.0.0.1 is no address of a host",
        "10.9.1.100:0 has port number 0",
        "service 10.9.1.100:80 is TCP, which cannot go to all nodes",
        "connections_max must be more than 0",
        "the check of service 10.9.1.100:80 needs a path that begins with '/', without spaces",
    ];
    assert_eq!(texts, expected);
}

#[test]
fn a_table_beyond_the_budget_is_refused() {
    let mut settings = settings();
    settings.connections_max = 10_000_000;
    let refused = Nat::new(settings, &Budget::new(64 << 20));
    assert!(matches!(refused, Err(SettingsError::Budget(10_000_000, bytes)) if bytes > 1 << 30));
}
