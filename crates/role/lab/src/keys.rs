//! Tables of a TOML file whose every key and word has a place: what is wrong is named by line and
//! column.

use std::path::Path;

use lineside_words::nearest;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::LabError;

/// A file while it is read.
#[derive(Clone, Copy)]
pub(crate) struct Text<'a> {
    pub(crate) file: &'a Path,
    pub(crate) text: &'a str,
}

/// A value with the byte at which it begins.
pub(crate) type Placed<T> = (T, usize);

impl Text<'_> {
    /// Something is wrong at a byte.
    pub(crate) fn wrong(&self, at: usize, why: impl Into<String>) -> LabError {
        let before = &self.text[..at.min(self.text.len())];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        LabError::Words {
            file: self.file.to_owned(),
            line: 1 + before.matches('\n').count(),
            column: 1 + before[line_start..].chars().count(),
            why: why.into(),
        }
    }

    pub(crate) fn parse(&self) -> Result<Spanned<DeTable<'_>>, LabError> {
        DeTable::parse(self.text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            self.wrong(at, error.message().trim())
        })
    }
}

/// A table and what it is called.
pub(crate) struct Keys<'a> {
    text: Text<'a>,
    table: &'a DeTable<'a>,
    name: String,
    at: usize,
}

impl<'a> Keys<'a> {
    pub(crate) fn of_file(text: Text<'a>, table: &'a Spanned<DeTable<'a>>) -> Self {
        Self {
            text,
            table: table.get_ref(),
            name: String::new(),
            at: 0,
        }
    }

    /// Fails for a key that is none of these.
    pub(crate) fn only(self, known: &[&str]) -> Result<Self, LabError> {
        for (key, at) in self.names() {
            self.check(&key, at, known)?;
        }
        Ok(self)
    }

    fn check(&self, key: &str, at: usize, known: &[&str]) -> Result<(), LabError> {
        if known.contains(&key) {
            return Ok(());
        }
        let nearest = nearest(key, known.iter().copied());
        let name = self.full(key);
        let why = format!("unknown key {name}; the nearest known one is {nearest}");
        Err(self.text.wrong(at, why))
    }

    fn full(&self, key: &str) -> String {
        match self.name.as_str() {
            "" => key.to_owned(),
            name => format!("{name}.{key}"),
        }
    }

    /// The keys in the order of the file.
    pub(crate) fn names(&self) -> Vec<Placed<String>> {
        let keys = self.table.keys();
        let mut names: Vec<_> =
            { keys.map(|key| (key.get_ref().to_string(), key.span().start)) }.collect();
        names.sort_by_key(|(_, at)| *at);
        names
    }

    fn get(&self, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.table.get(key)
    }

    /// A table within this one.
    pub(crate) fn table(&self, key: &str) -> Result<Option<Self>, LabError> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let at = self.place(key);
        let Some(table) = value.get_ref().as_table() else {
            let why = format!("{} is a table of keys", self.full(key));
            return Err(self.text.wrong(at, why));
        };
        Ok(Some(Self {
            text: self.text,
            table,
            name: self.full(key),
            at,
        }))
    }

    /// The tables of a list.
    pub(crate) fn list(&self, key: &str) -> Result<Vec<Self>, LabError> {
        let Some(value) = self.get(key) else {
            return Ok(Vec::new());
        };
        let array = value.get_ref().as_array();
        let array = array.filter(|array| !array.is_empty());
        let refused = || self.refused(key, "a list of tables: [{ delay = \"0\" }]");
        let tables = array.ok_or_else(refused)?.iter().map(|each| {
            let table = each.get_ref().as_table().ok_or_else(refused)?;
            Ok(Self {
                text: self.text,
                table,
                name: self.full(key),
                at: each.span().start,
            })
        });
        tables.collect()
    }

    /// Whether a key is there.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// The tables within a table of this one, by their names.
    pub(crate) fn tables(&self, key: &str) -> Result<Vec<(String, Self)>, LabError> {
        let Some(above) = self.table(key)? else {
            return Ok(Vec::new());
        };
        let named = above.names().into_iter().map(|(name, _)| {
            let table = above.table(&name)?.expect("its name was listed");
            Ok((name, table))
        });
        named.collect()
    }

    /// A text, or a number or truth value as one.
    pub(crate) fn text(&self, key: &str) -> Result<Option<Placed<String>>, LabError> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let text = word(value.get_ref()).ok_or_else(|| self.refused(key, "a text"))?;
        Ok(Some((text, value.span().start)))
    }

    /// Texts: one, or a list.
    pub(crate) fn texts(&self, key: &str) -> Result<Option<Placed<Vec<String>>>, LabError> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let at = value.span().start;
        let texts = match value.get_ref().as_array() {
            Some(array) => array.iter().map(|each| word(each.get_ref())).collect(),
            None => word(value.get_ref()).map(|text| vec![text]),
        };
        let texts = texts.ok_or_else(|| self.refused(key, "a text or a list of texts"))?;
        Ok(Some((texts, at)))
    }

    /// Whether a key has a list.
    pub(crate) fn is_list(&self, key: &str) -> bool {
        self.get(key)
            .is_some_and(|value| value.get_ref().is_array())
    }

    /// A text that means something.
    pub(crate) fn read<T>(
        &self,
        key: &str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, LabError> {
        let text = self.text(key)?;
        let read = text.map(|(text, at)| {
            let full = self.full(key);
            read(&text).map_err(|why| self.text.wrong(at, format!("{full}: {why}")))
        });
        read.transpose()
    }

    /// `true` or `false`.
    pub(crate) fn truth(&self, key: &str) -> Result<Option<bool>, LabError> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let truth = value.get_ref().as_bool();
        let truth = truth.ok_or_else(|| self.refused(key, "true or false"))?;
        Ok(Some(truth))
    }

    /// The key is missing.
    pub(crate) fn missing(&self, key: &str, what: &str) -> LabError {
        let full = self.full(key);
        self.text
            .wrong(self.at, format!("{full} is missing: {what}"))
    }

    /// The place of a key, or else of the table.
    pub(crate) fn place(&self, key: &str) -> usize {
        let found = self.table.get_key_value(key);
        found.map_or(self.at, |(key, _)| key.span().start)
    }

    /// What is wrong with a key.
    pub(crate) fn wrong(&self, key: &str, why: &str) -> LabError {
        let full = self.full(key);
        self.text.wrong(self.place(key), format!("{full}: {why}"))
    }

    fn refused(&self, key: &str, what: &str) -> LabError {
        self.wrong(key, &format!("write {what}"))
    }
}

fn word(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str().to_owned()),
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Boolean(truth) => Some(truth.to_string()),
        _ => None,
    }
}
