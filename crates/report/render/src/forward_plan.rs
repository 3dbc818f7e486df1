//! What a forwarder would do.

use std::fmt::Write;

use lineside_balancer::{Service, Settings};
use lineside_words::{exact_time, grouped};

/// What settings ask for, in lines.
pub fn forward_plan(settings: &Settings) -> String {
    let mut out = String::new();
    for port in &settings.ports {
        let [a, b, c, d, e, f] = port.ethernet;
        let _ = writeln!(
            out,
            "port       {} {a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}, MTU {}",
            port.name, port.mtu
        );
    }
    for address in &settings.nat {
        let _ = writeln!(out, "nat        {address}");
    }
    for route in &settings.routes {
        let (network, len) = route.network;
        let via = route
            .via
            .map_or_else(String::new, |via| format!(" via {via}"));
        let port = &settings.ports[route.port].name;
        let _ = writeln!(out, "route      {network}/{len}{via} dev {port}");
    }
    for service in &settings.services {
        service_lines(service, &mut out);
        room_line(settings, service, &mut out);
    }
    out + "nothing was opened: leave --check out to forward\n"
}

/// How many connections a node can have.
fn room_line(settings: &Settings, service: &Service, out: &mut String) {
    let most = settings.connections_of_node(service);
    let why = match settings.ports_towards_node(service) {
        Some(ports) if ports <= u64::from(settings.connections_max) => {
            "the port numbers of --nat; an address more there adds 63,488"
        }
        _ => "the table's room, --connections-max",
    };
    let most = grouped(most);
    let _ = writeln!(out, "  room     {most} connections a node at once: {why}");
}

fn service_lines(service: &Service, out: &mut String) {
    let transport = service.transport.name();
    let _ = writeln!(out, "service    {transport} {}", service.address);
    for node in &service.nodes {
        let _ = writeln!(out, "  node     {} weight {}", node.address, node.weight);
    }
    if let Some(health) = &service.health {
        let what = match &health.http {
            None => "a handshake".to_owned(),
            Some(http) => format!("GET {}", http.path),
        };
        let time = |ns: i64| exact_time(ns as f64);
        let _ = writeln!(
            out,
            "  check    {what} every {}, within {}",
            time(health.interval),
            time(health.timeout)
        );
    }
}
