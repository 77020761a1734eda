//! `cargo +nightly fuzz run versions fuzz/found/versions fuzz/corpus/versions`

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    (cheops_fuzzing::Target::named("versions").expect("it is in the table").run)(input);
});
