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
    /// The shift of its SYN.
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
        if header.flags.contains(TcpFlags::RST) || !header.flags.contains(TcpFlags::ACK) {
            if header.flags.contains(TcpFlags::RST) {
                // What it offered is over with the connection; a late SYN may begin another one.
                offers[host].edge = None;
            } else if header.flags.contains(TcpFlags::SYN) {
                offers[host] = Offer::of(&bytes[ip.payload..]);
            }
            return;
        }
        let is_syn = header.flags.contains(TcpFlags::SYN);
        if is_syn {
            let edge = offers[host].edge;
            offers[host] = Offer::of(&bytes[ip.payload..]);
            offers[host].edge = edge;
        }
        let scale = match [offers[0].scale, offers[1].scale] {
            // The window of a SYN is not shifted: RFC 7323, 2.2.
            [Some(_), Some(_)] if !is_syn => offers[host].scale.unwrap_or(0),
            _ => 0,
        };
        let edge = header.acknowledgement + (u32::from(header.window) << scale);
        let offer = &mut offers[host];
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
    /// What a SYN says of the windows that follow.
    fn of(segment: &[u8]) -> Self {
        let segment = tcp::Segment::new_checked(segment);
        let scale = segment.and_then(|segment| {
            let mut options = segment.options();
            options.find_map(|option| match option {
                Ok(TcpOption::WindowScale(scale)) => Some(scale),
                _ => None,
            })
        });
        Self { scale, edge: None }
    }
}
