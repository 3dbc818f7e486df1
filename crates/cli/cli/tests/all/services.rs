//! The fields of the programs beside NFS in the trace, against those that tshark shows.

use std::collections::{BTreeMap, BTreeSet};

use lineside_nfs::ancillary::{Procedure, portmap, rpcbind};
use lineside_rows::Table;
use lineside_testkit::tshark::{Dissected, Field};
use lineside_trace::read::Value;

use crate::support::{Record, Trace};
use crate::tshark::escaped;

/// The message of an operation that has a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum In {
    Call,
    Reply,
    /// Either, or both, and the reply's counts.
    Any,
}

use In::{Any, Call, Reply};

/// A column, the names that tshark has for it, and where.
type Compared = (Table, &'static str, &'static [&'static str], In);

const NLM: &[Compared] = &[
    (
        Table::Operations,
        "name",
        &["nlm.lock.caller_name", "nlm.share.name"],
        Call,
    ),
    (
        Table::Operations,
        "offset",
        &["nlm.lock.l_offset", "nlm.lock.l_offset64"],
        Call,
    ),
    (
        Table::Operations,
        "count",
        &["nlm.lock.l_len", "nlm.lock.l_len64"],
        Call,
    ),
    (Table::Services, "lock_cookie", &["nlm.cookie"], Any),
    (Table::Services, "lock_type", &["nlm.exclusive"], Call),
    (Table::Services, "blocking", &["nlm.block"], Call),
    (Table::Services, "reclaim", &["nlm.reclaim"], Call),
    (Table::Services, "svid", &["nlm.lock.svid"], Call),
    (Table::Services, "owner", &["nlm.lock.owner"], Call),
    (Table::Services, "monitor_state", &["nlm.state"], Call),
    (Table::Services, "share_deny", &["nlm.share.mode"], Call),
    (Table::Services, "share_access", &["nlm.share.access"], Call),
    (Table::Services, "share_sequence", &["nlm.sequence"], Reply),
];

/// Of a lock in the way, in the reply to TEST and in TEST_RES.
const HOLDER: &[Compared] = &[
    (
        Table::Services,
        "holder_lock_type",
        &["nlm.exclusive", "klm.exclusive"],
        Any,
    ),
    (
        Table::Services,
        "holder_svid",
        &["nlm.lock.svid", "klm.pid"],
        Any,
    ),
    (Table::Services, "holder_owner", &["nlm.lock.owner"], Any),
    (
        Table::Services,
        "holder_offset",
        &["nlm.lock.l_offset", "nlm.lock.l_offset64", "klm.offset"],
        Any,
    ),
    (
        Table::Services,
        "holder_count",
        &["nlm.lock.l_len", "nlm.lock.l_len64", "klm.len"],
        Any,
    ),
];

const KLM: &[Compared] = &[
    (Table::Operations, "offset", &["klm.offset"], Call),
    (Table::Operations, "count", &["klm.len"], Call),
    (Table::Services, "lock_type", &["klm.exclusive"], Call),
    (Table::Services, "blocking", &["klm.block"], Call),
    (Table::Services, "svid", &["klm.pid"], Call),
];

const NSM: &[Compared] = &[
    (
        Table::Operations,
        "name",
        &["stat.name", "stat.mon_id.name"],
        Call,
    ),
    (Table::Operations, "name2", &["stat.my_id.hostname"], Call),
    (
        Table::Services,
        "target_program",
        &["stat.my_id.prog"],
        Call,
    ),
    (
        Table::Services,
        "target_version",
        &["stat.my_id.vers"],
        Call,
    ),
    (
        Table::Services,
        "target_procedure",
        &["stat.my_id.proc"],
        Call,
    ),
    (
        Table::Services,
        "monitor_state",
        &["stat.stat_res.state", "stat.state"],
        Any,
    ),
];

const PORTMAP: &[Compared] = &[
    (Table::Services, "target_program", &["portmap.prog"], Call),
    (
        Table::Services,
        "target_version",
        &["portmap.version"],
        Call,
    ),
    (Table::Services, "target_procedure", &["portmap.proc"], Call),
    (Table::Services, "target_protocol", &["portmap.proto"], Call),
    (Table::Services, "target_port", &["portmap.port"], Reply),
    (Table::Services, "done", &["portmap.answer"], Reply),
];

const RPCBIND: &[Compared] = &[
    (
        Table::Services,
        "target_program",
        &["portmap.rpcb.prog"],
        Call,
    ),
    (
        Table::Services,
        "target_version",
        &["portmap.rpcb.version"],
        Call,
    ),
    (Table::Services, "netid", &["portmap.rpcb.netid"], Call),
    (
        Table::Services,
        "service_owner",
        &["portmap.rpcb.owner"],
        Call,
    ),
    (Table::Services, "target_address", &["portmap.uaddr"], Reply),
    (Table::Services, "done", &["portmap.answer"], Reply),
];

const RQUOTA: &[Compared] = &[
    (Table::Operations, "name", &["rquota.pathp"], Call),
    (
        Table::Services,
        "quota_id",
        &["rquota.uid", "rquota.id"],
        Call,
    ),
    (Table::Services, "quota_type", &["rquota.type"], Call),
    (
        Table::Services,
        "quota_block_bytes",
        &["rquota.bsize"],
        Reply,
    ),
    (Table::Services, "quota_active", &["rquota.active"], Reply),
    (
        Table::Services,
        "quota_blocks_hard",
        &["rquota.bhardlimit"],
        Any,
    ),
    (
        Table::Services,
        "quota_blocks_soft",
        &["rquota.bsoftlimit"],
        Any,
    ),
    (
        Table::Services,
        "quota_blocks_used",
        &["rquota.curblocks"],
        Any,
    ),
    (
        Table::Services,
        "quota_files_hard",
        &["rquota.fhardlimit"],
        Any,
    ),
    (
        Table::Services,
        "quota_files_soft",
        &["rquota.fsoftlimit"],
        Any,
    ),
    (
        Table::Services,
        "quota_files_used",
        &["rquota.curfiles"],
        Any,
    ),
    (
        Table::Services,
        "quota_blocks_seconds_left",
        &["rquota.btimeleft"],
        Any,
    ),
    (
        Table::Services,
        "quota_files_seconds_left",
        &["rquota.ftimeleft"],
        Any,
    ),
];

const NFSACL: &[Compared] = &[
    (Table::Services, "acl_mask", &["nfsacl.mask"], Any),
    (Table::Services, "creates", &["nfsacl.create"], Call),
];

/// The columns of a procedure, in its call or its reply.
fn compared(procedure: Procedure, is_call: bool) -> &'static [Compared] {
    match procedure {
        Procedure::Nlm1(_) | Procedure::Nlm4(_) => match (procedure.name(), is_call) {
            ("TEST_RES", true) | ("TEST", false) => HOLDER,
            _ => NLM,
        },
        Procedure::Klm(_) if !is_call => HOLDER,
        Procedure::Klm(_) => KLM,
        Procedure::Nsm(_) => NSM,
        // Lists are counted, and the port in a call of GETPORT is not used.
        Procedure::Portmap(portmap::Procedure::Dump) => &[],
        Procedure::Portmap(_) => PORTMAP,
        Procedure::Rpcbind3(rpcbind::Procedure::Dump)
        | Procedure::Rpcbind4(rpcbind::Procedure::Dump) => &[],
        // tshark reads nothing of these.
        Procedure::Rpcbind3(number) | Procedure::Rpcbind4(number) if number as u32 >= 6 => &[],
        Procedure::Rpcbind3(_) | Procedure::Rpcbind4(_) => RPCBIND,
        Procedure::Rquota1(_) | Procedure::Rquota2(_) => RQUOTA,
        Procedure::NfsAcl2(_) | Procedure::NfsAcl3(_) => NFSACL,
        Procedure::Nfs2(_) | Procedure::Mount1(_) | Procedure::Mount3(_) => &[],
    }
}

/// Lists, whose entries tshark shows one by one: the column, and what it calls an entry.
fn list(procedure: Procedure) -> Option<(&'static str, &'static str)> {
    Some(match procedure {
        Procedure::Mount1(_) | Procedure::Mount3(_) => match procedure.name() {
            "DUMP" => ("entries", "mount.dump.entry"),
            "EXPORT" | "EXPORTALL" => ("entries", "mount.export.entry"),
            _ => return None,
        },
        Procedure::Portmap(portmap::Procedure::Dump) => ("entries", "portmap.prog"),
        Procedure::Rpcbind3(_) | Procedure::Rpcbind4(_) if procedure.name() == "DUMP" => {
            ("entries", "portmap.rpcb.prog")
        }
        _ => return None,
    })
}

/// The rows of the table `services`, and which columns were compared so far.
pub(crate) struct Services<'a> {
    rows: BTreeMap<i64, &'a Record>,
    seen: &'a mut BTreeSet<&'static str>,
}

impl<'a> Services<'a> {
    pub(crate) fn new(trace: &'a Trace, seen: &'a mut BTreeSet<&'static str>) -> Self {
        let id = |row: &Record| row.integer("operation_id").expect("never null");
        Self {
            rows: trace.services.iter().map(|row| (id(row), row)).collect(),
            seen,
        }
    }

    /// The fields of a message beyond those of its row in `operations`.
    pub(crate) fn compare(
        &mut self,
        procedure: Procedure,
        message: &Dissected,
        operation: &Record,
        differences: &mut Vec<String>,
    ) {
        let id = operation.integer("operation_id").expect("never null");
        let service = self.rows.get(&id).copied();
        let mut differs =
            |column: &str, ours: &dyn std::fmt::Debug, theirs: &dyn std::fmt::Debug| {
                let (name, frame) = (procedure.name(), message.frame);
                differences.push(format!(
                    "{name} in frame {frame}, {column}: {ours:?}, tshark {theirs:?}"
                ));
            };
        let whose = if message.call { Call } else { Reply };
        for &(table, column, names, place) in compared(procedure, message.call) {
            let row = if table == Table::Operations {
                Some(operation)
            } else {
                service
            };
            let ours = row.map_or(&Value::Null, |row| row.value(column));
            let field = { message.fields.iter() }.find(|field| names.contains(&&*field.name));
            match field {
                Some(field) if place == whose || place == Any => {
                    if !is_same(column, ours, field) {
                        differs(column, ours, field);
                    }
                    self.seen.insert(column);
                }
                None if place == whose && ours != &Value::Null => differs(column, ours, &field),
                _ => {}
            }
        }
        if let Some((column, entry)) = list(procedure).filter(|_| !message.call) {
            let theirs = message.fields_of(entry).count() as i64;
            let ours = service.and_then(|row| row.integer(column));
            if ours.unwrap_or(0) != theirs {
                differs(column, &ours, &theirs);
            }
            self.seen.insert(column);
        }
    }
}

fn is_same(column: &str, ours: &Value, field: &Field) -> bool {
    let flag = match &*field.show {
        "True" => Some(true),
        "False" => Some(false),
        _ => field.number().map(|number| number != 0),
    };
    match ours {
        Value::Null => false,
        Value::Boolean(ours) => flag == Some(*ours),
        Value::Integer(ours) => field.number() == Some(ours.cast_unsigned()),
        Value::Bytes(ours) => ours == &field.bytes,
        Value::Text(ours) if column.ends_with("lock_type") => {
            flag.map(|flag| if flag { "exclusive" } else { "shared" }) == Some(ours)
        }
        Value::Text(ours) => *ours == escaped(&field.bytes),
    }
}

/// Columns that no capture at hand has, or that tshark does not show; unit tests of the decoder
/// have them.
const NOT_SHOWN: &[&str] = &[
    "operation_id",
    "auth_flavors",
    "done",
    "transport_address",
    "forwarded_bytes",
    "server_time_ns",
    "quota_command",
    "acl_entries",
    "acl_default_entries",
    "creates",
    // Of calls that were refused before their procedure: `failures` has them.
    "auth_error",
    "version_min",
    "version_max",
];

/// Fails unless every column of the table was compared in some capture.
pub(crate) fn assert_all_compared(seen: &BTreeSet<&'static str>) {
    let columns = Table::Services.columns().iter().map(|column| column.name);
    let left: Vec<_> = columns
        .filter(|column| !seen.contains(column) && !NOT_SHOWN.contains(column))
        .collect();
    assert!(left.is_empty(), "never compared: {left:?}");
}
