//! A server's stack, an honest client's, and whoever else sends to the server. What the server
//! allocates is counted.

use std::net::IpAddr;

use lineside_account::Budget;
use lineside_frame::{Burst, Cutter, Descriptor, Frame, LinkType};
use lineside_tcp::{Config, ConnectionId, Departure, Effects, Event, Prefix, Stack, Why};
use lineside_time::Random;
use lineside_wire::TcpFlags;
use lineside_wire::arp;
use lineside_wire::build::TcpFields;
use lineside_wire::headers::{Headers, emit_link};

use crate::{allocated, measured};

pub(crate) const SERVER: [u8; 4] = [10, 0, 0, 1];
pub(crate) const CLIENT: [u8; 4] = [10, 0, 0, 2];
/// Who says what no peer would.
pub(crate) const LIAR: [u8; 4] = [10, 0, 0, 9];
const LIAR_PORT: u16 = 5000;
const ROUTER: [u8; 4] = [10, 0, 0, 254];
pub(crate) const PORT: u16 = 80;
/// What is allocated and not drawn on a budget: addresses of the configuration, which are few.
const SLACK_BYTES: isize = 4096;

fn link(last: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, last]
}

/// The byte at an offset of every stream.
pub(crate) fn content(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// What an end sends and hears; nothing here allocates while it is used.
#[derive(Debug)]
pub(crate) struct Owner {
    pub(crate) frames: Vec<Frame>,
    /// Frames to others than these are dropped.
    keeps: IpAddr,
    pub(crate) opened: Vec<ConnectionId>,
    /// By connection number.
    pub(crate) received: Vec<u64>,
    pub(crate) acknowledged: Vec<u64>,
    pub(crate) closed: u64,
    /// What was sent to [`LIAR`], by its port less [`LIAR_PORT`].
    pub(crate) to_liar: Vec<Sent>,
}

/// The end of what was sent, and how often.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sent {
    pub(crate) end: u32,
    pub(crate) count: u64,
}

impl Owner {
    fn new(keeps: [u8; 4], connections_max: usize) -> Self {
        Self {
            frames: Vec::with_capacity(1 << 16),
            keeps: keeps.into(),
            opened: Vec::with_capacity(connections_max),
            received: vec![0; connections_max],
            acknowledged: vec![0; connections_max],
            closed: 0,
            to_liar: vec![Sent::default(); 1000],
        }
    }
}

impl Effects for Owner {
    fn transmit(&mut self, frame: Frame, departure: Departure) {
        let bytes = frame.bytes();
        let is_control = departure.why == Why::Control;
        let destination = match is_control {
            true => self.keeps,
            false => [bytes[30], bytes[31], bytes[32], bytes[33]].into(),
        };
        if destination == IpAddr::from(LIAR) {
            let word =
                |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
            let headers_len = 34 + usize::from(bytes[46] >> 4) * 4;
            let len = bytes.len() - headers_len + usize::from(bytes[47] & 3 != 0);
            let sent = &mut self.to_liar[usize::from(word(34) as u16 - LIAR_PORT)];
            let end = word(38).wrapping_add(len as u32);
            if sent.count == 0 || end.wrapping_sub(sent.end).cast_signed() > 0 {
                sent.end = end;
            }
            sent.count += 1;
        }
        if destination == self.keeps && self.frames.len() < self.frames.capacity() {
            self.frames.push(frame);
        }
    }

    fn fill(&mut self, _: ConnectionId, _: u32, offset: u64, bytes: &mut [u8]) {
        for (byte, at) in bytes.iter_mut().zip(offset..) {
            *byte = content(at);
        }
    }

    fn on_event(&mut self, id: ConnectionId, _: u32, event: Event<'_>) {
        let at = id.0 as usize;
        match event {
            Event::Opened { .. } => {
                (self.received[at], self.acknowledged[at]) = (0, 0);
                self.opened.push(id);
            }
            Event::Stream(chunk) => {
                let expected = self.received[at]..;
                let differs = { chunk.bytes().iter() }
                    .zip(expected)
                    .any(|(byte, offset)| *byte != content(offset));
                assert!(!differs, "other bytes");
                self.received[at] += chunk.len() as u64;
            }
            Event::Acknowledged(bytes) => self.acknowledged[at] += bytes,
            Event::Closed(_) => self.closed += 1,
            Event::Ended => {}
        }
    }
}

/// A segment of the liar's.
pub(crate) fn liars<'a>(port: u16, acknowledgement: u32, sequence: u32) -> TcpFields<'a> {
    TcpFields {
        source_port: LIAR_PORT + port,
        destination_port: PORT,
        sequence,
        acknowledgement,
        flags: TcpFlags::ACK,
        ..TcpFields::default()
    }
}

pub(crate) struct Duel {
    pub(crate) server: Stack,
    pub(crate) client: Stack,
    /// The server's and the client's.
    pub(crate) owners: [Owner; 2],
    pub(crate) budget: Budget,
    pub(crate) now: i64,
    /// Which frames between the server and the client are lost, and how many.
    pub(crate) loss: (Random, f64),
    cutter: Cutter,
    burst: Burst,
}

pub(crate) fn config(last: u8, address: [u8; 4]) -> Config {
    Config {
        on_link: vec![Prefix {
            address: [10, 0, 0, 0].into(),
            len: 24,
        }],
        routers: vec![ROUTER.into()],
        neighbours_max: 64,
        ..Config::new(link(last), &[address.into()])
    }
}

impl Duel {
    pub(crate) fn new(budget_bytes: usize, change: impl FnOnce(&mut Config)) -> Self {
        let mut server_config = config(1, SERVER);
        change(&mut server_config);
        let connections_max = server_config.connections_max as usize;
        let budget = Budget::new(budget_bytes);
        let mut server = measured(|| Stack::new(server_config, [1, 2], &budget)).expect("room");
        measured(|| server.listen(None, PORT, 0)).expect("it is free");
        let everything = Budget::new(1 << 30);
        let client = Stack::new(config(2, CLIENT), [3, 4], &everything).expect("room");
        let mut duel = Self {
            server,
            client,
            owners: [CLIENT, SERVER].map(|keeps| Owner::new(keeps, connections_max)),
            budget,
            now: 1_000_000_000_000,
            loss: (Random::new(5), 0.0),
            cutter: Cutter::new(1 << 20, 16, &everything).expect("room"),
            burst: Burst::new(),
        };
        duel.introduce(ROUTER);
        duel.introduce(LIAR);
        duel
    }

    /// Somebody asks for the server, which learns where it is.
    pub(crate) fn introduce(&mut self, neighbour: [u8; 4]) {
        let mut frame = self.cut(14 + arp::PACKET_LEN);
        let from = link(neighbour[3]);
        let rest = emit_link([[0xff; 6], from], &[None; 2], 0x0806, frame.bytes_mut());
        let sender = (from, neighbour.into());
        arp::Packet::emit(rest, arp::REQUEST, sender, ([0; 6], SERVER.into()));
        self.burst.push(frame);
        self.attack();
        self.owners[0].frames.clear();
    }

    fn cut(&mut self, len: usize) -> Frame {
        let descriptor = Descriptor {
            wire_len: len as u32,
            link_type: LinkType::ETHERNET,
            ..Descriptor::default()
        };
        self.cutter
            .cut(len, descriptor)
            .expect("frames are free again")
    }

    /// Adds a segment to the next burst for the server.
    pub(crate) fn forge(&mut self, source: [u8; 4], fields: &TcpFields<'_>, payload: &[u8]) {
        let headers = Headers {
            link: [link(1), link(254)],
            ..Headers::new(source.into(), SERVER.into())
        };
        let segment_len = fields.header_len() + payload.len();
        let mut frame = self.cut(headers.len_bytes() + segment_len);
        let segment = headers.emit(6, segment_len, frame.bytes_mut());
        segment[fields.header_len()..].copy_from_slice(payload);
        fields.emit(headers.ends, segment);
        self.burst.push(frame);
    }

    /// The server takes the burst.
    pub(crate) fn attack(&mut self) {
        let (now, burst) = (self.now, &mut self.burst);
        let (server, owner) = (&mut self.server, &mut self.owners[0]);
        measured(|| server.on_burst(now, burst, owner));
    }

    /// A millisecond passes, and all frames between the server and the client arrive.
    pub(crate) fn pass(&mut self) {
        self.now += 1_000_000;
        let now = self.now;
        let [of_server, of_client] = &mut self.owners;
        for _ in 0..2 {
            let (random, share) = &mut self.loss;
            for frame in of_client.frames.drain(..) {
                if !random.chance(*share) {
                    self.burst.push(frame);
                }
            }
            let (server, burst) = (&mut self.server, &mut self.burst);
            measured(|| {
                server.on_burst(now, burst, of_server);
                server.on_timer(now, of_server);
            });
            for frame in of_server.frames.drain(..) {
                if !random.chance(*share) {
                    self.burst.push(frame);
                }
            }
            self.client.on_burst(now, &mut self.burst, of_client);
            self.client.on_timer(now, of_client);
        }
    }

    /// The liar opens a connection: the server's number of it, and its own next number and the
    /// server's.
    pub(crate) fn open_liar(
        &mut self,
        port: u16,
        options: &[u8],
        window: u16,
    ) -> (ConnectionId, u32) {
        let mut fields = TcpFields {
            source_port: LIAR_PORT + port,
            destination_port: PORT,
            sequence: 0,
            flags: TcpFlags::SYN,
            window,
            options,
            ..TcpFields::default()
        };
        self.forge(LIAR, &fields, &[]);
        self.attack();
        let next = self.owners[0].to_liar[usize::from(port)].end;
        (fields.flags, fields.sequence) = (TcpFlags::ACK, 1);
        (fields.acknowledgement, fields.options) = (next, &[]);
        self.forge(LIAR, &fields, &[]);
        self.attack();
        let opened = self.owners[0].opened.last();
        (*opened.expect("it is open"), next)
    }

    /// The server sends `len` bytes.
    pub(crate) fn send(&mut self, id: ConnectionId, len: u64) {
        let (stack, now, owner) = (&mut self.server, self.now, &mut self.owners[0]);
        measured(|| stack.send(now, id, len, owner)).expect("it is open");
    }

    /// The client opens a connection; its number there and at the server.
    pub(crate) fn open(&mut self) -> [ConnectionId; 2] {
        let ends = [(CLIENT.into(), 0), (SERVER.into(), PORT)];
        let [of_server, of_client] = &mut self.owners;
        let before = of_server.opened.len();
        let id = self
            .client
            .connect(self.now, ends[0], ends[1], 0, of_client);
        let id = id.expect("there is room");
        for _ in 0..20_000 {
            self.pass();
            if self.owners[0].opened.len() > before {
                break;
            }
        }
        assert_eq!(self.owners[0].opened.len(), before + 1, "it is open");
        [id, self.owners[0].opened[before]]
    }

    /// Both ends say `len` more bytes; they have arrived when this returns.
    pub(crate) fn talk(&mut self, [client, server]: [ConnectionId; 2], len: u64) {
        let [of_server, of_client] = &mut self.owners;
        let ends = [
            of_server.received[server.0 as usize],
            of_client.received[client.0 as usize],
        ];
        self.client
            .send(self.now, client, len, of_client)
            .expect("it is open");
        let (stack, now) = (&mut self.server, self.now);
        measured(|| stack.send(now, server, len, of_server)).expect("it is open");
        for _ in 0..100_000 {
            self.pass();
            let [of_server, of_client] = &self.owners;
            let received = [
                of_server.received[server.0 as usize],
                of_client.received[client.0 as usize],
            ];
            if received == ends.map(|before| before + len) {
                return;
            }
        }
        panic!("{len} bytes do not arrive");
    }

    /// What the server allocated was drawn on its budget.
    pub(crate) fn expect_within_budget(&self) {
        let (_, live) = allocated();
        let used = self.budget.used_bytes();
        assert!(used <= self.budget.limit_bytes());
        assert!(
            live <= used as isize + SLACK_BYTES,
            "{live} bytes, but {used} are drawn"
        );
        assert_eq!(self.server.counters().broken_identity(), None);
    }
}
