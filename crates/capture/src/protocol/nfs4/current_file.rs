//! Which file each operation of an NFSv4 compound is about.
//!
//! Operations act on a current and a saved file handle (RFC 8881 section 16.2.3.1). PUTFH brings a
//! handle; LOOKUP, OPEN and others make another object the current one; its handle is on the wire
//! only if a GETFH follows. So the compound is walked twice: once to learn the objects' handles,
//! once to give them to the rows.

use lineside_nfs::v4::Operation as Op;

/// An object that is the current one for some operations, each known by its place `P`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Object<P> {
    /// Its id, if its handle was on the wire.
    pub(super) id: Option<i64>,
    /// The operation that has its handle.
    pub(super) holder: Option<P>,
    /// The operation that made it the current one by its name.
    pub(super) maker: Option<P>,
}

/// The objects of one compound; its memory is used again for the next.
#[derive(Debug)]
pub(crate) struct FilesOfCompound<P> {
    objects: Vec<Object<P>>,
    /// All operations, each with the object that is the current one behind it.
    operations: Vec<(P, Option<usize>)>,
    met: usize,
    current: Option<usize>,
    saved: Option<usize>,
}

impl<P> Default for FilesOfCompound<P> {
    fn default() -> Self {
        Self {
            objects: Vec::new(),
            operations: Vec::new(),
            met: 0,
            current: None,
            saved: None,
        }
    }
}

/// What is to be known of an operation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Met {
    pub(super) effect: Effect,
    /// The file of the handle that its call or its result has.
    pub(super) id: Option<i64>,
    /// That handle is at hand.
    pub(super) has_handle: bool,
}

/// The files that an operation is about, for the columns of these names.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Files {
    pub(super) file_id: Option<i64>,
    pub(super) file2_id: Option<i64>,
    pub(super) result_file_id: Option<i64>,
}

/// What an operation does to the current and the saved handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
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

impl Effect {
    /// That of an operation; `has_name`: `None` if its call was not seen so far.
    pub(super) fn of(number: Option<u32>, has_name: Option<bool>) -> Self {
        let Some(op) = number.and_then(Op::from_number) else {
            return Self::Nothing;
        };
        match op {
            Op::PutFh | Op::PutPubFh | Op::PutRootFh => Self::Puts,
            Op::Lookup | Op::LookupP | Op::Create | Op::OpenAttr => Self::Makes,
            // Without a name the file is the current one already (RFC 8881 section 18.16.3).
            Op::Open => match has_name {
                Some(true) => Self::Makes,
                Some(false) => Self::Uses,
                None => Self::MayMake,
            },
            Op::SaveFh => Self::Saves,
            Op::RestoreFh => Self::Restores,
            Op::GetFh => Self::Reads,
            Op::Rename | Op::Link | Op::Copy | Op::Clone => Self::UsesBoth,
            Op::SecInfo | Op::SecInfoNoName => Self::Consumes,
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
            | Op::TestStateId => Self::Nothing,
            _ => Self::Uses,
        }
    }
}

impl<P: Copy> FilesOfCompound<P> {
    /// Learns the objects of a compound from all of its operations, or from the first ones.
    pub(super) fn learn(&mut self, operations: impl Iterator<Item = (P, Met)>) {
        self.objects.clear();
        self.operations.clear();
        self.rewind();
        for (place, met) in operations {
            self.step(met.effect);
            self.operations.push((place, self.current));
            let Some(object) = self.current.and_then(|at| self.objects.get_mut(at)) else {
                continue;
            };
            match met.effect {
                Effect::Puts | Effect::Reads if met.id.is_some() => {
                    object.id = met.id;
                    object.holder = met.has_handle.then_some(place);
                }
                Effect::Makes => object.maker = Some(place),
                _ => {}
            }
        }
    }

    /// Once they are learnt: the operations are passed again, from the first on.
    pub(super) fn rewind(&mut self) {
        (self.met, self.current, self.saved) = (0, None, None);
    }

    /// The files of the next operation; `None`: it is about none.
    pub(super) fn pass(&mut self, effect: Effect) -> Option<Files> {
        let before = self.id(self.current);
        self.step(effect);
        let after = self.id(self.current);
        let (file_id, file2_id, result_file_id) = match effect {
            Effect::Nothing => return None,
            Effect::Uses | Effect::Reads | Effect::Consumes | Effect::MayMake => {
                (before, None, None)
            }
            Effect::UsesBoth => (self.id(self.saved), before, None),
            Effect::Puts | Effect::Saves | Effect::Restores => (after, None, None),
            Effect::Makes => (before, None, after),
        };
        Some(Files {
            file_id,
            file2_id,
            result_file_id,
        })
    }

    /// The objects, by number.
    pub(super) fn objects(&self) -> impl Iterator<Item = (usize, Object<P>)> + use<'_, P> {
        self.objects.iter().copied().enumerate()
    }

    /// The operations behind which an object is the current one, the last first.
    pub(super) fn operations_of(&self, object: usize) -> impl Iterator<Item = P> + use<'_, P> {
        let operations = self.operations.iter().rev();
        let of_it = operations.filter(move |(_, current)| *current == Some(object));
        of_it.map(|&(place, _)| place)
    }

    /// The current file behind the operations that were learnt.
    pub(super) fn current_id(&self) -> Option<i64> {
        self.id(self.current)
    }

    fn step(&mut self, effect: Effect) {
        match effect {
            Effect::Puts | Effect::Makes | Effect::MayMake => {
                self.current = Some(self.met);
                self.met += 1;
                if self.met > self.objects.len() {
                    self.objects.push(Object {
                        id: None,
                        holder: None,
                        maker: None,
                    });
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
