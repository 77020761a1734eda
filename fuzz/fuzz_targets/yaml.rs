//! `cargo +nightly fuzz run yaml fuzz/found/yaml fuzz/corpus/yaml`

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    (cheops_fuzzing::Target::named("yaml").expect("it is in the table").run)(input);
});
