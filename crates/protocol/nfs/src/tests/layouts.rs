//! What NFSv2 and the programs beside NFS have on the wire, written down a second time from their
//! specifications: one line a procedure, from which random messages are made, with what a summary
//! of them says.
//!
//! A token is a kind, and behind a colon the fields of the summary that have its value:
//!
//! ```text
//! 4 8      numbers of this many bytes      b       a boolean
//! o l      opaque data; of l only the length is compared
//! F P      32 and 16 fixed bytes         A W     arrays of ACL entries and of words, of which the number is compared
//! <1 x | y >   a status: x behind a 1, y behind any other
//! ?( x )       a boolean, and x if it is true
//! { x }        a list of x; after `}` the field that holds its number of entries
//! +            no bytes, summarised as true
//! @ #          NFSv2's attributes, and those to be set
//! ^            NFSv3's attributes
//! ```

use lineside_time::Random;

/// The procedures of a program, of all versions that a module has: number, call, reply.
pub(super) type Program = &'static [(u32, &'static str, &'static str)];

pub(super) const NFS2: Program = &[
    (0, "", ""),
    (1, "F:file", "<0 @ | >"),
    (2, "F:file #", "<0 @ | >"),
    (3, "", ""),
    (4, "F:file o:name", "<0 F:object @ | >"),
    (5, "F:file", "<0 o:symlink_target | >"),
    (
        6,
        "F:file 4:offset 4:count 4",
        "<0 @ 4:data_len,transferred | >",
    ),
    (7, "", ""),
    (
        8,
        "F:file 4 4:offset 4 4:count,data_len",
        "<0 @ +:transferred_all | >",
    ),
    (9, "F:file o:name #", "<0 F:object @ | >"),
    (10, "F:file o:name", "<0 | >"),
    (11, "F:file o:name F:file2 o:name2", "<0 | >"),
    (12, "F:file F:file2 o:name", "<0 | >"),
    (13, "F:file o:name o:symlink_target #", "<0 | >"),
    (14, "F:file o:name #", "<0 F:object @ | >"),
    (15, "F:file o:name", "<0 | >"),
    (
        16,
        "F:file 4:directory_cookie 4:bytes_max",
        "<0 { 4 o 4 }:entries b:eof | >",
    ),
    (17, "F:file", "<0 4:transfer_size 4 4 4 4 | >"),
];

pub(super) const MOUNT1: Program = &[
    (0, "", ""),
    (1, "o:name", "<0 F:object | >"),
    (2, "", "{ o o }:entries"),
    (3, "o:name", ""),
    (4, "", ""),
    (5, "", "{ o { o } }:entries"),
    (6, "", "{ o { o } }:entries"),
    (7, "o:name", "4 4 4 4 4 4 4 4 8"),
];

pub(super) const MOUNT3: Program = &[
    (0, "", ""),
    (1, "o:name", "<0 o:object W:flavors | >"),
    (2, "", "{ o o }:entries"),
    (3, "o:name", ""),
    (4, "", ""),
    (5, "", "{ o { o } }:entries"),
];

pub(super) const PORTMAP: Program = &[
    (0, "", ""),
    (
        1,
        "4:target_program 4:target_version 4:protocol 4:port",
        "b:done",
    ),
    (
        2,
        "4:target_program 4:target_version 4:protocol 4:port",
        "b:done",
    ),
    (
        3,
        "4:target_program 4:target_version 4:protocol 4",
        "4:port",
    ),
    (4, "", "{ 4 4 4 4 }:entries"),
    (
        5,
        "4:target_program 4:target_version 4:target_procedure l:forwarded_bytes",
        "4:port l:forwarded_bytes",
    ),
];

const SERVICE: &str = "4:target_program 4:target_version o:netid o:address o:service_owner";
const FORWARDED: &str = "4:target_program 4:target_version 4:target_procedure l:forwarded_bytes";

pub(super) const RPCBIND: Program = &[
    (0, "", ""),
    (1, SERVICE, "b:done"),
    (2, SERVICE, "b:done"),
    (3, SERVICE, "o:address"),
    (4, "", "{ 4 4 o o o }:entries"),
    (5, FORWARDED, "o:address l:forwarded_bytes"),
    (6, "", "4:time_seconds"),
    (7, "o:address", "4 o:transport_address"),
    (8, "4 o:transport_address", "o:address"),
    (9, SERVICE, "o:address"),
    (10, FORWARDED, "o:address l:forwarded_bytes"),
    (11, SERVICE, "{ o o 4 o o }:entries"),
    (
        12,
        "",
        "4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 { 4 4 4 4 o } { 4 4 4 4 4 4 o } \
         4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 { 4 4 4 4 o } { 4 4 4 4 4 4 o } \
         4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 { 4 4 4 4 o } { 4 4 4 4 4 4 o }",
    ),
];

pub(super) const NLM: Program = &[
    (0, "", ""),
    (1, "o:cookie b:exclusive LOCK", "o:cookie HOLDER"),
    (
        2,
        "o:cookie b:block b:exclusive LOCK b:reclaim 4:state",
        "o:cookie 4:status",
    ),
    (3, "o:cookie b:block b:exclusive LOCK", "o:cookie 4:status"),
    (4, "o:cookie LOCK", "o:cookie 4:status"),
    (5, "o:cookie b:exclusive LOCK", "o:cookie 4:status"),
    (6, "o:cookie b:exclusive LOCK", ""),
    (7, "o:cookie b:block b:exclusive LOCK b:reclaim 4:state", ""),
    (8, "o:cookie b:block b:exclusive LOCK", ""),
    (9, "o:cookie LOCK", ""),
    (10, "o:cookie b:exclusive LOCK", ""),
    (11, "o:cookie HOLDER", ""),
    (12, "o:cookie 4:status", ""),
    (13, "o:cookie 4:status", ""),
    (14, "o:cookie 4:status", ""),
    (15, "o:cookie 4:status", ""),
    (16, "o:name 4:state P", ""),
    (
        20,
        "o:cookie SHARE b:reclaim",
        "o:cookie 4:status 4:sequence",
    ),
    (
        21,
        "o:cookie SHARE b:reclaim",
        "o:cookie 4:status 4:sequence",
    ),
    (
        22,
        "o:cookie b:block b:exclusive LOCK b:reclaim 4:state",
        "o:cookie 4:status",
    ),
    (23, "o:name 4:state", ""),
];

pub(super) const KLM: Program = &[
    (0, "", ""),
    (
        1,
        "b:exclusive KLOCK",
        "<1 b:exclusive 4:svid 4:offset 4:count | >",
    ),
    (2, "b:block b:exclusive KLOCK", "4:status"),
    (3, "b:block b:exclusive KLOCK", "4:status"),
    (4, "KLOCK", "4:status"),
];

pub(super) const NSM: Program = &[
    (0, "", ""),
    (1, "o:name", "4:status 4:state"),
    (2, "o:name CALLBACK P", "4:status 4:state"),
    (3, "o:name CALLBACK", "4:state"),
    (4, "CALLBACK", "4:state"),
    (5, "", ""),
    (6, "o:name 4:state", ""),
];

pub(super) const NFSACL2: Program = &[
    (0, "", ""),
    (1, "F:file 4:acl_mask", "<0 @ LISTS | >"),
    (2, "F:file LISTS", "<0 @ | >"),
    (3, "F:file", "<0 @ | >"),
    (4, "F:file 4:access", "<0 @ 4:access | >"),
    (5, "F:file b:create", "<0 F:object @ | >"),
];

pub(super) const NFSACL3: Program = &[
    (0, "", ""),
    (1, "o:file 4:acl_mask", "<0 ?( ^ ) LISTS | ?( ^ ) >"),
    (2, "o:file LISTS", "<0 ?( ^ ) | ?( ^ ) >"),
    (3, "o:file b:create", "<0 o:object ?( ^ ) | >"),
];

pub(super) const RQUOTA1: Program = &[
    (0, "", ""),
    (1, "o:name 4:quota_id", "<1 QUOTA | >"),
    (2, "o:name 4:quota_id", "<1 QUOTA | >"),
    (
        3,
        "4:quota_command o:name 4:quota_id LIMITS",
        "<1 QUOTA | >",
    ),
    (
        4,
        "4:quota_command o:name 4:quota_id LIMITS",
        "<1 QUOTA | >",
    ),
];

pub(super) const RQUOTA2: Program = &[
    (0, "", ""),
    (1, "o:name 4:quota_type 4:quota_id", "<1 QUOTA | >"),
    (2, "o:name 4:quota_type 4:quota_id", "<1 QUOTA | >"),
    (
        3,
        "4:quota_command o:name 4:quota_id 4:quota_type LIMITS",
        "<1 QUOTA | >",
    ),
    (
        4,
        "4:quota_command o:name 4:quota_id 4:quota_type LIMITS",
        "<1 QUOTA | >",
    ),
];

/// Words that stand for others. `n` is a number of NLM's: of four bytes before version 4, of eight
/// since.
const PARTS: &[(&str, &str)] = &[
    ("LOCK", "o:name o:file o:lock_owner 4:svid n:offset n:count"),
    (
        "HOLDER",
        "<1 b:exclusive 4:svid o:lock_owner n:offset n:count | >",
    ),
    (
        "SHARE",
        "o:name o:file o:lock_owner 4:share_mode 4:share_access",
    ),
    ("KLOCK", "o:name o:file 4:svid 4:offset 4:count"),
    (
        "CALLBACK",
        "o:name2 4:target_program 4:target_version 4:target_procedure",
    ),
    (
        "LISTS",
        "4:acl_mask 4 A:acl_entries 4 A:acl_default_entries",
    ),
    (
        "LIMITS",
        "4:blocks_hard 4:blocks_soft 4:blocks_used 4:files_hard 4:files_soft 4:files_used \
        4:blocks_seconds_left 4:files_seconds_left",
    ),
    ("QUOTA", "4:quota_block_size b:quota_active LIMITS"),
    (
        "@",
        "4 4 4:links 4:uid 4:gid 4:size 4 4 4 4:fsid 4:fileid 4:atime 4 4:mtime 4 4:ctime 4",
    ),
    (
        "#",
        "4:set_mode 4:set_uid 4:set_gid 4:set_size 4:set_atime 4 4:set_mtime 4",
    ),
    (
        "^",
        "4 4 4:links 4:uid 4:gid 8:size 8 4 4 8:fsid 8:fileid 4:atime 4 4:mtime 4 4:ctime 4",
    ),
];

/// What a summary says of a field.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Number(u64),
    Bytes(Vec<u8>),
}

/// A random message of a layout, and what a summary of it says.
#[derive(Debug, Default)]
pub(super) struct Made {
    pub(super) bytes: Vec<u8>,
    pub(super) summary: Vec<(&'static str, Value)>,
}

impl Made {
    /// Makes one; `wide` is NLM 4.
    pub(super) fn new(layout: &'static str, wide: bool, random: &mut Random) -> Self {
        let mut words = Vec::new();
        expand(layout, &mut words);
        let mut made = Self::default();
        made.fill(&mut &words[..], true, wide, random);
        made
    }

    /// Appends the words up to the one that ends a group, or passes over them. Gives the names at
    /// that one.
    fn fill(
        &mut self,
        words: &mut &[&'static str],
        take: bool,
        wide: bool,
        random: &mut Random,
    ) -> &'static str {
        let mut skipped = Self::default();
        let out = if take { self } else { &mut skipped };
        while let Some((&word, rest)) = words.split_first() {
            *words = rest;
            let (kind, names) = word.split_once(':').unwrap_or((word, ""));
            let value = match kind {
                ">" | "|" | ")" | "}" => return names,
                "4" => out.number(random, false),
                "8" => out.number(random, true),
                "n" => out.number(random, wide),
                "b" => {
                    out.word(random.below(2) as u32);
                    Value::Number(out.last_word())
                }
                "o" | "l" => {
                    let len = random.below(20) as usize;
                    out.word(len as u32);
                    let data = out.data(len, random);
                    out.bytes.resize(out.bytes.len().next_multiple_of(4), 0);
                    if kind == "o" {
                        data
                    } else {
                        Value::Number(len as u64)
                    }
                }
                "F" => out.data(32, random),
                "P" => out.data(16, random),
                "A" | "W" => {
                    let count = random.below(5);
                    out.word(count as u32);
                    out.data(count as usize * if kind == "A" { 12 } else { 4 }, random);
                    Value::Number(count)
                }
                "+" => Value::Number(1),
                "?(" => {
                    let is_there = random.chance(0.7);
                    out.word(is_there.into());
                    out.fill(words, is_there, wide, random);
                    continue;
                }
                "{" => {
                    let (start, count) = (*words, random.below(4));
                    for _ in 0..count {
                        out.word(1);
                        out.fill(&mut { start }, true, wide, random);
                    }
                    out.word(0);
                    let name = out.fill(words, false, wide, random);
                    if !name.is_empty() {
                        out.summary.push((name, Value::Number(count)));
                    }
                    continue;
                }
                status if status.starts_with('<') => {
                    let usual: u32 = status[1..].parse().expect("a status");
                    let is_usual = random.chance(0.7);
                    out.word(if is_usual {
                        usual
                    } else {
                        2 + random.below(99) as u32
                    });
                    out.summary.push(("status", Value::Number(out.last_word())));
                    out.fill(words, is_usual, wide, random);
                    out.fill(words, !is_usual, wide, random);
                    continue;
                }
                unknown => panic!("{unknown} is no kind"),
            };
            for name in names.split(',').filter(|name| !name.is_empty()) {
                out.summary.push((name, value.clone()));
            }
        }
        ""
    }

    fn word(&mut self, number: u32) {
        self.bytes.extend_from_slice(&number.to_be_bytes());
    }

    fn last_word(&self) -> u64 {
        let word = self.bytes.last_chunk().expect("a word");
        u32::from_be_bytes(*word).into()
    }

    fn number(&mut self, random: &mut Random, wide: bool) -> Value {
        if wide {
            self.word(random.bits() as u32);
        }
        let high = if wide { self.last_word() } else { 0 };
        self.word(random.bits() as u32);
        Value::Number(high << 32 | self.last_word())
    }

    fn data(&mut self, len: usize, random: &mut Random) -> Value {
        let mut data = vec![0; len];
        random.fill(&mut data);
        self.bytes.extend_from_slice(&data);
        Value::Bytes(data)
    }
}

fn expand(layout: &'static str, words: &mut Vec<&'static str>) {
    for word in layout.split_whitespace() {
        match PARTS.iter().find(|(part, _)| *part == word) {
            Some((_, layout)) => expand(layout, words),
            None => words.push(word),
        }
    }
}
