//! A connection: calls that wait for it, bytes that leave by it, records that come.

use std::collections::VecDeque;

use lineside_rpc::message::encode_record;

use crate::config::{Service, Transport};
use crate::records::{Heads, Records};

#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) service: Service,
    pub(crate) port: u16,
    pub(crate) transport: Transport,
    pub(crate) is_up: bool,
    /// xids of calls, in order.
    pub(crate) waiting: VecDeque<u32>,
    pub(crate) records: Records,
    pub(crate) heads: Heads,
    stream: Vec<u8>,
    datagrams: VecDeque<Vec<u8>>,
}

impl Channel {
    pub(crate) fn new(
        service: Service,
        port: u16,
        transport: Transport,
        reply_bytes_max: u32,
    ) -> Self {
        Self {
            service,
            port,
            transport,
            is_up: true,
            waiting: VecDeque::new(),
            records: Records::default(),
            heads: Heads::new(reply_bytes_max as usize),
            stream: Vec::new(),
            datagrams: VecDeque::new(),
        }
    }

    pub(crate) fn send(&mut self, fragments: &[usize], message: &[u8]) {
        match self.transport {
            Transport::Stream => {
                // Those that fit, from the first: nfs-ganesha wants the RPC header in one fragment.
                let mut rest = message.len();
                let fits = |size: &&usize| {
                    rest = rest.saturating_sub(**size);
                    rest > 0
                };
                let count = fragments.iter().take_while(fits).count();
                encode_record(&fragments[..count], message, &mut self.stream);
            }
            Transport::Datagrams => self.datagrams.push_back(message.to_vec()),
        }
    }

    pub(crate) fn transmit(&mut self, out: &mut Vec<u8>) -> bool {
        match self.transport {
            Transport::Stream => {
                let has_some = !self.stream.is_empty();
                out.append(&mut self.stream);
                has_some
            }
            Transport::Datagrams => match self.datagrams.pop_front() {
                Some(message) => {
                    out.extend_from_slice(&message);
                    true
                }
                None => false,
            },
        }
    }

    /// The connection ended: nothing of a record and of a call that was cut is worth anything.
    pub(crate) fn reset(&mut self) {
        self.is_up = false;
        std::mem::take(&mut self.records).release(&mut self.heads);
        self.stream.clear();
        self.datagrams.clear();
    }
}
