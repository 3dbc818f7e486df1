//! The words of `--drop-in`.

use std::fmt;
use std::str::FromStr;

use lineside_rows::Table;

/// A program that is to be given heads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropIn {
    /// Its name.
    pub name: String,
    /// How it reads and writes.
    pub form: Form,
    /// The command, for a shell.
    pub command: String,
}

/// How a program reads and writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Streams of Arrow IPC.
    Arrow,
    /// Lines of CSV.
    Csv,
}

/// Why words ask for no drop-in. Each has the way out.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum DropInError {
    /// No `=`.
    #[error("'{0}' is not NAME=COMMAND: write ports='python3 ports.py'")]
    Form(String),
    /// A name that no table can have.
    #[error("'{0}' is not a name: use a-z, 0-9 and _, at most 40 of them")]
    Name(String),
    /// The name of a table of ours.
    #[error("the table monitor_{0} is lineside's own: choose another name")]
    Own(String),
    /// A name twice.
    #[error("two drop-ins are named '{0}', and each writes the table monitor_{0}: rename one")]
    Twice(String),
    /// Nothing behind the `=`.
    #[error("'{0}' has no command: write {0}=COMMAND")]
    Empty(String),
}

/// The longest name.
const NAME_MAX: usize = 40;

impl DropIn {
    /// The name of its table.
    pub fn table(&self) -> String {
        format!("monitor_{}", self.name)
    }

    /// Reads several, no two of which have a name.
    pub fn parse_all(words: &[String]) -> Result<Vec<Self>, DropInError> {
        let mut all = Vec::<Self>::new();
        for words in words {
            let drop_in: Self = words.parse()?;
            if all.iter().any(|other| other.name == drop_in.name) {
                return Err(DropInError::Twice(drop_in.name));
            }
            all.push(drop_in);
        }
        Ok(all)
    }
}

impl FromStr for DropIn {
    type Err = DropInError;

    fn from_str(words: &str) -> Result<Self, DropInError> {
        let split = words.split_once('=');
        let (name, command) = split.ok_or_else(|| DropInError::Form(words.to_owned()))?;
        let name = name.trim();
        let is_known = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '_');
        if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(is_known) {
            return Err(DropInError::Name(name.to_owned()));
        }
        let table = format!("monitor_{name}");
        if Table::MONITORS.iter().any(|own| own.name() == table) {
            return Err(DropInError::Own(name.to_owned()));
        }
        let (form, command) = match command.strip_prefix("csv:") {
            Some(command) => (Form::Csv, command),
            None => (Form::Arrow, command),
        };
        let command = command.trim();
        if command.is_empty() {
            return Err(DropInError::Empty(name.to_owned()));
        }
        Ok(Self {
            name: name.to_owned(),
            form,
            command: command.to_owned(),
        })
    }
}

impl fmt::Display for DropIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let form = match self.form {
            Form::Arrow => "",
            Form::Csv => "csv:",
        };
        write!(f, "{}={form}{}", self.name, self.command)
    }
}
