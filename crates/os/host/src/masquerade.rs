//! Masquerading (NAT) in a network namespace, by nf_tables.
//!
//! Nothing of it has to be undone: the kernel removes a table of rules when the socket closes that
//! made it (`NFT_TABLE_F_OWNER`, Linux 5.12).

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;

use rustix::net::netlink::NETFILTER;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::netlink::{ANSWER_LEN, Netlink, acknowledged, attribute, message, messages, nested};

/// Makes a network namespace forward what comes from one address as if it were its own
/// (nft(8): `ip saddr SOURCE masquerade`), until this is dropped or the process ends.
#[derive(Debug)]
pub struct Masquerade {
    _owner: OwnedFd,
}

impl Masquerade {
    /// In the network namespace of the calling thread.
    pub fn new(source: Ipv4Addr) -> io::Result<Self> {
        let socket = Netlink::open_protocol(Some(NETFILTER))?;
        send(&socket, &rules(source), SendFlags::empty())?;
        let mut answer = vec![0; ANSWER_LEN];
        // The kernel has answered when send returns: an error or an acknowledgement for each of the
        // three orders.
        for _ in 0..3 {
            let (len, _) = recv(&socket, &mut answer[..], RecvFlags::DONTWAIT)?;
            let first = messages(&answer[..len]).next();
            let (_, payload) = first.ok_or(io::ErrorKind::InvalidData)??;
            acknowledged(payload)?;
        }
        Ok(Self { _owner: socket })
    }
}

/// The batch of messages that makes table, chain and rule (linux/netfilter/nf_tables.h).
fn rules(source: Ipv4Addr) -> Vec<u8> {
    const TABLE: &[u8] = b"lineside\0";
    const CHAIN: &[u8] = b"masquerade\0";
    /// The subsystem of nf_tables (linux/netfilter/nfnetlink.h).
    const NFTABLES: u16 = 10;
    let number = |kind: u16, value: u32| attribute(kind, &value.to_be_bytes());
    let order = |kind: u16, sequence: u32, attributes: &[Vec<u8>]| {
        const REQUEST_CREATE_ACK: u16 = 0x405;
        let header = [libc::AF_INET as u8, 0, 0, 0];
        message(
            NFTABLES << 8 | kind,
            REQUEST_CREATE_ACK,
            sequence,
            &header,
            attributes,
        )
    };
    // What the batch is for stands in network order.
    let mark = |kind: u16, sequence: u32| {
        let [high, low] = NFTABLES.to_be_bytes();
        message(kind, 1, sequence, &[0, 0, high, low], &[])
    };
    let expression =
        |name: &[u8], parts: &[Vec<u8>]| nested(1, &[attribute(1, name), nested(2, parts)]);
    // Owned by the socket: NFT_TABLE_F_OWNER.
    let table = [attribute(1, TABLE), number(2, 2)];
    // NF_INET_POST_ROUTING, where sources are changed: priority 100.
    let hook = [number(1, 4), number(2, 100)];
    let chain = [
        attribute(1, TABLE),
        attribute(3, CHAIN),
        nested(4, &hook),
        attribute(7, b"nat\0"),
    ];
    // The source, at byte 12 of the network header, into register 1, which must equal this one.
    let value = [attribute(1, &source.octets())];
    let expressions = [
        expression(
            b"payload\0",
            &[number(1, 1), number(2, 1), number(3, 12), number(4, 4)],
        ),
        expression(b"cmp\0", &[number(1, 1), number(2, 0), nested(3, &value)]),
        expression(b"masq\0", &[]),
    ];
    let rule = [
        attribute(1, TABLE),
        attribute(2, CHAIN),
        nested(4, &expressions),
    ];
    // NFNL_MSG_BATCH_BEGIN, NFT_MSG_NEWTABLE, NFT_MSG_NEWCHAIN, NFT_MSG_NEWRULE,
    // NFNL_MSG_BATCH_END.
    [
        mark(0x10, 0),
        order(0, 1, &table),
        order(3, 2, &chain),
        order(6, 3, &rule),
        mark(0x11, 4),
    ]
    .concat()
}
