//! What objects are.

/// What an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// `REG`
    File,
    /// `DIR`
    Directory,
    /// `LNK`
    Link,
    /// `BLK`
    BlockDevice,
    /// `CHR`
    CharacterDevice,
    /// `SOCK`
    Socket,
    /// `FIFO`
    Fifo,
}

impl Kind {
    /// The word that the tables have for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::File => "REG",
            Self::Directory => "DIR",
            Self::Link => "LNK",
            Self::BlockDevice => "BLK",
            Self::CharacterDevice => "CHR",
            Self::Socket => "SOCK",
            Self::Fifo => "FIFO",
        }
    }

    /// What a word of the tables means.
    pub fn of(name: &str) -> Option<Self> {
        const ALL: [Kind; 7] = [
            Kind::File,
            Kind::Directory,
            Kind::Link,
            Kind::BlockDevice,
            Kind::CharacterDevice,
            Kind::Socket,
            Kind::Fifo,
        ];
        ALL.into_iter().find(|kind| kind.name() == name)
    }
}
