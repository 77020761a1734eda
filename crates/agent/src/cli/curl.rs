//! `cheops curl`.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStringExt as _,
    process::ExitCode,
};

use super::through::{self, Taken};

const HINT: &str = "install curl, or correct PATH";

/// Becomes curl: its exit code, its output and its input are its own.
pub(super) fn run(args: Vec<OsString>) -> anyhow::Result<ExitCode> {
    let mut taken = Taken::from(args)?;
    let args = match taken.effective_scope()? {
        Some(scope) => match through::header(&scope) {
            Ok(value) => with_header(taken.args, value.as_bytes()),
            Err(told) => return Ok(through::refuse(&told)),
        },
        None => taken.args,
    };
    Err(through::become_program(OsStr::new("curl"), &args, HINT))
}

/// Adds the scope to every request. `--next` begins another one, with no option of those before it.
fn with_header(args: Vec<OsString>, scope: &[u8]) -> Vec<OsString> {
    let header = OsString::from_vec([b"X-Scope: ", scope].concat());
    let option = ["-H".into(), header];
    let mut all = option.to_vec();
    let mut is_option = true;
    for word in args {
        is_option &= word != "--";
        let begins_another = is_option && (word == "--next" || word == "-:");
        all.push(word);
        if begins_another {
            all.extend(option.clone());
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_has_the_scope() {
        let check = |line: &str, expected: &str| {
            let args = line.split(' ').map(OsString::from).collect();
            let args = with_header(args, b"a&b");
            let args: Vec<_> = args.iter().map(|arg| arg.to_str().unwrap()).collect();
            assert_eq!(args.join(" "), expected);
        };
        check("-i http://a", "-H X-Scope: a&b -i http://a");
        check(
            "http://a --next http://b -: http://c",
            "-H X-Scope: a&b http://a --next -H X-Scope: a&b http://b -: -H X-Scope: a&b http://c",
        );
        check("-- --next", "-H X-Scope: a&b -- --next");
    }
}
