//! `cargo +nightly fuzz run paths fuzz/found/paths fuzz/corpus/paths`

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    (cheops_fuzzing::Target::named("paths").expect("it is in the table").run)(input);
});
