//! The columns of a batch as the types that a trace has, and texts as small numbers.

use hashbrown::HashMap;
use lineside_trace::read::{Column, ReadError, Texts as Dictionary, Values};

/// A column of numbers.
pub(crate) struct Numbers<'a, T> {
    /// Empty if every row has a value.
    present: &'a [bool],
    values: &'a [T],
}

/// A column of `INT64`.
pub(crate) type Integers<'a> = Numbers<'a, i64>;
/// A column of `INT32`.
pub(crate) type Shorts<'a> = Numbers<'a, i32>;

impl<T: Copy> Numbers<'_, T> {
    /// A column that was not read: null in every row.
    pub(crate) fn none() -> Self {
        Self {
            present: &[],
            values: &[],
        }
    }

    #[inline]
    pub(crate) fn get(&self, row: usize) -> Option<T> {
        match is_present(self.present, row) {
            true => self.values.get(row).copied(),
            false => None,
        }
    }
}

impl<'a> Integers<'a> {
    pub(crate) fn of(name: &str, column: &'a Column) -> Result<Self, ReadError> {
        match column.values() {
            Values::Int64(values) => Ok(Self {
                present: column.present(),
                values,
            }),
            _ => Err(wrong_type(name)),
        }
    }
}

impl<'a> Shorts<'a> {
    pub(crate) fn of(name: &str, column: &'a Column) -> Result<Self, ReadError> {
        match column.values() {
            Values::Int32(values) => Ok(Self {
                present: column.present(),
                values,
            }),
            _ => Err(wrong_type(name)),
        }
    }
}

/// A column of counts; null and what is negative is 0.
pub(crate) struct Counts<'a> {
    /// Some are not zero: most batches have no retransmissions.
    are_any: bool,
    counts: Shorts<'a>,
}

impl<'a> Counts<'a> {
    pub(crate) fn of(name: &str, column: &'a Column) -> Result<Self, ReadError> {
        let counts = Shorts::of(name, column)?;
        let any = counts.values.iter().fold(0, |any, count| any | count);
        Ok(Self {
            are_any: any != 0,
            counts,
        })
    }

    #[inline]
    pub(crate) fn get(&self, row: usize) -> u64 {
        if !self.are_any {
            return 0;
        }
        let count = self.counts.get(row).unwrap_or(0);
        u64::try_from(count).unwrap_or(0)
    }
}

/// A column of flags; null is false.
pub(crate) struct Flags<'a> {
    /// Some are set: most are seldom.
    are_any: bool,
    present: &'a [bool],
    values: &'a [bool],
}

impl<'a> Flags<'a> {
    pub(crate) fn of(name: &str, column: &'a Column) -> Result<Self, ReadError> {
        match column.values() {
            Values::Boolean(values) => Ok(Self {
                are_any: values.iter().fold(false, |any, flag| any | flag),
                present: column.present(),
                values,
            }),
            _ => Err(wrong_type(name)),
        }
    }

    pub(crate) fn are_any(&self) -> bool {
        self.are_any
    }

    #[inline]
    pub(crate) fn get(&self, row: usize) -> bool {
        self.are_any && is_present(self.present, row) && self.values[row]
    }
}

/// A column of texts that repeat: a number for each, the same in every batch.
pub(crate) struct Words<'a> {
    present: &'a [bool],
    places: &'a [u32],
    /// The number of each text of the batch.
    numbers: Vec<Word>,
}

impl<'a> Words<'a> {
    pub(crate) fn of(
        name: &str,
        column: &'a Column,
        known: &mut Lexicon,
    ) -> Result<Self, ReadError> {
        let (places, texts) = texts(name, column)?;
        let text = |place| known.number(texts.text(place).unwrap_or_default());
        Ok(Self {
            present: column.present(),
            places,
            numbers: (0..texts.len()).map(text).collect(),
        })
    }

    /// Every word that the batch may have.
    pub(crate) fn distinct(&self) -> &[Word] {
        &self.numbers
    }

    /// Whether all rows have one word, or those that have none share that.
    pub(crate) fn is_same(&self) -> bool {
        self.numbers.len() <= 1 && !self.present.contains(&false)
    }

    /// [`Lexicon::NONE`] for null.
    #[inline]
    pub(crate) fn get(&self, row: usize) -> Word {
        if !is_present(self.present, row) {
            return Lexicon::NONE;
        }
        let number = self.numbers.get(self.places[row] as usize);
        number.copied().unwrap_or(Lexicon::NONE)
    }
}

/// A column of texts of which few are looked at.
pub(crate) struct Texts<'a> {
    present: &'a [bool],
    places: &'a [u32],
    texts: &'a Dictionary,
}

impl<'a> Texts<'a> {
    pub(crate) fn of(name: &str, column: &'a Column) -> Result<Self, ReadError> {
        let (places, texts) = texts(name, column)?;
        Ok(Self {
            present: column.present(),
            places,
            texts,
        })
    }

    pub(crate) fn get(&self, row: usize) -> Option<&'a str> {
        let text = || self.texts.text(self.places[row] as usize);
        is_present(self.present, row).then(text).flatten()
    }
}

#[inline]
fn is_present(present: &[bool], row: usize) -> bool {
    present.is_empty() || present[row]
}

/// The number of a text.
pub(crate) type Word = u32;

/// The texts seen so far. At most `words_max`: those that come later share one number.
#[derive(Debug)]
pub(crate) struct Lexicon {
    numbers: HashMap<String, Word>,
    words: Vec<String>,
    words_max: usize,
}

impl Lexicon {
    /// Null.
    pub(crate) const NONE: Word = 0;
    /// A text that came when there was no more room.
    pub(crate) const OTHER: Word = 1;

    pub(crate) fn new(words_max: usize) -> Self {
        Self {
            numbers: HashMap::new(),
            words: vec![String::new(), "(other)".to_owned()],
            words_max,
        }
    }

    pub(crate) fn number(&mut self, text: &str) -> Word {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        if self.numbers.len() >= self.words_max {
            return Self::OTHER;
        }
        let number = self.words.len() as Word;
        self.words.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        number
    }

    /// The number of a text that was seen.
    pub(crate) fn find(&self, text: &str) -> Option<Word> {
        self.numbers.get(text).copied()
    }

    /// One more than the greatest number.
    pub(crate) fn len(&self) -> usize {
        self.words.len()
    }

    /// Empty for null.
    pub(crate) fn text(&self, word: Word) -> &str {
        self.words.get(word as usize).map_or("", String::as_str)
    }

    /// Every text seen.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.words.iter().skip(2).map(String::as_str)
    }
}

fn texts<'a>(name: &str, column: &'a Column) -> Result<(&'a [u32], &'a Dictionary), ReadError> {
    match column.values() {
        Values::Texts(places, texts) => Ok((places, texts)),
        _ => Err(wrong_type(name)),
    }
}

/// The column is there but of another type: no part that a lineside of this schema wrote.
fn wrong_type(name: &str) -> ReadError {
    ReadError::Foreign {
        column: name.to_owned(),
    }
}
