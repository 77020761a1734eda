//! `cargo +nightly fuzz run receipt fuzz/found/receipt fuzz/corpus/receipt`

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    (cheops_fuzzing::Target::named("receipt").expect("it is in the table").run)(input);
});
