//! `cargo +nightly fuzz run page_token fuzz/found/page_token fuzz/corpus/page_token`

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    (cheops_fuzzing::Target::named("page_token").expect("it is in the table").run)(input);
});
