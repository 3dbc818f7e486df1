//! Before a run: the directory that everything happens below is found or made, and what the
//! source's calls use of it is looked up.

use hashbrown::HashMap;
use lineside_host::RunClock;
use lineside_nfs_client::{ClientError, Config, Credential, Mount, MountAt, Step, Version};
use lineside_replay::{FileId, Path, Script};
use lineside_time::Clock;

use crate::asking::Asking;
use crate::below::Below;
use crate::error::RerunError;
use crate::url::Url;

/// What a run stands on.
#[derive(Debug, Clone, Default)]
pub struct Ground {
    /// What is mounted.
    pub export: Vec<u8>,
    /// The handle of the directory.
    pub top: Vec<u8>,
    /// The handles of the roots of the source's servers of NFSv4.
    pub tops: Vec<Vec<u8>>,
    /// What was mounted, and files that are there already, as the source calls them.
    pub known: Vec<(FileId, Vec<u8>)>,
    /// Files that calls use, and that are not there.
    pub missing: u64,
    /// Where MOUNT is.
    pub mount_port: u16,
}

/// Finds or makes the directory of `url`, and finds what calls of the script use that was there
/// before.
pub fn prepare(
    script: &Script,
    url: &Url,
    user: (u32, u32),
    in_place: bool,
    timeout_ns: i64,
    clock: &RunClock,
) -> Result<Ground, RerunError> {
    let version = script.survey.minor_version.map_or(Version::V3, Version::V4);
    let (mut asking, export_len) = mount(version, url, user, timeout_ns, clock)?;
    let mut below = Below {
        asking: &mut asking,
        url,
        version,
    };
    let mut top = below.asking.root();
    for component in &url.path[export_len..] {
        top = below.find_or_make(&top, component.as_bytes())?;
    }
    let mut ground = Ground {
        export: export_of(url, export_len),
        top: top.clone(),
        ..Ground::default()
    };
    let mut found: HashMap<Path, Option<Vec<u8>>> = HashMap::new();
    for &file in &script.survey.needed {
        let handle = match script.paths.get(&file) {
            Some(path) => below.find(&top, path, &mut found)?,
            None => None,
        };
        match handle {
            Some(handle) => ground.known.push((file, handle)),
            None => ground.missing += 1,
        }
    }
    let is_image = !ground.known.is_empty() && ground.missing == 0;
    if !in_place && !is_image && !below.is_empty(&top)? {
        let url = url.text.clone();
        return Err(RerunError::NotEmpty { url });
    }
    for root in &script.roots {
        if let Some(path) = script.paths.get(root).filter(|path| !path.is_empty()) {
            ground.known.push((*root, below.way(&top, path)?));
        }
    }
    for path in &script.tops {
        ground.tops.push(below.way(&top, path)?);
    }
    if let Version::V4(_) = version {
        for (server, way) in &script.survey.ways {
            let top = ground.tops.get(*server as usize).unwrap_or(&top);
            below.way(top, way)?;
        }
    }
    ground.mount_port = asking.mount_port.unwrap_or(url.port);
    asking.farewell();
    Ok(ground)
}

fn export_of(url: &Url, len: usize) -> Vec<u8> {
    format!("/{}", url.path[..len].join("/")).into_bytes()
}

/// Mounts as much of the path as can be: how many components that is.
///
/// NFSv4 has no mounts: the path is looked up from the root of the server's file systems.
fn mount<'a>(
    version: Version,
    url: &Url,
    user: (u32, u32),
    timeout_ns: i64,
    clock: &'a RunClock,
) -> Result<(Asking<'a>, usize), RerunError> {
    let mut last = String::new();
    let lens = match version {
        Version::V3 => 1..=url.path.len(),
        Version::V4(_) => 0..=0,
    };
    for len in lens.rev() {
        let owner = format!("lineside-replay-{}", std::process::id());
        let verifier = clock.now().to_be_bytes();
        let mut config = Config::new(version, owner.as_bytes(), verifier);
        config.port = url.port;
        config.credential =
            Credential::sys(b"lineside", user.0, user.1, &[user.1]).unwrap_or(config.credential);
        config.mount = Some(Mount {
            export: export_of(url, len),
            at: MountAt::Portmap,
        });
        match Asking::new(clock, url, config, timeout_ns) {
            Ok(asking) => return Ok((asking, len)),
            Err(RerunError::Client(error @ ClientError::Status(Step::Mnt, _))) => {
                last = error.to_string();
            }
            Err(error) => return Err(error),
        }
    }
    Err(RerunError::NoExport {
        server: url.server.to_string(),
        path: format!("/{}", url.path.join("/")),
        why: last,
    })
}
