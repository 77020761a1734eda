//! `cargo +nightly fuzz run headers fuzz/found/headers fuzz/corpus/headers`

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    (cheops_fuzzing::Target::named("headers").expect("it is in the table").run)(input);
});
