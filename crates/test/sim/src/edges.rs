//! The end of each window as its host offers it: it never moves back (RFC 9293, 3.8.6: a receiver
//! should not shrink its window).

use std::collections::BTreeMap;

use lineside_frame::Frame;
use lineside_wire::tcp::TcpOption;
use lineside_wire::{Dissected, SeqNumber, TcpFlags, dissect_outermost, tcp};

use crate::ClientEnd;

/// What each host has offered.
#[derive(Debug, Default)]
pub(crate) struct Edges {
    /// The client's and the server's of each connection.
    offers: BTreeMap<ClientEnd, [Offer; 2]>,
    error: Option<String>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Offer {
    /// Number and shift of its SYN.
    isn: Option<SeqNumber>,
    scale: Option<u8>,
    edge: Option<SeqNumber>,
}

impl Edges {
    /// A frame leaves a client or the server.
    pub(crate) fn see(&mut self, is_server: bool, frame: &Frame) {
        let bytes = frame.bytes();
        let Dissected::Tcp(ip, header) = dissect_outermost(1, bytes, bytes.len()) else {
            return;
        };
        let client = match is_server {
            true => (ip.destination, header.destination_port),
            false => (ip.source, header.source_port),
        };
        let host = usize::from(is_server);
        let offers = self.offers.entry(client).or_default();
        if header.flags.contains(TcpFlags::RST) {
            // What it offered is over with the connection; a late SYN may begin another one.
            offers[host].edge = None;
            return;
        }
        let is_syn = header.flags.contains(TcpFlags::SYN);
        if is_syn {
            offers[host].begin(header.sequence, &bytes[ip.payload..]);
        }
        if !header.flags.contains(TcpFlags::ACK) {
            return;
        }
        let scale = match [offers[0].scale, offers[1].scale] {
            // The window of a SYN is not shifted: RFC 7323, 2.2.
            [Some(_), Some(_)] if !is_syn => offers[host].scale.unwrap_or(0),
            _ => 0,
        };
        let edge = header.acknowledgement + (u32::from(header.window) << scale);
        let offer = &mut offers[host];
        // An answer to a SYN that leaves again, after a challenge has offered more than it can say.
        let is_full_syn = is_syn && header.window == u16::MAX;
        if is_full_syn && offer.edge.is_some() {
            return;
        }
        if let Some(before) = offer.edge.filter(|before| edge.is_before(*before)) {
            let back = before.bytes_from(edge);
            let who = ["client", "server"][host];
            let text = format!("the {who} of {client:?} shrank its window by {back} bytes");
            self.error.get_or_insert(text);
        }
        offer.edge = Some(edge);
    }

    pub(crate) fn finish(self) -> Result<(), String> {
        self.error.map_or(Ok(()), Err)
    }
}

impl Offer {
    /// Takes a SYN: what it says of the windows that follow.
    fn begin(&mut self, isn: SeqNumber, segment: &[u8]) {
        let segment = tcp::Segment::new_checked(segment);
        self.scale = segment.and_then(|segment| {
            let mut options = segment.options();
            options.find_map(|option| match option {
                Ok(TcpOption::WindowScale(scale)) => Some(scale),
                _ => None,
            })
        });
        // One with the same number is the same one again. Another one begins a connection, even if
        // the one before ended without a word of this host, as by the peer's RST: RFC 9293, 3.5.3.
        if self.isn.replace(isn) != Some(isn) {
            self.edge = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use lineside_frame::{Descriptor, Frame};
    use lineside_wire::TcpFlags;
    use lineside_wire::build::{FrameBuilder, TcpFields};

    use super::*;

    const SYN_ACK: TcpFlags = TcpFlags(TcpFlags::SYN.0 | TcpFlags::ACK.0);

    /// What is wrong with the windows of a server that sends such flags, numbers and windows, those
    /// after its SYN shifted by 3.
    fn see(sent: &[(TcpFlags, u32, u16)]) -> Result<(), String> {
        let mut edges = Edges::default();
        let client = [(TcpFlags::SYN, 0, u16::MAX)];
        for &(flags, sequence, window) in client.iter().chain(sent) {
            let is_server = flags != TcpFlags::SYN;
            let mut ends = [([10, 0, 0, 1].into(), 1000), ([10, 0, 0, 2].into(), 7)];
            ends.rotate_left(usize::from(is_server));
            let [(source, source_port), (destination, destination_port)] = ends;
            let fields = TcpFields {
                source_port,
                destination_port,
                sequence,
                acknowledgement: 1,
                flags,
                window,
                options: &[3, 3, 3],
            };
            let bytes = FrameBuilder::new(source, destination).tcp(&fields, &[]);
            edges.see(is_server, &Frame::copied(&bytes, Descriptor::default()));
        }
        edges.finish()
    }

    #[test]
    fn a_window_that_shrinks_is_found() {
        let text = see(&[(SYN_ACK, 100, 900), (TcpFlags::ACK, 101, 100)]);
        assert!(text.is_err_and(|error| error.ends_with("by 100 bytes")));
        let text = see(&[(SYN_ACK, 100, 900), (SYN_ACK, 100, 800)]);
        assert!(text.is_err(), "the same SYN offers less");
    }

    #[test]
    fn another_connection_may_offer_less() {
        let sent = [(SYN_ACK, 100, 900), (TcpFlags::ACK, 101, 200)];
        let another = [(SYN_ACK, 5000, 800)];
        assert_eq!(see(&[&sent[..], &another].concat()), Ok(()));
    }

    #[test]
    fn a_syn_offers_no_more_than_its_field_can_say() {
        let challenge = (TcpFlags::ACK, 101, 20_000);
        let again = (SYN_ACK, 100, u16::MAX);
        assert_eq!(see(&[again, challenge, again]), Ok(()));
        let less = (TcpFlags::ACK, 101, 19_000);
        assert!(see(&[again, challenge, again, less]).is_err());
    }
}
