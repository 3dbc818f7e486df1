//! Rows against tshark's messages, for every capture at hand: nothing here holds a copied total.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::net::IpAddr;
use std::path::Path;

use lineside_account::Counter;
use lineside_nfs::{ancillary, mount, v3};
use lineside_rows::Text;
use lineside_testkit::oracle::Oracle;
use lineside_testkit::tshark::{self, Dissected};
use lineside_testkit::wrap::{self, Wrap};
use lineside_testkit::{capture, captures};
use twox_hash::XxHash3_64;

use crate::compounds;
use crate::services::{self, Services};
use crate::support::{Record, Trace, counters, example};

/// Captures in which tshark does not see everything, and why. There, what it sees must still be in
/// the trace and equal; of our own captures, what it does not see is compared with the oracle.
const TSHARK_MISSES: &[(&str, &str)] = &[
    (
        "rpc-records.pcap.zst",
        "it loses a connection for good when the head of a fragment is split between segments",
    ),
    (
        "rpc-segments.pcap",
        "it loses a connection for good when a record mark is split between segments",
    ),
    (
        "nfstrace__eth-ipv4-udp-nfsv3-dup-retransm.pcap",
        "it takes a datagram for RPC only if it is a call or the reply to one: frame 18 is a reply \
        before its call",
    ),
    (
        "nfstrace__eth-ipv6-tcp-nfsv3-bad_alloc.pcap.zst",
        "frames 36825 and 56362 have impossible TCP flags (SYN or RST with data), and it loses the \
        call behind each",
    ),
];

/// Captures with stamps after 2038, whose seconds tshark reads as a signed number; the pcap format
/// has them unsigned.
const STAMPS_UNSIGNED: &[&str] = &["packetbeat__nfs_v3.pcap"];

/// Replies of which somebody changed a byte and not the checksum, which is right in all others
/// of their direction: they are counted as damaged and not read, and tshark reads them.
const DAMAGED: &[(&str, u32)] = &[
    ("zeek__mount-unmount-bad-auth-flavor.pcap", 0x7917_fb85),
    ("zeek__mount-unmount-bad-status.pcap", 0x7917_fb85),
    ("zeek__nfs_fsinfo_bad_status.pcap", 4_146_038_748),
    ("zeek__nfs_getattr_bad_ftype.pcap", 4_179_593_180),
    ("zeek__nfs_write_bad_stable_how.pcap", 2_447_245_691),
];

/// The longest file handle of NFSv3 (RFC 1813 section 2.4); tshark shows longer ones, which servers
/// refuse.
const HANDLE_LEN_MAX: usize = 64;

#[test]
fn rows_equal_what_tshark_dissects() {
    if !tshark::available() {
        println!("SKIP: rows are not compared with tshark: there is none");
        return;
    }
    let mut failures = String::new();
    let mut seen = BTreeSet::new();
    for path in captures::all() {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let differences = compare(&path, &name, &mut seen);
        if !differences.is_empty() {
            let _ = writeln!(failures, "{name}: {} differences", differences.len());
            differences.iter().take(8).for_each(|difference| {
                let _ = writeln!(failures, "    {difference}");
            });
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
    services::assert_all_compared(&seen);
}

/// tshark knows the tunnels too, from the same numbers.
#[test]
fn tshark_sees_the_same_messages_in_tunnels() {
    if !tshark::available() {
        println!("SKIP: rows of tunnels are not compared with tshark: there is none");
        return;
    }
    let mut frames = capture::read(&example()).expect("the example");
    // tshark is slow.
    frames.truncate(600);
    let folder = tempfile::tempdir().expect("a folder");
    // A pseudowire without control word, whose address begins with 0, tshark takes for one with;
    // tags of 0x9200 and 0x9300 it does not read, and L2TPv3 only if an option names what it
    // carries.
    let known = |how: &Wrap| {
        !matches!(
            how,
            Wrap::MplsEthernet | Wrap::OldVlans | Wrap::L2tp3 | Wrap::L2tp3Udp
        )
    };
    for how in Wrap::ALL.into_iter().filter(known) {
        let path = folder.path().join(format!("{}.pcap", how.name()));
        std::fs::write(&path, capture::write(&wrap::wrap_all(&frames, how))).expect("written");
        let trace = Trace::of(&path, &[]);
        let messages = tshark::dissect(&path, true).unwrap_or_else(|error| panic!("{error}"));
        let calls = messages.iter().filter(|message| message.call).count() as u64;
        let counter = |counter: Counter| counters(&trace.manifest).value(counter);
        let seen = [Counter::RpcCalls, Counter::CallsRetransmitted].map(counter);
        assert_eq!(seen.iter().sum::<u64>(), calls, "calls, {how:?}");
        let replies = messages.len() as u64 - calls;
        assert_eq!(counter(Counter::Replies), replies, "replies, {how:?}");
    }
}

/// A connection and a transaction on it: client, server, their ports, transport, xid.
pub(crate) type Key = (String, i64, String, i64, bool, i64);

/// The differences between rows and messages of a capture. `seen`: columns of `services` that
/// were compared.
pub(crate) fn compare(path: &Path, name: &str, seen: &mut BTreeSet<&'static str>) -> Vec<String> {
    let frames = capture::read(path).ok();
    let cut = frames
        .iter()
        .flatten()
        .any(|frame| (frame.bytes.len() as u32) < frame.wire_len);
    // Public captures may have gaps, for which tshark would wait.
    let complete = !cut
        && !path
            .parent()
            .is_some_and(|folder| folder.ends_with("public"));
    let trace = Trace::of(path, &[]);
    trace.assert_identities(name);
    let mut messages = tshark::dissect(path, complete).unwrap_or_else(|error| panic!("{error}"));
    if STAMPS_UNSIGNED.contains(&name) {
        messages
            .iter_mut()
            .for_each(|message| message.stamp_ns += (1 << 32) * 1_000_000_000);
    }
    let is_damaged = |message: &Dissected| !message.call && DAMAGED.contains(&(name, message.xid));
    messages.retain(|message| !is_damaged(message));
    let mut differences = Vec::new();
    let misses = TSHARK_MISSES.iter().any(|(missed, _)| *missed == name);
    Comparison::new(&trace, &messages, cut).run(cut || misses, &mut differences);
    compounds::compare(&trace, &messages, cut || misses, &mut differences);
    if !cut {
        compare_others(&trace, &messages, seen, &mut differences);
    }
    if complete && let Some(frames) = frames {
        compare_with_oracle(&trace, &frames, &mut differences);
    }
    println!(
        "{name}: {} messages of tshark, {} rows",
        messages.iter().filter(|message| message.is_nfs3()).count(),
        trace.nfs3().count()
    );
    differences
}

/// The messages of all other programs: each has its row, of the right name, with the fields that
/// tshark shows of the programs beside NFS.
fn compare_others(
    trace: &Trace,
    messages: &[Dissected],
    seen: &mut BTreeSet<&'static str>,
    differences: &mut Vec<String>,
) {
    let mut services = Services::new(trace, seen);
    let mut rows: BTreeMap<(Key, i64), &Record> = BTreeMap::new();
    for row in &trace.operations {
        for column in ["call_frame", "reply_frame"] {
            if let Some(frame) = row.integer(column) {
                rows.entry((key_of_row(row), frame)).or_insert(row);
            }
        }
    }
    let other = |message: &&Dissected| {
        message.program.is_some() && !message.is_nfs3() && !message.repeated && !message.malformed
    };
    for message in messages.iter().filter(other) {
        let Some(key) = key_of_message(message) else {
            continue;
        };
        let Some(row) = rows.get(&(key, message.frame as i64)) else {
            differences.push(format!("no row for {message:?}"));
            continue;
        };
        let numbers = (message.program, message.version, message.procedure);
        let (Some(program), Some(version), Some(procedure)) = numbers else {
            continue;
        };
        let known = ancillary::Procedure::find(program, version, procedure);
        if let Some(known) = known
            && message.call
            && row.text("operation") != Some(known.name())
        {
            differences.push(format!("{} is not {}", describe(row), known.name()));
        }
        if message.call && row.integer("program_number") != Some(i64::from(program)) {
            differences.push(format!("{} is not of program {program}", describe(row)));
        }
        // A reply that tshark takes for one to another call is of another procedure, or has nothing
        // to compare.
        if let Some(known) = known
            && row.text("operation") == Some(known.name())
            && !row.is("call_incomplete")
            && !row.is("reply_incomplete")
        {
            services.compare(known, message, row, differences);
        }
    }
}

struct Comparison<'a> {
    rows: BTreeMap<Key, Vec<&'a Record>>,
    calls: BTreeMap<Key, Vec<&'a Dissected>>,
    replies: BTreeMap<Key, Vec<&'a Dissected>>,
    /// Frames are cut, so that some messages have no completing frame.
    cut: bool,
}

impl<'a> Comparison<'a> {
    fn new(trace: &'a Trace, messages: &'a [Dissected], cut: bool) -> Self {
        let mut this = Self {
            rows: BTreeMap::new(),
            calls: BTreeMap::new(),
            replies: BTreeMap::new(),
            cut,
        };
        for row in trace.nfs3() {
            this.rows.entry(key_of_row(row)).or_default().push(row);
        }
        for message in messages {
            let Some(key) = key_of_message(message) else {
                continue;
            };
            let map = if message.call {
                &mut this.calls
            } else {
                &mut this.replies
            };
            map.entry(key).or_default().push(message);
        }
        this
    }

    /// With `partial`, rows that tshark does not have are no difference.
    fn run(&self, partial: bool, differences: &mut Vec<String>) {
        for (key, rows) in &self.rows {
            let nothing = Vec::new();
            let calls = self.calls.get(key).unwrap_or(&nothing);
            let replies = self.replies.get(key).unwrap_or(&nothing);
            for row in rows {
                match self.find(calls, row.integer("call_frame"), row.is("call_missing")) {
                    Found::Message(call) => self.compare_call(row, call, differences),
                    Found::NotExpected => {}
                    Found::Missing if partial => {}
                    Found::Missing => {
                        differences.push(format!("tshark has no such call: {}", describe(row)))
                    }
                }
                match self.find(replies, row.integer("reply_frame"), row.is("reply_missing")) {
                    Found::Message(reply) => self.compare_reply(row, reply, differences),
                    Found::NotExpected => {}
                    Found::Missing if partial => {}
                    Found::Missing => {
                        differences.push(format!("tshark has no such reply: {}", describe(row)))
                    }
                }
            }
            let again: i64 = rows
                .iter()
                .filter_map(|row| row.integer("retransmissions"))
                .sum();
            let with_call = rows
                .iter()
                .filter(|row| self.whole(row, "call_missing", "call_frame"));
            let with_call = with_call.count() as i64;
            self.count(
                "calls",
                key,
                calls.len(),
                with_call + again,
                partial,
                differences,
            );
            let twice: i64 = rows
                .iter()
                .filter_map(|row| row.integer("duplicate_replies"))
                .sum();
            let with_reply = rows
                .iter()
                .filter(|row| self.whole(row, "reply_missing", "reply_frame"));
            let with_reply = with_reply.count() as i64;
            self.count(
                "replies",
                key,
                replies.len(),
                with_reply + twice,
                partial,
                differences,
            );
        }
        for (key, messages) in self.calls.iter().chain(&self.replies) {
            let unknown = messages.iter().find(|message| message.is_nfs3());
            if let Some(message) = unknown.filter(|_| !self.rows.contains_key(key)) {
                differences.push(format!("no row for {message:?}"));
            }
        }
    }

    fn count(
        &self,
        what: &str,
        key: &Key,
        tshark: usize,
        here: i64,
        partial: bool,
        differences: &mut Vec<String>,
    ) {
        let tshark = tshark as i64;
        if tshark != here && !(partial && tshark < here) {
            differences.push(format!(
                "{what} of {key:?}: tshark has {tshark}, the trace {here}"
            ));
        }
    }

    /// Whether tshark should have the message: it shows those that it saw whole, or that a snap
    /// length cut.
    fn whole(&self, row: &Record, missing: &str, frame: &str) -> bool {
        if self.cut {
            !row.is(missing)
        } else {
            row.integer(frame).is_some()
        }
    }

    /// The message that a row's frame completed.
    fn find(&self, messages: &[&'a Dissected], frame: Option<i64>, missing: bool) -> Found<'a> {
        match frame {
            Some(frame) => match messages
                .iter()
                .find(|message| message.frame as i64 == frame)
            {
                Some(message) => Found::Message(message),
                None => Found::Missing,
            },
            None if missing || !self.cut => Found::NotExpected,
            // A message of which the end was cut off has no completing frame here, but tshark shows
            // it.
            None => messages
                .first()
                .map_or(Found::Missing, |message| Found::Message(message)),
        }
    }

    fn compare_call(&self, row: &Record, call: &Dissected, differences: &mut Vec<String>) {
        let mut check = Check {
            row,
            call,
            strict: !self.cut && !call.malformed,
            differences,
        };
        check.integer(
            "call_end_ns",
            Some(call.stamp_ns).filter(|_| row.integer("call_frame").is_some()),
        );
        check.integer("program_number", call.program.map(i64::from));
        check.integer("version", call.version.map(i64::from));
        let Some((program, procedure)) = call.program.zip(call.procedure) else {
            return;
        };
        check.text("operation", Some(operation_name(program, procedure)));
        if call.malformed {
            return;
        }
        let server = call.destination.map(|end| end.ip());
        let id = |handle: Option<&Vec<u8>>| Some(file_id(server?, handle?));
        check.integer(
            "file_id",
            id(call
                .handles
                .first()
                .filter(|handle| handle.len() <= HANDLE_LEN_MAX)),
        );
        let name = if program == mount::PROGRAM {
            call.path.as_ref()
        } else {
            call.names.first()
        };
        if program == v3::PROGRAM && procedure == v3::Procedure::Rename.number() {
            check.text("name2", call.names.get(1).map(|name| escaped(name)));
        }
        if program == v3::PROGRAM
            && [v3::Procedure::Rename.number(), v3::Procedure::Link.number()].contains(&procedure)
        {
            check.integer("file2_id", id(call.handles.get(1)));
        }
        check.text("name", name.map(|name| escaped(name)));
        check.integer("offset", call.offset.map(|offset| offset as i64));
        if call.offset.is_some() {
            check.integer("count", call.count.map(|count| count as i64));
        }
    }

    fn compare_reply(&self, row: &Record, reply: &Dissected, differences: &mut Vec<String>) {
        let mut check = Check {
            row,
            call: reply,
            strict: !self.cut && !reply.malformed,
            differences,
        };
        check.integer(
            "reply_end_ns",
            Some(reply.stamp_ns).filter(|_| row.integer("reply_frame").is_some()),
        );
        let Some((program, procedure)) = reply.program.zip(reply.procedure) else {
            return;
        };
        check.text("operation", Some(operation_name(program, procedure)));
        if !self.cut && row.integer("retransmissions") == Some(0) && !row.is("repeat") {
            check.integer(
                "call_frame",
                reply
                    .call_frame
                    .map(|frame| frame as i64)
                    .filter(|_| row.integer("call_frame").is_some()),
            );
        }
        if reply.malformed {
            return;
        }
        let name = if program == mount::PROGRAM {
            mount::status_name
        } else {
            v3::status_name
        };
        check.text(
            "status",
            reply
                .status
                .map(|status| name(status).map_or_else(|| status.to_string(), str::to_owned)),
        );
        if reply.status != Some(0) {
            return;
        }
        let makes = [
            v3::Procedure::Lookup,
            v3::Procedure::Create,
            v3::Procedure::MkDir,
            v3::Procedure::SymLink,
            v3::Procedure::MkNod,
        ];
        let server = reply.source.map(|end| end.ip());
        if program == mount::PROGRAM || makes.iter().any(|each| each.number() == procedure) {
            check.integer(
                "result_file_id",
                server
                    .zip(reply.handles.first())
                    .map(|(server, handle)| file_id(server, handle)),
            );
        }
        if program == v3::PROGRAM
            && [v3::Procedure::Read.number(), v3::Procedure::Write.number()].contains(&procedure)
        {
            check.integer("transferred", reply.count.map(|count| count as i64));
        }
    }
}

enum Found<'a> {
    Message(&'a Dissected),
    Missing,
    NotExpected,
}

struct Check<'a> {
    row: &'a Record,
    call: &'a Dissected,
    /// Null on either side is a difference.
    strict: bool,
    differences: &'a mut Vec<String>,
}

impl Check<'_> {
    fn integer(&mut self, column: &str, tshark: Option<i64>) {
        let here = self.row.integer(column);
        self.note(
            column,
            here != tshark && (self.strict || here.is_some() && tshark.is_some()),
            &here,
            &tshark,
        );
    }

    fn text(&mut self, column: &str, tshark: Option<String>) {
        let here = self.row.text(column).map(str::to_owned);
        self.note(
            column,
            here != tshark && (self.strict || here.is_some() && tshark.is_some()),
            &here,
            &tshark,
        );
    }

    fn note(
        &mut self,
        column: &str,
        differs: bool,
        here: &dyn std::fmt::Debug,
        tshark: &dyn std::fmt::Debug,
    ) {
        if differs {
            let text = format!(
                "frame {} {column}: {here:?}, tshark {tshark:?}: {}",
                self.call.frame,
                describe(self.row)
            );
            self.differences.push(text);
        }
    }
}

pub(crate) fn key_of_row(row: &Record) -> Key {
    let text = |column| row.text(column).unwrap_or_default().to_owned();
    let integer = |column| row.integer(column).unwrap_or(-1);
    (
        text("client_address"),
        integer("client_port"),
        text("server_address"),
        integer("server_port"),
        row.text("transport") == Some("udp"),
        integer("xid"),
    )
}

pub(crate) fn key_of_message(message: &Dissected) -> Option<Key> {
    let (client, server) = if message.call {
        (message.source?, message.destination?)
    } else {
        (message.destination?, message.source?)
    };
    Some((
        client.ip().to_string(),
        client.port().into(),
        server.ip().to_string(),
        server.port().into(),
        message.udp,
        message.xid.into(),
    ))
}

fn describe(row: &Record) -> String {
    let mut text = String::new();
    for column in [
        "operation",
        "xid",
        "client_port",
        "call_frame",
        "reply_frame",
        "status",
        "name",
        "retransmissions",
        "duplicate_replies",
    ] {
        let _ = write!(text, "{column} {:?} ", row.value(column));
    }
    text
}

fn operation_name(program: u32, procedure: u32) -> String {
    let name = match program {
        v3::PROGRAM => v3::Procedure::from_number(procedure).map(|procedure| procedure.name()),
        _ => mount::Procedure::from_number(procedure).map(|procedure| procedure.name()),
    };
    name.map_or_else(|| procedure.to_string(), str::to_owned)
}

/// XXH3 of the server's address and the handle, as the guide to traces has it.
pub(crate) fn file_id(server: IpAddr, handle: &[u8]) -> i64 {
    let mut bytes = match server {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    bytes.extend_from_slice(handle);
    XxHash3_64::oneshot(&bytes) as i64
}

pub(crate) fn escaped(bytes: &[u8]) -> String {
    Text::from(bytes).escaped().unwrap_or_default()
}

/// Every message of the oracle has its place in a row, with the frames and times of its first and
/// last byte.
fn compare_with_oracle(trace: &Trace, frames: &[capture::Frame], differences: &mut Vec<String>) {
    let oracle = Oracle::new(frames);
    let mut rows: BTreeMap<Key, Vec<&Record>> = BTreeMap::new();
    for row in trace.nfs3() {
        rows.entry(key_of_row(row)).or_default().push(row);
    }
    for message in &oracle.messages {
        let Some((100_003 | 100_005, 3, procedure)) = message.procedure else {
            continue;
        };
        let stream = &oracle.streams[message.stream];
        let (client, server) = if message.call {
            (stream.source, stream.destination)
        } else {
            (stream.destination, stream.source)
        };
        let key = (
            client.ip().to_string(),
            client.port().into(),
            server.ip().to_string(),
            server.port().into(),
            stream.udp,
            message.xid.into(),
        );
        let (first, last) = oracle.frames_of(message);
        let (time, end, frame, more) = match message.call {
            true => (
                "call_time_ns",
                "call_end_ns",
                "call_frame",
                "retransmissions",
            ),
            false => (
                "reply_time_ns",
                "reply_end_ns",
                "reply_frame",
                "duplicate_replies",
            ),
        };
        let candidates = rows.get(&key).map_or(&[][..], Vec::as_slice);
        let same = |row: &&&Record| {
            row.integer(frame) == Some(last as i64 + 1)
                && row.integer(time) == frames[first].stamp_ns
                && row.integer(end) == frames[last].stamp_ns
        };
        let absorbed = candidates
            .iter()
            .any(|row| row.integer(more).is_some_and(|times| times > 0));
        if candidates.iter().find(same).is_none() && !absorbed {
            let which = if message.call { "call" } else { "reply" };
            differences.push(format!(
                "the oracle's {which} {procedure} with xid {} of frames {} to {} has no row: {:?}",
                message.xid,
                first + 1,
                last + 1,
                candidates
                    .iter()
                    .map(|row| describe(row))
                    .collect::<Vec<_>>()
            ));
        }
    }
}
