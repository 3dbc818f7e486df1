//! nfs-ganesha in a network namespace of its own, by the lab's scripts: files are made, written,
//! read, listed and removed by NFSv3, 4.0, 4.1 and 4.2, and leases outlive their time.

mod driver;

use std::path::{Path, PathBuf};
use std::process::Command;

use lineside_frame::Piece;
use lineside_nfs::v3;
use lineside_nfs::v4::{
    self, AttributeList, Attributes, Bitmap, Call, Claim, CreateHow, Handle, OpenHow, Owner,
    StateOwner,
};
use lineside_nfs_client::{Connection, Credential, Request, Version};
use lineside_rpc::xdr::{Handle as Handle3, Name, Optional};
use lineside_testkit::waiting::Turn;
use tempfile::TempDir;

use driver::Driver;

/// Says to the process inside the namespace which test it is.
const INSIDE: &str = "LINESIDE_NFS_CLIENT_INSIDE";
/// Labs with other names can be up beside it.
const LAB: &str = "lineside-nfsc";
const SERVER: &str = "192.0.2.1";
const NAME: &[u8] = b"written by lineside-nfs-client";

struct Lab {
    state: TempDir,
    settings: TempDir,
    _only: Turn,
}

impl Lab {
    /// Prints the reason and returns `None` where there can be no lab.
    fn up() -> Option<Self> {
        let why = match rustix::process::geteuid().is_root() {
            false => Some("network namespaces need root".to_owned()),
            true => ["ip", "ethtool", "ss", "rpcbind", "ganesha.nfsd"]
                .iter()
                .find(|tool| !is_there(tool))
                .map(|tool| format!("{tool} is missing")),
        };
        if let Some(why) = why {
            println!("SKIP: no lab: {why}");
            return None;
        }
        let lab = Self {
            _only: Turn::take(LAB),
            state: tempfile::tempdir().expect("a folder"),
            settings: tempfile::tempdir().expect("a folder"),
        };
        let usual = std::fs::read_to_string(scripts().join("ganesha.conf")).expect("its settings");
        let short = usual.replace("Graceless = true;", "Graceless = true; Lease_Lifetime = 5;");
        assert_ne!(usual, short, "a lease of 5 s");
        std::fs::write(lab.settings.path().join("ganesha.conf"), short).expect("a file");
        let output = lab.command("up").output().expect("the lab's up runs");
        let talk = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{talk}");
        Some(lab)
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(scripts().join(name));
        command.env("LINESIDE_LAB", self.state.path());
        command.env(
            "LINESIDE_LAB_CONF",
            self.settings.path().join("ganesha.conf"),
        );
        command.env("LINESIDE_LAB_NAME", LAB);
        command
    }

    fn files(&self) -> PathBuf {
        self.state.path().join("files")
    }

    /// Runs a test of this program in the client's namespace.
    fn inside(&self, test: &str) {
        let program = std::env::current_exe().expect("this program");
        let output = Command::new("ip")
            .args(["netns", "exec", &format!("{LAB}-cli")])
            .arg(program)
            .args(["--exact", test, "--nocapture"])
            .env(INSIDE, test)
            .output()
            .expect("ip runs");
        let talk = [output.stdout, output.stderr].concat();
        let talk = String::from_utf8_lossy(&talk);
        assert!(output.status.success(), "{talk}");
        assert!(talk.contains("1 passed"), "{talk}");
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = self.command("down").status();
    }
}

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../test/nfs-lab")
}

fn is_there(tool: &str) -> bool {
    let path = "PATH=$PATH:/usr/sbin:/sbin command -v \"$0\"";
    let output = Command::new("sh").args(["-c", path, tool]).output();
    output.is_ok_and(|output| output.status.success())
}

fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

#[test]
fn ganesha_serves_every_version() {
    if is_inside() {
        by_version_3();
        (0..=2).for_each(by_version_4);
        return;
    }
    let Some(lab) = Lab::up() else { return };
    lab.inside("wall::ganesha_serves_every_version");
    let files = std::fs::read_dir(lab.files()).expect("the exported files");
    assert_eq!(files.count(), 0, "what was made was removed");
}

/// What a file is written with: more than one call's.
fn content() -> Vec<u8> {
    (0..300_000_u32).map(|at| (at * 7 / 3) as u8).collect()
}

const CHUNK: usize = 64 << 10;

fn piece(bytes: &[u8]) -> [Piece<'_>; 1] {
    [Piece::bytes(bytes)]
}

fn by_version_3() {
    let mut driver = Driver::mount(SERVER, Version::V3, "/vfs");
    let (connection, root) = (driver.nfs, driver.client.root().to_vec());
    let (root, name) = (piece(&root), piece(NAME));
    let what = v3::DirOpArgs {
        directory: Some(Handle3::new(&root)),
        name: Some(Name::new(&name)),
    };
    let attributes = v3::SetAttributes {
        mode: Optional::Present(Some(0o640)),
        uid: Optional::Absent,
        gid: Optional::Absent,
        size: Optional::Absent,
        atime: v3::SetTime::DontChange,
        mtime: v3::SetTime::ServerTime,
    };
    let how = v3::CreateHow::Unchecked(attributes);
    let create = v3::Call::Create(v3::CreateArgs { what, how });
    driver.nfs3(connection, &create, &[]);
    let handle = driver.nfs3(connection, &v3::Call::Lookup(what), &[]).handle;
    let handle = piece(&handle);
    let file = Some(Handle3::new(&handle));
    let content = content();
    // Two connections, so that calls of one client come by both.
    let second = driver.connect();
    for (number, data) in content.chunks(CHUNK).enumerate() {
        let write = v3::Call::Write(v3::WriteArgs {
            file,
            offset: Some((number * CHUNK) as u64),
            count: Some(data.len() as u32),
            stable: Some(v3::StableHow::UNSTABLE),
            data_len: Some(data.len() as u32),
        });
        let by = [connection, second][number % 2];
        driver.nfs3(by, &write, data);
    }
    let commit = v3::Call::Commit(v3::CommitArgs {
        file,
        offset: Some(0),
        count: Some(0),
    });
    driver.nfs3(connection, &commit, &[]);
    let read = v3::Call::Read(v3::ReadArgs {
        file,
        offset: Some(0),
        count: Some(content.len() as u32),
    });
    assert!(driver.nfs3(second, &read, &[]).data == content);
    let list = v3::Call::ReadDir(v3::ReadDirArgs {
        directory: Some(Handle3::new(&root)),
        cookie: Some(0),
        cookie_verifier: Some([0; 8]),
        count: Some(4_096),
    });
    assert!(
        driver
            .nfs3(connection, &list, &[])
            .names
            .contains(&NAME.to_vec())
    );
    driver.nfs3(connection, &v3::Call::Remove(what), &[]);
    // One that is gone is an answer, not an error of the client.
    let gone = driver.ask3(connection, &v3::Call::Lookup(what), &[]);
    assert_eq!(gone.status, Some(v3::Status::NOENT.0));
}

fn put<'a>(handle: &'a [Piece<'a>]) -> Call<'a> {
    let object = Some(Handle::new(handle));
    Call::PutFh(v4::PutFhArgs { object })
}

fn by_version_4(minor: u32) {
    let mut driver = Driver::mount(SERVER, Version::V4(minor), "/vfs");
    let connection = driver.nfs;
    let root = driver.client.root().to_vec();
    let (root, name, owner) = (piece(&root), piece(NAME), piece(b"an open owner"));
    let name_args = v4::NameArgs {
        name: Some(Name::new(&name)),
    };
    let (handle, stateid) = open(&mut driver, connection, &root, &name, &owner);
    let handle = piece(&handle);
    let content = content();
    let second = driver.connect();
    for (number, data) in content.chunks(CHUNK).enumerate() {
        let write = Call::Write(v4::WriteArgs {
            stateid: Some(stateid),
            offset: Some((number * CHUNK) as u64),
            stable: Some(v4::StableHow::UNSTABLE),
            data_len: Some(data.len() as u32),
        });
        let by = [connection, second][number % 2];
        driver.compound(by, &[put(&handle), write], data);
    }
    let commit = Call::Commit(v4::CommitArgs {
        offset: Some(0),
        count: Some(0),
    });
    driver.compound(connection, &[put(&handle), commit], &[]);
    // More calls at once than the session has slots.
    for _ in 0..200 {
        let read = Call::Read(v4::ReadArgs {
            stateid: Some(stateid),
            offset: Some(5),
            count: Some(70),
        });
        driver.begin(second, &[put(&handle), read], &[]);
    }
    let all = driver.wait_for_all();
    assert_eq!(all.len(), 200);
    assert!(all.iter().all(|heard| heard.data == content[5..75]));
    let read = Call::Read(v4::ReadArgs {
        stateid: Some(stateid),
        offset: Some(0),
        count: Some(content.len() as u32),
    });
    let heard = driver.compound(connection, &[put(&handle), read], &[]);
    assert!(heard.data == content);
    // A connection that ended is opened again, and the state lives.
    driver.reopen(connection);
    let list = Call::ReadDir(v4::ReadDirArgs {
        cookie: Some(0),
        cookie_verifier: Some([0; 8]),
        directory_count: Some(4_096),
        count_max: Some(8_192),
        request: Some(Bitmap::new(&[1])),
    });
    let heard = driver.compound(connection, &[put(&root), list], &[]);
    assert!(heard.names.contains(&NAME.to_vec()));
    let close = Call::Close(v4::CloseArgs {
        sequence: Some(0),
        stateid: Some(stateid),
    });
    driver.compound(connection, &[put(&handle), close], &[]);
    driver.compound(connection, &[put(&root), Call::Remove(name_args)], &[]);
    let gone = driver.ask(connection, &[put(&root), Call::Lookup(name_args)], &[]);
    assert_eq!(gone.status, Some(v4::Status::NOENT.0));
    driver.finish();
}

/// A new file's handle and state.
fn open(
    driver: &mut Driver,
    connection: Connection,
    root: &[Piece<'_>],
    name: &[Piece<'_>],
    owner: &[Piece<'_>],
) -> (Vec<u8>, v4::StateId) {
    /// OPEN4_RESULT_CONFIRM.
    const MUST_CONFIRM: u32 = 2;
    let values = Attributes {
        mode: Some(0o640),
        ..Attributes::default()
    };
    let open = Call::Open(v4::OpenArgs {
        // The client knows the number, and its own id.
        sequence: Some(77),
        access: Some(3),
        deny: Some(0),
        owner: StateOwner {
            client_id: Some(0),
            owner: Some(Owner::new(owner)),
        },
        how: OpenHow::Create(CreateHow::Unchecked(AttributeList::new(&values))),
        claim: Claim::Null(Some(Name::new(name))),
    });
    let calls = [put(root), open, Call::GetFh(())];
    let heard = driver.compound(connection, &calls, &[]);
    let mut stateid = heard.stateid.expect("a state");
    if heard.open_flags & MUST_CONFIRM != 0 {
        let handle = piece(&heard.handle);
        let confirm = Call::OpenConfirm(v4::OpenConfirmArgs {
            stateid: Some(stateid),
            sequence: Some(0),
        });
        let confirmed = driver.compound(connection, &[put(&handle), confirm], &[]);
        stateid = confirmed.stateid.expect("a state");
    }
    (heard.handle, stateid)
}

#[test]
fn a_lease_outlives_its_time_when_it_is_renewed() {
    if is_inside() {
        (0..=1).for_each(keep_a_lease);
        return;
    }
    let Some(lab) = Lab::up() else { return };
    lab.inside("wall::a_lease_outlives_its_time_when_it_is_renewed");
}

/// A state lives for a lease and a half without a call of the caller's: the server's time is that
/// of its clock, so this test takes as long. The lab's lease is 5 s.
fn keep_a_lease(minor: u32) {
    let mut driver = Driver::mount(SERVER, Version::V4(minor), "/vfs");
    let connection = driver.nfs;
    let root = driver.client.root().to_vec();
    let (root, name, owner) = (piece(&root), piece(NAME), piece(b"an open owner"));
    let (handle, stateid) = open(&mut driver, connection, &root, &name, &owner);
    let handle = piece(&handle);
    let first = driver.client.next_deadline().expect("a renewal");
    let renewals = driver.live_for(3);
    assert!(renewals >= 3, "{renewals} renewals after {first}");
    let close = Call::Close(v4::CloseArgs {
        sequence: Some(0),
        stateid: Some(stateid),
    });
    driver.compound(connection, &[put(&handle), close], &[]);
    let name = v4::NameArgs {
        name: Some(Name::new(&name)),
    };
    driver.compound(connection, &[put(&root), Call::Remove(name)], &[]);
    driver.finish();
}

/// All calls are made by root.
fn root_user() -> Credential {
    Credential::sys(b"lineside", 0, 0, &[0]).expect("a short name")
}

fn request<'a>(calls: &'a [Call<'a>], data: &'a [u8]) -> Request<'a> {
    Request::Compound {
        tag: b"",
        calls,
        data,
    }
}
