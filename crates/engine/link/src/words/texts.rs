use serde::{Deserialize, Serialize};

use crate::Setting;

/// The words of a link's settings, as they were given: for both directions, or for one if they
/// begin with `out:` or `in:`; with `match EXPR:` after that, for the frames that match.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkWords {
    pub delay: Option<Vec<String>>,
    pub rate: Option<Vec<String>>,
    pub loss: Option<Vec<String>>,
    pub duplicate: Option<Vec<String>>,
    pub corrupt: Option<Vec<String>>,
    pub reorder: Option<Vec<String>>,
    pub path: Option<Vec<String>>,
    pub limit: Option<Vec<String>>,
    pub link: Option<Vec<String>>,
}

impl LinkWords {
    /// Whether no setting was given.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The words of a setting.
    pub fn of(&self, setting: Setting) -> &[String] {
        let words = match setting {
            Setting::Delay => &self.delay,
            Setting::Rate => &self.rate,
            Setting::Loss => &self.loss,
            Setting::Duplicate => &self.duplicate,
            Setting::Corrupt => &self.corrupt,
            Setting::Reorder => &self.reorder,
            Setting::Path => &self.path,
            Setting::Limit => &self.limit,
            Setting::Link => &self.link,
        };
        words.as_deref().unwrap_or_default()
    }

    /// Adds words of a setting.
    pub fn add(&mut self, setting: Setting, words: String) {
        let all = match setting {
            Setting::Delay => &mut self.delay,
            Setting::Rate => &mut self.rate,
            Setting::Loss => &mut self.loss,
            Setting::Duplicate => &mut self.duplicate,
            Setting::Corrupt => &mut self.corrupt,
            Setting::Reorder => &mut self.reorder,
            Setting::Path => &mut self.path,
            Setting::Limit => &mut self.limit,
            Setting::Link => &mut self.link,
        };
        all.get_or_insert_default().push(words);
    }
}
