//! `cargo +nightly fuzz run rewriting fuzz/found/rewriting fuzz/corpus/rewriting`

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    (cheops_fuzzing::Target::named("rewriting").expect("it is in the table").run)(input);
});
