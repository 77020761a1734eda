//! `cargo +nightly fuzz run glue fuzz/found/glue fuzz/corpus/glue`

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    (cheops_fuzzing::Target::named("glue").expect("it is in the table").run)(input);
});
