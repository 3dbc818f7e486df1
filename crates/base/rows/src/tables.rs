//! What follows from the [description](crate::for_each_table) of the tables: names and columns,
//! rows, where rows go, and what holds rows of every table.

use crate::buffer::ReusedRows;
use crate::cell::{Address, Blob, Cell, ColumnType, Label, Text, Word};
use crate::for_each_table;

/// How a column's values are laid out before zstd, as measured (`examples/encodings.rs`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Differences, packed: times, ids, numbers that grow.
    Delta,
    /// A dictionary of the values: everything that repeats.
    Dictionary,
    /// As they are, and without statistics: random numbers, and times that repeat at a distance,
    /// which zstd finds in fewer bytes than a dictionary takes.
    Plain,
    /// A dictionary in the order of the rows, and how often each value comes: numbers of which each
    /// comes many times in a row.
    Runs,
}

/// What there is to know of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnSpec {
    /// Its name.
    pub name: &'static str,
    /// Its type in the file.
    pub column_type: ColumnType,
    /// What null means; `None`: it is never null.
    pub null: Option<&'static str>,
    /// How it is encoded.
    pub encoding: Encoding,
    /// What it means, with the unit.
    pub meaning: &'static str,
}

/// A row of a table. `Default` is a row of nulls, zeros and false.
pub trait Row: Default + Clone + PartialEq + std::fmt::Debug {
    /// The table it belongs to.
    const TABLE: Table;

    /// Back to the default; memory of texts is kept for the next row.
    fn clear(&mut self);

    /// Gives it to a sink.
    fn write_to(&self, sink: &mut impl RecordSink);
}

/// Where rows go: an encoder, an analysis, a test.
///
/// Rows are borrowed, so that the caller can [clear](crate::Row::clear) and use them again. A sink
/// cannot refuse a row: it keeps its first error and reports it when it is finished. A sink that
/// wraps another one passes everything on, also rows of tables that it does not know.
pub trait RecordSink {
    /// Whether rows of `table` are wanted: if not, the caller need not make them.
    fn wants(&self, table: Table) -> bool;

    /// The time of the trace, nanoseconds since the Unix epoch, never less than before: the rows
    /// that follow were complete at this time. [`i64::MIN`] as long as no frame had a stamp.
    fn on_time(&mut self, now_ns: i64);

    /// A row of any table. To be inlined where rows are many: the table is known where a row is
    /// given.
    fn row(&mut self, row: RowRef<'_>);

    /// An operation whose rows are made where they go: what [`row`](Self::row) would be given, for
    /// a sink that need not have it as a row.
    fn operation(&mut self, rows: &mut impl OperationRows) {
        if self.wants(Table::Operations) {
            let mut row = OperationRow::default();
            rows.operation(&mut row);
            self.row(RowRef::Operations(&row));
        }
        if self.wants(Table::Nfs) {
            let mut row = NfsRow::default();
            rows.nfs(&mut row);
            self.row(RowRef::Nfs(&row));
        }
    }
}

/// The rows of an operation that has one in `operations` and one in `nfs`.
pub trait OperationRows {
    /// Gives the cells of its row in `operations`; may be asked more than once.
    fn operation(&self, cells: &mut impl OperationCells);

    /// Gives the cells of its row in `nfs`; asked at most once.
    fn nfs(&mut self, cells: &mut impl NfsCells);
}

impl<S: RecordSink + ?Sized> RecordSink for &mut S {
    fn wants(&self, table: Table) -> bool {
        (**self).wants(table)
    }

    fn on_time(&mut self, now_ns: i64) {
        (**self).on_time(now_ns);
    }

    #[inline(always)]
    fn row(&mut self, row: RowRef<'_>) {
        (**self).row(row);
    }

    #[inline(always)]
    fn operation(&mut self, rows: &mut impl OperationRows) {
        (**self).operation(rows);
    }
}

/// The checksums of consecutive blocks of an operation's data: many rows of `checksums` in one.
#[derive(Debug, Clone, Copy)]
pub struct ChecksumRun<'a> {
    /// The operation that moved the blocks.
    pub operation_id: i64,
    /// File offset of the first block / 512.
    pub first_block: i64,
    /// A checksum for each block.
    pub sums: &'a [u64],
}

impl ChecksumRun<'_> {
    /// Gives a single row to a sink.
    fn write_row(row: &ChecksumRow, sink: &mut impl RecordSink) {
        sink.row(RowRef::Checksums(&ChecksumRun {
            operation_id: row.operation_id,
            first_block: row.block,
            sums: &[row.checksum.cast_unsigned()],
        }));
    }
}

/// The rows of type `R` that a variant of [`RowRef`] stands for.
trait RowsOf<R> {
    fn for_each(self, each: impl FnMut(&R));
}

impl<R> RowsOf<R> for &R {
    #[inline]
    fn for_each(self, mut each: impl FnMut(&R)) {
        each(self);
    }
}

impl RowsOf<ChecksumRow> for &ChecksumRun<'_> {
    fn for_each(self, mut each: impl FnMut(&ChecksumRow)) {
        for (&sum, block) in self.sums.iter().zip(self.first_block..) {
            each(&ChecksumRow {
                operation_id: self.operation_id,
                block,
                checksum: sum.cast_signed(),
            });
        }
    }
}

macro_rules! null_meaning {
    ($default:literal) => {
        $default
    };
    ($default:literal $null:literal) => {
        $null
    };
}

/// The cells of a row, one at a time.
macro_rules! cells {
    ([] $row:ident $($rest:tt)*) => {};
    ([$cells:ident] $row:ident {
        $($field:ident: $kind:ty, $meaning:literal;)*
    }) => {
        /// Takes the cells of one row, each at most once; one that is not given is the default's.
        #[allow(unused_variables, reason = "by default a cell is not looked at")]
        pub trait $cells {
            $(#[doc = $meaning]
            #[inline(always)]
            fn $field(&mut self, value: <$kind as Cell>::Value<'_>) {})*

            /// Takes those that `give` gives. They are the same for the same `number`, so that it
            /// need not be asked again where the row before had that number too.
            #[inline(always)]
            fn common(&mut self, number: u128, give: impl FnOnce(&mut Self))
            where
                Self: Sized,
            {
                give(self);
            }
        }

        impl $cells for $row {
            $(#[inline(always)]
            fn $field(&mut self, value: <$kind as Cell>::Value<'_>) {
                Cell::put(&mut self.$field, value);
            })*
        }

        impl $row {
            /// Gives each of its cells to `cells`.
            #[inline(always)]
            pub fn put_to(&self, cells: &mut impl $cells) {
                $(cells.$field(self.$field.value());)*
            }
        }
    };
}

/// What [`RowRef`] holds of a table.
macro_rules! referred {
    ($life:lifetime $row:ident) => {
        &$life $row
    };
    ($life:lifetime $row:ident $run:ident) => {
        &$life $run<$life>
    };
}

macro_rules! write_row {
    ($row:expr, $sink:expr, $table:ident) => {
        $sink.row(RowRef::$table($row))
    };
    ($row:expr, $sink:expr, $table:ident $run:ident) => {
        $run::write_row($row, $sink)
    };
}

macro_rules! tables {
    ($(
        $(#[doc = $doc:literal])*
        $table:ident $name:ident $row:ident $columns:ident $(runs $run:ident)?
        $(cells $cells:ident $common:tt)? null $default:literal {
            $($field:ident: $kind:ty, $encoding:ident, $meaning:literal $(null $null:literal)?;)*
        }
    )*) => {
        /// A table of the trace.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Table {
            $($(#[doc = $doc])* $table,)*
        }

        impl Table {
            /// Every table.
            pub const ALL: &[Self] = &[$(Self::$table,)*];

            /// Those of monitors, which a run has if it has monitors.
            pub const MONITORS: &[Self] = &[
                Self::MonitorBins,
                Self::MonitorWindows,
                Self::MonitorFlows,
                Self::MonitorEvents,
            ];

            /// Its name: that of its folder.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$table => stringify!($name),)* }
            }

            /// What one row of it is.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$table => concat!($($doc,)*).trim_ascii(),)* }
            }

            /// Its columns, in order.
            pub const fn columns(self) -> &'static [ColumnSpec] {
                match self {
                    $(Self::$table => const { &[$(ColumnSpec {
                        name: stringify!($field),
                        column_type: <$kind as Cell>::TYPE,
                        null: if <$kind as Cell>::NULLABLE {
                            Some(null_meaning!($default $($null)?))
                        } else {
                            None
                        },
                        encoding: Encoding::$encoding,
                        meaning: $meaning,
                    },)*] },)*
                }
            }
        }

        /// A row of any table, or a run of rows.
        #[derive(Debug, Clone, Copy)]
        pub enum RowRef<'a> {
            $($(#[doc = $doc])* $table(referred!('a $row $($run)?)),)*
        }

        impl RowRef<'_> {
            /// The table it belongs to.
            pub const fn table(self) -> Table {
                match self { $(Self::$table(_) => Table::$table,)* }
            }
        }

        /// A sink that keeps every row in memory, without bound: for tests and small analyses.
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct CollectedRows {
            $(#[doc = concat!("Rows of `", stringify!($name), "`.")] pub $name: Vec<$row>,)*
        }

        impl RecordSink for CollectedRows {
            fn wants(&self, _: Table) -> bool {
                true
            }

            fn on_time(&mut self, _: i64) {}

            fn row(&mut self, row: RowRef<'_>) {
                match row {
                    $(RowRef::$table(row) => row.for_each(|row: &$row| self.$name.push(row.clone())),)*
                }
            }
        }

        /// Rows that wait for their sink, table by table. Their memory is used again after
        /// [`clear`](Self::clear).
        #[derive(Default)]
        pub struct RowBuffer {
            $($name: ReusedRows<$row>,)*
        }

        impl RowBuffer {
            /// Adds a row.
            #[inline]
            pub fn push(&mut self, row: RowRef<'_>) {
                match row {
                    $(RowRef::$table(row) => row.for_each(|row: &$row| self.$name.push(row)),)*
                }
            }

            /// Gives all rows of the tables that `sink` wants to it.
            pub fn write_to(&self, sink: &mut impl RecordSink) {
                $(if sink.wants(Table::$table) {
                    self.$name.iter().for_each(|row| row.write_to(sink));
                })*
            }

            /// Bytes of the rows that wait, but for their texts.
            pub fn bytes(&self) -> usize {
                let mut bytes = 0;
                $(bytes += self.$name.len() * size_of::<$row>();)*
                bytes
            }

            /// Empty again. Memory of at most `rows_max` rows of each table is kept.
            pub fn clear(&mut self, rows_max: usize) {
                $(self.$name.clear(rows_max);)*
            }
        }

        $(
            $(#[doc = $doc])*
            #[derive(Debug, PartialEq, Default)]
            pub struct $row {
                $(#[doc = $meaning] pub $field: $kind,)*
            }

            impl Clone for $row {
                fn clone(&self) -> Self {
                    Self { $($field: self.$field.clone(),)* }
                }

                /// Memory of texts is used again.
                fn clone_from(&mut self, source: &Self) {
                    $(self.$field.clone_from(&source.$field);)*
                }
            }

            impl $row {
                /// Back to the default; memory of texts is kept for the next row.
                pub fn clear(&mut self) {
                    $(Cell::clear(&mut self.$field);)*
                }
            }

            impl Row for $row {
                const TABLE: Table = Table::$table;

                fn clear(&mut self) {
                    Self::clear(self);
                }

                #[inline]
                fn write_to(&self, sink: &mut impl RecordSink) {
                    write_row!(self, sink, $table $($run)?);
                }
            }
        )*

        $(cells! { [$($cells)?] $row { $($field: $kind, $meaning;)* } })*
    };
}

for_each_table!(tables);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_plain() {
        for &table in Table::ALL {
            let mut names: Vec<_> = table.columns().iter().map(|column| column.name).collect();
            for name in &names {
                let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
                assert!(name.chars().all(plain), "{name}");
            }
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count, "{}", table.name());
        }
    }

    #[test]
    fn the_same_name_is_the_same_type_in_every_table() {
        let columns = || Table::ALL.iter().flat_map(|table| table.columns());
        for column in columns() {
            let same = columns().filter(|other| other.name == column.name);
            for other in same {
                assert_eq!(column.column_type, other.column_type, "{}", column.name);
            }
            if column.name.ends_with("_ns") || column.name.ends_with("_id") {
                assert_eq!(column.column_type, ColumnType::Int64, "{}", column.name);
            }
        }
    }

    /// The lines of `docs/guide/trace.md` that describe what a table holds.
    fn documentation(table: Table) -> String {
        let mut text = "| column | type | null | meaning |\n| --- | --- | --- | --- |\n".to_owned();
        for column in table.columns() {
            let null = column.null.unwrap_or("never");
            let (name, kind) = (column.name, column.column_type.name());
            text += &format!("| `{name}` | {kind} | {null} | {} |\n", column.meaning);
        }
        text
    }

    /// Every column stands in the user's guide. `LINESIDE_BLESS=1` writes it there.
    #[test]
    fn the_guide_documents_every_column() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/guide/trace.md");
        let mut guide = std::fs::read_to_string(path).expect("the guide");
        let bless = std::env::var_os("LINESIDE_BLESS").is_some();
        for &table in Table::ALL {
            let begin = format!("<!-- columns of {} -->\n", table.name());
            let start = guide.find(&begin).expect("a mark for each table") + begin.len();
            let len = guide[start..].find("<!-- end -->").expect("an end mark");
            let wanted = format!("{}\n\n{}\n", table.meaning(), documentation(table));
            if bless {
                guide.replace_range(start..start + len, &wanted);
            } else {
                assert!(
                    guide[start..start + len] == wanted,
                    "the columns of {} differ: run LINESIDE_BLESS=1 cargo test -p lineside-rows \
                    guide",
                    table.name()
                );
            }
        }
        if bless {
            std::fs::write(path, guide).expect("written");
        }
    }

    #[test]
    fn a_cleared_row_is_a_default_row() {
        let mut row = OperationRow {
            operation_id: 7,
            name: "a".into(),
            operation: Word::Known("READ"),
            repeat: true,
            ..OperationRow::default()
        };
        row.clear();
        assert_eq!(row, OperationRow::default());
    }
}
