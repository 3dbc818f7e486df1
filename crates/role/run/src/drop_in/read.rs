//! Reads what a program writes, in the form that it was asked for.

use std::io::Read;

use super::rows::GivenRows;
use super::{Form, read_arrow, read_csv};

/// Reads all rows that a program writes. The error is why its output is refused; whatever was
/// pushed by then belongs to rows that are whole.
pub fn read_rows(
    form: Form,
    output: &mut impl Read,
    rows: &mut impl GivenRows,
) -> Result<(), String> {
    match form {
        Form::Arrow => read_arrow::read(output, rows),
        Form::Csv => read_csv::read(output, rows),
    }
}
