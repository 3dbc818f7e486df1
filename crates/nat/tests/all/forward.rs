//! Segments and datagrams both ways.

use lineside_wire::TcpFlags;

use crate::bench::*;

#[test]
fn a_handshake_passes_both_ways_with_both_ends_hidden() {
    let mut bench = Bench::new(settings());
    let client = from_client("10.9.1.7", "10.9.1.100");
    let syn = client.tcp(&segment([4000, 80], 100, TcpFlags::SYN), &[]);
    let (port, at_node) = bench.send_one(CLIENTS, &syn);
    assert_eq!(port, NODES);
    assert!(is_right(&at_node));
    let [source, node] = ends(&at_node);
    assert_eq!(source.ip(), address("10.9.2.100"), "the client is hidden");
    assert!(["10.9.2.2:8080", "10.9.2.3:8080"].contains(&node.to_string().as_str()));
    assert_eq!(at_node[..6], node_ethernet(node.ip()));
    let (port, at_client) = bench.send_one(NODES, &turned(&at_node));
    assert_eq!(port, CLIENTS);
    assert!(is_right(&at_client));
    assert_eq!(
        ends(&at_client),
        [socket("10.9.1.100:80"), socket("10.9.1.7:4000")]
    );
    assert_eq!(at_client[..6], CLIENT, "where its last frame came from");
}
