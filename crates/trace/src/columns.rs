//! Columns of a batch in memory: plain vectors that become Arrow arrays without a copy.
//!
//! Most cells of a wide table are null, so null is the cheap case: a push of null does nothing, and the next
//! value (or the end of the batch) fills the places that were passed over.

use std::net::IpAddr;
use std::sync::Arc;

use arrow_array::types::{ArrowPrimitiveType, Int32Type, Int64Type};
use arrow_array::{ArrayRef, BinaryArray, BooleanArray, PrimitiveArray, StringArray};
use arrow_buffer::{
    BooleanBufferBuilder, Buffer, NullBuffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer,
};

use crate::cell::{Address, Blob, Cell, Label, Text, Word, escape};
use crate::tables::Row;

/// Values of a batch of rows of one table.
pub(crate) trait Columns: Default {
    /// The row of that table.
    type Row: Row;

    /// Adds a row.
    fn push(&mut self, row: &Self::Row);

    /// Counts rows whose columns were filled directly.
    fn advance(&mut self, rows: usize);

    /// Rows held.
    fn rows(&self) -> usize;

    /// Bytes held.
    fn bytes(&self) -> usize;

    /// Hands over the columns in order and is empty.
    fn take(&mut self) -> Vec<ArrayRef>;
}

/// The values of one column.
pub(crate) trait Column: Default {
    /// Bytes held.
    fn bytes(&self) -> usize;
}

/// A cell that has a column.
pub(crate) trait Encode: Cell {
    /// Its column.
    type Column: Column;

    /// Adds the value of row `row`; rows passed over are null (false, if they cannot be null).
    fn push(&self, column: &mut Self::Column, row: usize);

    /// The column of `rows` rows, which is empty afterwards.
    fn take(column: &mut Self::Column, rows: usize) -> ArrayRef;
}

/// Which rows hold a value. It is told of nulls only, so that a value costs nothing here.
pub(crate) struct Validity {
    builder: NullBufferBuilder,
}

impl Validity {
    /// Rows from `first` to `end` are null; those before that were not told of hold values.
    fn nulls(&mut self, first: usize, end: usize) {
        self.builder.append_n_non_nulls(first - self.builder.len());
        self.builder.append_n_nulls(end - first);
    }

    /// Of `rows` rows; `None` if all hold values.
    fn take(&mut self, rows: usize) -> Option<NullBuffer> {
        self.builder.append_n_non_nulls(rows - self.builder.len());
        self.builder.finish()
    }
}

impl Default for Validity {
    fn default() -> Self {
        Self {
            builder: NullBufferBuilder::new(0),
        }
    }
}

/// Integers.
pub(crate) struct Integers<T: ArrowPrimitiveType> {
    values: Vec<T::Native>,
    validity: Validity,
}

impl<T: ArrowPrimitiveType> Default for Integers<T> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            validity: Validity::default(),
        }
    }
}

impl<T: ArrowPrimitiveType> Integers<T> {
    fn push(&mut self, row: usize, value: T::Native) {
        self.fill(row);
        self.values.push(value);
    }

    /// Nulls up to `rows`.
    fn fill(&mut self, rows: usize) {
        let len = self.values.len();
        if len < rows {
            self.values.resize(rows, T::Native::default());
            self.validity.nulls(len, rows);
        }
    }

    /// Adds the same value `count` times.
    pub(crate) fn repeat(&mut self, value: T::Native, count: usize) {
        self.extend(std::iter::repeat_n(value, count));
    }

    /// Adds values to a column without nulls.
    pub(crate) fn extend(&mut self, values: impl ExactSizeIterator<Item = T::Native>) {
        self.values.extend(values);
    }

    fn take(&mut self, rows: usize) -> ArrayRef {
        self.fill(rows);
        // The next batch will be about as long: one allocation instead of many that grow.
        let next = Vec::with_capacity(rows);
        let values = ScalarBuffer::from(std::mem::replace(&mut self.values, next));
        Arc::new(PrimitiveArray::<T>::new(values, self.validity.take(rows)))
    }
}

impl<T: ArrowPrimitiveType> Column for Integers<T> {
    fn bytes(&self) -> usize {
        self.values.capacity() * size_of::<T::Native>()
    }
}

/// Booleans.
pub(crate) struct Booleans {
    values: BooleanBufferBuilder,
    validity: Validity,
}

impl Default for Booleans {
    fn default() -> Self {
        Self {
            values: BooleanBufferBuilder::new(0),
            validity: Validity::default(),
        }
    }
}

impl Booleans {
    fn push(&mut self, value: bool) {
        self.values.append(value);
    }

    /// Up to `rows`: nulls, or false where nothing can be null.
    fn fill(&mut self, rows: usize, nulls: bool) {
        let len = self.values.len();
        if len < rows {
            self.values.append_n(rows - len, false);
            if nulls {
                self.validity.nulls(len, rows);
            }
        }
    }

    fn take(&mut self, rows: usize) -> ArrayRef {
        let values = self.values.finish();
        Arc::new(BooleanArray::new(values, self.validity.take(rows)))
    }
}

impl Column for Booleans {
    fn bytes(&self) -> usize {
        self.values.capacity() / 8
    }
}

/// Texts or bytes, one behind the other.
#[derive(Default)]
pub(crate) struct Texts {
    bytes: Vec<u8>,
    /// Where each value ends.
    ends: Vec<i32>,
    validity: Validity,
}

impl Texts {
    /// Adds the value that `write` appends to the bytes.
    fn push(&mut self, row: usize, write: impl FnOnce(&mut Vec<u8>)) {
        self.fill(row);
        write(&mut self.bytes);
        self.ends.push(self.end());
    }

    fn end(&self) -> i32 {
        i32::try_from(self.bytes.len()).expect("the encoder ends a batch long before 2 GiB of text")
    }

    fn fill(&mut self, rows: usize) {
        let len = self.ends.len();
        if len < rows {
            self.ends.resize(rows, self.end());
            self.validity.nulls(len, rows);
        }
    }

    fn take(&mut self, rows: usize) -> (OffsetBuffer<i32>, Buffer, Option<NullBuffer>) {
        self.fill(rows);
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        offsets.append(&mut self.ends);
        // Room for what the latest batch had, unless it was unusually much.
        let next = Vec::with_capacity(self.bytes.len().min(32 * rows));
        (
            OffsetBuffer::new(ScalarBuffer::from(offsets)),
            Buffer::from_vec(std::mem::replace(&mut self.bytes, next)),
            self.validity.take(rows),
        )
    }

    fn take_strings(&mut self, rows: usize) -> ArrayRef {
        let (offsets, bytes, nulls) = self.take(rows);
        Arc::new(StringArray::new(offsets, bytes, nulls))
    }
}

impl Column for Texts {
    fn bytes(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<i32>()
    }
}

/// IP addresses as text. A capture has few of them, in turns, so the latest formats are kept.
#[derive(Default)]
pub(crate) struct Addresses {
    texts: Texts,
    latest: Vec<(IpAddr, String)>,
    oldest: usize,
}

impl Addresses {
    /// Formats kept: the addresses of a handful of conversations that alternate.
    const LATEST_MAX: usize = 8;

    fn push(&mut self, row: usize, address: IpAddr) {
        let place = self.latest.iter().position(|&(known, _)| known == address);
        let place = place.unwrap_or_else(|| self.remember(address));
        let (_, text) = &self.latest[place];
        self.texts
            .push(row, |out| out.extend_from_slice(text.as_bytes()));
    }

    fn remember(&mut self, address: IpAddr) -> usize {
        // Rust writes IPv6 addresses as RFC 5952 says.
        let entry = (address, address.to_string());
        if self.latest.len() < Self::LATEST_MAX {
            self.latest.push(entry);
            return self.latest.len() - 1;
        }
        self.oldest = (self.oldest + 1) % Self::LATEST_MAX;
        self.latest[self.oldest] = entry;
        self.oldest
    }
}

impl Column for Addresses {
    fn bytes(&self) -> usize {
        self.texts.bytes()
    }
}

macro_rules! integers {
    ($($native:ty, $arrow:ty;)*) => {$(
        impl Encode for $native {
            type Column = Integers<$arrow>;

            fn push(&self, column: &mut Self::Column, row: usize) {
                column.push(row, *self);
            }

            fn take(column: &mut Self::Column, rows: usize) -> ArrayRef {
                column.take(rows)
            }
        }

        impl Encode for Option<$native> {
            type Column = Integers<$arrow>;

            fn push(&self, column: &mut Self::Column, row: usize) {
                if let Some(value) = *self {
                    column.push(row, value);
                }
            }

            fn take(column: &mut Self::Column, rows: usize) -> ArrayRef {
                column.take(rows)
            }
        }
    )*};
}

integers! {
    i64, Int64Type;
    i32, Int32Type;
}

impl Encode for bool {
    type Column = Booleans;

    fn push(&self, column: &mut Booleans, row: usize) {
        if *self {
            column.fill(row, false);
            column.push(true);
        }
    }

    fn take(column: &mut Booleans, rows: usize) -> ArrayRef {
        column.fill(rows, false);
        column.take(rows)
    }
}

impl Encode for Option<bool> {
    type Column = Booleans;

    fn push(&self, column: &mut Booleans, row: usize) {
        if let Some(value) = *self {
            column.fill(row, true);
            column.push(value);
        }
    }

    fn take(column: &mut Booleans, rows: usize) -> ArrayRef {
        column.fill(rows, true);
        column.take(rows)
    }
}

impl Encode for Label {
    type Column = Texts;

    fn push(&self, column: &mut Texts, row: usize) {
        if let Some(text) = *self {
            column.push(row, |out| out.extend_from_slice(text.as_bytes()));
        }
    }

    fn take(column: &mut Texts, rows: usize) -> ArrayRef {
        column.take_strings(rows)
    }
}

impl Encode for Word {
    type Column = Texts;

    fn push(&self, column: &mut Texts, row: usize) {
        match *self {
            Self::None => {}
            Self::Known(text) => column.push(row, |out| out.extend_from_slice(text.as_bytes())),
            Self::Number(number) => {
                column.push(row, |out| {
                    out.extend_from_slice(number.to_string().as_bytes())
                });
            }
        }
    }

    fn take(column: &mut Texts, rows: usize) -> ArrayRef {
        column.take_strings(rows)
    }
}

impl Encode for Text {
    type Column = Texts;

    fn push(&self, column: &mut Texts, row: usize) {
        if let Some(bytes) = self.bytes() {
            column.push(row, |out| escape(bytes, out));
        }
    }

    fn take(column: &mut Texts, rows: usize) -> ArrayRef {
        column.take_strings(rows)
    }
}

impl Encode for Blob {
    type Column = Texts;

    fn push(&self, column: &mut Texts, row: usize) {
        if let Some(bytes) = self.bytes() {
            column.push(row, |out| out.extend_from_slice(bytes));
        }
    }

    fn take(column: &mut Texts, rows: usize) -> ArrayRef {
        let (offsets, bytes, nulls) = column.take(rows);
        Arc::new(BinaryArray::new(offsets, bytes, nulls))
    }
}

impl Encode for Address {
    type Column = Addresses;

    fn push(&self, column: &mut Addresses, row: usize) {
        if let Some(address) = *self {
            column.push(row, address);
        }
    }

    fn take(column: &mut Addresses, rows: usize) -> ArrayRef {
        column.texts.take_strings(rows)
    }
}
