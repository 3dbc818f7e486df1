#![no_main]

#[path = "../roles/mod.rs"]
mod roles;

libfuzzer_sys::fuzz_target!(|data: &[u8]| roles::bundle::run(data));
