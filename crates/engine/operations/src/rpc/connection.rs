//! The state of a connection that may carry RPC.

use lineside_account::{Claim, Counter, Counters};
use lineside_flow::{Connection, Transport};
use lineside_rows::Word;
use lineside_rpc::calls::CallTable;
use lineside_rpc::record::Records;
use lineside_wire::{Direction, Endpoint};

use super::acknowledgements::{AckWaits, LateAck};
use super::foreign::{Look, may_be_foreign};
use super::ids::connection_id;
use super::recovery::Recoveries;
use super::slots::Slots;
use super::tls::{Probe, TlsRecords};
use crate::blocks::{Blocks, Summed};
use crate::family::Family;
use crate::fast_call::{CallerRef, HeldReply};
use crate::files::KnownFiles;
use crate::headers::LastHeader;
use crate::operation::{CallRef, EarlyReply, OpenMessage};
use crate::slot::Slot;

/// What a connection costs here: its state and that of both directions' records, each with what the
/// allocator takes.
pub(super) const CONNECTION_BYTES: usize =
    size_of::<RpcConnection>() + 2 * size_of::<Records>() + 3 * 24;

/// What is known of a connection beyond its flows.
#[derive(Debug)]
pub(crate) struct RpcConnection {
    pub(super) id: i64,
    pub(super) ends: [Endpoint; 2],
    /// Hashes of client and server, once an end has called: by the direction of the calls.
    pub(super) pairs: [Option<u64>; 2],
    pub(super) transport: Transport,
    /// The virtual network that its first packet was seen in.
    pub(super) network: Option<u32>,
    /// Taken out while they read.
    pub(super) records: [Option<Box<Records>>; 2],
    /// The message of each direction whose end has not come.
    pub(super) open: [Option<OpenMessage>; 2],
    /// For the file data in each direction, from the first data on.
    pub(super) blocks: [Option<Box<Blocks>>; 2],
    pub(super) summed: [Summed; 2],
    /// Early replies are few, so that an entry is only as large as a call that waits.
    pub(super) calls: CallTable<Slot, CallRef, Box<EarlyReply>>,
    /// The direction of calls, once one was seen.
    pub(super) caller: Option<Direction>,
    /// When the last datagram came.
    pub(super) datagram_ns: i64,
    pub(super) last_header: LastHeader,
    /// Who calls with that header, once a call on the fast path was.
    pub(super) fast_caller: Option<CallerRef>,
    /// Of the latest reply to a call on the fast path whose data follows: what comes before that.
    pub(super) fast_reply: Option<Box<HeldReply>>,
    pub(super) program: Word,
    /// RPC's part of TLS, or what else the connection may carry; and the records of both directions
    /// once TLS has begun.
    pub(super) probe: Option<Probe>,
    pub(super) family: Family,
    pub(super) tls: Option<Box<[TlsRecords; 2]>>,
    pub(super) resynchronised: i64,
    /// Bytes of each direction that came so far, holes included.
    pub(super) passed: [i64; 2],
    /// What came again in each direction, once something did.
    pub(super) recoveries: [Option<Box<Recoveries>>; 2],
    /// The latest acknowledgement that may have freed a reply, until one has come.
    pub(super) late_ack: Option<Box<LateAck>>,
    /// Replies that acknowledgements freed, since the last row.
    pub(super) ack_waits: AckWaits,
    /// Replies over TCP whose call was never seen.
    pub(super) orphans: u64,
    /// The snap length cut bytes of a direction.
    pub(super) is_cut: [bool; 2],
    /// Calls with their replies, and calls or replies alone, but for those that nobody answers.
    pub(super) answered: u64,
    pub(super) unpaired: u64,
    /// Packets of both directions have come.
    pub(super) hears_both: bool,
    /// Bytes of datagrams that are no messages.
    pub(super) unread: u64,
    /// When it ended, by FIN or RST.
    pub(super) ended_ns: Option<i64>,
    /// What slots of NFSv4.1's sessions were used for.
    pub(super) slots: Slots,
    /// What it has reported of files.
    pub(super) known: KnownFiles,
}

impl RpcConnection {
    /// As it is at the first packet.
    pub(super) fn new(
        facts: &Connection,
        family: Family,
        records: [Option<Box<Records>>; 2],
        now: i64,
    ) -> Self {
        let (ends, transport) = (facts.ends(), facts.transport());
        let look = may_be_foreign(transport, &ends).then(|| {
            let served = facts.initiator().map(Direction::opposite);
            Probe::Looking(Look::new(&ends, served, family.is_forced_rpc()))
        });
        Self {
            id: connection_id(facts),
            ends,
            pairs: [None, None],
            transport,
            network: facts.layers().virtual_network(),
            records,
            open: [None, None],
            blocks: [None, None],
            summed: Default::default(),
            calls: CallTable::new(),
            caller: None,
            datagram_ns: now,
            last_header: LastHeader::default(),
            fast_caller: None,
            fast_reply: None,
            program: Word::None,
            probe: look,
            family,
            tls: None,
            resynchronised: 0,
            passed: [0; 2],
            recoveries: [None, None],
            late_ack: None,
            ack_waits: AckWaits::default(),
            orphans: 0,
            is_cut: [false; 2],
            answered: 0,
            unpaired: 0,
            hears_both: false,
            unread: 0,
            ended_ns: None,
            slots: Slots::default(),
            known: KnownFiles::default(),
        }
    }

    /// As what it may draw: what one sends that nobody answers gives way.
    #[inline]
    pub(super) fn claim(&self) -> Claim {
        match self.answered {
            0 => Claim::Spare,
            _ => Claim::Full,
        }
    }

    /// The message that is open in a direction continues with `len` bytes of file data, to be
    /// checksummed if their offset in the file is given.
    pub(super) fn expect_data(
        &mut self,
        direction: Direction,
        (slot, operation_id): (Slot, i64),
        len: u32,
        sums_from: Option<u64>,
    ) {
        let len = u64::from(len);
        if let Some(open) = &mut self.open[direction] {
            (open.data_of, open.data_id) = (Some(slot), operation_id);
            (open.data_left, open.has_sums) = (len, sums_from.is_some());
        }
        debug_assert!(self.summed[direction].is_empty(), "data has an end");
        if let Some(offset) = sums_from {
            self.blocks[direction]
                .get_or_insert_default()
                .begin(offset, len);
        }
    }

    /// Whether a message like this waits in a direction to be accepted.
    pub(super) fn has_candidate(&self, direction: Direction, xid: u32, is_call: bool) -> bool {
        let records = &self.records[direction];
        records
            .as_ref()
            .is_some_and(|records| records.has_candidate(xid, is_call))
    }

    pub(super) fn count_closed(&self, counters: &mut Counters) {
        let mut records = self.records.iter().flatten();
        let is_rpc = self.caller.is_some() || records.any(|records| records.is_rpc());
        counters.add(Counter::ConnectionsRpc, u64::from(is_rpc));
        // What TLS and others carry has counters of its own.
        if is_rpc && !matches!(self.probe, Some(Probe::Foreign(_))) {
            let records = self.records.iter().flatten();
            let unread = records.map(|records| records.unread_bytes()).sum::<u64>();
            counters.add(Counter::RpcUnread, unread + self.unread);
        }
        let hears_both = match self.transport {
            Transport::Tcp => self.hears_both,
            Transport::Udp => self.answered > 0,
        };
        let is_unpaired = hears_both && self.unpaired > self.answered;
        counters.add(Counter::ConnectionsUnpaired, is_unpaired.into());
        match self.family {
            Family::Rpc { is_forced: true } => {
                counters.count(Counter::ConnectionsForced);
                counters.add(Counter::ConnectionsForcedInVain, u64::from(!is_rpc));
            }
            Family::Rpc { is_forced: false } => {}
            Family::Unread { began_as_rpc } => {
                counters.count(Counter::ConnectionsLeftAlone);
                counters.add(Counter::ConnectionsLeftAloneRpc, began_as_rpc.into());
            }
        }
    }
}
