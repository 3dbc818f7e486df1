//! NFSv4's compounds against tshark's: the operations of every message, their fields, the files
//! that an independent walk finds them to be about, and the checksums of the data that tshark
//! shows.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use lineside_nfs::v4::{self, Operation as Op, callback};
use lineside_testkit::tshark::{Dissected, DissectedOperation};
use lineside_trace::read::Value;
use twox_hash::XxHash3_64;

use crate::support::{Record, Trace};
use crate::tshark::{Key, escaped, file_id, key_of_message, key_of_row};

/// Bytes of a block that has a checksum.
const BLOCK_BYTES: usize = 512;

/// Compares all compounds. With `partial`, what tshark does not have is no difference.
pub(crate) fn compare(
    trace: &Trace,
    messages: &[Dissected],
    partial: bool,
    differences: &mut Vec<String>,
) {
    let before = differences.len();
    let details: Details<'_> = { trace.nfs4.iter() }
        .map(|row| (row.integer("operation_id").expect("never null"), row))
        .collect();
    let compounds = compounds(trace, &details, differences);
    let mut calls: BTreeMap<(Key, u64), &Dissected> = BTreeMap::new();
    let mut replies: BTreeMap<(Key, u64), &Dissected> = BTreeMap::new();
    for message in messages.iter().filter(|message| is_compound(message)) {
        let Some(key) = key_of_message(message) else {
            continue;
        };
        let map = if message.call {
            &mut calls
        } else {
            &mut replies
        };
        map.insert((key, message.frame), message);
    }
    let mut seen = BTreeSet::new();
    let mut expected = Expected::default();
    for rows in compounds.values() {
        let key = key_of_row(rows[0]);
        let [call, reply] = [("call_frame", &calls), ("reply_frame", &replies)].map(
            |(column, messages): (_, &BTreeMap<_, &Dissected>)| {
                let frame = rows[0].integer(column)?;
                let place = (key.clone(), frame as u64);
                let found: Option<&Dissected> = messages.get(&place).copied();
                if found.is_some() {
                    seen.insert((place, column));
                } else if !partial && rows[0].integer("compound_index").is_some() {
                    differences.push(format!("tshark has no compound in {column} {frame}"));
                }
                found
            },
        );
        let mut check = Check {
            rows,
            details: &details,
            what: String::new(),
            differences,
        };
        if let Some(call) = call {
            check.call(call);
        }
        if let Some(reply) = reply {
            check.reply(reply);
        }
        if let Some(call) = call.filter(|call| !call.malformed) {
            let reply = reply.filter(|reply| !reply.malformed);
            if (reply.is_some() || rows[0].is("reply_missing")) && !is_callback(rows) {
                check.files(call, reply, &mut expected);
                check.data(call, reply, &mut expected);
            }
        }
    }
    let both = [
        ("call_frame", "retransmissions", &calls),
        ("reply_frame", "duplicate_replies", &replies),
    ];
    for (column, again, messages) in both {
        for place in messages.keys() {
            let absorbs = |rows: &Vec<&Record>| {
                key_of_row(rows[0]) == place.0
                    && rows[0].integer(again).is_some_and(|times| times > 0)
            };
            if !seen.contains(&(place.clone(), column)) && !compounds.values().any(absorbs) {
                differences.push(format!(
                    "no rows for the compound in {column} {}: {:?}",
                    place.1, place.0
                ));
            }
        }
    }
    if differences.len() == before && !partial {
        expected.compare(trace, &compounds, differences);
    }
}

/// Compounds by the id of their RPC, their rows in order.
type Compounds<'a> = BTreeMap<i64, Vec<&'a Record>>;

/// Rows of the table `nfs4` by operation.
type Details<'a> = BTreeMap<i64, &'a Record>;

/// The rows of all compounds; checks the columns in which they must agree.
fn compounds<'a>(
    trace: &'a Trace,
    details: &Details<'_>,
    differences: &mut Vec<String>,
) -> Compounds<'a> {
    let mut compounds = Compounds::new();
    for row in &trace.operations {
        let is_nfs4 = row.text("program") == Some("nfs") && row.integer("version") == Some(4);
        if is_nfs4 || row.integer("compound_index").is_some() {
            let id = row.integer("rpc_id").expect("never null");
            compounds.entry(id).or_default().push(row);
        }
    }
    for (id, rows) in &mut compounds {
        rows.sort_by_key(|row| row.integer("compound_index"));
        for (index, row) in rows.iter().enumerate() {
            let place = row.integer("compound_index");
            let is_alone = rows.len() == 1 && place.is_none();
            if row.integer("operation_id") != Some(id + index as i64)
                || !(is_alone || place == Some(index as i64))
            {
                differences.push(format!("row {index} of compound {id} is {row:?}"));
            }
            let later = index > 0;
            let detail = details.get(&row.integer("operation_id").unwrap_or(-1));
            let has_header = detail.is_some_and(|detail| {
                ["minor_version", "compound_operations"]
                    .iter()
                    .any(|column| detail.integer(column).is_some())
            });
            let has_bytes = ["call_bytes", "reply_bytes"]
                .iter()
                .any(|column| row.integer(column).is_some());
            if later && (has_header || has_bytes || !common(row, rows[0])) {
                differences.push(format!("row {index} of compound {id}: {row:?}, {detail:?}"));
            }
        }
    }
    compounds
}

/// Whether what belongs to the whole RPC is the same in both rows.
fn common(one: &Record, other: &Record) -> bool {
    let columns = [
        "connection_id",
        "call_time_ns",
        "call_end_ns",
        "reply_time_ns",
        "reply_end_ns",
        "call_frame",
        "reply_frame",
        "xid",
        "rpc_status",
        "user_id",
        "call_missing",
        "reply_missing",
    ];
    columns
        .iter()
        .all(|column| one.value(column) == other.value(column))
}

fn is_compound(message: &Dissected) -> bool {
    !message.operations.is_empty()
        || (message.program, message.version, message.procedure)
            == (Some(v4::PROGRAM), Some(v4::VERSION), Some(v4::COMPOUND))
}

fn is_callback(rows: &[&Record]) -> bool {
    rows[0].text("program") != Some("nfs") || rows[0].integer("version") != Some(4)
}

struct Check<'a> {
    rows: &'a [&'a Record],
    details: &'a Details<'a>,
    what: String,
    differences: &'a mut Vec<String>,
}

impl Check<'_> {
    fn same<T: PartialEq + std::fmt::Debug>(&mut self, column: &str, here: T, tshark: T) {
        if here != tshark {
            let what = &self.what;
            let text = format!("{what} {column}: {here:?}, tshark {tshark:?}");
            self.differences.push(text);
        }
    }

    fn detail(&mut self, row: &Record, column: &str, tshark: Option<i64>) {
        let id = row.integer("operation_id").expect("never null");
        let detail = self.details.get(&id);
        self.same(
            column,
            detail.and_then(|detail| detail.integer(column)),
            tshark,
        );
    }

    fn blob(&mut self, row: &Record, column: &str, tshark: Option<&Vec<u8>>) {
        let id = row.integer("operation_id").expect("never null");
        let here = match self.details.get(&id).map(|detail| detail.value(column)) {
            Some(Value::Bytes(bytes)) => Some(bytes.clone()),
            _ => None,
        };
        self.same(column, here.as_ref(), tshark);
    }

    fn name(&self, number: u32) -> String {
        let name = if is_callback(self.rows) {
            callback::Operation::from_number(number).map(callback::Operation::name)
        } else {
            Op::from_number(number).map(Op::name)
        };
        name.map_or_else(|| number.to_string(), str::to_owned)
    }

    fn call(&mut self, call: &Dissected) {
        self.what = format!("call in frame {}", call.frame);
        let rows: Vec<&Record> = self.rows.to_vec();
        let here = rows
            .iter()
            .filter(|row| row.integer("compound_index").is_some());
        self.same("operations", here.count(), call.operations.len());
        let user = call.user_id.map(i64::from);
        self.same("user_id", rows[0].integer("user_id"), user);
        if let Some(version) = call.minor_version {
            let count = call.operations.len() as i64;
            self.detail(rows[0], "minor_version", Some(version.into()));
            self.detail(rows[0], "compound_operations", Some(count));
            let id = rows[0].integer("operation_id").expect("never null");
            let tag = self.details.get(&id).and_then(|detail| detail.text("tag"));
            self.same(
                "tag",
                tag.unwrap_or(""),
                &call.tag.as_deref().map_or(String::new(), escaped),
            );
        }
        let server = call.destination.map(|end| end.ip());
        for (row, operation) in rows.iter().zip(&call.operations) {
            self.what = format!("call in frame {} {}", call.frame, describe(row));
            let name = self.name(operation.number);
            self.same("operation", row.text("operation"), Some(&name));
            if call.malformed {
                continue;
            }
            let name = |at: usize| operation.names.get(at).map(|name| escaped(name));
            self.same("name", row.text("name"), name(0).as_deref());
            self.same("name2", row.text("name2"), name(1).as_deref());
            let offset = operation.offset.map(u64::cast_signed);
            self.same("offset", row.integer("offset"), offset);
            if let Some(count) = operation.count {
                self.same("count", row.integer("count"), Some(count.cast_signed()));
            }
            // COPY and CLONE have the source's first; the row has the target's.
            let has_source = [Op::Copy.number(), Op::Clone.number()].contains(&operation.number);
            let stateid = operation.stateids.get(usize::from(has_source));
            self.blob(row, "stateid", stateid);
            if let Some(slot) = operation.slot {
                self.detail(row, "slot", Some(slot.cast_signed()));
                let sequence = operation
                    .sequences
                    .first()
                    .map(|number| number.cast_signed());
                self.detail(row, "slot_sequence", sequence);
                let highest = operation.highest_slot.map(|number| number.cast_signed());
                self.detail(row, "highest_slot", highest);
                self.blob(row, "session", operation.session.as_ref());
            }
            if operation.number == Op::PutFh.number()
                && !is_callback(self.rows)
                && let Some((server, handle)) = server.zip(operation.handles.first())
            {
                let id = file_id(server, handle);
                self.same("file_id", row.integer("file_id"), Some(id));
            }
        }
    }

    fn reply(&mut self, reply: &Dissected) {
        self.what = format!("reply in frame {}", reply.frame);
        let rows: Vec<&Record> = self.rows.to_vec();
        let Some(status) = reply.compound_status else {
            return;
        };
        let id = rows[0].integer("operation_id").expect("never null");
        let here = self.details.get(&id);
        let here = here.and_then(|detail| detail.text("compound_status"));
        self.same("compound_status", here, Some(&status_name(status)));
        let executed = rows
            .iter()
            .filter(|row| row.integer("compound_index").is_some() && !row.is("not_executed"));
        self.same("executed", executed.count(), reply.operations.len());
        for (row, operation) in rows.iter().zip(&reply.operations) {
            self.what = format!("reply in frame {} {}", reply.frame, describe(row));
            // A number that the server does not know is answered as this one.
            if operation.number != Op::Illegal.number() {
                let name = self.name(operation.number);
                self.same("operation", row.text("operation"), Some(&name));
            }
            if reply.malformed {
                continue;
            }
            let status = operation.status.map(status_name);
            self.same("status", row.text("status"), status.as_deref());
            // RFC 8881 section 18.2.4 has CLOSE's as of no use, and tshark names it otherwise.
            if operation.number != Op::Close.number() {
                self.blob(row, "reply_stateid", operation.stateids.first());
            }
            let moves = [Op::Read.number(), Op::Write.number()].contains(&operation.number)
                && !is_callback(self.rows);
            if moves && operation.status == Some(0) {
                let data = operation.data.as_ref().map(|data| data.len() as u64);
                let moved = operation.count.or(data).map(u64::cast_signed);
                self.same("transferred", row.integer("transferred"), moved);
            }
        }
    }

    /// The files that the operations concern.
    fn files(&mut self, call: &Dissected, reply: Option<&Dissected>, expected: &mut Expected) {
        let Some(server) = call.destination.map(|end| end.ip()) else {
            return;
        };
        let walk = Walk::new(server, call, reply);
        for (row, about) in self.rows.iter().copied().zip(&walk.about) {
            self.what = format!("call in frame {} {}", call.frame, describe(row));
            let id = |object: Option<usize>| walk.objects[object?].id;
            self.same("file_id", row.integer("file_id"), id(about.file));
            self.same("file2_id", row.integer("file2_id"), id(about.file2));
            self.same(
                "result_file_id",
                row.integer("result_file_id"),
                id(about.result),
            );
        }
        expected.names.extend(walk.names);
    }

    /// The checksums of the data.
    fn data(&mut self, call: &Dissected, reply: Option<&Dissected>, expected: &mut Expected) {
        let results = reply.map_or(&[][..], |reply| &reply.operations);
        for (index, (row, asked)) in self.rows.iter().zip(&call.operations).enumerate() {
            let data = match Op::from_number(asked.number) {
                Some(Op::Write) => asked.data.as_ref(),
                Some(Op::Read) => results.get(index).and_then(|result| result.data.as_ref()),
                _ => None,
            };
            let (Some(offset), Some(data)) = (asked.offset, data) else {
                continue;
            };
            let id = row.integer("operation_id").expect("never null");
            expected.data_bytes += data.len();
            let skip = offset.next_multiple_of(BLOCK_BYTES as u64) - offset;
            let first = (offset + skip) / BLOCK_BYTES as u64;
            let blocks = data.get(skip as usize..).unwrap_or_default();
            for (block, bytes) in (first..).zip(blocks.chunks_exact(BLOCK_BYTES)) {
                let sum = XxHash3_64::oneshot(bytes).cast_signed();
                expected.sums.insert((id, block.cast_signed(), sum));
            }
        }
    }
}

/// The expected rows of tables other than `operations`.
#[derive(Default)]
struct Expected {
    /// File, directory and name.
    names: BTreeSet<(i64, Option<i64>, String)>,
    /// Operation, block and checksum.
    sums: BTreeSet<(i64, i64, i64)>,
    data_bytes: usize,
}

impl Expected {
    fn compare(&self, trace: &Trace, compounds: &Compounds<'_>, differences: &mut Vec<String>) {
        let ids: BTreeSet<Option<i64>> = compounds
            .values()
            .flatten()
            .map(|row| row.integer("operation_id"))
            .collect();
        let ours = |row: &&Record| ids.contains(&row.integer("operation_id"));
        let sums: BTreeSet<(i64, i64, i64)> = { trace.checksums.iter().filter(ours) }
            .map(|row| {
                let value = |column| row.integer(column).expect("never null");
                (value("operation_id"), value("block"), value("checksum"))
            })
            .collect();
        let wrong = sums.symmetric_difference(&self.sums).count();
        if wrong > 0 {
            let example = sums.symmetric_difference(&self.sums).next();
            differences.push(format!("{wrong} checksums differ, as {example:?}"));
        }
        let names: BTreeSet<(i64, Option<i64>, String)> = { trace.files.iter().filter(ours) }
            .filter_map(|row| {
                // Without one it is a name that a directory lists, without a handle.
                let id = row.integer("file_id")?;
                Some((
                    id,
                    row.integer("parent_file_id"),
                    row.text("name")?.to_owned(),
                ))
            })
            .collect();
        for missing in self.names.difference(&names).take(3) {
            differences.push(format!("the table files lacks {missing:?}"));
        }
        for wrong in names.difference(&self.names).take(3) {
            differences.push(format!("the table files has {wrong:?}"));
        }
        if !compounds.is_empty() {
            println!(
                "    {} compounds, {} names of files, {} bytes of data in {} blocks",
                compounds.len(),
                names.len(),
                self.data_bytes,
                sums.len()
            );
        }
    }
}

/// An object that is the current one for some operations.
#[derive(Default)]
struct Object {
    id: Option<i64>,
    named: Option<(Option<usize>, Vec<u8>)>,
}

/// The objects of a walk that an operation concerns.
#[derive(Default, Clone, Copy)]
struct About {
    file: Option<usize>,
    file2: Option<usize>,
    result: Option<usize>,
}

/// RFC 8881 section 16.2.3.1, once through a compound.
struct Walk {
    objects: Vec<Object>,
    about: Vec<About>,
    names: BTreeSet<(i64, Option<i64>, String)>,
}

impl Walk {
    fn new(server: IpAddr, call: &Dissected, reply: Option<&Dissected>) -> Self {
        let none = DissectedOperation::default();
        let (mut objects, mut about) = (Vec::<Object>::new(), Vec::new());
        let (mut current, mut saved) = (None, None);
        let mut listed = Vec::new();
        for (index, asked) in call.operations.iter().enumerate() {
            let answered = reply.and_then(|reply| reply.operations.get(index));
            let answered = answered.unwrap_or(&none);
            let id = |handle: Option<&Vec<u8>>| Some(file_id(server, handle?));
            let before = current;
            let mut make = |id, named| {
                objects.push(Object { id, named });
                Some(objects.len() - 1)
            };
            let mut here = About {
                file: before,
                ..About::default()
            };
            match Op::from_number(asked.number) {
                Some(Op::PutFh | Op::PutRootFh | Op::PutPubFh) => {
                    current = make(id(asked.handles.first()), None);
                    here.file = current;
                }
                Some(Op::LookupP | Op::OpenAttr) => {
                    current = make(None, None);
                    here.result = current;
                }
                Some(Op::Lookup | Op::Create | Op::Open) => {
                    if let Some(name) = asked.names.first() {
                        current = make(None, Some((before, name.clone())));
                        here.result = current;
                    }
                }
                Some(Op::GetFh) => {
                    let id = id(answered.handles.first());
                    if let Some(object) = current.and_then(|at| objects.get_mut(at)) {
                        object.id = id.or(object.id);
                    }
                }
                Some(Op::SaveFh) => saved = current,
                Some(Op::RestoreFh) => {
                    current = saved;
                    here.file = current;
                }
                Some(Op::Rename | Op::Link | Op::Copy | Op::Clone) => {
                    (here.file, here.file2) = (saved, current);
                }
                Some(Op::SecInfo | Op::SecInfoNoName) => current = None,
                Some(Op::ReadDir) => {
                    let entries = answered.entries.iter();
                    listed.extend(
                        entries.map(|(name, handle)| (file_id(server, handle), before, name)),
                    );
                }
                Some(op) if is_about_no_file(op) => here.file = None,
                None => here.file = None,
                Some(_) => {}
            }
            about.push(here);
        }
        let mut names = BTreeSet::new();
        let known = |object: Option<usize>| objects[object?].id;
        for object in &objects {
            if let (Some(id), Some((parent, name))) = (object.id, &object.named) {
                names.insert((id, known(*parent), escaped(name)));
            }
        }
        for (id, parent, name) in listed {
            names.insert((id, known(parent), escaped(name)));
        }
        Self {
            objects,
            about,
            names,
        }
    }
}

fn status_name(status: u32) -> String {
    v4::status_name(status).map_or_else(|| status.to_string(), str::to_owned)
}

/// Operations on clients, sessions and state ids.
fn is_about_no_file(op: Op) -> bool {
    let name = op.name();
    let parts = ["SESSION", "CLIENT", "SEQUENCE", "STATEID", "DEVICE"];
    let others = [
        "BACKCHANNEL_CTL",
        "DELEGPURGE",
        "EXCHANGE_ID",
        "ILLEGAL",
        "RELEASE_LOCKOWNER",
        "RENEW",
        "SET_SSV",
    ];
    others.contains(&name) || parts.iter().any(|part| name.contains(part))
}

fn describe(row: &Record) -> String {
    format!(
        "{} ({})",
        row.text("operation").unwrap_or_default(),
        row.integer("compound_index").unwrap_or(-1)
    )
}
