//! `cargo +nightly fuzz run messages fuzz/found/messages fuzz/corpus/messages`

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    (cheops_fuzzing::Target::named("messages").expect("it is in the table").run)(input);
});
