//! Patterns for paths: those of `find`.

/// A pattern with `*` (any characters), `?` (one character) and `[a-z]`, `[!a-z]` (one of these, or
/// one of all others). Without a slash it is about the last name of a path, as `find -name` has it;
/// with one about the whole path, as `find -path` has it.
#[derive(Debug, Clone)]
pub(crate) struct Glob {
    pattern: Vec<char>,
    is_of_path: bool,
}

impl Glob {
    pub(crate) fn new(pattern: &str) -> Self {
        Self {
            pattern: pattern.chars().collect(),
            is_of_path: pattern.contains('/'),
        }
    }

    /// Whether it is about whole paths: a name alone does not show whether it fits.
    pub(crate) fn is_of_path(&self) -> bool {
        self.is_of_path
    }

    pub(crate) fn fits(&self, path: &str) -> bool {
        let name = match self.is_of_path {
            true => path,
            // A path that ends in a slash is that of a directory.
            false => {
                let path = path.trim_end_matches('/');
                path.rsplit('/').next().unwrap_or(path)
            }
        };
        let text: Vec<char> = name.chars().collect();
        fits(&self.pattern, &text)
    }
}

/// Only the last `*` is tried again: what an earlier one could take more, the later one can too. So
/// the time is at most the product of the lengths.
fn fits(pattern: &[char], text: &[char]) -> bool {
    let (mut at, mut place) = (0, 0);
    // Behind the last `*`, and the place in the text up to which it has taken.
    let mut again: Option<(usize, usize)> = None;
    while place < text.len() {
        if pattern.get(at) == Some(&'*') {
            again = Some((at + 1, place));
            at += 1;
            continue;
        }
        if let Some(length) = one(&pattern[at..], text[place]) {
            at += length;
            place += 1;
            continue;
        }
        let Some((behind, taken)) = again else {
            return false;
        };
        again = Some((behind, taken + 1));
        (at, place) = (behind, taken + 1);
    }
    pattern[at..].iter().all(|&each| each == '*')
}

/// How much of the pattern stands for this character; `None` if it does not fit.
fn one(pattern: &[char], character: char) -> Option<usize> {
    match pattern.first()? {
        '?' => Some(1),
        '[' => set(pattern, character),
        &literal => (literal == character).then_some(1),
    }
}

/// The same of `[a-z]`. A bracket that is not closed stands for itself.
fn set(pattern: &[char], character: char) -> Option<usize> {
    let is_inverted = matches!(pattern.get(1), Some('!' | '^'));
    let first = 1 + usize::from(is_inverted);
    // A closing bracket at the first place is one of the characters.
    let rest = pattern.get(first + 1..).unwrap_or_default();
    let Some(end) = rest.iter().position(|&each| each == ']') else {
        return (character == '[').then_some(1);
    };
    let members = &pattern[first..first + 1 + end];
    let mut is_member = false;
    let mut at = 0;
    while let Some(&low) = members.get(at) {
        match members.get(at + 1..at + 3) {
            Some(&['-', high]) => {
                is_member |= (low..=high).contains(&character);
                at += 3;
            }
            _ => {
                is_member |= low == character;
                at += 1;
            }
        }
    }
    (is_member != is_inverted).then_some(first + members.len() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_find() {
        for (pattern, path, expected) in [
            ("*.o", "/vfs/a/main.o", true),
            ("*.o", "/vfs/a.o/main", false),
            ("main.?", "/vfs/a/main.o", true),
            ("/vfs/*", "/vfs/a/main.o", true),
            ("/vfs/*.c", "/vfs/a/main.o", false),
            ("*/a/*", "…/vfs/a/main.o", true),
            ("[l-n]ain.o", "main.o", true),
            ("[!l-n]ain.o", "main.o", false),
            ("[]x]", "]", true),
            ("[ab", "[ab", true),
            ("a*b*c", "aXbXbXc", true),
            ("a*b*c", "aXbXbX", false),
            ("*", "", true),
            ("", "", true),
            ("dir", "/vfs/dir/", true),
        ] {
            assert_eq!(Glob::new(pattern).fits(path), expected, "{pattern} {path}");
        }
        let stars = "*a".repeat(40);
        assert!(!Glob::new(&stars).fits(&"b".repeat(4_000)), "and in time");
    }
}
