//! `cargo +nightly fuzz run http1 fuzz/found/http1 fuzz/corpus/http1`

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    (cheops_fuzzing::Target::named("http1").expect("it is in the table").run)(input);
});
