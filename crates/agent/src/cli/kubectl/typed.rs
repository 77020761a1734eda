//! `kubectl create configmap x …` and its like, in a form that can be replicated.
//!
//! Some versions of kubectl send what these commands make as protobuf, which no agent reads. So kubectl is asked to
//! make the object and to show it (`--dry-run=client`), and then to create what it showed: `create -f` sends JSON.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt as _,
};

/// What `kubectl create` makes from arguments alone.
const MADE: [&str; 26] = [
    "clusterrole",
    "clusterrolebinding",
    "cm",
    "configmap",
    "cj",
    "cronjob",
    "deploy",
    "deployment",
    "ing",
    "ingress",
    "job",
    "namespace",
    "ns",
    "pdb",
    "poddisruptionbudget",
    "pc",
    "priorityclass",
    "quota",
    "resourcequota",
    "role",
    "rolebinding",
    "sa",
    "secret",
    "service",
    "serviceaccount",
    "svc",
];
/// Options about how the object is sent and shown; with true those that have a value.
const SENDING: [(&str, bool); 9] = [
    ("-o", true),
    ("--output", true),
    ("--template", true),
    ("--field-manager", true),
    ("--validate", true),
    ("--save-config", false),
    ("--show-managed-fields", false),
    ("--allow-missing-template-keys", false),
    ("--warnings-as-errors", false),
];
/// Options about who asks and how, with a value: both steps have them.
const ASKING: [&str; 15] = [
    "-n",
    "--namespace",
    "--user",
    "--token",
    "--as",
    "--as-group",
    "--as-uid",
    "--client-certificate",
    "--client-key",
    "--cache-dir",
    "--request-timeout",
    "--username",
    "--password",
    "-v",
    "--v",
];
/// With these nothing is made from arguments, or nothing is sent.
const OTHERWISE: [&str; 9] = [
    "--dry-run",
    "-f",
    "--filename",
    "-k",
    "--kustomize",
    "--raw",
    "--edit",
    "-h",
    "--help",
];

/// The two steps of such a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Typed {
    /// Shows the object as JSON.
    pub(super) make: Vec<OsString>,
    /// Creates it from standard input.
    pub(super) send: Vec<OsString>,
}

impl Typed {
    /// None where the arguments are something else.
    pub(super) fn of(args: &[OsString]) -> Option<Self> {
        let mut make = Vec::new();
        let mut send: Vec<OsString> = ["create", "-f", "-"].map(OsString::from).to_vec();
        let mut words = Vec::new();
        let mut at = 0;
        while at < args.len() && args[at] != "--" {
            let word = &args[at];
            let (name, is_glued) = name_of(word);
            if OTHERWISE.iter().any(|known| name == *known) {
                return None;
            }
            let sending = SENDING.iter().find(|(known, _)| name == *known);
            let is_asking = ASKING.iter().any(|known| name == *known);
            let has_value = is_asking || sending.is_some_and(|(_, has_value)| *has_value);
            let count = if has_value && !is_glued { 2 } else { 1 };
            let option = args.get(at..at + count)?;
            if sending.is_some() || is_asking {
                send.extend_from_slice(option);
            }
            if sending.is_none() {
                make.extend_from_slice(option);
            }
            if !word.as_bytes().starts_with(b"-") {
                words.push(word);
            }
            at += count;
        }
        let is_typed = matches!(&*words, [create, kind, ..] if *create == "create" && MADE.iter().any(|made| *kind == *made));
        if !is_typed {
            return None;
        }
        make.extend(["--dry-run=client", "--output=json"].map(OsString::from));
        make.extend_from_slice(&args[at..]);
        Some(Self { make, send })
    }
}

/// The name of an option, and whether its value is written with it: `--name=value`, `-n=value`, `-nvalue`.
fn name_of(word: &OsStr) -> (&OsStr, bool) {
    let bytes = word.as_bytes();
    let end = match bytes {
        [b'-', b'-', ..] => bytes.iter().position(|byte| *byte == b'='),
        [b'-', _, _, ..] => Some(2),
        _ => None,
    };
    (
        OsStr::from_bytes(&bytes[..end.unwrap_or(bytes.len())]),
        end.is_some(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn what_is_made_from_arguments_is_shown_and_then_sent() {
        let check = |line: &str, make: &str, send: &str| {
            let typed = Typed::of(&words(line)).unwrap();
            assert_eq!(typed.make, words(make), "{line}");
            assert_eq!(typed.send, words(send), "{line}");
        };
        check(
            "create configmap x --from-literal=a=1",
            "create configmap x --from-literal=a=1 --dry-run=client --output=json",
            "create -f -",
        );
        check(
            "-n shop create secret generic x --from-literal a=1 -o name --user=bob --save-config",
            "-n shop create secret generic x --from-literal a=1 --user=bob --dry-run=client --output=json",
            "create -f - -n shop -o name --user=bob --save-config",
        );
        check(
            "create job x --image=i -oyaml -- run --output wide",
            "create job x --image=i --dry-run=client --output=json -- run --output wide",
            "create -f - -oyaml",
        );
    }

    #[test]
    fn everything_else_stays_as_it_is() {
        for line in [
            "get configmap",
            "create -f a.yaml",
            "create -fa.yaml",
            "create --filename=a.yaml",
            "create ns x --dry-run=server",
            "create ns x --help",
            "create token x",
            "create",
            "create ns x -o",
            "apply -f -",
            "run x --image=i",
        ] {
            assert_eq!(Typed::of(&words(line)), None, "{line}");
        }
    }
}
