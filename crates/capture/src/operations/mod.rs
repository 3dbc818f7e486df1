//! From messages to operations: decoding, matching, rows.
//!
//! An [`Operation`] is open from its call (or from a reply whose call never came) until both of its
//! messages have ended; then its rows go to the sink. Operations live in slots that are reused, so
//! that no message allocates.

use std::cmp::Reverse;
use std::net::IpAddr;

use hashbrown::HashSet;
use lineside_account::{Budget, Counter, Counters, Lease};
use lineside_flow::{Connection, FlowCounts, StreamSink, Transport};
use lineside_frame::{Cause, Chunk, Cursor, Descriptor, Fault, Piece, Range, View};
use lineside_nfs::side::{self, Summary};
use lineside_nfs::{v3, v4};
use lineside_rpc::message::{
    AcceptStatus, AcceptedReply, Auth, Body, CallHeader, Flavor, GssProcedure, GssService, Header,
    RPC_VERSION, ReplyHeader, program_name,
};
use lineside_rpc::pairs::{self, Expired, OnCall, OnReply, Pairs};
use lineside_rpc::record::{self, Message, MessageSink, Records, Want};
use lineside_rpc::xdr::{Optional, Xdr};
use lineside_trace::{
    ChecksumRun, ConnectionRow, FileRow, LossRow, OperationRow, RecordSink, RowRef, Table, Word,
};
use twox_hash::XxHash3_64;

use crate::blocks::Blocks;
use crate::config::Config;
use crate::cores::Sums;
use crate::decode_as::{DecodeAs, PortRule};
use crate::details::Details;
use crate::{details, layers, services};

mod compound;
mod files;
mod tls;

use compound::Compound;
use files::Files;
use tls::{Probe, TlsRecords};

/// Rows are numbered by frame and by place within it, in so many bits (`trace-format.md`).
const PLACE_BITS: u32 = 18;

/// The id of a file: XXH3 (64 bits, seed 0) of the owning server's address, 4 or 16 bytes in network
/// order, followed by the handle.
pub fn file_id(server: IpAddr, handle: &[u8]) -> i64 {
    let mut bytes = [0; 16 + HANDLE_MAX];
    let address_len = match server {
        IpAddr::V4(address) => {
            bytes[..4].copy_from_slice(&address.octets());
            4
        }
        IpAddr::V6(address) => {
            bytes[..16].copy_from_slice(&address.octets());
            16
        }
    };
    let len = address_len + handle.len().min(HANDLE_MAX);
    bytes[address_len..len].copy_from_slice(&handle[..len - address_len]);
    XxHash3_64::oneshot(&bytes[..len]).cast_signed()
}

#[inline]
fn file_id_of(server: IpAddr, handle: &View<'_>) -> i64 {
    match handle.contiguous() {
        Some(bytes) => file_id(server, bytes),
        None => file_id(server, HandleBytes::new(handle).bytes()),
    }
}

pub(crate) fn connection_id(facts: &Connection) -> i64 {
    (facts.first().ordinal << PLACE_BITS).cast_signed()
}

/// What is known of one call and its reply so far.
#[derive(Debug, Default)]
struct Operation {
    row: OperationRow,
    details: Details,
    kind: Kind,
    call_done: bool,
    reply_done: bool,
    /// The handle in the call, if its file has not been reported yet; of NFSv4 also in the reply.
    handle: Option<HandleBytes>,
    /// Of NFSv4: the operation's number, the slot of the next one in its compound and, in the first, how many
    /// the server has answered.
    op: Option<u32>,
    next: Option<Note>,
    results: Option<u32>,
    /// The procedure called, and of a compound what tells it from others.
    procedure: u32,
    identity: Option<HandleBytes>,
    /// Arguments and results are wrapped for RPCSEC_GSS's integrity.
    is_wrapped: bool,
    /// A reply that came before its call, to be read when the call has ended.
    early: Option<Box<Early>>,
}

/// What a call is, as far as it is understood beyond RPC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Kind {
    #[default]
    Opaque,
    Nfs3(v3::Procedure),
    /// NFSv2 and the programs beside NFS.
    Side(side::Procedure),
    /// NFSv4's operations, and those of its callbacks.
    Compound,
    Callback,
}

impl Kind {
    fn of(program: u32, version: u32, procedure: u32) -> Self {
        match (program, version) {
            (v3::PROGRAM, v3::VERSION) => {
                v3::Procedure::from_number(procedure).map_or(Self::Opaque, Self::Nfs3)
            }
            (v4::PROGRAM, v4::VERSION) if procedure == v4::COMPOUND => Self::Compound,
            (v4::PROGRAM, v4::VERSION) => Self::Opaque,
            (program, v4::callback::VERSION)
                if v4::callback::PROGRAMS.contains(&program) && procedure == v4::COMPOUND =>
            {
                Self::Callback
            }
            _ => {
                side::Procedure::find(program, version, procedure).map_or(Self::Opaque, Self::Side)
            }
        }
    }

    /// The name of a procedure of this kind.
    #[inline]
    fn word(self, program: u32, version: u32, procedure: u32) -> Word {
        match self {
            Self::Nfs3(procedure) => Word::Known(procedure.name()),
            Self::Side(procedure) => Word::Known(procedure.name()),
            Self::Compound => Word::Known("COMPOUND"),
            Self::Callback => Word::Known("CB_COMPOUND"),
            Self::Opaque => details::procedure_word(program, version, procedure),
        }
    }
}

/// What a call asks for.
struct Called<'a> {
    program: u32,
    version: u32,
    procedure: u32,
    identity: Option<&'a HandleBytes>,
}

/// Bytes of a record mark.
const RECORD_MARK: usize = 4;
/// Bytes of a handle: of NFSv4 (NFS4_FHSIZE); NFSv3's are at most 64.
const HANDLE_MAX: usize = 128;

/// A copy of a handle.
#[derive(Debug, Clone, Copy)]
struct HandleBytes {
    bytes: [u8; HANDLE_MAX],
    len: usize,
}

impl Default for HandleBytes {
    fn default() -> Self {
        Self {
            bytes: [0; HANDLE_MAX],
            len: 0,
        }
    }
}

impl HandleBytes {
    fn new(view: &View<'_>) -> Self {
        let mut handle = Self::default();
        for slice in view.slices() {
            let take = slice.len().min(HANDLE_MAX - handle.len);
            handle.bytes[handle.len..handle.len + take].copy_from_slice(&slice[..take]);
            handle.len += take;
        }
        handle
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The bytes of a handle, copied only if they lie in several pieces.
fn handle_bytes<'b>(handle: &View<'b>, copy: &'b mut Option<HandleBytes>) -> &'b [u8] {
    match handle.contiguous() {
        Some(bytes) => &bytes[..bytes.len().min(HANDLE_MAX)],
        None => copy.insert(HandleBytes::new(handle)).bytes(),
    }
}

/// A datagram with a reply that waits for its call.
#[derive(Debug)]
struct Early {
    message: Message,
    ranges: Vec<Range>,
    direction: usize,
    /// Copies of it that came after.
    duplicates: i32,
    /// Draws it on the memory budget.
    _lease: Lease,
}

/// The note of a call in [`Pairs`]: its slot, or, from [`WRITTEN`] on, that its rows are out and what was called.
type Note = u32;
const WRITTEN: Note = 1 << 31;

/// The note of a call whose rows are out, by its numbers: those of NFS and of what travels with it do not collide.
#[inline]
fn written(program: Option<i64>, version: Option<i32>, procedure: u32) -> Note {
    let (program, version) = (program.unwrap_or(0) as u32, version.unwrap_or(0) as u32);
    WRITTEN | (program ^ (version << 18) ^ (procedure << 22))
}

/// The message that passes in a direction.
#[derive(Debug)]
struct Passing {
    operation: Option<Note>,
    is_call: bool,
    xid: u32,
    /// Of a compound: how far it was read.
    compound: Option<Compound>,
    /// The operation whose data passes.
    data_of: Option<Note>,
    /// Bytes of file data still to come.
    data_left: u64,
    data_missing: bool,
    /// Its data is checksummed, in the connection's [`Blocks`].
    has_sums: bool,
}

/// Who calls what, by the header of a call: all of that but the xid and the procedure.
#[derive(Debug, Clone, Copy)]
struct Caller {
    program: u32,
    version: u32,
    /// The program that it is taken for, and whether `--decode-as` says so.
    meant: u32,
    is_decoded_as: bool,
    program_word: Word,
    auth_flavor: Word,
    /// Its user and group.
    ids: [Option<i64>; 2],
    asks_tls: bool,
    /// Arguments can be read, and are wrapped for RPCSEC_GSS's integrity.
    is_readable: bool,
    is_wrapped: bool,
}

impl Caller {
    /// `None`: too little of the header survived to know what was called.
    fn new(call: &CallHeader<'_>, decode_as: &DecodeAs) -> Option<Self> {
        let (program, version) = (call.program?, call.version?);
        let rule = decode_as.program(program);
        let meant = rule.unwrap_or(program);
        let flavor = call.credential.flavor;
        let gss = call.credential.gss();
        let carries = gss.filter(|gss| gss.procedure == Some(GssProcedure::DATA));
        let service = carries.and_then(|gss| gss.service);
        let is_readable = match service {
            Some(GssService::PRIVACY) => false,
            // Cut off before it says whether arguments and results are wrapped.
            None => flavor.is_some_and(|flavor| flavor != Flavor::GSS),
            _ => true,
        };
        let auth_flavor = match (gss.and_then(|gss| gss.service), flavor) {
            (Some(GssService::NONE), _) => Word::Known("gss_none"),
            (Some(GssService::INTEGRITY), _) => Word::Known("gss_integrity"),
            (Some(GssService::PRIVACY), _) => Word::Known("gss_privacy"),
            // Cut off before it says which.
            (_, None) | (None, Some(Flavor::GSS)) => Word::None,
            (_, Some(flavor)) => details::word(flavor.name(), flavor.0),
        };
        let sys = call.credential.sys();
        Some(Self {
            program,
            version,
            meant,
            is_decoded_as: rule.is_some(),
            program_word: details::word(program_name(meant), program),
            auth_flavor,
            ids: sys.map_or([None; 2], |sys| {
                [sys.uid, sys.gid].map(|id| id.map(i64::from))
            }),
            asks_tls: flavor == Some(Flavor::TLS),
            is_readable,
            is_wrapped: service == Some(GssService::INTEGRITY),
        })
    }
}

/// The header of the last call with AUTH_SYS: the next one nearly always brings the same bytes.
#[derive(Debug, Default)]
struct LastHeader {
    bytes: Vec<u8>,
    caller: Option<Caller>,
}

impl LastHeader {
    /// Where the procedure lies, in which calls differ, as in the xid before their type.
    const PROCEDURE: usize = 20;

    /// The xid, the caller and the procedure of a call that begins with `bytes`, and how long its header is, if that is
    /// like the last one.
    #[inline]
    fn again(&self, bytes: &[u8]) -> Option<(u32, &Caller, u32, usize)> {
        const BEHIND: usize = LastHeader::PROCEDURE + 4;
        let (caller, len) = (self.caller.as_ref()?, self.bytes.len());
        let (last, last_rest) = self.bytes.split_first_chunk::<BEHIND>()?;
        let (header, rest) = bytes.get(..len)?.split_first_chunk::<BEHIND>()?;
        let is_same = header[4..Self::PROCEDURE] == last[4..Self::PROCEDURE] && rest == last_rest;
        let number = |at: usize| header[at..].first_chunk().copied().map(u32::from_be_bytes);
        match is_same {
            true => Some((number(0)?, caller, number(Self::PROCEDURE)?, len)),
            false => None,
        }
    }

    fn remember(&mut self, bytes: &[u8], caller: Caller) {
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        self.caller = Some(caller);
    }
}

/// What nearly every reply begins with behind its xid: it is one, the call was let in, nobody in particular says so,
/// and the results follow.
const SUCCESS: [u8; 20] = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// What is known of a connection beyond its flows.
#[derive(Debug)]
struct Talk {
    id: i64,
    ends: [lineside_flow::Endpoint; 2],
    transport: Transport,
    /// Taken out while they have the word.
    records: [Option<Box<Records>>; 2],
    passing: [Option<Passing>; 2],
    /// For the data that passes, from the first data on.
    blocks: [Option<Box<Blocks>>; 2],
    /// Early replies are few, so that a pair is only as large as a call that waits.
    pairs: Pairs<Note, Box<Early>>,
    /// The direction of calls, once one was seen.
    caller: Option<usize>,
    last_header: LastHeader,
    program: Word,
    /// RPC's part of TLS, and the records of both directions once it has begun.
    probe: Option<Probe>,
    /// `--decode-as` says what this is.
    rule: Option<PortRule>,
    /// It is left alone, and yet began like RPC.
    began_as_rpc: bool,
    tls: Option<Box<[TlsRecords; 2]>>,
    resynchronised: i64,
    /// Hashes of the facts already reported.
    facts: HashSet<u64>,
}

impl Talk {
    /// The message that passes in a direction goes on with `len` bytes of file data, to be checksummed
    /// if their offset in the file is given.
    fn expect_data(&mut self, direction: usize, note: Note, len: u32, sums_from: Option<u64>) {
        let len = u64::from(len);
        if let Some(passing) = &mut self.passing[direction] {
            passing.data_of = Some(note);
            (passing.data_left, passing.has_sums) = (len, sums_from.is_some());
        }
        if let Some(offset) = sums_from {
            self.blocks[direction]
                .get_or_insert_default()
                .begin(offset, len);
        }
    }

    /// Whether a message like this waits in a direction to be accepted.
    fn has_candidate(&self, direction: usize, xid: u32, is_call: bool) -> bool {
        let records = &self.records[direction];
        records
            .as_ref()
            .is_some_and(|records| records.has_candidate(xid, is_call))
    }
}

/// The sink of the flow engine.
pub(crate) struct Operations<S> {
    config: Config,
    budget: Budget,
    sink: S,
    wants_files: bool,
    wants_details: bool,
    talks: Vec<Option<Box<Talk>>>,
    operations: Vec<Operation>,
    free: Vec<Note>,
    /// Lists of ranges that no message holds any more.
    spare: Vec<Vec<Range>>,
    /// Slots that may hold ranges, each once, and whether a slot is among them.
    holders: Vec<usize>,
    listed: Vec<bool>,
    /// The reply in the datagram at hand that waits for its call.
    early_key: Option<u64>,
    now: i64,
    ending: bool,
    is_relieved: bool,
    /// Where blocks are noted whose checksums another actor computes.
    deferred: Option<Box<Sums>>,
    scratch: Scratch,
}

#[derive(Default)]
struct Scratch {
    files: Files,
    sums: Vec<u64>,
    name: Vec<u8>,
    file: FileRow,
    connection: ConnectionRow,
    loss: LossRow,
}

impl<S: RecordSink> Operations<S> {
    pub(crate) fn new(mut config: Config, budget: &Budget, sink: S) -> Self {
        config.record.any_program |= config.decode_as.names_unregistered();
        Self {
            config,
            budget: budget.clone(),
            wants_files: sink.wants(Table::Files),
            wants_details: Details::wanted(&sink),
            sink,
            talks: Vec::new(),
            operations: Vec::new(),
            free: Vec::new(),
            spare: Vec::new(),
            holders: Vec::new(),
            listed: Vec::new(),
            is_relieved: false,
            early_key: None,
            now: i64::MIN,
            ending: false,
            deferred: None,
            scratch: Scratch::default(),
        }
    }

    pub(crate) fn set_now(&mut self, now: i64) {
        self.now = now;
    }

    /// Whether data that comes from now on goes without checksums, because the run is behind.
    pub(crate) fn set_relieved(&mut self, is_relieved: bool) {
        self.is_relieved = is_relieved;
    }

    /// The offset of `len` bytes of data, if they are to be checksummed.
    fn sums_from(&self, offset: Option<u64>, len: u32, counters: &mut Counters) -> Option<u64> {
        let offset = offset.filter(|_| self.config.checksums)?;
        if self.is_relieved {
            counters.add(Counter::BlocksLimit, Blocks::spanned(offset, len.into()));
            return None;
        }
        Some(offset)
    }

    pub(crate) fn set_ending(&mut self) {
        self.ending = true;
    }

    /// From now on blocks are noted and not checksummed; they lie here until they are taken.
    pub(crate) fn deferred(&mut self) -> &mut Sums {
        self.deferred.get_or_insert_default()
    }

    pub(crate) fn sink_mut(&mut self) -> &mut S {
        &mut self.sink
    }

    pub(crate) fn into_sink(mut self) -> S {
        self.give_back();
        self.sink
    }

    /// Nothing more comes: gives back what is drawn for operations.
    pub(crate) fn give_back(&mut self) {
        let drawn = std::mem::take(&mut self.operations).len() * OPERATION_BYTES;
        self.budget.give_back(drawn);
    }

    pub(crate) fn spill(&mut self, counters: &mut Counters) {
        let mut spilled = 0;
        for slot in self.holders.drain(..) {
            self.listed[slot] = false;
            let Some(talk) = self.talks[slot].as_mut() else {
                continue;
            };
            let records = talk.records.iter_mut().flatten();
            spilled += records.map(|records| records.spill()).sum::<usize>();
            let early = talk.pairs.early_mut().flat_map(|early| &mut early.ranges);
            spilled += early
                .filter_map(|range| (range.spill() > 0).then_some(()))
                .count();
        }
        counters.add(Counter::RangesSpilled, spilled as u64);
    }

    fn talk(&mut self, slot: usize) -> &mut Talk {
        self.talks[slot]
            .as_mut()
            .expect("the flow engine opens a slot before it uses it")
    }

    fn note_holder(&mut self, slot: usize) {
        if !std::mem::replace(&mut self.listed[slot], true) {
            self.holders.push(slot);
        }
    }

    /// Runs `act` on a direction's records, which are taken out of the connection meanwhile so that
    /// the sink can reach everything else, the other direction included.
    fn with_records(
        &mut self,
        slot: usize,
        direction: usize,
        counters: &mut Counters,
        act: impl FnOnce(&mut Records, &mut Side<'_, S>, &mut Counters),
    ) {
        let Some(mut records) = self.talk(slot).records[direction].take() else {
            return;
        };
        let mut side = Side {
            all: self,
            slot,
            direction,
        };
        act(&mut records, &mut side, counters);
        let holds = records.holds();
        self.talk(slot).records[direction] = Some(records);
        if holds {
            self.note_holder(slot);
        }
    }

    /// No more records come, in either direction.
    fn finish_records(&mut self, slot: usize, counters: &mut Counters) {
        for direction in [0, 1] {
            self.with_records(slot, direction, counters, |records, side, counters| {
                records.finish(side, counters);
            });
        }
    }

    #[inline]
    fn open_operation(&mut self, slot: usize, counters: &mut Counters) -> Option<Note> {
        match self.free.pop() {
            Some(note) => Some(note),
            None => self.add_operation(slot, counters),
        }
    }

    #[cold]
    fn add_operation(&mut self, slot: usize, counters: &mut Counters) -> Option<Note> {
        if self.operations.len() >= self.config.outstanding_max
            || !self.budget.draw(OPERATION_BYTES)
        {
            counters.count(Counter::OutstandingLimit);
            // The oldest of this connection makes room; if it has none, the new one is not recorded.
            while self.free.is_empty() {
                // Over UDP those go first that are answered and only wait for copies of their reply.
                let talk = self.talk(slot);
                if talk.transport == Transport::Udp
                    && let Some(evicted) = talk.pairs.evict_answered(0)
                {
                    if evicted < WRITTEN {
                        self.emit(slot, evicted, counters);
                    }
                    continue;
                }
                match self.talk(slot).pairs.expire(i64::MAX) {
                    Some(Expired::Reply(_)) => {
                        // It would need room itself.
                        counters.count(Counter::Replies);
                        counters.count(Counter::RepliesWithoutCall);
                    }
                    Some(call) => self.on_expired(slot, call, counters),
                    None => {
                        let evicted = self.talk(slot).pairs.evict_answered(0)?;
                        if evicted < WRITTEN {
                            self.emit(slot, evicted, counters);
                        }
                    }
                }
            }
            return self.free.pop();
        }
        self.operations.push(Operation::default());
        Some((self.operations.len() - 1) as Note)
    }

    fn on_expired(
        &mut self,
        slot: usize,
        expired: Expired<Note, Box<Early>>,
        counters: &mut Counters,
    ) {
        match expired {
            Expired::Call(note) => {
                let end = if self.ending {
                    Counter::CallsOutstanding
                } else {
                    Counter::CallsExpired
                };
                counters.count(end);
                self.operations[note as usize].row.reply_missing = true;
                self.emit(slot, note, counters);
                self.forget_ended(slot, counters);
            }
            Expired::Reply(early) => self.read_early(slot, &early, None, counters),
        }
    }

    /// After a call was answered or given up: forgets the oldest of those, which are one too many at most.
    #[inline]
    fn forget_ended(&mut self, slot: usize, counters: &mut Counters) {
        let answered_max = self.config.answered_max;
        if let Some(evicted) = self.talk(slot).pairs.evict_answered(answered_max)
            && evicted < WRITTEN
        {
            self.emit(slot, evicted, counters);
        }
    }

    #[inline]
    fn expire(&mut self, slot: usize, deadline_ns: i64, counters: &mut Counters) {
        while let Some(expired) = self.talk(slot).pairs.expire(deadline_ns) {
            // A call whose message still passes is not given up: its slot is in use.
            self.on_expired(slot, expired, counters);
        }
    }

    /// The note that a call has once its rows are out.
    #[inline]
    fn called(&self, note: Note) -> Note {
        if note >= WRITTEN {
            return note;
        }
        let Operation { row, procedure, .. } = &self.operations[note as usize];
        written(row.program_number, row.version, *procedure)
    }

    /// Reads a reply that had waited, now that its call is there (or never will be).
    fn read_early(
        &mut self,
        slot: usize,
        early: &Early,
        operation: Option<Note>,
        counters: &mut Counters,
    ) {
        let chunks: Vec<Chunk<'_>> = early.ranges.iter().map(Range::chunk).collect();
        let pieces: Vec<Piece<'_>> = chunks.iter().map(Chunk::piece).collect();
        let mut side = Side {
            all: self,
            slot,
            direction: early.direction,
        };
        let mut cursor = Cursor::new(&pieces);
        let Header {
            xid: Some(xid),
            body: Body::Reply(reply),
        } = Header::decode(&mut cursor)
        else {
            return;
        };
        let want = match operation {
            Some(note) => side.on_answer(
                &early.message,
                xid,
                note,
                &reply,
                &mut cursor,
                true,
                counters,
            ),
            None => side.on_orphan(&early.message, xid, &reply, counters),
        };
        let passing = side.all.talk(slot).passing[early.direction].as_ref();
        if let Some(note) = passing.and_then(|passing| passing.operation) {
            side.all.operations[note as usize].row.duplicate_replies += early.duplicates;
        }
        record::finish(want, &early.message, &chunks, &mut side, counters);
    }

    /// Writes the rows of an operation and frees its slot.
    fn emit(&mut self, slot: usize, note: Note, counters: &mut Counters) {
        let early = self.operations[note as usize].early.take();
        // A message of it that still passes must not reach the slot's next user.
        for passing in self.talk(slot).passing.iter_mut().flatten() {
            passing.operation.take_if(|passing| *passing == note);
        }
        match self.operations[note as usize].kind {
            Kind::Compound | Kind::Callback => self.emit_compound(slot, note, counters),
            _ => self.emit_one(slot, note, counters),
        }
        if let Some(early) = early {
            self.read_early(slot, &early, None, counters);
        }
    }

    fn emit_one(&mut self, slot: usize, note: Note, counters: &mut Counters) {
        let operation = &mut self.operations[note as usize];
        note_cut(&mut operation.row);
        let row = &operation.row;
        self.sink.row(RowRef::Operations(row));
        if self.wants_details {
            operation.details.write(row.operation_id, &mut self.sink);
        }
        if let Some(handle) = operation.handle.take()
            && let (Some(file_id), Some(server)) = (row.file_id, row.server_address)
        {
            let own = !matches!(operation.kind, Kind::Nfs3(procedure) if details::replies_about_another(procedure));
            let fact = Fact {
                operation_id: row.operation_id,
                time_ns: row.reply_end_ns.or(row.call_end_ns),
                server,
                handle: handle.bytes(),
                file_id,
                parent: None,
                name: None,
                file_type: if own { row.file_type } else { Word::None },
                size: row.file_size.filter(|_| own),
            };
            self.fact(slot, &fact, counters);
        }
        self.clear(note);
    }

    fn clear(&mut self, note: Note) {
        let operation = &mut self.operations[note as usize];
        operation.row.clear();
        operation.details.clear();
        (operation.kind, operation.call_done, operation.reply_done) = (Kind::Opaque, false, false);
        (operation.handle, operation.identity) = (None, None);
        (operation.op, operation.results) = (None, None);
        self.free.push(note);
    }

    /// Reports a fact of a file unless this connection has told it before.
    fn fact(&mut self, slot: usize, fact: &Fact<'_>, counters: &mut Counters) {
        if !self.wants_files || !self.is_new_fact(slot, fact.key(), counters) {
            return;
        }
        let row = &mut self.scratch.file;
        row.clear();
        row.file_id = fact.file_id;
        row.operation_id = fact.operation_id;
        row.time_ns = fact.time_ns;
        row.server_address = Some(fact.server);
        row.handle.set(fact.handle);
        row.parent_file_id = fact.parent;
        if let Some(name) = fact.name {
            row.name.set(name);
        }
        row.file_type = fact.file_type;
        row.file_size = fact.size;
        self.sink.row(RowRef::Files(row));
        if fact.name.is_some() {
            // It also told that the file is there.
            self.is_new_fact(slot, bare_key(fact.file_id), counters);
        }
    }

    fn is_new_fact(&mut self, slot: usize, key: u64, counters: &mut Counters) -> bool {
        let facts_max = self.config.facts_max;
        let (talks, budget) = (&mut self.talks, &self.budget);
        let facts = &mut talks[slot].as_mut().expect("a slot in use").facts;
        if facts.contains(&key) {
            return false;
        }
        if facts.len() >= facts_max || !budget.draw(FACT_BYTES) {
            counters.count(Counter::FactsLimit);
            budget.give_back(facts.len() * FACT_BYTES);
            facts.clear();
            if !budget.draw(FACT_BYTES) {
                return true;
            }
        }
        facts.insert(key);
        true
    }
}

/// A fact of a file.
struct Fact<'a> {
    operation_id: i64,
    time_ns: Option<i64>,
    server: IpAddr,
    handle: &'a [u8],
    file_id: i64,
    parent: Option<i64>,
    name: Option<&'a [u8]>,
    file_type: Word,
    size: Option<i64>,
}

impl Fact<'_> {
    /// What makes it new: which file, and where it has which name. A size that changed is no new fact,
    /// else every WRITE were one.
    fn key(&self) -> u64 {
        let file = bare_key(self.file_id);
        let key = match self.name {
            Some(name) => XxHash3_64::oneshot_with_seed(file, name) ^ 1,
            None => file,
        };
        key ^ (self.parent.unwrap_or(0) as u64).rotate_left(17)
    }
}

/// What an operation and a known fact cost, to draw on the budget: two rows with a name each; an entry of a set.
const OPERATION_BYTES: usize = size_of::<Operation>() + 256;
const FACT_BYTES: usize = 16;
/// Lists kept for reuse, and how long one may be: few messages wait for their rest at once, and 1 MiB in
/// segments is 725 ranges. 6 MiB in all.
const SPARE_MAX: usize = 64;
const SPARE_RANGES_MAX: usize = 1024;
/// What a reply that waits for its call costs beside its bytes: its place in a table and a list of ranges.
const EARLY_BYTES: usize = 256;

impl<S: RecordSink> StreamSink for Operations<S> {
    fn on_open(&mut self, connection: usize, facts: &Connection) {
        if self.talks.len() <= connection {
            self.talks.resize_with(connection + 1, || None);
            self.listed.resize(connection + 1, false);
        }
        let mut record = self.config.record;
        let rule = self.config.decode_as.port(facts.transport(), &facts.ends());
        let is_forced = rule == Some(PortRule::Rpc);
        record.certain |= is_forced;
        record.any_program |= is_forced;
        self.talks[connection] = Some(Box::new(Talk {
            id: connection_id(facts),
            ends: facts.ends(),
            transport: facts.transport(),
            records: [(); 2].map(|()| Some(Box::new(Records::new(record, &self.budget)))),
            passing: [None, None],
            blocks: [None, None],
            pairs: Pairs::new(),
            caller: None,
            last_header: LastHeader::default(),
            program: Word::None,
            probe: None,
            rule,
            began_as_rpc: false,
            tls: None,
            resynchronised: 0,
            facts: HashSet::new(),
        }));
    }

    fn on_stream(
        &mut self,
        connection: usize,
        direction: usize,
        after_syn: bool,
        chunk: Chunk<'_>,
        counters: &mut Counters,
    ) {
        let talk = self.talk(connection);
        if talk.rule == Some(PortRule::None) {
            return self.leave_alone(connection, after_syn.then_some(chunk));
        }
        if talk.probe.is_some() && self.passes_tls(connection, direction, &chunk, counters) {
            return;
        }
        let before = counters.value(Counter::Resynchronised);
        self.with_records(
            connection,
            direction,
            counters,
            |records, side, counters| {
                records.on_stream(after_syn, chunk, side, counters);
            },
        );
        let found = counters.value(Counter::Resynchronised) - before;
        if found > 0 {
            self.talk(connection).resynchronised += found as i64;
            self.with_records(
                connection,
                1 - direction,
                counters,
                |records, side, counters| {
                    records.reconsider(side, counters);
                },
            );
        }
    }

    fn on_datagram(
        &mut self,
        connection: usize,
        direction: usize,
        chunks: &[Chunk<'_>],
        counters: &mut Counters,
    ) {
        let rule = self.talk(connection).rule;
        if rule == Some(PortRule::None) {
            return self.leave_alone(connection, chunks.first().copied());
        }
        let any_program = self.config.record.any_program || rule == Some(PortRule::Rpc);
        let mut side = Side {
            all: self,
            slot: connection,
            direction,
        };
        if record::on_datagram(chunks, any_program, &mut side, counters) {
            self.hold_early(connection, chunks);
        }
    }

    fn on_loss(
        &mut self,
        connection: usize,
        facts: &Connection,
        direction: usize,
        offset: i64,
        hole: Chunk<'_>,
    ) {
        let client = client_direction(facts, self.talk(connection).caller);
        let row = &mut self.scratch.loss;
        row.clear();
        row.connection_id = Some(connection_id(facts));
        row.direction = Some(if direction == client {
            "client_to_server"
        } else {
            "server_to_client"
        });
        row.time_ns = hole.descriptor().stamp_ns;
        row.first_byte = Some(offset);
        row.bytes = Some(hole.len() as i64);
        row.cause = Some(match hole.missing() {
            Some(Cause::SnapLength) => "snap_length",
            Some(Cause::GivenUp) => "given_up",
            _ => "not_seen",
        });
        row.input = Some(i32::from(hole.descriptor().input));
        self.sink.row(RowRef::Losses(row));
    }

    fn on_interval(
        &mut self,
        connection: usize,
        facts: &Connection,
        start_ns: i64,
        counts: &[FlowCounts; 2],
    ) {
        let interval_ns = self.config.flow.interval_ns;
        let talk = self.talk(connection);
        let client = client_direction(facts, talk.caller);
        let (program, resynchronised) = (talk.program, std::mem::take(&mut talk.resynchronised));
        let tls_seen = talk.tls.is_some();
        let (from_client, from_server) = (&counts[client], &counts[1 - client]);
        let row = &mut self.scratch.connection;
        row.clear();
        row.connection_id = connection_id(facts);
        if start_ns != i64::MIN {
            row.interval_start_ns = Some(start_ns);
            row.interval_ns = Some(interval_ns);
        }
        let (client_end, server_end) = (facts.ends()[client], facts.ends()[1 - client]);
        row.client_address = Some(client_end.address);
        row.server_address = Some(server_end.address);
        row.client_port = Some(i32::from(client_end.port));
        row.server_port = Some(i32::from(server_end.port));
        row.transport = Some(facts.transport().name());
        row.client_packets = from_client.packets as i64;
        row.client_bytes = from_client.bytes as i64;
        row.client_retransmitted_bytes = from_client.retransmitted_bytes as i64;
        row.client_out_of_order_packets = from_client.out_of_order_packets as i64;
        row.client_lost_bytes = from_client.lost_bytes as i64;
        row.server_packets = from_server.packets as i64;
        row.server_bytes = from_server.bytes as i64;
        row.server_retransmitted_bytes = from_server.retransmitted_bytes as i64;
        row.server_out_of_order_packets = from_server.out_of_order_packets as i64;
        row.server_lost_bytes = from_server.lost_bytes as i64;
        let least = from_client
            .rtt_min_ns
            .into_iter()
            .chain(from_server.rtt_min_ns)
            .min();
        row.rtt_min_ns = least.map(u64::cast_signed);
        let samples = from_client.rtt_samples + from_server.rtt_samples;
        let sum = from_client
            .rtt_sum_ns
            .saturating_add(from_server.rtt_sum_ns);
        row.rtt_ns = sum.checked_div(samples).map(u64::cast_signed);
        row.resynchronised = resynchronised;
        layers::note(facts.layers(), row);
        row.program = program;
        row.tls_seen = tls_seen;
        self.sink.row(RowRef::Connections(row));
    }

    fn on_close(&mut self, connection: usize, _facts: &Connection, counters: &mut Counters) {
        self.finish_records(connection, counters);
        self.expire(connection, i64::MAX, counters);
        while let Some(note) = self.talk(connection).pairs.evict_answered(0) {
            if note < WRITTEN {
                self.emit(connection, note, counters);
            }
        }
        if let Some(talk) = self.talks[connection].take() {
            self.budget.give_back(talk.facts.len() * FACT_BYTES);
            let is_rpc = talk.caller.is_some()
                || talk
                    .records
                    .iter()
                    .flatten()
                    .any(|records| records.is_rpc());
            counters.add(Counter::ConnectionsRpc, u64::from(is_rpc));
            match talk.rule {
                Some(PortRule::Rpc) => {
                    counters.count(Counter::ConnectionsForced);
                    counters.add(Counter::ConnectionsForcedInVain, u64::from(!is_rpc));
                }
                Some(PortRule::None) => {
                    counters.count(Counter::ConnectionsLeftAlone);
                    counters.add(Counter::ConnectionsLeftAloneRpc, talk.began_as_rpc.into());
                }
                None => {}
            }
        }
    }
}

impl<S: RecordSink> Operations<S> {
    /// Counts the TLS records of a connection that may go over to TLS; false until its handshake begins.
    #[cold]
    fn passes_tls(
        &mut self,
        connection: usize,
        direction: usize,
        chunk: &Chunk<'_>,
        counters: &mut Counters,
    ) -> bool {
        let talk = self.talk(connection);
        if talk.tls.is_none() {
            // File data may look like a handshake too, but does not lie between two records.
            let begins = tls::is_handshake(chunk.bytes())
                && talk.records[direction]
                    .as_ref()
                    .is_some_and(|records| records.is_between_records());
            // Whoever was refused goes on in the clear; an answer that was not seen may have been either.
            let refused = matches!(talk.probe, Some(Probe::Asked(key)) if matches!(talk.pairs.on_reply(key), OnReply::Duplicate(_)));
            if !begins || refused {
                return false;
            }
            // No RPC comes in the clear any more.
            self.finish_records(connection, counters);
            counters.count(Counter::ConnectionsTls);
        }
        let records = self.talk(connection).tls.get_or_insert_default();
        counters.add(Counter::TlsRecords, records[direction].on_stream(chunk));
        true
    }

    /// Bytes that are not read. `begins`: the first of a connection, or of a datagram.
    #[cold]
    fn leave_alone(&mut self, connection: usize, begins: Option<Chunk<'_>>) {
        let talk = self.talk(connection);
        let mark = match talk.transport {
            Transport::Tcp => RECORD_MARK,
            Transport::Udp => 0,
        };
        let message = begins.filter(|chunk| chunk.len() > mark);
        talk.began_as_rpc |= message.is_some_and(|chunk| record::begins_message(&chunk.from(mark)));
    }

    /// Keeps the bytes of a reply that found no call, if this datagram is one.
    fn hold_early(&mut self, connection: usize, chunks: &[Chunk<'_>]) {
        let early = self.early_key.take();
        let pairs = &mut self.talk(connection).pairs;
        if let Some(early) = early.and_then(|key| pairs.early_reply(key)) {
            early.ranges = chunks.iter().map(Chunk::hold).collect();
            self.note_holder(connection);
        }
    }
}

/// Whether the tap cannot have been so late that `later` was sent before `earlier`: by the stamps, and by the frames between, since
/// a late frame may be stamped when it comes.
fn is_before(earlier: &Message, later: &Message, flow: &lineside_flow::Config) -> bool {
    let stamps = earlier.first.stamp_ns.zip(later.first.stamp_ns);
    let frames = later.first.ordinal.saturating_sub(earlier.first.ordinal);
    frames > flow.late_segments
        && stamps
            .is_some_and(|(earlier, later)| later.saturating_sub(earlier) > flow.late_window_ns)
}

/// Ports at which RPC is served: a client's own may be smaller.
const SERVICES: [u16; 2] = [111, 2049];

/// The direction in which the client sends: who opened the connection, who calls, who is at no known service, or the
/// greater port.
fn client_direction(facts: &Connection, caller: Option<usize>) -> usize {
    let [one, other] = facts.ends();
    facts.initiator().or(caller).unwrap_or_else(|| {
        let served =
            |end: lineside_flow::Endpoint| (SERVICES.contains(&end.port), Reverse(end.port));
        usize::from(served(one) > served(other))
    })
}

/// One direction of one connection, as the sink of its messages.
struct Side<'a, S> {
    all: &'a mut Operations<S>,
    slot: usize,
    direction: usize,
}

impl<S: RecordSink> MessageSink for Side<'_, S> {
    fn on_head(
        &mut self,
        message: &Message,
        head: &[Piece<'_>],
        done: bool,
        counters: &mut Counters,
    ) -> Want {
        let mut cursor = Cursor::new(head);
        let bytes = cursor.at_hand();
        let talk = self.all.talk(self.slot);
        if talk.passing[self.direction].is_some() {
            return self.read_compound(message, cursor, done, counters);
        }
        if let Some((xid, rest)) = bytes.split_first_chunk()
            && rest.first_chunk() == Some(&SUCCESS)
        {
            cursor.skip(4 + SUCCESS.len());
            let xid = u32::from_be_bytes(*xid);
            let reply = ReplyHeader::Accepted(AcceptedReply {
                verifier: Auth::none(),
                status: AcceptStatus::Success,
            });
            return self.on_reply(message, xid, &reply, &mut cursor, done, counters);
        }
        if let Some((xid, &caller, procedure, len)) = talk.last_header.again(bytes) {
            cursor.skip(len);
            return self.on_call(
                message,
                xid,
                &caller,
                procedure,
                &mut cursor,
                done,
                counters,
            );
        }
        let Header { xid, body } = Header::decode(&mut cursor);
        if cursor.fault() == Some(Fault::End) && !done {
            return Want::More(cursor.needed());
        }
        match (xid, body) {
            (Some(xid), Body::Call(call)) => {
                let caller = Caller::new(&call, &self.all.config.decode_as);
                let (Some(caller), Some(rpc_version), Some(procedure)) =
                    (caller, call.rpc_version, call.procedure)
                else {
                    // Too little of the header survived to know what was called.
                    self.pass(None, true, xid);
                    return Want::End;
                };
                if rpc_version != RPC_VERSION {
                    return Want::Refuse;
                }
                if call.credential.flavor == Some(Flavor::SYS)
                    && cursor.fault().is_none()
                    && let Some(header) = bytes.get(..cursor.position())
                {
                    self.all
                        .talk(self.slot)
                        .last_header
                        .remember(header, caller);
                }
                self.on_call(
                    message,
                    xid,
                    &caller,
                    procedure,
                    &mut cursor,
                    done,
                    counters,
                )
            }
            (Some(xid), Body::Reply(reply)) => {
                let asked = Some(Probe::Asked(pairs::key(1 - self.direction, xid)));
                if reply.starts_tls().unwrap_or(talk.probe == asked) {
                    talk.probe = Some(Probe::Agreed);
                }
                self.on_reply(message, xid, &reply, &mut cursor, done, counters)
            }
            // The words that would tell were seen and are neither: the walk has gone wrong.
            _ if cursor.fault() == Some(Fault::Malformed) => Want::Refuse,
            _ => {
                self.pass(None, false, 0);
                Want::End
            }
        }
    }

    fn on_data(&mut self, chunk: Chunk<'_>, _counters: &mut Counters) {
        let Operations {
            talks,
            operations,
            sink,
            scratch,
            deferred,
            ..
        } = &mut *self.all;
        let Some(talk) = &mut talks[self.slot] else {
            return;
        };
        let Some(passing) = &mut talk.passing[self.direction] else {
            return;
        };
        let len = (chunk.len() as u64).min(passing.data_left);
        if len == 0 {
            return;
        }
        passing.data_left -= len;
        passing.data_missing |= chunk.missing().is_some();
        if passing.has_sums
            && passing.operation.is_some()
            && let (Some(blocks), Some(note)) = (&mut talk.blocks[self.direction], passing.data_of)
        {
            let operation_id = operations[note as usize].row.operation_id;
            blocks.on_data(chunk.part(0, len as usize), |run| match deferred {
                Some(deferred) => deferred.note(operation_id, &run),
                None => {
                    let sums = &mut scratch.sums;
                    sums.clear();
                    run.sum(sums);
                    sink.row(RowRef::Checksums(ChecksumRun {
                        operation_id,
                        first_block: run.first,
                        sums,
                    }));
                }
            });
        }
    }

    fn on_end(&mut self, message: &Message, counters: &mut Counters) {
        let all = &mut *self.all;
        let talk = all.talks[self.slot].as_mut().expect("a slot in use");
        let Some(mut passing) = talk.passing[self.direction].take() else {
            return;
        };
        if passing.data_of.is_some() {
            let blocks = talk.blocks[self.direction].as_deref();
            end_data(&mut passing, blocks, &mut all.operations, counters);
        }
        let Some(note) = passing.operation else {
            return;
        };
        let operation = &mut all.operations[note as usize];
        let row = &mut operation.row;
        let last = message.ended.then_some(&message.last);
        let (end_ns, frame, input) = (
            last.and_then(|last| last.stamp_ns),
            last.map(|last| last.number as i64),
            last.map(|last| i32::from(last.input)),
        );
        let bytes = (!message.cut).then_some(message.len as i64);
        if passing.is_call {
            (
                row.call_end_ns,
                row.call_frame,
                row.call_input,
                row.call_bytes,
            ) = (end_ns, frame, input, bytes);
            operation.call_done = true;
        } else {
            (
                row.reply_end_ns,
                row.reply_frame,
                row.reply_input,
                row.reply_bytes,
            ) = (end_ns, frame, input, bytes);
            operation.reply_done = true;
        }
        if let Some(early) = operation.early.take_if(|_| passing.is_call) {
            return all.read_early(self.slot, &early, Some(note), counters);
        }
        if operation.call_done && operation.reply_done {
            let caller = if passing.is_call {
                self.direction
            } else {
                1 - self.direction
            };
            let key = pairs::key(caller, passing.xid);
            self.answered(key, note, message, counters);
        }
    }

    fn spare(&mut self) -> Vec<Range> {
        self.all.spare.pop().unwrap_or_default()
    }

    fn recycle(&mut self, mut ranges: Vec<Range>) {
        if self.all.spare.len() < SPARE_MAX && ranges.capacity() <= SPARE_RANGES_MAX {
            ranges.clear();
            self.all.spare.push(ranges);
        }
    }

    fn agrees(&mut self, xid: u32, is_call: bool) -> bool {
        let other = 1 - self.direction;
        let talk = self.all.talk(self.slot);
        if is_call {
            talk.pairs.is_early(pairs::key(1 - other, xid)) || talk.has_candidate(other, xid, false)
        } else {
            talk.pairs.is_outstanding(pairs::key(other, xid))
                || talk.has_candidate(other, xid, true)
        }
    }
}

impl<S: RecordSink> Side<'_, S> {
    fn pass(&mut self, operation: Option<Note>, is_call: bool, xid: u32) {
        let direction = self.direction;
        self.all.talk(self.slot).passing[direction] = Some(Passing {
            operation,
            is_call,
            xid,
            compound: None,
            data_of: None,
            data_left: 0,
            data_missing: false,
            has_sums: false,
        });
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "a message, what it asks for, and how far it has come"
    )]
    fn on_call(
        &mut self,
        message: &Message,
        xid: u32,
        caller: &Caller,
        procedure: u32,
        cursor: &mut Cursor<'_>,
        done: bool,
        counters: &mut Counters,
    ) -> Want {
        let Caller {
            program,
            version,
            meant,
            is_wrapped,
            ..
        } = *caller;
        let named = Kind::of(meant, version, procedure);
        let kind = match caller.is_readable {
            true => named,
            false => Kind::Opaque,
        };
        if is_wrapped {
            unwrap(cursor);
        }
        let is_compound = matches!(kind, Kind::Compound | Kind::Callback);
        let in_parts = is_compound || kind == Kind::Nfs3(v3::Procedure::Write);
        if !done && kind != Kind::Opaque && !in_parts {
            return Want::Whole;
        }
        // Decoded to where it stays: it is large, and a move costs as much as most of its fields.
        let arguments = match kind {
            Kind::Nfs3(procedure) => v3::Call::decode(procedure, cursor),
            _ => v3::Call::Null(()),
        };
        if in_parts && cursor.fault() == Some(Fault::End) && !done {
            return Want::More(cursor.needed());
        }
        if is_compound && let Some(need) = compound::header_needs(kind, true, *cursor, done) {
            return Want::More(need);
        }
        if caller.asks_tls {
            let key = pairs::key(self.direction, xid);
            // The answer may have come first, where the tap was late.
            self.all
                .talk(self.slot)
                .probe
                .get_or_insert(Probe::Asked(key));
        }
        let has_identity = is_compound && !is_wrapped;
        if has_identity && !done && cursor.remaining() < HANDLE_MAX {
            // Whether it is the same call as one that waits takes more of it.
            let key = pairs::key(self.direction, xid);
            if self.all.talk(self.slot).pairs.is_outstanding(key) {
                return Want::More(cursor.position() + HANDLE_MAX);
            }
        }
        let identity = match has_identity {
            true => compound::identity(*cursor),
            false => None,
        };
        let called = Called {
            program,
            version,
            procedure,
            identity: identity.as_ref(),
        };
        let Some(note) = self.take_up(message, xid, &called, counters) else {
            self.pass(None, true, xid);
            return Want::End;
        };
        self.pass(Some(note), true, xid);
        let server = self.server();
        let all = &mut *self.all;
        let operation = &mut all.operations[note as usize];
        (operation.kind, operation.procedure) = (kind, procedure);
        if has_identity {
            operation.identity = identity;
        }
        operation.is_wrapped = is_wrapped;
        let row = &mut operation.row;
        row.program = caller.program_word;
        row.operation = named.word(meant, version, procedure);
        let talk = all.talks[self.slot].as_mut().expect("a slot in use");
        if talk.program == Word::None {
            talk.program = row.program;
        }
        row.auth_flavor = caller.auth_flavor;
        [row.user_id, row.group_id] = caller.ids;
        counters.add(Counter::CallsDecodedAs, caller.is_decoded_as.into());
        if is_compound {
            return self.begin_compound(message, note, *cursor, done, counters);
        }
        let mut want = Want::End;
        let mut handle = None;
        match kind {
            Kind::Nfs3(_) => {
                let arguments = &arguments;
                handle = arguments.file().map(|handle| handle.view());
                row.file_id = handle.map(|handle| file_id_of(server, &handle));
                row.file2_id = arguments.file2().map(|handle| file_id_of(server, &handle));
                details::set_text(&mut row.name, arguments.name().as_deref());
                if matches!(arguments, v3::Call::Rename(_)) {
                    details::set_text(&mut row.name2, arguments.name2().as_deref());
                }
                row.offset = arguments.offset().map(u64::cast_signed);
                row.count = arguments
                    .count()
                    .filter(|_| details::moves_data(arguments))
                    .map(i64::from);
                let details = &mut operation.details;
                details.has_nfs |= details::of_call(arguments, &mut details.nfs, counters);
                if let v3::Call::Write(write) = arguments
                    && let Some(len) = write.data_len
                {
                    want = all_from(cursor);
                    let sums_from = all.sums_from(write.offset, len, counters);
                    all.talk(self.slot)
                        .expect_data(self.direction, note, len, sums_from);
                }
            }
            Kind::Side(procedure) => {
                let mut told = Summary::default();
                procedure.call(cursor, &mut told);
                handle = told.file;
                row.file_id = handle.map(|handle| file_id_of(server, &handle));
                row.file2_id = told.file2.map(|handle| file_id_of(server, &handle));
                let details = &mut operation.details;
                services::of_call(procedure, &told, row, details, counters);
                if let Some(len) = told.data_len {
                    want = all_from(cursor);
                    let sums_from = all.sums_from(told.offset, len, counters);
                    all.talk(self.slot)
                        .expect_data(self.direction, note, len, sums_from);
                }
            }
            Kind::Opaque | Kind::Compound | Kind::Callback => {}
        }
        let operation = &mut all.operations[note as usize];
        operation.row.call_incomplete = cursor.fault().is_some();
        if cursor.fault() == Some(Fault::Malformed) {
            counters.count(Counter::RecordsMalformed);
        }
        // The handle is kept until the reply tells the type, if this connection has not told the file yet.
        if all.wants_files
            && let (Some(handle), Some(file)) = (handle, operation.row.file_id)
        {
            let known = all.talk(self.slot).facts.contains(&bare_key(file));
            if !known {
                all.operations[note as usize].handle = Some(HandleBytes::new(&handle));
            }
        }
        want
    }

    /// The slot of a new call; `None` if it is the copy of one that is known.
    fn take_up(
        &mut self,
        message: &Message,
        xid: u32,
        called: &Called<'_>,
        counters: &mut Counters,
    ) -> Option<Note> {
        let Called {
            program, version, ..
        } = *called;
        let (slot, direction, now) = (self.slot, self.direction, self.all.now);
        if message.first_offset >> PLACE_BITS != 0 {
            counters.count(Counter::PlacesLimit);
            return None;
        }
        let deadline = now.saturating_sub(self.all.config.reply_timeout_ns);
        self.all.expire(slot, deadline, counters);
        let numbers = (Some(i64::from(program)), i32::try_from(version).ok());
        let (mut early, mut repeat, mut is_new) = (None, false, true);
        match self
            .all
            .talk(slot)
            .pairs
            .on_call(pairs::key(direction, xid), message.first.ordinal)
        {
            OnCall::New => {}
            // It had another call, which was not seen.
            OnCall::Answers(reply) if is_before(&reply.message, message, &self.all.config.flow) => {
                self.all.read_early(slot, &reply, None, counters);
            }
            OnCall::Answers(reply) => early = Some(reply),
            OnCall::Again(note) => {
                let operation = &mut self.all.operations[note as usize];
                let row = &mut operation.row;
                let identities = operation.identity.as_ref().zip(called.identity);
                if (row.program_number, row.version) == numbers
                    && operation.procedure == called.procedure
                    && identities.is_none_or(|(before, now)| compound::is_alike(before, now))
                {
                    row.retransmissions += 1;
                    counters.count(Counter::CallsRetransmitted);
                    return None;
                }
                // The xid was used again for something else: the first call will not be answered now.
                is_new = false;
                self.all.on_expired(slot, Expired::Call(note), counters);
            }
            OnCall::Repeat(note) => {
                // Otherwise the xid was used again for something else.
                repeat = self.all.called(note) == written(numbers.0, numbers.1, called.procedure);
                counters.add(Counter::CallsRepeated, repeat.into());
                is_new = false;
            }
            OnCall::Late(note) => {
                counters.count(Counter::CallsRetransmitted);
                if note < WRITTEN {
                    self.all.operations[note as usize].row.retransmissions += 1;
                }
                return None;
            }
        }
        let note = self.all.open_operation(slot, counters)?;
        counters.count(Counter::RpcCalls);
        let Operations {
            talks, operations, ..
        } = &mut *self.all;
        let talk = talks[slot].as_mut().expect("a slot in use");
        let key = pairs::key(direction, xid);
        let replaced = match is_new {
            true => {
                talk.pairs.outstanding(key, note, now);
                None
            }
            false => talk.pairs.replace(key, note, now),
        };
        talk.caller.get_or_insert(direction);
        let operation = &mut operations[note as usize];
        operation.early = early;
        let row = &mut operation.row;
        begin_row(row, message, talk, direction, xid);
        row.call_time_ns = message.first.stamp_ns;
        (row.program_number, row.version) = numbers;
        row.repeat = repeat;
        if let Some(replaced) = replaced.filter(|&replaced| replaced < WRITTEN) {
            self.all.emit(slot, replaced, counters);
        }
        Some(note)
    }

    fn on_reply(
        &mut self,
        message: &Message,
        xid: u32,
        reply: &ReplyHeader<'_>,
        cursor: &mut Cursor<'_>,
        done: bool,
        counters: &mut Counters,
    ) -> Want {
        let (slot, direction) = (self.slot, self.direction);
        let key = pairs::key(1 - direction, xid);
        let mut found = self.all.talk(slot).pairs.on_reply(key);
        if found == OnReply::Unknown && self.all.talk(slot).has_candidate(1 - direction, xid, true)
        {
            // The call is there, but it was not certain to be one: now it is.
            self.all
                .with_records(slot, 1 - direction, counters, |records, side, counters| {
                    records.on_agreement(xid, true, side, counters);
                });
            found = self.all.talk(slot).pairs.on_reply(key);
        }
        match found {
            OnReply::Answers(note) => {
                self.on_answer(message, xid, note, reply, cursor, done, counters)
            }
            OnReply::Duplicate(note) => {
                counters.count(Counter::Replies);
                counters.count(Counter::RepliesDuplicate);
                if note < WRITTEN {
                    self.all.operations[note as usize].row.duplicate_replies += 1;
                }
                self.pass(None, false, xid);
                Want::End
            }
            OnReply::Unknown | OnReply::TooLate => {
                if found == OnReply::TooLate {
                    counters.count(Counter::ReplyLimit);
                }
                let (now, timeout) = (self.all.now, self.all.config.reply_timeout_ns);
                self.all.expire(slot, now.saturating_sub(timeout), counters);
                let cost = size_of::<Early>() + EARLY_BYTES + message.len;
                let talk = self.all.talk(slot);
                talk.caller.get_or_insert(1 - direction);
                if talk.transport == Transport::Udp
                    && !talk.pairs.is_early(key)
                    && let Some(lease) = self.all.budget.lease(cost)
                {
                    // Its call may be late: over TCP the flow engine has waited for it already.
                    let early = Early {
                        _lease: lease,
                        message: *message,
                        ranges: Vec::new(),
                        direction,
                        duplicates: 0,
                    };
                    self.all.talk(slot).pairs.early(key, Box::new(early), now);
                    self.all.early_key = Some(key);
                    self.pass(None, false, xid);
                    return Want::End;
                }
                if let Some(early) = self.all.talk(slot).pairs.early_reply(key) {
                    early.duplicates += 1;
                    counters.count(Counter::Replies);
                    counters.count(Counter::RepliesDuplicate);
                    self.pass(None, false, xid);
                    return Want::End;
                }
                self.on_orphan(message, xid, reply, counters)
            }
        }
    }

    /// A reply whose call was never seen: what it answered is not known, so only the header is read.
    fn on_orphan(
        &mut self,
        message: &Message,
        xid: u32,
        reply: &ReplyHeader<'_>,
        counters: &mut Counters,
    ) -> Want {
        let (slot, direction) = (self.slot, self.direction);
        if let Some(records) = &mut self.all.talk(slot).records[1 - direction] {
            records.revive();
        }
        counters.count(Counter::Replies);
        counters.count(Counter::RepliesWithoutCall);
        if message.first_offset >> PLACE_BITS != 0 {
            counters.count(Counter::PlacesLimit);
            self.pass(None, false, xid);
            return Want::End;
        }
        let Some(note) = self.all.open_operation(slot, counters) else {
            self.pass(None, false, xid);
            return Want::End;
        };
        let Operations {
            talks, operations, ..
        } = &mut *self.all;
        let talk = talks[slot].as_ref().expect("a slot in use");
        let operation = &mut operations[note as usize];
        operation.call_done = true;
        let row = &mut operation.row;
        begin_row(row, message, talk, 1 - direction, xid);
        row.call_missing = true;
        row.reply_time_ns = message.first.stamp_ns;
        row.rpc_status = rpc_status(reply);
        self.pass(Some(note), false, xid);
        Want::End
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "a message, what it answers, and how far it has come"
    )]
    fn on_answer(
        &mut self,
        message: &Message,
        xid: u32,
        note: Note,
        reply: &ReplyHeader<'_>,
        cursor: &mut Cursor<'_>,
        done: bool,
        counters: &mut Counters,
    ) -> Want {
        let (slot, direction, server) = (self.slot, self.direction, self.server_of_reply());
        let kind = self.all.operations[note as usize].kind;
        let success = reply.is_success();
        let mut want = Want::End;
        let is_compound = success && matches!(kind, Kind::Compound | Kind::Callback);
        let in_parts = is_compound || kind == Kind::Nfs3(v3::Procedure::Read);
        if !done && success && kind != Kind::Opaque && !in_parts {
            return Want::Whole;
        }
        if success && self.all.operations[note as usize].is_wrapped {
            unwrap(cursor);
        }
        // Decoded to where it stays, like a call's arguments.
        let results = match kind {
            Kind::Nfs3(procedure) if success => v3::Reply::decode(procedure, cursor),
            _ => v3::Reply::Null(()),
        };
        if in_parts && success && cursor.fault() == Some(Fault::End) && !done {
            return Want::More(cursor.needed());
        }
        if is_compound && let Some(need) = compound::header_needs(kind, false, *cursor, done) {
            return Want::More(need);
        }
        let results = &results;
        self.pass(Some(note), false, xid);
        counters.count(Counter::Replies);
        let all = &mut *self.all;
        let operation = &mut all.operations[note as usize];
        let row = &mut operation.row;
        row.reply_time_ns = message.first.stamp_ns;
        row.rpc_status = rpc_status(reply);
        if is_compound {
            return self.answer_compound(message, note, *cursor, done, counters);
        }
        let mut named = None;
        match kind {
            Kind::Nfs3(_) if success => {
                row.status = results.status().map_or(Word::None, |status| {
                    details::word(v3::status_name(status), status)
                });
                row.transferred = results.transferred().map(i64::from);
                let attributes = results.attributes();
                if let Some(attributes) = &attributes {
                    let (file_type, size) = attributes.with(|seen| (seen.file_type, seen.size));
                    row.file_size = size.map(u64::cast_signed);
                    row.file_type = file_type.map_or(Word::None, details::file_type);
                }
                if let Some(object) = results.object() {
                    row.result_file_id = Some(file_id_of(server, &object));
                    named = Some(object.view());
                }
                let details = &mut operation.details;
                details.has_nfs |=
                    details::of_reply(results, attributes.as_ref(), &mut details.nfs, counters);
                if let v3::Reply::Read(outcome) = results
                    && let Some(len) = outcome.ok().and_then(|ok| ok.data_len)
                {
                    want = all_from(cursor);
                    let offset = row.offset.map(i64::cast_unsigned);
                    let sums_from = all.sums_from(offset, len, counters);
                    let talk = all.talks[slot].as_mut().expect("a slot in use");
                    talk.expect_data(direction, note, len, sums_from);
                }
            }
            Kind::Side(procedure) if success => {
                let mut told = Summary::default();
                procedure.reply(cursor, &mut told);
                if let Some(object) = told.object {
                    row.result_file_id = Some(file_id_of(server, &object));
                    named = Some(object);
                }
                let details = &mut operation.details;
                services::of_reply(procedure, &told, row, details, counters);
                if let Some(len) = told.data_len {
                    want = all_from(cursor);
                    let offset = row.offset.map(i64::cast_unsigned);
                    let sums_from = all.sums_from(offset, len, counters);
                    let talk = all.talks[slot].as_mut().expect("a slot in use");
                    talk.expect_data(direction, note, len, sums_from);
                }
            }
            _ => {}
        }
        let operation = &mut all.operations[note as usize];
        operation.row.reply_incomplete = cursor.fault().is_some();
        if cursor.fault() == Some(Fault::Malformed) {
            counters.count(Counter::RecordsMalformed);
        }
        if all.wants_files {
            let (row, time_ns) = (&mut operation.row, message.last.stamp_ns);
            let (operation_id, parent) = (row.operation_id, row.file_id);
            if let (Some(handle), Some(file)) = (named, row.result_file_id) {
                let mut copy = None;
                let name = std::mem::take(&mut row.name);
                let (file_type, size) = (row.file_type, row.file_size);
                let fact = Fact {
                    operation_id,
                    time_ns,
                    server,
                    handle: handle_bytes(&handle, &mut copy),
                    file_id: file,
                    parent,
                    name: name.bytes(),
                    file_type,
                    size,
                };
                all.fact(slot, &fact, counters);
                all.operations[note as usize].row.name = name;
            }
            if let v3::Reply::ReadDirPlus(outcome) = results
                && let Some(list) = outcome.ok()
            {
                for entry in list.entries.iter() {
                    let (Some(handle), Some(entry_name)) = (entry.handle.value(), entry.name)
                    else {
                        continue;
                    };
                    if entry_name.len() <= 2
                        && entry_name.slices().flatten().all(|&byte| byte == b'.')
                    {
                        // The directory itself and the one above it: names that lead in circles.
                        continue;
                    }
                    let mut copy = None;
                    let handle = handle_bytes(&handle, &mut copy);
                    let mut scratch = std::mem::take(&mut all.scratch.name);
                    let name = match entry_name.contiguous() {
                        Some(bytes) => bytes,
                        None => {
                            scratch.clear();
                            entry_name.copy_to(&mut scratch);
                            &scratch
                        }
                    };
                    let (file_type, size) = match entry.attributes {
                        Optional::Present(attributes) => {
                            attributes.with(|seen| (seen.file_type, seen.size))
                        }
                        Optional::Unread | Optional::Absent => (None, None),
                    };
                    let fact = Fact {
                        operation_id,
                        time_ns,
                        server,
                        handle,
                        file_id: file_id(server, handle),
                        parent,
                        name: Some(name),
                        file_type: file_type.map_or(Word::None, details::file_type),
                        size: size.map(u64::cast_signed),
                    };
                    all.fact(slot, &fact, counters);
                    all.scratch.name = scratch;
                }
            }
        }
        want
    }

    /// Both messages of an operation have ended.
    fn answered(&mut self, key: u64, note: Note, last: &Message, counters: &mut Counters) {
        let (slot, all) = (self.slot, &mut *self.all);
        if all.operations[note as usize].row.call_missing {
            return all.emit(slot, note, counters);
        }
        counters.count(Counter::CallsAnswered);
        // Where copies of the reply may follow, the row waits for them until it is evicted.
        let waits = all.talk(slot).transport == Transport::Udp
            || all.operations[note as usize].row.retransmissions > 0;
        let remembered = if waits { note } else { all.called(note) };
        all.talk(slot)
            .pairs
            .answered(key, remembered, last.first.ordinal);
        if !waits {
            all.emit(slot, note, counters);
        }
        all.forget_ended(slot, counters);
    }

    /// Who is called by a call in this direction.
    fn server(&mut self) -> IpAddr {
        let direction = self.direction;
        self.all.talk(self.slot).ends[1 - direction].address
    }

    /// Who sent a reply in this direction.
    fn server_of_reply(&mut self) -> IpAddr {
        let direction = self.direction;
        self.all.talk(self.slot).ends[direction].address
    }
}

/// What was cut takes more with it: where the header before data was, the data, and where a call does not say how its reply is to be
/// read, that reply.
#[inline]
fn note_cut(row: &mut OperationRow) {
    if row.call_incomplete || row.reply_incomplete {
        let has_status = row.program == Word::Known("nfs") && row.operation != Word::Known("NULL");
        row.reply_incomplete |= has_status
            && row.status == Word::None
            && row.rpc_status == Word::Known("SUCCESS")
            && !row.not_executed;
        let has_failed = matches!(row.status, Word::Known(status) if !status.ends_with("_OK"));
        row.data_incomplete |= match row.operation {
            Word::Known("WRITE") => row.call_incomplete,
            Word::Known("READ") => row.reply_incomplete && !has_failed,
            _ => false,
        };
    }
}

/// The data that passed is over.
fn end_data(
    passing: &mut Passing,
    blocks: Option<&Blocks>,
    operations: &mut [Operation],
    counters: &mut Counters,
) {
    let Some(note) = passing.data_of.take() else {
        return;
    };
    let is_missing = std::mem::take(&mut passing.data_missing);
    let left = std::mem::take(&mut passing.data_left);
    if std::mem::take(&mut passing.has_sums)
        && let Some(blocks) = blocks
    {
        let (summed, incomplete) = blocks.counts();
        counters.add(Counter::Blocks, summed);
        counters.add(Counter::BlocksIncomplete, incomplete);
    }
    // Its rows may be out, for want of room.
    if passing.operation.is_some() {
        operations[note as usize].row.data_incomplete |= is_missing || left > 0;
    }
}

/// What rpc_gss_integ_data has before the arguments or results (RFC 2203 section 5.3.2.2): its length, and the
/// sequence number. Its checksum, behind them, is passed over.
fn unwrap(cursor: &mut Cursor<'_>) {
    cursor.u64();
}

/// What follows is data to the end of the message.
fn all_from(cursor: &Cursor<'_>) -> Want {
    Want::Data {
        from: cursor.position(),
        len: record::ALL,
    }
}

/// The key of the fact that a file exists, without name and place: its id, which is a hash already.
fn bare_key(file: i64) -> u64 {
    file.cast_unsigned()
}

fn begin_row(row: &mut OperationRow, message: &Message, talk: &Talk, caller: usize, xid: u32) {
    let (client, server) = (&talk.ends[caller], &talk.ends[1 - caller]);
    let Descriptor { ordinal, .. } = message.first;
    row.operation_id = ((ordinal << PLACE_BITS) | message.first_offset as u64).cast_signed();
    row.rpc_id = row.operation_id;
    row.connection_id = talk.id;
    row.client_address = Some(client.address);
    row.server_address = Some(server.address);
    row.client_port = Some(i32::from(client.port));
    row.server_port = Some(i32::from(server.port));
    row.transport = Some(talk.transport.name());
    row.xid = Some(i64::from(xid));
}

fn rpc_status(reply: &ReplyHeader<'_>) -> Word {
    match reply {
        ReplyHeader::Accepted(accepted) if accepted.status == AcceptStatus::Success => {
            Word::Known("SUCCESS")
        }
        _ => reply.status_name().map_or(Word::None, Word::Known),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call of NFSv3 with AUTH_SYS up to its arguments, and two words of those.
    fn call() -> Vec<u8> {
        let credential = [7, 3, u32::from_be_bytes(*b"box\0"), 1000, 100, 0];
        let mut words = vec![9, 0, 2, 100_003, 3, 1, 1, 24];
        words.extend_from_slice(&credential);
        words.extend_from_slice(&[0, 0, 4, 5]);
        words.into_iter().flat_map(u32::to_be_bytes).collect()
    }

    #[test]
    fn only_xid_and_procedure_may_differ_from_the_last_header() {
        let bytes = call();
        let header_len = bytes.len() - 8;
        let pieces = [Piece::bytes(&bytes)];
        let mut cursor = Cursor::new(&pieces);
        let Body::Call(header) = Header::decode(&mut cursor).body else {
            panic!("a call");
        };
        assert_eq!(cursor.position(), header_len);
        let caller = Caller::new(&header, &DecodeAs::default()).expect("whole");
        assert_eq!(caller.ids, [Some(1000), Some(100)]);

        let mut last = LastHeader::default();
        assert!(last.again(&bytes).is_none());
        last.remember(&bytes[..header_len], caller);
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 1;
            let found = last.again(&other);
            let may_differ = at < 4 || (20..24).contains(&at) || at >= header_len;
            assert_eq!(found.is_some(), may_differ, "byte {at}");
            if let Some((xid, _, procedure, len)) = found {
                assert_eq!(xid.to_be_bytes(), other[..4]);
                assert_eq!(procedure.to_be_bytes(), other[20..24]);
                assert_eq!(len, header_len);
            }
        }
        assert!(last.again(&bytes[..header_len - 1]).is_none());
    }
}
