//! `cargo +nightly fuzz run scope fuzz/found/scope fuzz/corpus/scope`

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    (cheops_fuzzing::Target::named("scope").expect("it is in the table").run)(input);
});
