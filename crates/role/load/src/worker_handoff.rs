//! Workers that share an interface: a frame that came to one of them and belongs to another goes
//! over by a bounded ring.
//!
//! Which queue a frame comes to is the driver's choice, and which worker its connection belongs to
//! follows from the local port: worker k of n has the ports p with p % n == k. Between own ends on
//! a veth pair the two agree, and nothing goes over.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use lineside_frame::{Burst, Frame};
use lineside_wire::ethernet::{self, ether_type};
use lineside_wire::{PROTOCOL_TCP, PROTOCOL_UDP, ipv4, ipv6, udp};

/// Frames of a ring: four bursts of each of eight workers.
const RING: usize = 1_024;

/// A worker's place among those that share an interface.
#[derive(Debug)]
pub struct Siblings {
    own: usize,
    inbox: Receiver<Frame>,
    /// By worker; its own is not used.
    outboxes: Vec<SyncSender<Frame>>,
    counts: SiblingCounts,
}

/// Frames that went over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SiblingCounts {
    /// To other workers.
    pub passed: u64,
    /// To other workers whose ring was full; the peer sends them again.
    pub dropped: u64,
    /// From other workers.
    pub taken: u64,
}

/// Whose a frame is.
enum Owner {
    Worker(usize),
    /// All workers': ARP and neighbour discovery, of which each has to know.
    All,
}

/// Places for this many workers.
pub fn siblings(count: usize) -> Vec<Siblings> {
    let (outboxes, inboxes): (Vec<_>, Vec<_>) = (0..count).map(|_| sync_channel(RING)).unzip();
    let places = inboxes.into_iter().enumerate();
    places
        .map(|(own, inbox)| Siblings {
            own,
            inbox,
            outboxes: outboxes.clone(),
            counts: SiblingCounts::default(),
        })
        .collect()
}

impl Siblings {
    /// What went over.
    pub fn counts(&self) -> SiblingCounts {
        self.counts
    }

    /// Hands over what came and belongs to others.
    pub fn hand_over(&mut self, burst: &mut Burst) {
        let mut at = 0;
        while at < burst.len() {
            match owner(burst[at].bytes(), self.outboxes.len()) {
                Owner::Worker(worker) if worker == self.own => at += 1,
                Owner::Worker(worker) => {
                    let frame = burst.remove(at);
                    self.pass(worker, frame);
                }
                Owner::All => {
                    let (bytes, descriptor) = (burst[at].bytes(), *burst[at].descriptor());
                    let copies: Vec<Frame> = (1..self.outboxes.len())
                        .map(|_| Frame::copied(bytes, descriptor))
                        .collect();
                    let others = (0..self.outboxes.len()).filter(|&worker| worker != self.own);
                    for (worker, copy) in others.collect::<Vec<_>>().into_iter().zip(copies) {
                        self.pass(worker, copy);
                    }
                    at += 1;
                }
            }
        }
    }

    /// Takes up to `max` frames that others have handed over.
    pub fn take(&mut self, burst: &mut Burst, max: usize) {
        for frame in self.inbox.try_iter().take(max) {
            self.counts.taken += 1;
            burst.push(frame);
        }
    }

    fn pass(&mut self, worker: usize, frame: Frame) {
        match self.outboxes[worker].try_send(frame) {
            Ok(()) => self.counts.passed += 1,
            Err(_) => self.counts.dropped += 1,
        }
    }
}

/// Whose a frame is, by the port for which it is; what has none is everybody's.
fn owner(frame: &[u8], workers: usize) -> Owner {
    port(frame).map_or(Owner::All, |port| {
        Owner::Worker(usize::from(port) % workers)
    })
}

/// The destination port of TCP and UDP; of fragments, which do not have it, none.
fn port(frame: &[u8]) -> Option<u16> {
    let frame = ethernet::Frame::new_checked(frame)?;
    let (mut ether_type, mut packet) = (frame.ether_type(), frame.payload());
    while matches!(ether_type, ether_type::VLAN | ether_type::SERVICE_VLAN) {
        ether_type = u16::from_be_bytes(packet.get(2..4)?.try_into().ok()?);
        packet = packet.get(4..)?;
    }
    let (protocol, segment) = match ether_type {
        ether_type::IPV4 => {
            let packet = ipv4::Packet::new_checked(packet)?;
            let payload = (!packet.is_fragment()).then_some(packet.header_len())?;
            (packet.protocol(), payload)
        }
        ether_type::IPV6 => (*packet.get(ipv6::field::NEXT_HEADER)?, ipv6::HEADER_LEN),
        _ => return None,
    };
    if !matches!(protocol, PROTOCOL_TCP | PROTOCOL_UDP) {
        return None;
    }
    let at = segment + udp::field::DESTINATION_PORT;
    let port = packet.get(at..at + 2)?;
    Some(u16::from_be_bytes([port[0], port[1]]))
}

#[cfg(test)]
mod tests {
    use lineside_frame::{Descriptor, LinkType};

    use super::*;

    fn frame(tags: &[u8], port: u16) -> Frame {
        let mut bytes = vec![2; 12];
        for tag in tags {
            bytes.extend([0x81, 0, 0, *tag]);
        }
        bytes.extend([8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, PROTOCOL_TCP, 0, 0]);
        bytes.extend([10, 0, 0, 1, 10, 0, 0, 2, 0, 80]);
        bytes.extend(port.to_be_bytes());
        bytes.extend([0; 16]);
        let descriptor = Descriptor {
            wire_len: bytes.len() as u32,
            link_type: LinkType::ETHERNET,
            ..Descriptor::default()
        };
        Frame::copied(&bytes, descriptor)
    }

    fn arp() -> Frame {
        let mut bytes = vec![2; 12];
        bytes.extend([8, 6]);
        bytes.extend([0; 28]);
        Frame::copied(&bytes, Descriptor::default())
    }

    #[test]
    fn each_frame_reaches_the_worker_of_its_port() {
        let mut workers = siblings(3);
        let mut burst = Burst::new();
        for port in 1_000..1_030 {
            burst.push(frame(&[7, 8][..usize::from(port % 3)], port));
        }
        workers[1].hand_over(&mut burst);
        assert_eq!(burst.len(), 10);
        for worker in [0, 2] {
            let mut taken = Burst::new();
            workers[worker].take(&mut taken, 100);
            let ports = taken.iter().map(|frame| port(frame.bytes()));
            assert!(ports.flatten().all(|port| usize::from(port) % 3 == worker));
            assert_eq!(taken.len(), 10);
        }
        assert_eq!(workers[1].counts().passed, 20);
    }

    #[test]
    fn neighbours_are_known_to_all_workers() {
        let mut workers = siblings(2);
        let mut burst = Burst::new();
        burst.push(arp());
        workers[0].hand_over(&mut burst);
        assert_eq!(burst.len(), 1);
        let mut taken = Burst::new();
        workers[1].take(&mut taken, 100);
        assert_eq!(taken.len(), 1);
    }

    #[test]
    fn a_full_ring_drops_and_counts() {
        let mut workers = siblings(2);
        for _ in 0..RING + 5 {
            let mut burst = Burst::new();
            burst.push(frame(&[], 1_001));
            workers[0].hand_over(&mut burst);
        }
        let counts = workers[0].counts();
        assert_eq!((counts.passed, counts.dropped), (RING as u64, 5));
    }

    #[test]
    fn cut_frames_belong_to_nobody_alone() {
        let whole = frame(&[1], 1_001);
        for len in 0..whole.bytes().len() {
            let _ = port(&whole.bytes()[..len]);
        }
    }
}
