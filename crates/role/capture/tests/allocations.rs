//! After its start the path from frames to rows allocates nothing for a frame or a message: new
//! connections and tables that grow excepted.

mod connection;

use lineside_account::{Budget, Counter};
use lineside_alloc::process_allocations;
use lineside_capture::{Config, Pipeline};
use lineside_frame::{BlockWriter, Burst, Descriptor, LinkType, Piece, Pool};
use lineside_nfs::v3;
use lineside_rows::{RecordSink, RowRef, Table};
use lineside_rpc::message::{Auth, encode_record};
use lineside_rpc::xdr::{Handle, List, Name, Optional, Outcome};
use lineside_wire::TcpFlags;

use connection::TcpConnection;

/// Counts rows and keeps none.
#[derive(Default)]
struct Rows {
    operations: u64,
    blocks: u64,
}

impl RecordSink for Rows {
    fn wants(&self, _: Table) -> bool {
        true
    }

    fn on_time(&mut self, _: i64) {}

    fn row(&mut self, row: RowRef<'_>) {
        match row {
            RowRef::Operations(row) => {
                assert!(!row.reply_missing && !row.call_missing && !row.data_incomplete);
                self.operations += 1;
            }
            RowRef::Checksums(run) => self.blocks += run.sums.len() as u64,
            _ => {}
        }
    }
}

/// Bytes of a segment.
const SEGMENT: usize = 1448;
/// Operations that fill the tables, and operations that are measured.
const WARM_UP: u32 = 3000;
const MEASURED: u32 = 20_000;
/// What 20,000 operations may take: the doubling of a table or two.
const ALLOCATIONS_MAX: u64 = 20;

const TIME: v3::Time = v3::Time {
    seconds: Some(1),
    nanoseconds: Some(2),
};
static ATTRIBUTES: v3::Attributes = v3::Attributes {
    file_type: Some(v3::FileType::REGULAR),
    mode: Some(0o644),
    link_count: Some(1),
    uid: Some(0),
    gid: Some(0),
    size: Some(1 << 20),
    used: Some(1 << 20),
    device: v3::Device {
        major: Some(0),
        minor: Some(0),
    },
    fsid: Some(1),
    fileid: Some(2),
    atime: TIME,
    mtime: TIME,
    ctime: TIME,
};

fn attributes() -> v3::PostOpAttributes<'static> {
    Optional::Present((&ATTRIBUTES).into())
}

/// An operation of one of several kinds, as its call's and its reply's message.
fn operation(xid: u32, data: &[u8]) -> [Vec<u8>; 2] {
    let handle = [Piece::bytes(b"a handle of twenty-odd bytes")];
    let name = [Piece::bytes(b"a name")];
    let (handle, name) = (Handle::new(&handle), Name::new(&name));
    let (file, len) = (Some(handle), Some(data.len() as u32));
    let entry = |cookie| v3::EntryPlus {
        fileid: Some(cookie),
        name: Some(name),
        cookie: Some(cookie),
        attributes: attributes(),
        handle: Optional::Present(Some(handle)),
    };
    let entries: Vec<_> = (0..u64::from(xid % 100)).map(entry).collect();
    let offset = Some(u64::from(xid % 8) * 4096 + 100);
    let wcc = v3::Wcc {
        before: Optional::Absent,
        after: attributes(),
    };
    let (call, reply) = match xid % 5 {
        0 => (
            v3::Call::GetAttr(v3::FileArgs { file }),
            v3::Reply::GetAttr(Outcome::Fail(70, ())),
        ),
        1 => (
            v3::Call::Lookup(v3::DirOpArgs {
                directory: file,
                name: Some(name),
            }),
            v3::Reply::Lookup(Outcome::Ok(v3::LookupOk {
                object: file,
                attributes: attributes(),
                directory: attributes(),
            })),
        ),
        2 => (
            v3::Call::Read(v3::ReadArgs {
                file,
                offset,
                count: len,
            }),
            v3::Reply::Read(Outcome::Ok(v3::ReadOk {
                attributes: attributes(),
                count: len,
                eof: Some(false),
                data_len: len,
            })),
        ),
        3 => (
            v3::Call::Write(v3::WriteArgs {
                file,
                offset,
                count: len,
                stable: Some(v3::StableHow::UNSTABLE),
                data_len: len,
            }),
            v3::Reply::Write(Outcome::Ok(v3::WriteOk {
                file: wcc,
                count: len,
                committed: Some(v3::StableHow::UNSTABLE),
                verifier: Some([1; 8]),
            })),
        ),
        _ => (
            v3::Call::ReadDirPlus(v3::ReadDirPlusArgs {
                directory: file,
                cookie: Some(0),
                cookie_verifier: Some([0; 8]),
                directory_count: Some(8192),
                count_max: Some(65_536),
            }),
            v3::Reply::ReadDirPlus(Outcome::Ok(v3::ReadDirPlusOk {
                directory: attributes(),
                cookie_verifier: Some([0; 8]),
                entries: List::new(&entries),
                eof: Some(true),
            })),
        ),
    };
    connection::nfs(xid, Auth::none(), &call, &reply, data)
}

/// Feeds frames as a port does: from blocks of a pool, in bursts.
struct Feed {
    pool: Pool,
    writer: BlockWriter,
    burst: Burst,
    pipeline: Pipeline<Rows>,
    frames: u64,
}

impl Feed {
    fn new() -> Self {
        let budget = Budget::new(256 << 20);
        let mut pool = Pool::new(1 << 20, 8, &budget).expect("it fits");
        Self {
            writer: pool.take().expect("an unused block"),
            pool,
            burst: Burst::with_capacity(64),
            pipeline: Pipeline::new(Config::default(), &budget, Rows::default()),
            frames: 0,
        }
    }

    fn frame(&mut self, bytes: &[u8]) {
        if self.writer.unfilled().len() < bytes.len() {
            self.flush();
            self.writer = self.pool.take().expect("no block is held for long");
        }
        self.writer.unfilled()[..bytes.len()].copy_from_slice(bytes);
        self.writer.advance(bytes.len());
        self.frames += 1;
        let descriptor = Descriptor {
            stamp_ns: Some(self.frames as i64 * 1000),
            wire_len: bytes.len() as u32,
            link_type: LinkType::ETHERNET,
            number: self.frames,
            ordinal: self.frames,
            ..Descriptor::default()
        };
        self.burst.push(self.writer.take(bytes.len(), descriptor));
        if self.burst.len() == 64 {
            self.flush();
        }
    }

    fn flush(&mut self) {
        self.pipeline.on_burst(&mut self.burst);
    }
}

#[test]
fn frames_and_messages_allocate_nothing() {
    let mut feed = Feed::new();
    let mut connections: Vec<TcpConnection> = (0..4)
        .map(|index| TcpConnection::new(700 + index, [1000 * u32::from(index), 5]))
        .collect();
    for connection in &mut connections {
        for frame in connection.handshake() {
            feed.frame(&frame);
        }
    }
    let data: Vec<u8> = (0..8192u32).map(|at| (at * 7) as u8).collect();
    let mut allocated = 0;
    for xid in 0..WARM_UP + MEASURED {
        let connection = &mut connections[(xid % 4) as usize];
        let mut frames = Vec::new();
        for (direction, message) in operation(xid, &data).iter().enumerate() {
            let mut record = Vec::new();
            encode_record(&[], message, &mut record);
            for part in record.chunks(SEGMENT) {
                frames.push(connection.segment(direction, TcpFlags::ACK, part));
            }
        }
        let before = process_allocations();
        for frame in &frames {
            feed.frame(frame);
        }
        if xid >= WARM_UP {
            allocated += process_allocations() - before;
        }
    }
    feed.flush();
    let frames = feed.frames;
    let counters = feed.pipeline.counters().clone();
    assert_eq!(
        counters.value(Counter::CallsAnswered),
        u64::from(WARM_UP + MEASURED)
    );
    assert!(counters.value(Counter::Blocks) > u64::from(MEASURED));
    assert!(
        allocated <= ALLOCATIONS_MAX,
        "{allocated} allocations for {MEASURED} operations in {frames} frames"
    );
}
