//! `cargo +nightly fuzz run rows fuzz/found/rows fuzz/corpus/rows`

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    (cheops_fuzzing::Target::named("rows").expect("it is in the table").run)(input);
});
