//! A bundle of a lab that somebody else made: nothing of it leads out of its folder or is there
//! twice, and one that is taken has the runs that it names.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use lineside_lab::{BUNDLE_TOP, Bundle, tar};

use super::Bytes;

/// An archive as it stands, or files of which one is made: each the length of its name, its name,
/// its length in two bytes, and its bytes.
pub(crate) fn run(data: &[u8]) {
    let mut bytes = Bytes(data);
    if bytes.u8() % 2 == 0 {
        read(bytes.0);
        return;
    }
    let mut archive = Vec::new();
    while !bytes.is_empty() {
        let len = usize::from(bytes.u8());
        let name = String::from_utf8_lossy(bytes.take(len)).into_owned();
        let len = usize::from(bytes.u16());
        let content = bytes.take(len);
        // A name may be too long.
        let _ = tar::append(&mut archive, &format!("{BUNDLE_TOP}/{name}"), content);
    }
    tar::finish(&mut archive).expect("memory");
    read(&archive);
}

fn read(archive: &[u8]) {
    let mut names = BTreeSet::new();
    let bundle = Bundle::read(archive, |name, _| {
        let mut parts = Path::new(name).components();
        assert!(!name.is_empty() && parts.all(|part| matches!(part, Component::Normal(_))));
        assert!(names.insert(name.to_owned()), "{name} is there twice");
        Ok(())
    });
    if let Ok(bundle) = bundle {
        let runs = names.iter().filter(|name| name.ends_with("/point.json"));
        assert_eq!(runs.count(), bundle.about.runs);
    }
}
