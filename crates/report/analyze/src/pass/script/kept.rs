//! Rows of a trace with all that a replay needs of them, kept on a shelf while the plan is made:
//! part by part, and of each call where its rows are.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use hashbrown::{HashMap, HashSet};
use lineside_replay::{Appender, Call, Facts, Operation, Program, Shelf, Shown, compared};
use lineside_rows::{Table, unescape};
use lineside_trace::read::Value;

use super::fields::{Field, procedure, program};
use crate::pass::plan::{Aside, Row, Source};
use crate::read::columns::{Integers, Lexicon};
use crate::read::parts_by_id::PartsById;
use crate::read::trace::Trace;

/// Blocks whose checksums are held at once, of 24 bytes each.
const BLOCKS_MAX: u64 = 1 << 20;
/// Bytes of a checksum with its block.
pub(super) const SUM_BYTES: usize = 16;
/// Bits of a place that hold the length.
const LEN_BITS: u32 = 24;

const OPERATIONS: [&str; 21] = [
    "operation_id",
    "rpc_id",
    "program",
    "version",
    "operation",
    "status",
    "auth_flavor",
    "user_id",
    "group_id",
    "file_id",
    "file2_id",
    "result_file_id",
    "name",
    "name2",
    "offset",
    "count",
    "not_executed",
    "compound_index",
    "repeat",
    "server_address",
    "transport",
];

macro_rules! facts {
    ($names:ident, $read:ident: $($name:ident),*) => {
        const $names: &[&str] = &["operation_id", $(stringify!($name)),*];

        fn $read(values: &[Value]) -> Option<Facts> {
            let mut facts = Facts::default();
            let mut is_any = false;
            let mut values = values.iter();
            $(if let Some(value) = values.next() {
                facts.$name = Field::of(value);
                is_any |= facts.$name.is_some();
            })*
            is_any.then_some(facts)
        }
    };
}

facts!(
    NFS, of_nfs: stable_how, create_mode, create_verifier, access_requested, cookie,
    cookie_verifier, directory_bytes, bytes_max, set_mode, set_uid, set_gid, set_size,
    set_atime_how, set_atime_ns, set_mtime_how, set_mtime_ns, guard_ctime_ns, node_type,
    device_major, device_minor, symlink_target, attribute_bitmap, attribute_values
);
facts!(
    NFS4, of_nfs4: minor_version, tag, owner, stateid, stateid_sequence, reply_stateid,
    share_access, share_deny, claim, delegation_stateid, lock_type, content, source_offset
);
facts!(
    SERVICES, of_services: target_program, target_version, target_protocol, target_port
);

/// Where facts of a table are.
type ReadFacts = fn(&[Value]) -> Option<Facts>;

/// The facts of a part's operations, as bytes.
#[derive(Default)]
struct PartFacts {
    bytes: Vec<u8>,
    places: HashMap<i64, (u32, u32)>,
}

impl PartFacts {
    fn get(&self, id: i64) -> Option<Facts> {
        let &(from, to) = self.places.get(&id)?;
        Facts::decode(self.bytes.get(from as usize..to as usize)?)
    }
}

/// Rows, and of each call where its rows are.
pub(super) struct Kept {
    tables: Vec<(PartsById, &'static [&'static str], ReadFacts)>,
    checksums: PartsById,
    rows: Appender,
    /// Of each call: how many rows, and the place of each.
    order: Appender,
    failure: Option<io::Error>,
    pub(super) servers: Vec<String>,
    /// What was mounted, by any version.
    pub(super) mounted: HashSet<i64>,
    /// Values of the server's own that VERIFYs compare.
    pub(super) compared: HashSet<Shown>,
    /// Calls of NFSv3 and of NFSv4, and the greatest minor version.
    calls: [u64; 2],
    minor: u32,
}

impl Kept {
    pub(super) fn new(trace: &mut Trace, rows: Box<dyn Shelf>, order: Box<dyn Shelf>) -> Self {
        let mut tables: Vec<(_, _, ReadFacts)> = vec![
            (PartsById::of(trace, Table::Nfs), NFS, of_nfs),
            (PartsById::of(trace, Table::Services), SERVICES, of_services),
        ];
        if trace.has_compounds() {
            tables.push((PartsById::of(trace, Table::Nfs4), NFS4, of_nfs4));
        }
        Self {
            tables,
            checksums: PartsById::of(trace, Table::Checksums),
            rows: Appender::new(rows),
            order: Appender::new(order),
            failure: None,
            servers: Vec::new(),
            mounted: HashSet::new(),
            compared: HashSet::new(),
            calls: [0; 2],
            minor: 0,
        }
    }

    /// The minor version of NFSv4 that is replayed; `None`: NFSv3.
    pub(super) fn version(&self) -> Option<u32> {
        let [nfs3, nfs4] = self.calls;
        (nfs4 > nfs3).then_some(self.minor)
    }

    /// Rows and order, once all rows were taken.
    pub(super) fn finish(self) -> io::Result<[(Box<dyn Shelf>, u64); 2]> {
        match self.failure {
            Some(failure) => Err(failure),
            None => Ok([self.rows.finish()?, self.order.finish()?]),
        }
    }

    fn take_part(
        &mut self,
        trace: &mut Trace,
        part: (usize, &Path),
        words: &Lexicon,
        rows: &mut [Row],
    ) -> io::Result<()> {
        let calls = rows.iter_mut().filter(|row| row.source == Source::Call);
        let mut places: HashMap<i64, &mut Row> = calls.map(|row| (row.operation_id, row)).collect();
        let ids = places.keys().copied();
        let Some(ids) = ids.clone().min().zip(ids.max()) else {
            return Ok(());
        };
        let mut facts = Vec::new();
        for (table, columns, read) in &self.tables {
            let mut of = PartFacts::default();
            table.rows_near(trace, ids, columns, |row| {
                let id = row[0].integer().filter(|id| places.contains_key(id));
                if let Some((id, facts)) = id.zip(read(&row[1..])) {
                    let begin = of.bytes.len() as u32;
                    facts.encode(&mut of.bytes);
                    of.places.insert(id, (begin, of.bytes.len() as u32));
                }
            });
            facts.push(of);
        }
        let writes = places.values();
        let writes = writes.filter(|row| words.text(row.operation) == "WRITE");
        let blocks = |row: &&mut Row| (row.operation_id, u64::from(row.count) / 512 + 2);
        let sums = self.sums(trace, writes.map(blocks).collect())?;
        let mut failure = None;
        trace.rows_of_part(part, Table::Operations, &OPERATIONS, |row| {
            let id = row[0].integer();
            let Some(at) = id.and_then(|id| places.get_mut(&id)) else {
                return;
            };
            let facts = facts.iter().filter_map(|of| of.get(at.operation_id));
            let facts = facts.reduce(|mut all, others| {
                all.add(others);
                all
            });
            let sums = sums.get(&at.operation_id).copied().unwrap_or_default();
            match self.put(row, facts, sums) {
                Ok(place) => at.kept = place,
                Err(error) => failure = Some(error),
            }
        });
        failure.map_or(Ok(()), Err)
    }

    /// Where the checksums of WRITEs are, of which each has at most so many blocks.
    fn sums(
        &mut self,
        trace: &mut Trace,
        writes: BTreeMap<i64, u64>,
    ) -> io::Result<HashMap<i64, (u64, u32)>> {
        let columns = ["operation_id", "block", "checksum"];
        let mut places = HashMap::new();
        let mut writes = writes.into_iter().peekable();
        while writes.peek().is_some() {
            let mut of: HashMap<i64, Vec<(u64, u64)>> = HashMap::new();
            let (mut first, mut last, mut blocks) = (i64::MAX, i64::MIN, 0);
            while let Some((id, more)) = writes.next_if(|_| blocks < BLOCKS_MAX) {
                (first, last, blocks) = (first.min(id), last.max(id), blocks + more);
                of.insert(id, Vec::new());
            }
            self.checksums
                .near(trace, (first, last), &columns, |batch| {
                    let integers = |at: usize| Integers::of(columns[at], &batch[at]);
                    let (ids, blocks, sums) = (integers(0)?, integers(1)?, integers(2)?);
                    for row in 0..batch[0].len() {
                        let id = ids.get(row).filter(|id| (first..=last).contains(id));
                        let Some(of) = id.and_then(|id| of.get_mut(&id)) else {
                            continue;
                        };
                        let sum = blocks.get(row).zip(sums.get(row));
                        of.extend(
                            sum.map(|(block, sum)| (block.cast_unsigned(), sum.cast_unsigned())),
                        );
                    }
                    Ok(())
                });
            for (id, mut sums) in of.into_iter().filter(|(_, sums)| !sums.is_empty()) {
                sums.sort_unstable();
                let bytes = sums.iter().flat_map(|(block, sum)| {
                    let pair: [[u8; 8]; 2] = [block.to_le_bytes(), sum.to_le_bytes()];
                    pair.into_iter().flatten()
                });
                let at = self.rows.append(&bytes.collect::<Vec<_>>())?;
                places.insert(id, (at, (sums.len() * SUM_BYTES) as u32));
            }
        }
        Ok(places)
    }

    /// The place of the server whose root an operation takes.
    fn server(&mut self, operation: Option<&str>, name: Option<&str>) -> u32 {
        if !matches!(operation, Some("PUTROOTFH" | "PUTPUBFH")) {
            return 0;
        }
        let name = name.unwrap_or_default();
        let known = self.servers.iter().position(|known| known == name);
        if known.is_none() {
            self.servers.push(name.to_owned());
        }
        known.unwrap_or(self.servers.len() - 1) as u32
    }

    /// Keeps a row: as a call of one operation, behind the place of its checksums.
    fn put(
        &mut self,
        row: &[Value],
        facts: Option<Facts>,
        (sums_at, sums_len): (u64, u32),
    ) -> io::Result<u64> {
        let number = |at: usize| row[at].integer();
        let text = |at: usize| row[at].text();
        let mut program = program(text(2), number(3));
        let procedure = { program.zip(text(4)) }.and_then(|(of, name)| procedure(of, name));
        let minor = facts.as_ref().and_then(|facts| facts.minor_version);
        if let Some(Program::Nfs4(of)) = &mut program {
            *of = minor.unwrap_or(0);
        }
        if number(0) == number(1) {
            match program {
                Some(Program::Nfs3) => self.calls[0] += 1,
                Some(Program::Nfs4(minor)) => {
                    self.calls[1] += 1;
                    self.minor = self.minor.max(minor);
                }
                _ => {}
            }
        }
        let server = self.server(text(4), text(19));
        if text(2) == Some("mount") {
            self.mounted.extend(number(11));
        }
        if matches!(text(4), Some("VERIFY" | "NVERIFY"))
            && let Some((file, facts)) = number(9).zip(facts.as_ref())
        {
            self.compared.extend(compared(file, facts));
        }
        let user = [number(7), number(8)].map(|it| it.and_then(|it| u32::try_from(it).ok()));
        let operation = Operation {
            id: number(0).unwrap_or_default(),
            procedure,
            file: number(9),
            file2: number(10),
            made: number(11),
            names: [12, 13].map(|at| text(at).map(|text| unescape(text).into())),
            offset: number(14).map(i64::cast_unsigned),
            count: number(15).and_then(|count| u32::try_from(count).ok()),
            length: number(15).map(i64::cast_unsigned),
            status: text(5).map(Into::into),
            not_executed: matches!(row[16], Value::Boolean(true)),
            facts: facts.map(Box::new),
            ..Operation::default()
        };
        let call = Call {
            program,
            user: user[0].zip(user[1]),
            is_kerberos: text(6).is_some_and(|flavor| flavor.starts_with("gss")),
            is_udp: text(20) == Some("udp"),
            server,
            operations: vec![operation],
            ..Call::default()
        };
        let mut bytes = sums_at.to_le_bytes().to_vec();
        bytes.extend(sums_len.to_le_bytes());
        call.encode(&mut bytes);
        let len = bytes.len() as u64;
        match len >> LEN_BITS {
            0 => Ok(self.rows.append(&bytes)? << LEN_BITS | len),
            _ => Err(io::ErrorKind::FileTooLarge.into()),
        }
    }
}

impl Aside for Kept {
    fn part(&mut self, trace: &mut Trace, part: (usize, &Path), words: &Lexicon, rows: &mut [Row]) {
        if self.failure.is_none() {
            self.failure = self.take_part(trace, part, words, rows).err();
        }
    }

    fn call(&mut self, rows: &[Row]) {
        let count = (rows.len() as u32).to_le_bytes().into_iter();
        let bytes = count.chain(rows.iter().flat_map(|row| row.kept.to_le_bytes()));
        if let Err(error) = self.order.append(&bytes.collect::<Vec<_>>()) {
            self.failure = self.failure.take().or(Some(error));
        }
    }
}

/// A row that was kept.
pub(super) fn row(rows: &dyn Shelf, place: u64) -> io::Result<Call> {
    let damaged = || io::Error::from(io::ErrorKind::InvalidData);
    let mut bytes = vec![0; (place & ((1 << LEN_BITS) - 1)) as usize];
    rows.read_at(place >> LEN_BITS, &mut bytes)?;
    let (at, rest) = bytes.split_first_chunk().ok_or_else(damaged)?;
    let (len, rest) = rest.split_first_chunk().ok_or_else(damaged)?;
    let mut call = Call::decode(rest).ok_or_else(damaged)?;
    let mut sums = vec![0; u32::from_le_bytes(*len) as usize];
    rows.read_at(u64::from_le_bytes(*at), &mut sums)?;
    let number = |bytes: &[u8]| {
        bytes
            .iter()
            .rev()
            .fold(0, |all, &byte| all << 8 | u64::from(byte))
    };
    let sums = sums.chunks_exact(SUM_BYTES);
    let sums = sums.map(|pair| (number(&pair[..8]), number(&pair[8..])));
    if let Some(operation) = call.operations.first_mut() {
        operation.sums = sums.collect();
    }
    Ok(call)
}
