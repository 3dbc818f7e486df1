//! Rows that a program writes, whatever their form: nothing in them is trusted.

use lineside_trace::{GivenCell, GivenColumn};

/// Takes the rows that a program writes.
pub trait GivenRows {
    /// The columns come, once and before all else: some, of different names.
    fn begin(&mut self, columns: Vec<GivenColumn>) -> Result<(), String>;

    /// A value of a column, of its kind.
    fn push(&mut self, column: usize, cell: GivenCell<'_>) -> Result<(), String>;

    /// So many rows have all their values: each column got as many.
    fn advance(&mut self, rows: usize) -> Result<(), String>;
}

/// The most columns of a table.
pub(super) const COLUMNS_MAX: usize = 1_000;

/// The most bytes of a column's name.
pub(super) const NAME_MAX: usize = 1_000;

/// Refuses columns that no table has.
pub(super) fn check_columns(columns: &[GivenColumn]) -> Result<(), String> {
    check_count(columns.len())?;
    for (place, column) in columns.iter().enumerate() {
        check_name(&column.name)?;
        let mut before = columns[..place].iter();
        if before.any(|other| other.name == column.name) {
            return Err(format!("it names a column '{}' twice", column.name));
        }
    }
    Ok(())
}

pub(super) fn check_count(columns: usize) -> Result<(), String> {
    match columns {
        1..=COLUMNS_MAX => Ok(()),
        _ => Err(format!(
            "it names {columns} columns: a table has from 1 to {COLUMNS_MAX}"
        )),
    }
}

pub(super) fn check_name(name: &str) -> Result<(), String> {
    match name.len() {
        0..=NAME_MAX => Ok(()),
        len => Err(format!(
            "the name of a column has {len} bytes: {NAME_MAX} are the most"
        )),
    }
}
