//! Rows of operations and of the files that they name, written through a context that has no more
//! than that takes.

use lineside_account::{Counter, Counters};
use lineside_rows::{FileRow, RecordSink, RowRef, Table, Word, is_success};

use crate::details::Details;
use crate::files::{Fact, Files};
use crate::operation::{OperationTable, contradicts, mark_incomplete};
use crate::procedure::FilesOfCompound;
use crate::slot::Slot;

/// Which rows a sink wants.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wants {
    pub(crate) files: bool,
    pub(crate) details: bool,
    pub(crate) nfs: bool,
}

impl Wants {
    pub(crate) fn of(sink: &impl RecordSink) -> Self {
        Self {
            files: sink.wants(Table::Files),
            details: Details::wanted(sink),
            nfs: sink.wants(Table::Nfs),
        }
    }
}

/// Memory that is used again for each row.
#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) compound: FilesOfCompound,
    pub(crate) name: Vec<u8>,
    file: FileRow,
}

/// What rows of a connection's operations are written through.
pub(crate) struct Rows<'a, S> {
    pub(crate) operations: &'a mut OperationTable,
    pub(crate) files: Files<'a>,
    pub(crate) sink: &'a mut S,
    pub(crate) scratch: &'a mut Scratch,
    pub(crate) counters: &'a mut Counters,
    pub(crate) wants: Wants,
}

impl<S: RecordSink> Rows<'_, S> {
    /// Writes the row of an operation that is its call's only one. `is_about_call`: the attributes
    /// in the reply are those of the call's file.
    pub(crate) fn write(&mut self, slot: Slot, is_about_call: bool) {
        let operation = &mut self.operations[slot];
        mark_incomplete(&mut operation.row, self.counters);
        let row = &operation.row;
        // An ambiguous one may be the reply to another call.
        if contradicts(row) && !row.reply_ambiguous {
            self.counters.count(Counter::RepliesContradicting);
        }
        self.sink.row(RowRef::Operations(row));
        if self.wants.details {
            operation.details.write(row.operation_id, self.sink);
        }
        let is_about_call = is_about_call && !row.reply_ambiguous;
        if let Some(handle) = operation.handle.take()
            && let (Some(file_id), Some(server)) = (row.file_id, row.server_address)
        {
            let fact = Fact {
                operation_id: row.operation_id,
                time_ns: row.reply_end_ns.or(row.call_end_ns),
                server,
                handle: handle.bytes(),
                file_id: Some(file_id),
                fileid: None,
                parent: None,
                name: None,
                file_type: match is_about_call {
                    true => row.file_type,
                    false => Word::None,
                },
                size: row.file_size.filter(|_| is_about_call),
            };
            self.report_fact(&fact);
        }
        self.report_rename(slot);
        self.operations.release(slot);
    }

    /// Reports a fact about a file unless this connection has reported it before.
    pub(crate) fn report_fact(&mut self, fact: &Fact<'_>) {
        if !self.wants.files || !self.files.is_new_fact(fact.key(), self.counters) {
            return;
        }
        let row = &mut self.scratch.file;
        row.clear();
        row.file_id = fact.file_id;
        row.operation_id = fact.operation_id;
        row.time_ns = fact.time_ns;
        row.server_address = Some(fact.server);
        if !fact.handle.is_empty() {
            row.handle.set(fact.handle);
        }
        row.parent_file_id = fact.parent;
        if let Some(name) = fact.name {
            row.name.set(name);
        }
        row.fileid = fact.fileid;
        row.file_type = fact.file_type;
        row.file_size = fact.size;
        self.sink.row(RowRef::Files(row));
        if let (Some(name), Some(file_id)) = (fact.name, fact.file_id) {
            let place = (fact.parent, name);
            self.files.remember_name(place, file_id, self.counters);
        }
    }

    /// Reports an entry of a directory: without a handle only if no file is known by its name.
    pub(crate) fn report_entry(&mut self, fact: &Fact<'_>) {
        let name = fact.name.unwrap_or_default();
        // The directory itself and the one above it would lead in circles.
        let is_known = fact.file_id.is_none() && self.files.has_name(fact.parent, name);
        if !matches!(name, b"." | b"..") && !is_known {
            self.report_fact(fact);
        }
    }

    /// Reports the new name of a file that was renamed, if this connection has reported the old
    /// one: the call names directories, and no file.
    pub(crate) fn report_rename(&mut self, slot: Slot) {
        let row = &mut self.operations[slot].row;
        if row.name2.is_null() {
            return;
        }
        let is_renamed = row.operation == Word::Known("RENAME")
            && matches!(row.status, Word::Known(status) if is_success(status));
        if !self.wants.files || row.reply_ambiguous || !is_renamed {
            return;
        }
        let (name, name2) = (
            std::mem::take(&mut row.name),
            std::mem::take(&mut row.name2),
        );
        self.follow_rename(slot, [name.bytes(), name2.bytes()]);
        let row = &mut self.operations[slot].row;
        (row.name, row.name2) = (name, name2);
    }

    /// A file with the first of two names has the second one now.
    fn follow_rename(&mut self, slot: Slot, names: [Option<&[u8]>; 2]) {
        let row = &self.operations[slot].row;
        let (Some(from), Some(to), Some(server)) = (row.file_id, row.file2_id, row.server_address)
        else {
            return;
        };
        let [Some(old), Some(new)] = names else {
            return;
        };
        let (operation_id, time_ns) = (row.operation_id, row.reply_end_ns);
        let Some(file_id) = self.files.take_name(from, old) else {
            return self.counters.count(Counter::RenamesUnfollowed);
        };
        let fact = Fact {
            operation_id,
            time_ns,
            server,
            handle: &[],
            file_id: Some(file_id),
            fileid: None,
            parent: Some(to),
            name: Some(new),
            file_type: Word::None,
            size: None,
        };
        // The file may have had this name before, and another since.
        self.files.forget(&fact);
        self.report_fact(&fact);
    }
}
