//! Captures made of messages: RPC over TCP between two hosts, a frame a message.

use std::fs;

use tempfile::TempDir;

use crate::report::{printed, run};

const SECOND_NS: u64 = 1_000_000_000;
const BEGIN_NS: u64 = 1_700_000_000 * SECOND_NS;

/// XDR words, and bytes with their length.
#[derive(Debug, Clone, Default)]
pub(crate) struct Xdr(pub(crate) Vec<u8>);

impl Xdr {
    pub(crate) fn words(words: &[u32]) -> Self {
        Self::default().and(words)
    }

    pub(crate) fn and(mut self, words: &[u32]) -> Self {
        for word in words {
            self.0.extend(word.to_be_bytes());
        }
        self
    }

    pub(crate) fn bytes(self, bytes: &[u8]) -> Self {
        let mut this = self.and(&[bytes.len() as u32]);
        this.0.extend(bytes);
        this.0.resize(this.0.len().next_multiple_of(4), 0);
        this
    }

    pub(crate) fn join(mut self, other: &Self) -> Self {
        self.0.extend(&other.0);
        self
    }
}

/// A capture as it grows.
pub(crate) struct Capture {
    bytes: Vec<u8>,
    now_ns: u64,
    xid: u32,
    /// By client: the next sequence numbers, its own and the server's.
    sequences: Vec<(u8, [u32; 2])>,
}

impl Capture {
    pub(crate) fn new() -> Self {
        let mut bytes = Vec::new();
        for word in [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 65_535, 1] {
            bytes.extend(word.to_le_bytes());
        }
        Self {
            bytes,
            now_ns: BEGIN_NS,
            xid: 1,
            sequences: Vec::new(),
        }
    }

    pub(crate) fn wait_ms(&mut self, ms: u64) {
        self.now_ns += ms * 1_000_000;
    }

    /// A call of client 192.0.2.`client` and its reply, a millisecond apart; `None`: no reply.
    pub(crate) fn call(
        &mut self,
        client: u8,
        [program, version, procedure]: [u32; 3],
        arguments: &Xdr,
        reply: Option<&Xdr>,
    ) {
        let xid = self.xid;
        self.xid += 1;
        // AUTH_SYS of root at host "c", and no verifier.
        let credential = [1, 24, 0, 1, u32::from_be_bytes(*b"c\0\0\0"), 0, 0, 0];
        let header = Xdr::words(&[xid, 0, 2, program, version, procedure]);
        let call = header.and(&credential).and(&[0, 0]).join(arguments);
        self.message(client, false, &call.0);
        self.wait_ms(1);
        if let Some(reply) = reply {
            self.message(client, true, &Xdr::words(&[xid, 1]).join(reply).0);
        }
        self.wait_ms(1);
    }

    fn message(&mut self, client: u8, is_reply: bool, message: &[u8]) {
        let known = self
            .sequences
            .iter()
            .position(|(known, _)| *known == client);
        let at = known.unwrap_or_else(|| {
            self.sequences.push((client, [1_000, 2_000]));
            let at = self.sequences.len() - 1;
            // The handshake: SYN, SYN and ACK, ACK.
            for (from, flags) in [(0, 0x02), (1, 0x12), (0, 0x10)] {
                self.segment(at, from, flags, &[]);
                self.sequences[at].1[from] += u32::from(flags & 2 != 0);
            }
            at
        });
        let mut record = (0x8000_0000 | message.len() as u32).to_be_bytes().to_vec();
        record.extend(message);
        let from = usize::from(is_reply);
        self.segment(at, from, 0x18, &record);
        self.sequences[at].1[from] += record.len() as u32;
    }

    fn segment(&mut self, at: usize, from: usize, flags: u8, payload: &[u8]) {
        let (client, sequences) = self.sequences[at];
        let (addresses, ports) = ([[192, 0, 2, client], [198, 51, 100, 20]], [700u16, 2049]);
        let len = 40 + payload.len() as u16;
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
        frame.extend(len.to_be_bytes());
        frame.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
        frame.extend(addresses[from]);
        frame.extend(addresses[1 - from]);
        frame.extend(ports[from].to_be_bytes());
        frame.extend(ports[1 - from].to_be_bytes());
        frame.extend(sequences[from].to_be_bytes());
        frame.extend(sequences[1 - from].to_be_bytes());
        frame.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
        frame.extend(payload);
        let header = &mut frame[14..34];
        let sum: u32 = { header.chunks(2) }
            .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
            .sum();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        let (seconds, rest) = (self.now_ns / SECOND_NS, self.now_ns % SECOND_NS);
        for word in [
            seconds as u32,
            rest as u32,
            frame.len() as u32,
            frame.len() as u32,
        ] {
            self.bytes.extend(word.to_le_bytes());
        }
        self.bytes.extend(frame);
        self.now_ns += 1_000;
    }

    /// Its trace, in a folder `trace`.
    pub(crate) fn traced(&self) -> TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("made.pcap"), &self.bytes).expect("written");
        printed(&run(
            &folder,
            &["capture", "made.pcap", "-q", "-o", "trace"],
        ));
        folder
    }
}
