//! The protocol `nfs`: its URL, its keys, its server of files.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};

use lineside_http::Url;
use lineside_nfs::v3::StableHow;
use lineside_words::WordError;
use lineside_workload::{Sizes, Unit};

use super::{
    Files, MixError, MountAt, NAMES, Nfs, NfsMix, NfsServer, Offsets, Preparation, Store,
    StoreSettings, prepare, status_name,
};
use crate::error::LoadError;
use crate::launch::{Launch, Requests, Streams};
use crate::outcome::{Observer, OnlyStops, Outcome};
use crate::protocol::{Key, KeyKind, Protocol, Service, ServiceWords};
use crate::serve::{Serve, ServeStreams};
use crate::words::{UsageError, Words, sizes};

/// The port of RFC 7530, 3.1.
const PORT: u16 = 2049;
/// How a URL is written.
const FORM: &str = "nfs://HOST[:PORT]/EXPORT[?mountport=N]";
/// Procedures that change nothing: whose files these are is not known here.
const MIX: &str = "getattr:40%, lookup:15%, access:15%, read:30%";
/// Bytes of READ and WRITE.
const SIZE: &str = "32KiB";
/// Files of an export that are used.
const FILES_FOUND_MAX: u32 = 10_000;
/// Files that are made.
const FILE_BYTES: u64 = 1 << 20;
const FILES_A_DIRECTORY: u32 = 1_000;
/// As root squashed or not, the server says; ordinary servers of tests take anyone.
const USER: (u32, u32) = (0, 0);

/// The protocol `nfs`.
pub(in crate::protocol) static NFS: Protocol = Protocol {
    // The server says which port its mounts have.
    has_further_ports: true,
    keys: &[
        Key {
            value: "NAME:SHARE,...",
            example: Some("read:80%,write:20%"),
            ..Key::new(
                "mix",
                "mix",
                "NFS procedures with their shares [default: getattr:40%, lookup:15%, access:15%, \
                 read:30%]",
            )
        },
        Key {
            kind: KeyKind::Count,
            value: "N",
            ..Key::new(
                "files",
                "files",
                "Create N files of 1 MiB in the export first [default: use those that exist, up \
                 to 10000]",
            )
        },
    ],
    shared_keys: &["keys", "value_size"],
    ..Protocol::new(
        "nfs",
        "nfs://HOST[:PORT]/EXPORT",
        client,
        Service {
            place: 7,
            about: "NFSv3 with MOUNT at the same port: 1,000 files in /export",
            port: PORT,
            size: Some(("each file", "of nfs 1MiB")),
            server,
        },
    )
};

/// Calls over an export, which is prepared before the load.
struct Calls {
    mix: NfsMix,
    preparation: Preparation,
}

fn client(words: &Words<'_>) -> Result<(Url, Box<dyn Requests>), UsageError> {
    let (server, export, mount_port) = url(words)?;
    let size = sizes("value-size", words.text("value_size").unwrap_or(SIZE))?;
    let shares = words.text("mix").unwrap_or(MIX).parse();
    let shares = shares.map_err(|error: MixError| UsageError::of(error))?;
    let (files, seed) = (words.count("files"), words.seed);
    let keys = match (words.text("keys"), files) {
        (Some(keys), _) => keys.parse(),
        (None, Some(files)) => format!("uniform over {files}").parse(),
        (None, None) => format!("uniform over {FILES_FOUND_MAX}").parse(),
    };
    let mix = NfsMix {
        shares,
        keys: keys.map_err(|error: WordError| UsageError::of(error))?,
        read_bytes: size.clone(),
        write_bytes: size,
        offsets: Offsets::Random,
        stable: StableHow::UNSTABLE,
        user: USER,
        seed,
    };
    let preparation = Preparation {
        export: export.to_owned(),
        mount: mount_port.map_or(MountAt::Portmap, MountAt::Port),
        files: match files {
            None => Files::Found {
                files_max: FILES_FOUND_MAX,
            },
            Some(files) => Files::Made {
                files,
                directories: files.div_ceil(FILES_A_DIRECTORY),
                bytes: Sizes::constant(FILE_BYTES, Unit::Bytes),
                seed,
                makes: true,
            },
        },
        user: USER,
        timeout_ns: words.timeout_ns,
    };
    Ok((server, Box::new(Calls { mix, preparation })))
}

/// `HOST[:PORT]/EXPORT[?mountport=N]`: the server, the export, the port of MOUNT.
fn url<'a>(words: &Words<'a>) -> Result<(Url, &'a str, Option<u16>), UsageError> {
    let (rest, mount_port) = words.parameter("mountport", FORM)?;
    let (at, export) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if export.is_empty() {
        return Err(words.wrong(format!("no export: write {FORM}")));
    }
    let number = |port: &str| {
        let number = port.parse();
        number.map_err(|_| words.wrong(format!("'{port}' is not a port")))
    };
    let mount_port = mount_port.map(number).transpose()?;
    Ok((words.server(at, PORT, FORM)?, export, mount_port))
}

impl Requests for Calls {
    fn operations(&self) -> &'static [&'static str] {
        &NAMES
    }

    fn status(&self, status: u32) -> Cow<'static, str> {
        status_name(status)
    }

    fn run(&self, launch: &Launch<'_>, observer: &mut dyn Observer) -> Result<Outcome, LoadError> {
        let mut until = OnlyStops(&mut *observer);
        let tree = prepare(launch.settings, &self.preparation, launch.clock, &mut until)?;
        let tree = Arc::new(tree);
        let make = || Nfs::new(self.mix.clone(), Arc::clone(&tree));
        Streams::new(make).run(launch, observer)
    }
}

/// A server of files that need no disk.
fn server(words: ServiceWords) -> Result<Box<dyn Serve>, UsageError> {
    let settings = StoreSettings {
        export: "/export".to_owned(),
        directories: 10,
        files: 1_000,
        bytes: Sizes::constant(words.size.unwrap_or(FILE_BYTES), Unit::Bytes),
        seed: 1,
        nodes_max: 1 << 20,
        written_bytes_max: words.memory / 2,
    };
    let store = Store::new(&settings).map_err(UsageError::of)?;
    let store = Arc::new(Mutex::new(store));
    Ok(Box::new(ServeStreams(move || {
        NfsServer::new(Arc::clone(&store))
    })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::test::words;

    #[test]
    fn a_url_has_an_export_and_a_port_of_mount() {
        let (_, export, mount_port) = url(&words("nfs://a/b/c?mountport=7")).expect("a URL");
        assert_eq!((export, mount_port), ("/b/c", Some(7)));
    }
}
