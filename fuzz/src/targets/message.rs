//! Messages that stand behind no connection: options of TCP, ICMP with a packet inside, neighbour
//! discovery, ARP. What is read is written again, and reads the same.

use lineside_wire::icmp::{self, PacketError};
use lineside_wire::neighbour::{self, Neighbour};
use lineside_wire::tcp::{OPTIONS_LEN_MAX, TcpOptions};
use lineside_wire::{arp, build::FrameBuilder};

/// A byte that says what the others are.
pub(crate) fn run(data: &[u8]) {
    let Some((&what, bytes)) = data.split_first() else {
        return;
    };
    match what % 4 {
        0 => options(&bytes[..bytes.len().min(OPTIONS_LEN_MAX)]),
        1 => {
            error(PacketError::read(bytes), bytes);
            error(PacketError::read_v6(bytes), bytes);
        }
        2 => neighbour(bytes),
        _ => {
            if let Some(packet) = arp::Packet::new_checked(bytes) {
                let _ = (packet.operation(), packet.sender(), packet.sender_address());
            }
        }
    }
}

fn options(bytes: &[u8]) {
    let mut written = [0; OPTIONS_LEN_MAX];
    let mut rest = &mut written[..];
    let mut count = 0;
    for option in TcpOptions::new(bytes).map_while(Result::ok) {
        rest = option.emit(rest);
        count += 1;
    }
    let read = TcpOptions::new(bytes).map_while(Result::ok);
    assert!(
        TcpOptions::new(&written)
            .take(count)
            .map_while(Result::ok)
            .eq(read)
    );
}

fn error(read: Option<PacketError<'_>>, bytes: &[u8]) {
    let Some(read) = read else {
        return;
    };
    assert!(read.transport.len() <= bytes.len() - icmp::HEADER_LEN);
    let ends = [read.source, read.destination];
    let builder = FrameBuilder::new(read.source, read.destination).with_link_type(101);
    let packet = builder.packet(read.protocol, read.transport);
    let mut message = vec![0; icmp::HEADER_LEN + packet.len()];
    icmp::emit_error(read.failure, &packet, ends, &mut message);
    assert_eq!(icmp::checksum_of(&message, ends), 0);
    let again = match read.source.is_ipv4() {
        true => PacketError::read(&message),
        false => PacketError::read_v6(&message),
    };
    // Of ICMPv6 the protocol may be that of an extension header that was cut: then it reads on.
    assert!(again == Some(read) || !read.source.is_ipv4());
}

fn neighbour(bytes: &[u8]) {
    let Some(read) = Neighbour::read(bytes) else {
        return;
    };
    let link_address = read.link_address.unwrap_or_default();
    let ends = [read.target; 2];
    let mut message = [0; neighbour::MESSAGE_LEN];
    Neighbour::emit(read.what, read.target, link_address, ends, &mut message);
    let again = Neighbour::read(&message).expect("it was valid");
    assert_eq!((again.target, again.what), (read.target, read.what));
    assert_eq!(again.link_address, Some(link_address));
}
