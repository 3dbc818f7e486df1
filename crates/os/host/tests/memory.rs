//! Without the test harness, whose threads have other heaps than `main`.

use std::fs;

fn resident_bytes() -> usize {
    let facts = fs::read_to_string("/proc/self/statm").expect("procfs");
    let pages = facts.split(' ').nth(1).expect("resident pages");
    pages.parse::<usize>().expect("a number") * 4096
}

/// Pieces of which every other one was freed, so that the heap cannot end earlier.
fn free_pages_go_back() {
    lineside_host::share_one_heap();
    let mut pieces: Vec<_> = (0..2048).map(|_| Some(vec![1_u8; 16 << 10])).collect();
    { pieces.iter_mut().step_by(2) }.for_each(|piece| *piece = None);
    let before = std::hint::black_box(resident_bytes());
    lineside_host::release_free_pages();
    let less = before.saturating_sub(resident_bytes());
    // Of 16 MiB three quarters, since pieces do not begin where pages do.
    assert!(less >= 10 << 20, "{less} bytes went back");
    assert!(pieces.iter().flatten().all(|piece| piece[9_999] == 1));
    println!("test free_pages_go_back ... ok");
}

fn main() {
    if cfg!(target_env = "gnu") {
        free_pages_go_back();
    }
    let enabled = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    if !enabled.is_ok_and(|enabled| !enabled.contains("[never]")) || !cfg!(target_env = "gnu") {
        println!(
            "skipped: huge pages of the heap: the kernel gives none, or the C library is not glibc"
        );
        return;
    }
    lineside_host::prefer_huge_pages();
    let buffer = std::hint::black_box(vec![1_u8; 8 << 20]);
    let maps = fs::read_to_string("/proc/self/smaps").expect("procfs");
    let of_heap = maps.split("[heap]").skip(1);
    let huge_kib = of_heap.filter_map(|map| {
        let line = map.lines().find(|line| line.starts_with("AnonHugePages"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    });
    let (huge_kib, all_kib): (u64, _) = (huge_kib.sum(), buffer.len() >> 10);
    // Where memory is in small pieces the kernel gives some of them only.
    assert!(huge_kib >= 2 << 10, "{huge_kib} of {all_kib} KiB are huge");
    println!("test the_heap_has_huge_pages ... ok");
}
