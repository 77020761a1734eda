//! `cargo +nightly fuzz run asks fuzz/found/asks fuzz/corpus/asks`

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    (cheops_fuzzing::Target::named("asks").expect("it is in the table").run)(input);
});
