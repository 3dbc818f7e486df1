//! The arrays of a batch as the types that a trace has, and texts as small numbers.

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, PrimitiveArray, StringArray};
use hashbrown::HashMap;
use lineside_trace::read::ReadError;

/// A column of numbers.
pub(crate) struct Numbers<'a, T: ArrowPrimitiveType>(&'a PrimitiveArray<T>);

/// A column of `INT64`.
pub(crate) type Integers<'a> = Numbers<'a, Int64Type>;
/// A column of `INT32`.
pub(crate) type Shorts<'a> = Numbers<'a, Int32Type>;

impl<'a, T: ArrowPrimitiveType> Numbers<'a, T> {
    pub(crate) fn of(name: &str, array: &'a ArrayRef) -> Result<Self, ReadError> {
        let array = array.as_primitive_opt::<T>();
        array.map(Self).ok_or_else(|| wrong_type(name))
    }

    pub(crate) fn get(&self, row: usize) -> Option<T::Native> {
        self.0.is_valid(row).then(|| self.0.value(row))
    }
}

/// A column of flags; null is false.
pub(crate) struct Flags<'a>(&'a BooleanArray);

impl<'a> Flags<'a> {
    pub(crate) fn of(name: &str, array: &'a ArrayRef) -> Result<Self, ReadError> {
        array
            .as_boolean_opt()
            .map(Self)
            .ok_or_else(|| wrong_type(name))
    }

    pub(crate) fn get(&self, row: usize) -> bool {
        self.0.is_valid(row) && self.0.value(row)
    }
}

/// A column of texts that repeat: a number for each, the same in every batch.
pub(crate) struct Words<'a> {
    keys: &'a PrimitiveArray<Int32Type>,
    /// The number of each text in the batch's dictionary.
    numbers: Vec<Word>,
}

impl<'a> Words<'a> {
    pub(crate) fn of(
        name: &str,
        array: &'a ArrayRef,
        known: &mut Lexicon,
    ) -> Result<Self, ReadError> {
        let (keys, texts) = dictionary(name, array)?;
        let numbers = (0..texts.len()).map(|at| {
            if texts.is_valid(at) {
                known.number(texts.value(at))
            } else {
                Lexicon::NONE
            }
        });
        Ok(Self {
            keys,
            numbers: numbers.collect(),
        })
    }

    /// Every word that the batch may have.
    pub(crate) fn distinct(&self) -> &[Word] {
        &self.numbers
    }

    /// [`Lexicon::NONE`] for null.
    pub(crate) fn get(&self, row: usize) -> Word {
        if self.keys.is_null(row) {
            return Lexicon::NONE;
        }
        let key = usize::try_from(self.keys.value(row)).ok();
        key.and_then(|key| self.numbers.get(key))
            .copied()
            .unwrap_or(Lexicon::NONE)
    }
}

/// A column of texts of which few are looked at.
pub(crate) struct Texts<'a> {
    keys: &'a PrimitiveArray<Int32Type>,
    texts: &'a StringArray,
}

impl<'a> Texts<'a> {
    pub(crate) fn of(name: &str, array: &'a ArrayRef) -> Result<Self, ReadError> {
        let (keys, texts) = dictionary(name, array)?;
        Ok(Self { keys, texts })
    }

    pub(crate) fn get(&self, row: usize) -> Option<&'a str> {
        if self.keys.is_null(row) {
            return None;
        }
        let key = usize::try_from(self.keys.value(row)).ok()?;
        (key < self.texts.len() && self.texts.is_valid(key)).then(|| self.texts.value(key))
    }
}

/// The number of a text.
pub(crate) type Word = u32;

/// The texts seen so far. At most `words_max`: those that come later share one number.
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

fn dictionary<'a>(
    name: &str,
    array: &'a ArrayRef,
) -> Result<(&'a PrimitiveArray<Int32Type>, &'a StringArray), ReadError> {
    let array = array
        .as_dictionary_opt::<Int32Type>()
        .ok_or_else(|| wrong_type(name))?;
    let texts = array.values().as_string_opt::<i32>();
    Ok((array.keys(), texts.ok_or_else(|| wrong_type(name))?))
}

/// The column is there but of another type: no part that a lineside of this schema wrote.
fn wrong_type(name: &str) -> ReadError {
    ReadError::Foreign {
        column: name.to_owned(),
    }
}
