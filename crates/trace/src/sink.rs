use crate::tables::{
    ChecksumRow, ConnectionRow, FileRow, LossRow, Nfs4Row, NfsRow, OperationRow, PacketRow,
    ServiceRow, Table,
};

/// Where rows go: an encoder, an analysis, a test.
///
/// Rows are borrowed, so that the caller can [clear](crate::Row::clear) and use them again. A sink
/// cannot refuse a row: it remembers what went wrong and says so when it is finished.
pub trait RecordSink {
    /// Whether rows of `table` are wanted: if not, the caller need not make them.
    fn wants(&self, table: Table) -> bool {
        let _ = table;
        true
    }

    /// The time of the trace, nanoseconds since the Unix epoch, never less than before: rows that follow were
    /// known at it. [`i64::MIN`] as long as no frame had a stamp.
    fn on_time(&mut self, now_ns: i64) {
        let _ = now_ns;
    }

    /// A call with its reply.
    fn operation(&mut self, row: &OperationRow);

    /// The checksums of consecutive blocks, from `first_block` (file offset / 512), of an operation's data.
    fn checksums(&mut self, operation_id: i64, first_block: i64, sums: &[u64]) {
        let _ = (operation_id, first_block, sums);
    }

    /// What NFS of any version has.
    fn nfs(&mut self, row: &NfsRow) {
        let _ = row;
    }

    /// What only NFSv4 has.
    fn nfs4(&mut self, row: &Nfs4Row) {
        let _ = row;
    }

    /// What the programs beside NFS have.
    fn service(&mut self, row: &ServiceRow) {
        let _ = row;
    }

    /// A connection in one interval.
    fn connection(&mut self, row: &ConnectionRow) {
        let _ = row;
    }

    /// A fact about a file.
    fn file(&mut self, row: &FileRow) {
        let _ = row;
    }

    /// Bytes or frames that are missing.
    fn loss(&mut self, row: &LossRow) {
        let _ = row;
    }

    /// A frame.
    fn packet(&mut self, row: &PacketRow) {
        let _ = row;
    }
}

impl<S: RecordSink + ?Sized> RecordSink for &mut S {
    fn wants(&self, table: Table) -> bool {
        (**self).wants(table)
    }

    fn on_time(&mut self, now_ns: i64) {
        (**self).on_time(now_ns);
    }

    fn operation(&mut self, row: &OperationRow) {
        (**self).operation(row);
    }

    fn checksums(&mut self, operation_id: i64, first_block: i64, sums: &[u64]) {
        (**self).checksums(operation_id, first_block, sums);
    }

    fn nfs(&mut self, row: &NfsRow) {
        (**self).nfs(row);
    }

    fn nfs4(&mut self, row: &Nfs4Row) {
        (**self).nfs4(row);
    }

    fn service(&mut self, row: &ServiceRow) {
        (**self).service(row);
    }

    fn connection(&mut self, row: &ConnectionRow) {
        (**self).connection(row);
    }

    fn file(&mut self, row: &FileRow) {
        (**self).file(row);
    }

    fn loss(&mut self, row: &LossRow) {
        (**self).loss(row);
    }

    fn packet(&mut self, row: &PacketRow) {
        (**self).packet(row);
    }
}

/// A sink that keeps every row in memory, without bound: for tests and small analyses.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CollectedRows {
    /// Rows of `operations`.
    pub operations: Vec<OperationRow>,
    /// Rows of `checksums`.
    pub checksums: Vec<ChecksumRow>,
    /// Rows of `nfs`.
    pub nfs: Vec<NfsRow>,
    /// Rows of `nfs4`.
    pub nfs4: Vec<Nfs4Row>,
    /// Rows of `services`.
    pub services: Vec<ServiceRow>,
    /// Rows of `connections`.
    pub connections: Vec<ConnectionRow>,
    /// Rows of `files`.
    pub files: Vec<FileRow>,
    /// Rows of `losses`.
    pub losses: Vec<LossRow>,
    /// Rows of `packets`.
    pub packets: Vec<PacketRow>,
}

impl RecordSink for CollectedRows {
    fn operation(&mut self, row: &OperationRow) {
        self.operations.push(row.clone());
    }

    fn checksums(&mut self, operation_id: i64, first_block: i64, sums: &[u64]) {
        let rows = sums.iter().zip(first_block..);
        self.checksums.extend(rows.map(|(&sum, block)| ChecksumRow {
            operation_id,
            block,
            checksum: sum.cast_signed(),
        }));
    }

    fn nfs(&mut self, row: &NfsRow) {
        self.nfs.push(row.clone());
    }

    fn nfs4(&mut self, row: &Nfs4Row) {
        self.nfs4.push(row.clone());
    }

    fn service(&mut self, row: &ServiceRow) {
        self.services.push(row.clone());
    }

    fn connection(&mut self, row: &ConnectionRow) {
        self.connections.push(row.clone());
    }

    fn file(&mut self, row: &FileRow) {
        self.files.push(row.clone());
    }

    fn loss(&mut self, row: &LossRow) {
        self.losses.push(row.clone());
    }

    fn packet(&mut self, row: &PacketRow) {
        self.packets.push(row.clone());
    }
}
