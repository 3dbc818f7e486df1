//! What a status means: from which share on it stands out, and what is done about it.

use crate::model::Thresholds;

/// From when on a status stands out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum From {
    /// From the first one on, before all others: data are at stake, or everybody waits.
    FirstSevere,
    /// From the first one on: no healthy server answers it.
    First,
    /// From this share of the calls on, or where most calls of an operation fail with it.
    Share(f64),
    /// Programs ask in order to get it, and nothing is wrong: where it is frequent, the share of
    /// calls that could be saved.
    Usual(f64),
}

/// Whose status it is: the same word means another thing to another program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Service {
    Nfs,
    Mount,
    Locks,
    Monitor,
    Portmap,
    Callback,
    /// Programs without which clients do as well: NFSACL, quotas, and what nothing here reads.
    Optional,
}

impl Service {
    pub(super) fn of(program: &str) -> Self {
        match program {
            "mount" => Self::Mount,
            "nlm" | "klm" => Self::Locks,
            "nsm" => Self::Monitor,
            "portmap" => Self::Portmap,
            "nfs_cb" => Self::Callback,
            "rquota" | "nfsacl" => Self::Optional,
            number if number.bytes().all(|byte| byte.is_ascii_digit()) => Self::Optional,
            _ => Self::Nfs,
        }
    }
}

/// `NFS3ERR_STALE` as `STALE`: what all versions call it.
pub(super) fn status_name(status: &str) -> &str {
    let stems = [
        "NFS3ERR_", "NFS4ERR_", "NFSERR_", "MNT3ERR_", "MNT_", "NLM4_", "LCK_",
    ];
    let stem = stems.iter().find_map(|stem| status.strip_prefix(stem));
    stem.unwrap_or(status)
}

/// From which share on a status stands out, and what is done about it.
pub(super) fn judged(service: Service, status: &str, bounds: &Thresholds) -> (From, &'static str) {
    let of_service = match service {
        Service::Mount => of_mount(status),
        Service::Locks | Service::Monitor => of_locks(status, bounds),
        _ => None,
    };
    of_service
        .or_else(|| of_rpc(service, status, bounds))
        .or_else(|| of_server(status))
        .or_else(|| of_state(status, bounds))
        .unwrap_or_else(|| of_files(status, bounds))
}

/// A mount that is refused is never routine.
fn of_mount(status: &str) -> Option<(From, &'static str)> {
    let advice = match status {
        "ACCES" | "PERM" => {
            "the export list does not have this client, by its address or by the name that the \
            server finds for it, or asks for a port below 1024: 'showmount -e SERVER' and \
            'exportfs -v' show it"
        }
        "NOENT" | "NOTDIR" => {
            "no such folder is exported: compare the path with 'showmount -e SERVER'; one that \
            begins at NFSv4's pseudo root has another path in NFSv3"
        }
        "NAMETOOLONG" | "INVAL" | "NOTSUPP" => {
            "the server refuses the path itself: compare it with 'showmount -e SERVER'"
        }
        _ => return None,
    };
    Some((From::First, advice))
}

fn of_locks(status: &str, bounds: &Thresholds) -> Option<(From, &'static str)> {
    Some(match status {
        "DENIED" => (
            From::Share(bounds.failed_share),
            "another process holds a lock there: the columns holder_ of the table services name \
            it, where the client asked (TEST); a lock whose client is gone stays until the \
            server's lock manager is asked to clear it",
        ),
        "BLOCKED" => (
            From::Usual(bounds.failed_share),
            "these locks wait: GRANTED comes when they are free",
        ),
        "DENIED_NOLOCKS" => (
            From::First,
            "the server has no room for locks, or could not reach the client's lock manager or \
            status monitor (rpc.statd): see that both ends let the ports of nlockmgr and status \
            pass, each way",
        ),
        "DENIED_GRACE_PERIOD" => (
            From::FirstSevere,
            "the server restarted and waits until clients have reclaimed their locks; if it did \
            not, look at its cluster",
        ),
        "DEADLCK" => (
            From::First,
            "two processes wait for each other's locks: an application's fault",
        ),
        "STAT_FAIL" => (
            From::First,
            "the status monitor (rpc.statd) cannot watch that host: its name must resolve on this \
            host; without it, locks are not reclaimed after a restart",
        ),
        _ => return None,
    })
}

/// RPC itself refused the call (RFC 5531, section 9).
fn of_rpc(service: Service, status: &str, bounds: &Thresholds) -> Option<(From, &'static str)> {
    let is_optional = service == Service::Optional;
    Some(match status {
        "PROG_UNAVAIL" | "PROG_MISMATCH" | "PROC_UNAVAIL" if is_optional => (
            From::Usual(bounds.failed_share),
            "the server lacks an addition to NFS, and clients do without",
        ),
        "PROG_UNAVAIL" if service == Service::Callback => (
            From::First,
            "nothing answers callbacks on the client: recalls cannot come, and the server may \
            revoke delegations",
        ),
        "PROG_UNAVAIL" => (
            From::First,
            "no such service runs at that port: start it, or ask rpcbind (rpcinfo -p SERVER) at \
            which port it is",
        ),
        "PROG_MISMATCH" => (
            From::First,
            "the server does not speak that version: mount with one that it has (vers=), or \
            enable it there; a client that goes on with another version needs nothing",
        ),
        "RPC_MISMATCH" | "GARBAGE_ARGS" => (
            From::First,
            "the server cannot read the call: look for a broken client, or for a middlebox that \
            changes the bytes",
        ),
        "SYSTEM_ERR" => (
            From::First,
            "the server failed within RPC, of memory or processes: look at its log",
        ),
        "AUTH_ERROR" => (
            From::Share(bounds.stale_share),
            "the server refuses the credentials: AUTH_TOOWEAK: mount with the flavor that the \
            export asks for (sec=); with Kerberos see keytab, clock and rpc.gssd",
        ),
        _ => return None,
    })
}

/// What no healthy server answers.
fn of_server(status: &str) -> Option<(From, &'static str)> {
    let advice = match status {
        "IO" => "the server could not read or write: look at its log and its disks",
        "NOSPC" => "the file system is full: free space, or enlarge it",
        "DQUOT" => "a quota is used up: see that of the user, group or project",
        "ROFS" => "it is exported or mounted read-only: see the export, and why",
        "SERVERFAULT" => "the server ran into an error of its own: look at its log",
        "GRACE" => {
            "the server restarted and waits until clients have reclaimed their locks; if it did \
            not, look at its cluster"
        }
        _ => return None,
    };
    Some((From::FirstSevere, advice))
}

/// State that client and server share: handles, leases, sessions, open files and locks.
fn of_state(status: &str, bounds: &Thresholds) -> Option<(From, &'static str)> {
    let advice = match status {
        "STALE" | "STALE_FH" | "BADHANDLE" | "FHEXPIRED" => {
            "the server does not know the handles any more: files were removed by others, or the \
            export was moved or restored; open them again, or mount again"
        }
        "DELAY" | "JUKEBOX" => {
            "the server asks to come again later, and clients wait: find what it waits for, a \
            delegation's recall or a slow tier"
        }
        "EXPIRED" | "STALE_STATEID" | "STALE_CLIENTID" | "BADSESSION" | "DEADSESSION" => {
            "clients lost their state on the server: it restarted, or did not hear of them for \
            longer than a lease, or another client has the same name"
        }
        "BAD_STATEID" | "OLD_STATEID" | "ADMIN_REVOKED" | "DELEG_REVOKED" => {
            "the server does not know, or took back, the open file, lock or delegation: it \
            restarted, the lease ran out, or client and server disagree; a client that asks for \
            the same again and again needs an update, or a new mount"
        }
        "SEQ_MISORDERED" | "SEQ_FALSE_RETRY" | "BADSLOT" | "BAD_HIGH_SLOT"
        | "RETRY_UNCACHED_REP" => {
            "client and server disagree about a slot of their session, mostly after a call that \
            was cut off: a client that goes on so needs an update; a new mount makes a new session"
        }
        "CONN_NOT_BOUND_TO_SESSION" => {
            "the client has to bind its new connection to the session (BIND_CONN_TO_SESSION)"
        }
        "BAD_SEQID" => {
            "client and server disagree about the order of an owner's opens and locks: a lost \
            reply, or a fault of either"
        }
        "CLID_INUSE" => {
            "another client has the same name with another principal: give each its own host \
            name, or set nfs4_unique_id"
        }
        "NO_GRACE" | "RECLAIM_BAD" | "RECLAIM_CONFLICT" => {
            "a client came too late to reclaim its locks after a restart: they are lost, and the \
            application has to know"
        }
        "CB_PATH_DOWN" => {
            "the server cannot reach the client to call back: let its connections pass, or mount \
            with NFSv4.1, which calls back on the client's own"
        }
        "MOVED" | "LEASE_MOVED" => {
            "the file system moved to another server: clients have to follow"
        }
        _ => return None,
    };
    Some((From::Share(bounds.stale_share), advice))
}

/// About files and rights: what users and programs run into.
fn of_files(status: &str, bounds: &Thresholds) -> (From, &'static str) {
    let share = From::Share(bounds.failed_share);
    match status {
        "NOENT" => (
            From::Usual(bounds.failed_share),
            "searches along a path end so, and nothing is wrong; clients can cache that a name \
            does not exist (lookupcache)",
        ),
        "EXIST"
        | "NOTEMPTY"
        | "SAME"
        | "NOT_SAME"
        | "NOXATTR"
        | "NOTSUPP"
        | "ATTRNOTSUPP"
        | "LAYOUTUNAVAILABLE"
        | "LAYOUTTRYLATER"
        | "UNKNOWN_LAYOUTTYPE"
        | "MINOR_VERS_MISMATCH"
        | "TOOSMALL"
        | "LOCKS_HELD"
        | "PROC_UNAVAIL" => (
            From::Usual(bounds.failed_share),
            "programs and clients try and go on, and nothing is wrong; 'report --full' lists them \
            by operation, over time",
        ),
        "ACCES" | "PERM" => (
            share,
            "see the permissions there, the export's options (root_squash) and the users' ids",
        ),
        "WRONGSEC" => (
            share,
            "the export asks for another security flavor: see its sec= and that of the mount; a \
            client that asks SECINFO and goes on needs nothing",
        ),
        "XDEV" => (
            share,
            "the two names are in different file systems or exports, between which nothing can \
            be renamed or linked: programs have to copy",
        ),
        "DENIED" | "LOCKED" => (
            share,
            "another process holds a lock or share there: 'lineside failed TRACE' lists who asked \
            for it, and when",
        ),
        "SHARE_DENIED" => (
            share,
            "another client opened the file and denies this access: Windows programs do so",
        ),
        _ => (
            share,
            "'lineside failed TRACE' lists them, with their frames; what they mean is in the \
            protocol's RFC",
        ),
    }
}
