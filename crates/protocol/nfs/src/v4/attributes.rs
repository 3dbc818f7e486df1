//! fattr4: a bitmap of attributes, then the values of those attributes in one opaque.
//!
//! ```text
//!  mask: count, words │ length │ value of the lowest bit │ value of the next bit │ …
//! ```
//!
//! A value says nothing of its length, so a value whose bit is not known here ends what can be read
//! of the list; the list's own length says where the operation goes on. [`AttributeList`] is what
//! lies on the wire and costs nothing to decode; [`AttributeList::values`] reads the attributes
//! when they are asked for.

use std::fmt;

use lineside_frame::{Cursor, Fault, View};
use lineside_rpc::xdr::{Array, Counted, Name, Opaque, Scalar, Xdr, pad, padding};

use super::types::{
    Ace, Body, Device, FileSystemId, FileType, Handle, LayoutType, Owner, Path, Time,
};

/// Bytes that a list of attributes may have: an access control list of a few thousand entries.
const LIST_LEN_MAX: usize = 0x10_0000;

/// Words of a bitmap that are taken for possible, and those of them that are kept.
const WORDS_MAX: u32 = 1024;
const WORDS_KEPT: usize = 4;

/// bitmap4: a set of small numbers. Numbers from 128 on are passed over; no RFC has given one a
/// meaning.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Bitmap {
    count: u32,
    words: [u32; WORDS_KEPT],
}

impl Bitmap {
    /// The set of `bits`, in as few words as it takes.
    pub fn new(bits: &[u32]) -> Self {
        let mut map = Self::default();
        for &bit in bits {
            map.insert(bit);
        }
        map
    }

    fn insert(&mut self, bit: u32) {
        debug_assert!((bit as usize) < 32 * WORDS_KEPT, "bit {bit} is not kept");
        let at = bit / 32;
        if let Some(word) = self.words.get_mut(at as usize) {
            *word |= 1 << (bit % 32);
            self.count = self.count.max(at + 1);
        }
    }

    /// True if `bit` is in it.
    pub fn contains(&self, bit: u32) -> bool {
        let word = self.words.get((bit / 32) as usize).copied().unwrap_or(0);
        word >> (bit % 32) & 1 == 1
    }

    /// What is in it, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + use<> {
        let mut words = self.words;
        let mut at = 0;
        std::iter::from_fn(move || {
            while *words.get(at)? == 0 {
                at += 1;
            }
            let bit = words[at].trailing_zeros();
            words[at] &= words[at] - 1;
            Some(at as u32 * 32 + bit)
        })
    }

    /// The words, the lowest numbers first.
    pub fn words(&self) -> &[u32; WORDS_KEPT] {
        &self.words
    }

    /// Words on the wire, of which those beyond [`words`](Self::words) are passed over.
    pub fn word_count(&self) -> u32 {
        self.count
    }
}

impl fmt::Debug for Bitmap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl<'a> Scalar<'a> for Bitmap {
    const SIZE: Option<usize> = None;

    #[inline]
    fn read(cursor: &mut Cursor<'a>) -> Option<Self> {
        let count = cursor.u32()?;
        if count > WORDS_MAX {
            cursor.reject();
            return None;
        }
        let mut words = [0; WORDS_KEPT];
        for word in words.iter_mut().take(count as usize) {
            *word = cursor.u32()?;
        }
        let rest = (count as usize).saturating_sub(WORDS_KEPT);
        if rest > 0 {
            cursor.view(4 * rest)?;
        }
        Some(Self { count, words })
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.count.write(out);
        for at in 0..self.count as usize {
            self.words.get(at).copied().unwrap_or(0).write(out);
        }
    }
}

/// fattr4 as it lies on the wire, or attributes to be encoded as one.
#[derive(Clone, Copy, Default)]
pub struct AttributeList<'a> {
    /// Which attributes there are.
    pub mask: Option<Bitmap>,
    /// Bytes of their values.
    len: Option<u32>,
    source: Source<'a>,
}

#[derive(Clone, Copy, Default)]
enum Source<'a> {
    #[default]
    Unread,
    Wire(Cursor<'a>),
    Values(&'a Attributes<'a>),
}

impl<'a> AttributeList<'a> {
    /// A list of the attributes that are `Some` in `values`, to be encoded.
    pub fn new(values: &'a Attributes<'a>) -> Self {
        let mut bytes = Vec::new();
        values.encode(&mut bytes);
        Self {
            mask: Some(values.mask()),
            len: Some(bytes.len() as u32),
            source: Source::Values(values),
        }
    }

    /// The attributes, as far as they were seen and their lengths are known.
    pub fn values(&self) -> Attributes<'a> {
        self.read().0
    }

    /// The attributes, and whether the list contradicts its mask: it was seen whole, and ends
    /// before its last value does.
    pub fn read(&self) -> (Attributes<'a>, bool) {
        match (self.source, &self.mask) {
            (Source::Wire(mut cursor), Some(mask)) => {
                let is_whole = self
                    .len
                    .is_some_and(|len| len as usize == cursor.remaining());
                let values = Attributes::decode(mask, &mut cursor);
                let is_short = is_whole && cursor.fault() == Some(Fault::End);
                (values, is_short)
            }
            (Source::Values(values), _) => (*values, false),
            _ => (Attributes::default(), false),
        }
    }

    /// The values as they lie on the wire, one after another, if all of them were seen.
    pub fn value_bytes(&self) -> Option<View<'a>> {
        let Source::Wire(mut cursor) = self.source else {
            return None;
        };
        let len = self.len? as usize;
        (cursor.remaining() == len).then(|| cursor.view(len))?
    }

    /// The first attribute whose length is not known: it and those behind it are not among the
    /// values.
    pub fn unknown(&self) -> Option<u32> {
        self.mask?.iter().find(|&bit| name(bit).is_none())
    }
}

impl<'a> Xdr<'a> for AttributeList<'a> {
    const SIZE: Option<usize> = None;

    #[inline]
    fn decode(cursor: &mut Cursor<'a>) -> Self {
        let mask = Bitmap::read(cursor);
        let mut len = cursor.u32();
        if len.is_some_and(|len| len as usize > LIST_LEN_MAX) {
            cursor.reject();
            len = None;
        }
        let Some(bytes) = len.map(|len| len as usize) else {
            return Self {
                mask,
                ..Self::default()
            };
        };
        let source = Source::Wire(cursor.limited(bytes));
        if cursor.view(bytes).is_some() {
            cursor.skip(padding(bytes));
        }
        Self { mask, len, source }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        self.mask.encode(out);
        self.len.encode(out);
        let start = out.len();
        match self.source {
            Source::Unread => {}
            Source::Values(values) => values.encode(out),
            Source::Wire(mut cursor) => {
                let seen = cursor.view(cursor.remaining());
                debug_assert!(seen.is_some(), "encoding what was not seen");
                seen.inspect(|bytes| bytes.copy_to(out));
            }
        }
        let written = out.len() - start;
        pad(out, written);
    }

    fn agrees(&self, whole: &Self) -> bool {
        self.mask.agrees(&whole.mask)
            && self.len.agrees(&whole.len)
            && self.values().agrees(&whole.values())
    }
}

impl PartialEq for AttributeList<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.mask == other.mask && self.len == other.len && self.values() == other.values()
    }
}

impl fmt::Debug for AttributeList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.mask {
            None => f.write_str("unread"),
            Some(mask) if self.unknown().is_some() => write!(f, "{:?} of {mask:?}", self.values()),
            Some(_) => self.values().fmt(f),
        }
    }
}

/// A type of an attribute's value that can say whether it is there.
trait Value {
    fn is_set(&self) -> bool;
}

impl<T> Value for Option<T> {
    fn is_set(&self) -> bool {
        self.is_some()
    }
}

impl<'a, T: Xdr<'a> + Copy, const MAX: u32> Value for Counted<'a, T, MAX> {
    fn is_set(&self) -> bool {
        self.count().is_some()
    }
}

impl Value for SetTime {
    fn is_set(&self) -> bool {
        !matches!(self, Self::Unread)
    }
}

/// `number field "name": Type;` for each attribute that is kept, in ascending order, then
/// `number "name": Type;` for each whose length alone matters.
macro_rules! attributes {
    (
        kept { $($(#[$meta:meta])* $number:literal $field:ident $name:literal: $type:ty;)* }
        passed { $($other:literal $other_name:literal: $other_type:ty;)* }
    ) => {
        /// The values of a list of attributes. What is `None` was not in the list, or not seen
        /// ([`AttributeList::mask`] says which).
        #[derive(Clone, Copy, Default, PartialEq)]
        pub struct Attributes<'a> {
            $($(#[$meta])* #[doc = concat!("Attribute ", $number, ", `", $name, "`.")] pub $field: $type,)*
        }

        impl<'a> Attributes<'a> {
            fn decode(mask: &Bitmap, cursor: &mut Cursor<'a>) -> Self {
                let mut values = Self::default();
                for bit in mask.iter() {
                    match bit {
                        $($number => values.$field = Xdr::decode(cursor),)*
                        $($other => <$other_type as Xdr<'a>>::skip(cursor),)*
                        _ => break,
                    }
                }
                values
            }

            /// Which attributes are set.
            pub fn mask(&self) -> Bitmap {
                let mut mask = Bitmap::default();
                $(if self.$field.is_set() {
                    mask.insert($number);
                })*
                mask
            }

            fn encode(&self, out: &mut Vec<u8>) {
                $(if self.$field.is_set() {
                    self.$field.encode(out);
                })*
            }

            fn agrees(&self, whole: &Self) -> bool {
                true $(&& self.$field.agrees(&whole.$field))*
            }
        }

        impl fmt::Debug for Attributes<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut map = f.debug_map();
                $(if self.$field.is_set() {
                    map.entry(&$name, &self.$field);
                })*
                map.finish()
            }
        }

        /// The RFC's name of an attribute, without the prefix.
        pub fn name(number: u32) -> Option<&'static str> {
            Some(match number {
                $($number => $name,)*
                $($other => $other_name,)*
                _ => return None,
            })
        }
    };
}

// RFC 8881 section 5, RFC 7530 section 5, RFC 7862 section 12, RFC 8275, RFC 8276, RFC 9754.
attributes! {
    kept {
        1 file_type "type": Option<FileType>;
        2 handle_expiry "fh_expire_type": Option<u32>;
        3 change "change": Option<u64>;
        /// Bytes of the file.
        4 size "size": Option<u64>;
        5 link_support "link_support": Option<bool>;
        6 symlink_support "symlink_support": Option<bool>;
        7 named_attributes "named_attr": Option<bool>;
        8 fsid "fsid": Option<FileSystemId>;
        9 unique_handles "unique_handles": Option<bool>;
        10 lease_seconds "lease_time": Option<u32>;
        /// A [`Status`](super::Status): of a READDIR's entry, why its attributes are not there.
        11 read_error "rdattr_error": Option<u32>;
        12 acl "acl": Counted<'a, Ace<'a>>;
        13 acl_support "aclsupport": Option<u32>;
        14 archive "archive": Option<bool>;
        15 can_set_time "cansettime": Option<bool>;
        16 case_insensitive "case_insensitive": Option<bool>;
        17 case_preserving "case_preserving": Option<bool>;
        18 chown_restricted "chown_restricted": Option<bool>;
        19 handle "filehandle": Option<Handle<'a>>;
        20 fileid "fileid": Option<u64>;
        21 files_available "files_avail": Option<u64>;
        22 files_free "files_free": Option<u64>;
        23 files_total "files_total": Option<u64>;
        25 hidden "hidden": Option<bool>;
        26 homogeneous "homogeneous": Option<bool>;
        27 file_size_max "maxfilesize": Option<u64>;
        28 links_max "maxlink": Option<u32>;
        29 name_max "maxname": Option<u32>;
        30 read_max "maxread": Option<u64>;
        31 write_max "maxwrite": Option<u64>;
        33 mode "mode": Option<u32>;
        34 no_truncation "no_trunc": Option<bool>;
        35 link_count "numlinks": Option<u32>;
        36 owner "owner": Option<Name<'a>>;
        37 group "owner_group": Option<Name<'a>>;
        38 quota_hard_available "quota_avail_hard": Option<u64>;
        39 quota_soft_available "quota_avail_soft": Option<u64>;
        40 quota_used "quota_used": Option<u64>;
        41 device "rawdev": Option<Device>;
        42 bytes_available "space_avail": Option<u64>;
        43 bytes_free "space_free": Option<u64>;
        44 bytes_total "space_total": Option<u64>;
        /// Bytes of disk that the file takes.
        45 used "space_used": Option<u64>;
        46 system "system": Option<bool>;
        47 atime "time_access": Option<Time>;
        48 set_atime "time_access_set": SetTime;
        49 backup_time "time_backup": Option<Time>;
        50 create_time "time_create": Option<Time>;
        51 time_delta "time_delta": Option<Time>;
        52 ctime "time_metadata": Option<Time>;
        53 mtime "time_modify": Option<Time>;
        54 set_mtime "time_modify_set": SetTime;
        55 mounted_on_fileid "mounted_on_fileid": Option<u64>;
        65 layout_block_size "layout_blksize": Option<u32>;
        66 layout_alignment "layout_alignment": Option<u32>;
        74 set_mode_masked "mode_set_masked": Option<MaskedMode>;
        77 clone_block_size "clone_blksize": Option<u32>;
        78 bytes_freed "space_freed": Option<u64>;
        79 change_type "change_attr_type": Option<u32>;
        81 mode_umask "mode_umask": Option<ModeUmask>;
        82 xattr_support "xattr_support": Option<bool>;
        83 offline "offline": Option<bool>;
        84 delegated_atime "time_deleg_access": Option<Time>;
        85 delegated_mtime "time_deleg_modify": Option<Time>;
    }
    passed {
        0 "supported_attrs": Option<Bitmap>;
        24 "fs_locations": Locations<'a>;
        32 "mimetype": Option<Name<'a>>;
        56 "dir_notif_delay": Option<Time>;
        57 "dirent_notif_delay": Option<Time>;
        58 "dacl": Acl<'a>;
        59 "sacl": Acl<'a>;
        60 "change_policy": Option<FileSystemId>;
        61 "fs_status": FileSystemStatus<'a>;
        62 "fs_layout_types": Array<'a, LayoutType, 1024>;
        63 "layout_hint": LayoutHint<'a>;
        64 "layout_types": Array<'a, LayoutType, 1024>;
        67 "fs_locations_info": LocationsInfo<'a>;
        68 "mdsthreshold": Counted<'a, Threshold<'a>>;
        69 "retention_get": RetentionGet<'a>;
        70 "retention_set": RetentionSet<'a>;
        71 "retentevt_get": RetentionGet<'a>;
        72 "retentevt_set": RetentionSet<'a>;
        73 "retention_hold": Option<u64>;
        75 "suppattr_exclcreat": Option<Bitmap>;
        76 "fs_charset_cap": Option<u32>;
        80 "sec_label": Label<'a>;
        86 "open_arguments": OpenArguments;
    }
}

lineside_rpc::xdr! {
    /// settime4.
    pub union SetTime {
        1 => ClientTime(time: Option<Time>),
        _ => ServerTime,
    }

    /// mode_masked4: bits of the mode, and which of them are to be set.
    pub scalar struct MaskedMode { value: u32, mask: u32 }

    /// mode_umask4 (RFC 8275): the mode asked for, and the mask that applies unless a default ACL
    /// does.
    pub scalar struct ModeUmask { mode: u32, umask: u32 }

    /// fs_locations4.
    pub struct Locations<'a> { root: Path<'a>, locations: Counted<'a, Location<'a>> }

    /// fs_location4.
    pub struct Location<'a> { servers: Counted<'a, Option<Name<'a>>>, root: Path<'a> }

    /// fs_locations_info4 (RFC 8881 section 11.17).
    pub struct LocationsInfo<'a> {
        flags: Option<u32>,
        valid_seconds: Option<u32>,
        root: Path<'a>,
        items: Counted<'a, LocationsItem<'a>>,
    }

    /// fs_locations_item4.
    pub struct LocationsItem<'a> { entries: Counted<'a, LocationsServer<'a>>, root: Path<'a> }

    /// fs_locations_server4.
    pub struct LocationsServer<'a> {
        currency: Option<u32>,
        info: Option<Owner<'a>>,
        server: Option<Name<'a>>,
    }

    /// nfsacl41.
    pub struct Acl<'a> { flags: Option<u32>, entries: Counted<'a, Ace<'a>> }

    /// fs4_status.
    pub struct FileSystemStatus<'a> {
        absent: Option<bool>,
        status_type: Option<u32>,
        source: Option<Name<'a>>,
        current: Option<Name<'a>>,
        age_seconds: Option<u32>,
        version: Option<Time>,
    }

    /// layouthint4.
    pub struct LayoutHint<'a> { layout_type: Option<LayoutType>, body: Option<Body<'a>> }

    /// threshold_item4, of mdsthreshold4.
    pub struct Threshold<'a> {
        layout_type: Option<LayoutType>,
        hints: Option<Bitmap>,
        values: Option<Body<'a>>,
    }

    /// retention_get4.
    pub struct RetentionGet<'a> { seconds: Option<u64>, begin: Counted<'a, Option<Time>, 1> }

    /// retention_set4.
    pub struct RetentionSet<'a> { enable: Option<bool>, seconds: Counted<'a, Option<u64>, 1> }

    /// sec_label4 (RFC 7862 section 12.2.4).
    pub struct Label<'a> {
        format: Option<u32>,
        policy: Option<u32>,
        data: Option<Opaque<'a, 0x1_0000>>,
    }

    /// open_arguments4 (RFC 9754): what the server's OPEN understands.
    pub struct OpenArguments {
        share_access: Option<Bitmap>,
        share_deny: Option<Bitmap>,
        share_access_want: Option<Bitmap>,
        claims: Option<Bitmap>,
        create_modes: Option<Bitmap>,
    }
}
