//! Values of columns as a replay has them.

use lineside_nfs::ancillary::portmap;
use lineside_nfs::{mount, v3, v4};
use lineside_replay::{Procedure, Program};
use lineside_rows::unescape;
use lineside_trace::read::Value;

/// A value of a column as a field of `Facts` has it.
pub(super) trait Field: Sized {
    fn of(value: &Value) -> Option<Self>;
}

impl Field for u32 {
    fn of(value: &Value) -> Option<Self> {
        value.integer().and_then(|value| Self::try_from(value).ok())
    }
}

impl Field for u64 {
    fn of(value: &Value) -> Option<Self> {
        value.integer().map(i64::cast_unsigned)
    }
}

impl Field for i64 {
    fn of(value: &Value) -> Option<Self> {
        value.integer()
    }
}

impl Field for Box<str> {
    fn of(value: &Value) -> Option<Self> {
        value.text().map(Into::into)
    }
}

impl Field for Box<[u8]> {
    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Text(text) => Some(unescape(text).into()),
            Value::Bytes(bytes) => Some(bytes.as_slice().into()),
            _ => None,
        }
    }
}

pub(super) fn program(name: Option<&str>, version: Option<i64>) -> Option<Program> {
    match (name?, version?) {
        ("nfs", 3) => Some(Program::Nfs3),
        ("nfs", 4) => Some(Program::Nfs4(0)),
        ("mount", 3) => Some(Program::Mount),
        ("portmap", 2) => Some(Program::Portmap),
        _ => None,
    }
}

pub(super) fn procedure(program: Program, name: &str) -> Option<Procedure> {
    match program {
        Program::Nfs3 => {
            let mut all = v3::Procedure::ALL.iter();
            all.find(|it| it.name() == name)
                .map(|&it| Procedure::Nfs3(it))
        }
        Program::Nfs4(_) => {
            let mut all = v4::Operation::ALL.iter();
            all.find(|it| it.name() == name)
                .map(|&it| Procedure::Nfs4(it))
        }
        Program::Mount => {
            let mut all = mount::Procedure::ALL.iter();
            all.find(|it| it.name() == name)
                .map(|&it| Procedure::Mount(it))
        }
        Program::Portmap => {
            let mut all = portmap::Procedure::ALL.iter();
            all.find(|it| it.name() == name)
                .map(|&it| Procedure::Portmap(it))
        }
    }
}
