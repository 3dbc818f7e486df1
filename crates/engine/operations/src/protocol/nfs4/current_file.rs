//! Which file each operation of an NFSv4 compound is about.
//!
//! Operations act on a current and a saved file handle (RFC 8881 section 16.2.3.1). PUTFH brings a
//! handle; LOOKUP, OPEN and others make another object the current one; its handle is on the wire
//! only if a GETFH follows. So the compound is walked twice: once to learn the objects' handles,
//! once to give them to the rows.

use lineside_nfs::v4::Operation as Op;
use lineside_rows::Word;

use super::link;
use crate::operation::{Operation, OperationTable};
use crate::procedure::{FilesOfCompound, Object};
use crate::slot::Slot;

/// What an operation does to the current and the saved handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// It is about no file.
    Nothing,
    /// It is about the current one.
    Uses,
    /// It is about the current one, and its result has the handle.
    Reads,
    /// It is about the saved and the current one.
    UsesBoth,
    /// It sets a current one, whatever was before.
    Puts,
    /// It makes another the current one, found or created in the one before.
    Makes,
    /// It does so or not: too little of its call was seen.
    MayMake,
    Saves,
    Restores,
    /// It is about the current one, and leaves none.
    Consumes,
}

fn effect(operation: &Operation) -> Effect {
    let Some(op) = link(operation).number.and_then(Op::from_number) else {
        return Effect::Nothing;
    };
    match op {
        Op::PutFh | Op::PutPubFh | Op::PutRootFh => Effect::Puts,
        Op::Lookup | Op::LookupP | Op::Create | Op::OpenAttr => Effect::Makes,
        Op::Open if operation.row.name.is_null() && operation.row.call_incomplete => {
            Effect::MayMake
        }
        // Without a name the file is the current one already (RFC 8881 section 18.16.3).
        Op::Open if operation.row.name.is_null() => Effect::Uses,
        Op::Open => Effect::Makes,
        Op::SaveFh => Effect::Saves,
        Op::RestoreFh => Effect::Restores,
        Op::GetFh => Effect::Reads,
        Op::Rename | Op::Link | Op::Copy | Op::Clone => Effect::UsesBoth,
        Op::SecInfo | Op::SecInfoNoName => Effect::Consumes,
        Op::BackchannelCtl
        | Op::BindConnToSession
        | Op::CreateSession
        | Op::DelegPurge
        | Op::DestroyClientId
        | Op::DestroySession
        | Op::ExchangeId
        | Op::FreeStateId
        | Op::GetDeviceInfo
        | Op::GetDeviceList
        | Op::Illegal
        | Op::ReleaseLockOwner
        | Op::Renew
        | Op::Sequence
        | Op::SetClientId
        | Op::SetClientIdConfirm
        | Op::SetSsv
        | Op::TestStateId => Effect::Nothing,
        _ => Effect::Uses,
    }
}

impl FilesOfCompound {
    /// Gives the rows of the compound that begins in `first` their files.
    pub(super) fn resolve(&mut self, operations: &mut OperationTable, first: Slot) {
        self.learn(operations, first, None);
        self.rewind();
        let mut next = Some(first);
        while let Some(slot) = next {
            let operation = &mut operations[slot];
            let effect = effect(operation);
            let before = self.id(self.current);
            self.step(effect);
            let after = self.id(self.current);
            let row = &mut operation.row;
            match effect {
                Effect::Nothing => {}
                Effect::Uses | Effect::Reads | Effect::Consumes | Effect::MayMake => {
                    row.file_id = before;
                }
                Effect::UsesBoth => (row.file_id, row.file2_id) = (self.id(self.saved), before),
                Effect::Puts | Effect::Saves | Effect::Restores => row.file_id = after,
                Effect::Makes => (row.file_id, row.result_file_id) = (before, after),
            }
            next = link(operation).next;
        }
    }

    /// The objects, once they are resolved.
    pub(super) fn objects(&self) -> impl Iterator<Item = Object> + use<'_> {
        self.objects.iter().copied()
    }

    /// The file that the operation in `slot` is about, as far as is known before the compound has
    /// ended.
    pub(super) fn id_at(
        &mut self,
        operations: &OperationTable,
        first: Slot,
        slot: Slot,
    ) -> Option<i64> {
        self.learn(operations, first, Some(slot));
        self.id(self.current)
    }

    fn learn(&mut self, operations: &OperationTable, first: Slot, until: Option<Slot>) {
        self.objects.clear();
        self.rewind();
        let mut next = Some(first);
        while let Some(slot) = next
            && Some(slot) != until
        {
            let operation = &operations[slot];
            let row = &operation.row;
            let effect = effect(operation);
            self.step(effect);
            if let Some(object) = self.current.and_then(|at| self.objects.get_mut(at)) {
                if matches!(effect, Effect::Puts | Effect::Reads) && row.file_id.is_some() {
                    object.id = row.file_id;
                    object.holder = operation.handle.is_some().then_some(slot);
                }
                if effect == Effect::Makes {
                    object.maker = Some(slot);
                }
                if row.file_type != Word::None || row.file_size.is_some() {
                    object.attributes = Some(slot);
                }
            }
            next = link(operation).next;
        }
    }

    fn rewind(&mut self) {
        (self.met, self.current, self.saved) = (0, None, None);
    }

    fn step(&mut self, effect: Effect) {
        match effect {
            Effect::Puts | Effect::Makes | Effect::MayMake => {
                self.current = Some(self.met);
                self.met += 1;
                if self.met > self.objects.len() {
                    self.objects.push(Object::default());
                }
            }
            Effect::Saves => self.saved = self.current,
            Effect::Restores => self.current = self.saved,
            Effect::Consumes => self.current = None,
            Effect::Nothing | Effect::Uses | Effect::Reads | Effect::UsesBoth => {}
        }
    }

    fn id(&self, object: Option<usize>) -> Option<i64> {
        self.objects.get(object?)?.id
    }
}
