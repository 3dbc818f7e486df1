//! Names that say whose machine this is, and which of them a text has.

use std::collections::BTreeSet;
use std::fs;

use lineside_host::Netlink;

/// What this machine and its user are called.
#[derive(Debug, Default)]
pub(super) struct Names {
    users: BTreeSet<String>,
    hosts: BTreeSet<String>,
    /// Folders in which a user's files are.
    homes: BTreeSet<String>,
}

/// Shorter ones stand in too many other words.
const LETTERS_MIN: usize = 3;
/// Names that many machines have.
const COMMON: [&str; 3] = ["root", "nobody", "localhost"];

impl Names {
    pub(super) fn of_this_machine() -> Self {
        let variable = |name: &str| std::env::var(name).ok();
        let users = ["USER", "LOGNAME", "SUDO_USER"].map(variable);
        let mut users: BTreeSet<String> = users.into_iter().flatten().collect();
        let mut homes: BTreeSet<String> = variable("HOME").into_iter().collect();
        let known = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let own = lineside_host::user().to_string();
        for line in known.lines() {
            let fields: Vec<&str> = line.split(':').collect();
            if let [name, _, id, _, _, home, ..] = fields[..]
                && id == own
            {
                users.insert(name.to_owned());
                homes.insert(home.to_owned());
            }
        }
        homes.insert("/home".to_owned());
        homes.insert("/root".to_owned());
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let host = host.trim();
        let first = host.split('.').next().unwrap_or_default();
        let counts = |name: &String| {
            let is_common = COMMON.contains(&name.as_str());
            name.chars().count() >= LETTERS_MIN && !is_common
        };
        let addresses = Netlink::open().and_then(|netlink| netlink.addresses());
        let addresses = addresses.into_iter().flatten().map(|(_, address)| address);
        let addresses = addresses.filter(|address| !address.is_loopback());
        let hosts = [host, first].map(str::to_owned).into_iter();
        let hosts = hosts.chain(addresses.map(|address| address.to_string()));
        Self {
            users: users.into_iter().filter(counts).collect(),
            hosts: hosts.filter(counts).collect(),
            homes: { homes.into_iter() }
                .filter(|home| home.starts_with('/') && home.len() > 1)
                .collect(),
        }
    }

    /// The first line of a text that has one of them, from 1, and what it has.
    pub(super) fn in_text(&self, text: &str) -> Option<(usize, String)> {
        let mut lines = text.lines().enumerate();
        lines.find_map(|(at, line)| Some((at + 1, self.in_line(line)?)))
    }

    fn in_line(&self, line: &str) -> Option<String> {
        let all = [
            (&self.homes, "a folder of a user"),
            (&self.users, "a user of this machine"),
            (&self.hosts, "this host"),
        ];
        all.into_iter().find_map(|(names, what)| {
            let found = names.iter().find(|name| has_word(line, name))?;
            Some(format!("'{found}', {what}"))
        })
    }
}

/// Whether a text has a name that is no part of a longer one, in any letter case.
fn has_word(text: &str, name: &str) -> bool {
    let (text, name) = (text.to_lowercase(), name.to_lowercase());
    let is_letter = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.match_indices(&name).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + name.len()..].chars().next();
        !before.is_some_and(is_letter) && !after.is_some_and(is_letter)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_where_they_stand_alone() {
        let of = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let names = Names {
            users: of(&["zorkmid"]),
            hosts: of(&["box7.example.com", "box7"]),
            homes: of(&["/home"]),
        };
        for (line, expected) in [
            ("run = '/home/x/server'", "a folder of a user"),
            ("env = { U = 'Zorkmid' }", "a user of this machine"),
            ("host = 'a@box7'", "this host"),
            ("url = 'http://BOX7.example.com:80/'", "this host"),
        ] {
            let found = names.in_text(&format!("fine\n{line}"));
            let (at, what) = found.unwrap_or_else(|| panic!("{line}"));
            assert!(at == 2 && what.contains(expected), "{what}");
        }
        for line in ["zorkmids", "box77", "homes/home2", "chome/a", "inbox7"] {
            assert_eq!(names.in_text(line), None, "{line}");
        }
        assert!(!Names::of_this_machine().homes.is_empty());
    }
}
