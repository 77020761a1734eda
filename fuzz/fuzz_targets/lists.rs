//! `cargo +nightly fuzz run lists fuzz/found/lists fuzz/corpus/lists`

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    (cheops_fuzzing::Target::named("lists").expect("it is in the table").run)(input);
});
