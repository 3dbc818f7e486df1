//! A file of a store beside a plain buffer to which the same is done.

use lineside_time::Random;
use lineside_workload::Unit;

use super::*;

fn store(written_bytes_max: usize) -> Store {
    let settings = StoreSettings {
        export: "/export".to_owned(),
        directories: 1,
        files: 2,
        bytes: Sizes::constant(30_000, Unit::Bytes),
        seed: 1,
        nodes_max: 8,
        written_bytes_max,
    };
    Store::new(&settings).expect("a store")
}

fn read(store: &Store, place: u32, offset: u64, count: u32) -> (Vec<u8>, bool) {
    let mut bytes = Vec::new();
    let read = store.read(place, offset, count, |part| match part {
        Part::Synthetic { file, offset, len } => {
            let start = bytes.len();
            bytes.resize(start + len as usize, 0);
            content::fill(file, offset, &mut bytes[start..]);
        }
        Part::Zeros(len) => bytes.resize(bytes.len() + len as usize, 0),
        Part::Written(written) => bytes.extend_from_slice(written),
    });
    let (len, eof) = read.expect("a file");
    assert_eq!(bytes.len(), len as usize);
    (bytes, eof)
}

#[test]
fn a_file_is_what_was_done_to_it() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let mut store = store(1 << 20);
        let place = 2 + random.below(2) as u32;
        let mut model = read(&store, place, 0, 30_000).0;
        assert_eq!(model.len(), 30_000);
        for step in 0..30 {
            let offset = random.below(45_000);
            let len = random.below(9_000) as usize;
            match random.below(4) {
                0 => {
                    let size = Optional::Present(Some(offset));
                    let wanted = SetAttributes {
                        size,
                        ..SetAttributes::default()
                    };
                    store.set_attributes(place, &wanted).expect("a file");
                    model.resize(offset as usize, 0);
                }
                1 => {
                    let (bytes, eof) = read(&store, place, offset, len as u32);
                    let from = model.len().min(offset as usize);
                    let to = model.len().min(from + len);
                    assert_eq!(bytes, model[from..to], "seed {seed}, step {step}");
                    assert_eq!(eof, offset as usize + bytes.len() >= model.len());
                }
                _ => {
                    let mut bytes = vec![0; len];
                    random.fill(&mut bytes);
                    let written = store.write(place, offset, &bytes);
                    assert_eq!(written, Ok(len as u32));
                    let end = offset as usize + len;
                    model.resize(model.len().max(end), 0);
                    model[offset as usize..end].copy_from_slice(&bytes);
                }
            }
        }
        assert_eq!(read(&store, place, 0, 1 << 20).0, model, "seed {seed}");
        let kept = store.blocks.len();
        assert_eq!(store.data.len() / BLOCK, kept + store.free_blocks.len());
        store
            .remove(1, format!("f{:07}", place - 2).as_bytes(), false)
            .expect("it is there");
        assert_eq!(
            (store.blocks.len(), store.node(&[0; 16])),
            (0, Err(Status::BADHANDLE))
        );
    }
}

#[test]
fn what_finds_no_room_is_refused_and_room_comes_back() {
    let mut store = store(2 * BLOCK);
    assert_eq!(
        store.write(2, 100, &[1; 10_000]),
        Ok(2 * BLOCK as u32 - 100)
    );
    assert_eq!(store.write(2, 20_000, &[1]), Err(Status::NOSPC));
    assert_eq!(
        store.write(2, 0, &[2; 5_000]),
        Ok(5_000),
        "blocks that are there are room"
    );
    let handle = store.handle(2);
    store.remove(1, b"f0000000", false).expect("it is there");
    assert_eq!(store.node(&handle), Err(Status::STALE));
    assert_eq!(store.write(3, 20_000, &[1]), Ok(1));
    // Five more nodes, of eight at once: the root, a directory and a file are there.
    let made = (0..6).map(|number| store.create(1, format!("{number}").as_bytes(), How::Guarded));
    let made: Vec<_> = made.collect();
    assert!(made[..5].iter().all(Result::is_ok), "{made:?}");
    assert_eq!(made[5], Err(Status::NOSPC));
}

#[test]
fn without_room_only_sizes_are_kept() {
    let mut store = store(0);
    let before = read(&store, 2, 0, 30_000).0;
    assert_eq!(store.write(2, 29_000, &[7; 3_000]), Ok(3_000));
    let (after, eof) = read(&store, 2, 0, 40_000);
    assert_eq!(
        (&after[..30_000], &after[30_000..], eof),
        (&before[..], &[0; 2_000][..], true)
    );
}

#[test]
fn names_move_and_never_into_themselves() {
    let mut store = store(0);
    let inner = store.make_directory(1, b"inner").expect("room");
    assert_eq!(
        store.rename((ROOT, b"d00000"), (inner, b"x")),
        Err(Status::INVAL)
    );
    assert_eq!(store.rename((1, b"f0000000"), (inner, b"x")), Ok(()));
    assert_eq!(
        store.rename((1, b"f0000001"), (inner, b"x")),
        Ok(()),
        "it replaces the other"
    );
    assert_eq!(store.look_up(1, b"f0000001"), Err(Status::NOENT));
    assert_eq!(store.look_up(inner, b"x"), Ok(3));
    assert_eq!(store.remove(1, b"inner", true), Err(Status::NOTEMPTY));
    assert_eq!(store.remove(1, b"inner", false), Err(Status::ISDIR));
    assert_eq!(store.mounted(b"/export/d00000/inner"), Ok(inner));
    assert_eq!(store.mounted(b"/exports"), Err(Status::NOENT));
    assert_eq!(
        store.mounted(b"/export/d00000/inner/x"),
        Err(Status::NOTDIR)
    );
}
