//! Names, and texts in which axes stand.

use std::collections::BTreeMap;
use std::path::{Component, Path};

/// The longest name of an interface (IFNAMSIZ, without the zero).
const NAME_MAX: usize = 15;

/// A name that an interface or a variable can have.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    match name.len() <= NAME_MAX {
        true => check_word(name),
        false => Err(format!("'{name}' has more than {NAME_MAX} letters")),
    }
}

pub(crate) fn check_word(name: &str) -> Result<(), String> {
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    match name.starts_with(|first: char| first.is_ascii_alphabetic()) && name.chars().all(is_word) {
        true => Ok(()),
        false => Err(format!(
            "'{name}': a name is letters, digits and _, a letter first"
        )),
    }
}

/// Whether a name stays below the folder that it is of.
pub(crate) fn is_below(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    !name.is_empty() && parts.all(|part| matches!(part, Component::Normal(_)))
}

/// A text with the values of axes in place of their names in braces. What a value has in braces
/// stays.
pub(crate) fn filled(text: &str, values: &BTreeMap<String, String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let named = rest[1..].split_once('}');
        let named = named.and_then(|(name, after)| Some((values.get(name)?, after)));
        rest = match named {
            Some((value, after)) => {
                out.push_str(value);
                after
            }
            None => {
                out.push('{');
                &rest[1..]
            }
        };
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_filled_in_once() {
        let values: [(&str, &str); 3] = [("a", "{b}"), ("b", "1"), ("ab", "{{a}")];
        let values = values.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let values = BTreeMap::from(values);
        for (text, expected) in [
            ("{a} {b}", "{b} 1"),
            ("{ab}{b}", "{{a}1"),
            ("${x} {{a}} { {", "${x} {{b}} { {"),
            ("http { listen {b}; }", "http { listen 1; }"),
            ("{", "{"),
        ] {
            assert_eq!(filled(text, &values), expected, "{text}");
        }
    }

    #[test]
    fn a_files_name_stays_below_its_folder() {
        for name in ["nginx.conf", "conf/nginx.conf", "..conf"] {
            assert!(is_below(name), "{name}");
        }
        for name in ["", "/etc/passwd", "../x", "a/../../x", "a/..", "."] {
            assert!(!is_below(name), "{name}");
        }
    }
}
