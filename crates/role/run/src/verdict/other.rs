//! What is no NFS, or cannot be read: named, with its bytes, and with what leads on.

use lineside_account::{Counter, Counters};
use lineside_wire::link_type;
use lineside_words::{bytes, grouped};

use super::{Evidence, Reason, counted};

/// Why RDMA is not read, and the way to what it carries.
const RDMA: &str = "NFS over RDMA is not read: mount with proto=tcp, or trace the client's \
    events 'rpcrdma'";

/// Traffic that is named: its bytes, its name, and what leads on where no RPC was found.
const OTHERS: [(Counter, &str, &str); 7] = [
    (Counter::TlsBytes, "TLS of RPC", ""),
    (Counter::TlsOtherBytes, "TLS at other ports", TLS_OTHER),
    (Counter::RoceBytes, "RoCEv2 (RDMA)", RDMA),
    (Counter::IwarpBytes, "iWARP (RDMA)", RDMA),
    (
        Counter::SmbEncryptedBytes,
        "encrypted SMB3",
        "SMB is another file protocol, which is not read",
    ),
    (
        Counter::SflowBytes,
        "sFlow",
        "its samples are beginnings of some frames: mirror the port (SPAN, ERSPAN) instead",
    ),
    (Counter::EspBytes, "ESP (IPsec)", ESP),
];
const TLS_OTHER: &str = "if it is NFS behind stunnel, capture where it is in the clear, such as \
    the client's interface lo";
const ESP: &str = "capture at one of its ends, where it is in the clear";

/// What was named and not read, each with its bytes; `None` without any.
pub fn named(counters: &Counters) -> Option<String> {
    let others = OTHERS.iter().filter_map(|&(counter, name, _)| {
        let value = counters.value(counter);
        (value > 0).then(|| format!("{name} {}", bytes(value)))
    });
    let others: Vec<_> = others.collect();
    (!others.is_empty()).then(|| others.join(", "))
}

/// A capture without RPC, and what there is instead.
pub(super) fn no_rpc(evidence: &Evidence<'_>, frames: u64) -> Reason {
    let unknown = unknown_link_types(announced(evidence));
    let there = [
        (Counter::FramesTcp, "with TCP"),
        (Counter::FramesUdp, "with UDP"),
        (Counter::FramesFragment, "IP fragments"),
        (Counter::FramesOtherProtocol, "with other IP protocols"),
        (Counter::FramesNotIp, "without IP"),
        (Counter::FramesIpUnread, "with IP that could not be read"),
        (Counter::FramesUnknownLink, unknown.as_str()),
    ];
    let counters = &evidence.counters;
    let there = counted(&there, counters).map_or(String::new(), |there| format!(": {there}"));
    let named = named(counters).map_or(String::new(), |named| format!("; there is {named}"));
    let mut ways: Vec<&str> = Vec::new();
    for (counter, _, way) in OTHERS {
        if counters.value(counter) > 0 && !way.is_empty() && !ways.contains(&way) {
            ways.push(way);
        }
    }
    let hint = match counters.value(Counter::ConnectionsLeftAlone) {
        // What leads on is another way, or no port can help.
        0 if !ways.is_empty() => format!(": {}", ways.join("; ")),
        0 if counters.value(Counter::ConnectionsTls) > 0 => String::new(),
        0 if counters.value(Counter::FramesUnknownLink) == frames => String::new(),
        0 => "; where a port carries RPC all the same, --decode-as says so".to_owned(),
        alone => format!("; --decode-as leaves {} connections alone", grouped(alone)),
    };
    format!("no RPC in {} frames{there}{named}{hint}", grouped(frames))
}

/// RPC that TLS hides.
pub(super) fn tls_of_rpc(evidence: &Evidence<'_>) -> Vec<Reason> {
    let value = |counter| evidence.counters.value(counter);
    let (hidden, all) = (value(Counter::TlsBytes), value(Counter::StreamBytes));
    if hidden == 0 {
        return Vec::new();
    }
    vec![format!(
        "not read: {} of TLS ({:.1} % of the TCP payload) in {} connections of RPC: capture where \
        it is in the clear (of stunnel for EFS or Azure, the client's interface lo), or mount \
        without TLS (xprtsec=none)",
        bytes(hidden),
        share(hidden, all),
        grouped(value(Counter::ConnectionsTls)),
    )]
}

/// RPC that krb5p hides but for its headers.
pub(super) fn sealed(evidence: &Evidence<'_>) -> Vec<Reason> {
    let value = |counter| evidence.counters.value(counter);
    let (sealed, all) = (value(Counter::SealedBytes), value(Counter::RpcBytes));
    if sealed == 0 {
        return Vec::new();
    }
    vec![format!(
        "not read: {} of calls and replies that krb5p encrypts ({:.1} % of RPC): their times are \
        known and not their contents; mount with sec=krb5i to see them",
        bytes(sealed),
        share(sealed, all),
    )]
}

/// RDMA, which may carry RPC.
pub(super) fn rdma(evidence: &Evidence<'_>) -> Vec<Reason> {
    let value = |counter| evidence.counters.value(counter);
    let found = value(Counter::RpcCalls) + value(Counter::Replies) > 0;
    let hidden = value(Counter::RoceBytes) + value(Counter::IwarpBytes);
    // Without any RPC, another rule names it.
    if hidden == 0 || !found {
        return Vec::new();
    }
    vec![format!(
        "not read: {} of RDMA ({:.1} % of the payload), which may carry NFS: {RDMA}",
        bytes(hidden),
        share(
            hidden,
            value(Counter::StreamBytes) + value(Counter::RoceBytes)
        ),
    )]
}

/// Bytes of connections with RPC that no message covers.
pub(super) fn not_understood(evidence: &Evidence<'_>) -> Vec<Reason> {
    let value = |counter| evidence.counters.value(counter);
    let (unread, read) = (value(Counter::RpcUnread), value(Counter::RpcBytes));
    if unread == 0 {
        return Vec::new();
    }
    vec![format!(
        "{} bytes ({:.3} %) of the connections with RPC are no message that was understood: bytes \
        between records, or messages whose heads did not come",
        grouped(unread),
        share(unread, unread + read),
    )]
}

fn share(part: u64, all: u64) -> f64 {
    part as f64 / all.max(1) as f64 * 100.0
}

pub(super) fn not_read(evidence: &Evidence<'_>) -> Vec<Reason> {
    let unread = unread(&evidence.counters, announced(evidence));
    let esp = match evidence.counters.value(Counter::EspBytes) {
        0 => String::new(),
        esp => format!("; of them ESP (IPsec) {}: {ESP}", bytes(esp)),
    };
    { unread.into_iter() }
        .map(|unread| format!("not read: {unread}{esp}"))
        .collect()
}

/// The link types that the inputs announce.
fn announced(evidence: &Evidence<'_>) -> impl Iterator<Item = u16> {
    let types = evidence.inputs.iter().flat_map(|facts| &facts.link_types);
    types.map(|link_type| link_type.0)
}

/// What frames are of, if some of these link types are not read: an input may announce more than
/// its frames have.
fn unknown_link_types(announced: impl Iterator<Item = u16>) -> String {
    let unknown = announced.filter(|&number| !link_type::is_read(number));
    let mut unknown: Vec<u16> = unknown.collect();
    unknown.sort_unstable();
    unknown.dedup();
    let unknown: Vec<String> = unknown.into_iter().map(link_type::with_name).collect();
    match unknown.as_slice() {
        [] => "of link types that are not read".to_owned(),
        [only] => format!("of link type {only}, which is not read"),
        all => format!(
            "of link types that are not read, announced: {}",
            all.join(", ")
        ),
    }
}

/// What could not be read, by cause; `None` if everything could. `announced` are the link types of
/// the inputs.
pub fn unread(counters: &Counters, announced: impl Iterator<Item = u16>) -> Option<String> {
    let unknown = format!("frames {}", unknown_link_types(announced));
    let causes = [
        (Counter::FramesUnknownLink, unknown.as_str()),
        (
            Counter::FramesIpUnread,
            "frames with IP that is encrypted, compressed, or wrapped in a way that is not known",
        ),
        (
            Counter::FramesTooDeep,
            "frames with too many tags or tunnels",
        ),
        (
            Counter::FramesHeaderCut,
            "frames whose headers the snap length cut",
        ),
        (
            Counter::MalformedLink,
            "frames too short for their link header",
        ),
        (Counter::MalformedIp, "malformed IP packets"),
        (Counter::MalformedTunnel, "malformed tunnel packets"),
        (Counter::MalformedTcp, "malformed TCP segments"),
        (Counter::MalformedUdp, "malformed UDP datagrams"),
        (Counter::MalformedFragment, "malformed IP fragments"),
        (
            Counter::DatagramsUnread,
            "packets put together from fragments",
        ),
        (
            Counter::RecordsMalformed,
            "malformed RPC messages, which contradict the protocol or end before their fields do",
        ),
    ];
    counted(&causes, counters)
}
