//! How large and how tangled the sources are: bounds that only fall.

use std::path::{Path, PathBuf};

use lineside_testkit::layers::{Group, Uses};
use lineside_testkit::sources::Sizes;

/// Groups of files that use each other in a circle, over all crates but those for tests.
const GROUPS_MAX: usize = 11;
/// Those that are more than a module with its own submodules.
const GROUPS_BEYOND_A_MODULE_MAX: usize = 1;
/// Files of the largest group.
const GROUP_FILES_MAX: usize = 6;

/// Lines of a file, without its unit tests, and how many files have more.
const FILE_LINES: usize = 800;
const LONG_FILES_MAX: usize = 0;
/// Lines of code of a function, and how many functions have more.
const FUNCTION_LINES: usize = 70;
const LONG_FUNCTIONS_MAX: usize = 11;

/// The sources of all crates but those for tests.
fn crates() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders = |of: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(of).expect("a folder");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        paths.filter(|path| path.is_dir()).collect()
    };
    let families = folders(&root);
    let families = families.iter().filter(|family| !family.ends_with("test"));
    let mut all: Vec<PathBuf> = families
        .flat_map(|family| folders(family))
        .map(|of| of.join("src"))
        .filter(|src| src.exists())
        .collect();
    all.sort();
    all
}

#[test]
fn circles_of_files_only_become_fewer_and_smaller() {
    let named = |src: &PathBuf| -> Vec<(String, Group)> {
        let of = src.components().rev().nth(1).expect("a crate").as_os_str();
        let of = of.to_string_lossy().into_owned();
        let groups = Uses::of(src).groups().into_iter();
        groups.map(|group| (of.clone(), group)).collect()
    };
    let mut groups: Vec<_> = crates().iter().flat_map(named).collect();
    groups.sort_by_key(|(_, group)| std::cmp::Reverse(group.files.len()));
    for (of, Group { files, is_family }) in &groups {
        let kind = if *is_family {
            ", a module with its own"
        } else {
            ""
        };
        println!("{of}: {}{kind}: {}", files.len(), files.join(" "));
    }
    let beyond = groups.iter().filter(|(_, group)| !group.is_family).count();
    let largest = groups.first().map_or(0, |(_, group)| group.files.len());
    let found = [groups.len(), beyond, largest];
    println!(
        "{} groups, {beyond} beyond a module, the largest of {largest}",
        groups.len()
    );
    let most = [GROUPS_MAX, GROUPS_BEYOND_A_MODULE_MAX, GROUP_FILES_MAX];
    assert!(is_within(found, most), "{found:?} of at most {most:?}");
}

#[test]
fn long_files_and_functions_only_become_fewer() {
    let mut sizes = Sizes::default();
    crates().iter().for_each(|src| sizes.add(src));
    let files = sizes.files.iter().filter(|(_, lines)| *lines > FILE_LINES);
    let files: Vec<_> = files.collect();
    let functions = sizes.functions.iter();
    let mut functions: Vec<_> = functions
        .filter(|(_, lines)| *lines > FUNCTION_LINES)
        .collect();
    functions.sort_by_key(|(_, lines)| std::cmp::Reverse(*lines));
    println!("{} lines of code\n{files:#?}\n{functions:#?}", sizes.code);
    let found = [files.len(), functions.len()];
    let most = [LONG_FILES_MAX, LONG_FUNCTIONS_MAX];
    assert!(is_within(found, most), "{found:?} of at most {most:?}");
}

fn is_within<const N: usize>(found: [usize; N], most: [usize; N]) -> bool {
    found.iter().zip(most).all(|(found, most)| *found <= most)
}
