//! Which of kubectl's options say where its server is.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt as _,
    path::PathBuf,
};

use crate::cli::through::is_completion;

/// What the options say about the server and about who is calling.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) kubeconfig: Option<PathBuf>,
    pub(super) context: Option<String>,
    pub(super) cluster: Option<String>,
    pub(super) user: Option<String>,
    pub(super) server: Option<String>,
    pub(super) certificate_authority: Option<PathBuf>,
    pub(super) tls_server_name: Option<String>,
    pub(super) insecure: Option<bool>,
    pub(super) client_certificate: Option<PathBuf>,
    pub(super) client_key: Option<PathBuf>,
}

/// kubectl's arguments, read as far as they concern the server.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Words {
    pub(super) options: Options,
    /// Without the options that lead to the server: another one is to be asked.
    pub(super) rest: Vec<OsString>,
    /// The first word that is no option.
    pub(super) command: Option<OsString>,
}

/// The options that are read here. The ones that say who is calling stay among the arguments.
const READ: [(&str, bool); 9] = [
    ("--kubeconfig", false),
    ("--context", false),
    ("--cluster", false),
    ("--server", false),
    ("--certificate-authority", false),
    ("--tls-server-name", false),
    ("--user", true),
    ("--client-certificate", true),
    ("--client-key", true),
];
const INSECURE: &str = "--insecure-skip-tls-verify";
/// Further options with a value that may stand before the command.
const WITH_VALUE: [&str; 18] = [
    "-n",
    "--namespace",
    "-v",
    "--v",
    "--as",
    "--as-group",
    "--as-uid",
    "--cache-dir",
    "--token",
    "--username",
    "--password",
    "--request-timeout",
    "--profile",
    "--profile-output",
    "--log-flush-frequency",
    "--vmodule",
    "--kuberc",
    "--as-user-extra",
];

impl Words {
    pub(super) fn read(args: &[OsString]) -> Self {
        let mut words = Self {
            options: Options::default(),
            rest: Vec::new(),
            command: None,
        };
        // A shell asks how the last word may go on; whatever it looks like, it is not finished.
        let finished = match args.first() {
            Some(first) if is_completion(first) => args.len() - 1,
            _ => args.len(),
        };
        let mut at = 0;
        while at < finished && args[at] != "--" {
            at += words.take(&args[at..finished]);
        }
        words.rest.extend_from_slice(&args[at..]);
        words
    }

    /// Reads the first of these arguments, and its value if it has one; tells how many these are.
    fn take(&mut self, args: &[OsString]) -> usize {
        let word = &args[0];
        let (name, glued) = split(word);
        if name == INSECURE {
            self.options.insecure = Some(glued.is_none_or(|value| value != "false"));
            return 1;
        }
        let value = glued.or_else(|| args.get(1).map(OsString::as_os_str));
        let used = if glued.is_some() { 1 } else { 2 };
        if let Some((name, stays)) = READ.iter().find(|(known, _)| name == *known)
            && let Some(value) = value
        {
            self.options.set(name, value);
            if *stays {
                self.rest.extend_from_slice(&args[..used]);
            }
            return used;
        }
        if glued.is_none() && WITH_VALUE.iter().any(|known| name == *known) && args.len() > 1 {
            self.rest.extend_from_slice(&args[..2]);
            return 2;
        }
        if self.command.is_none() && !word.as_bytes().starts_with(b"-") {
            self.command = Some(word.clone());
        }
        self.rest.push(word.clone());
        1
    }
}

impl Options {
    fn set(&mut self, name: &str, value: &OsStr) {
        let text = || Some(value.to_string_lossy().into_owned());
        let path = || Some(PathBuf::from(value));
        match name {
            "--kubeconfig" => self.kubeconfig = path(),
            "--context" => self.context = text(),
            "--cluster" => self.cluster = text(),
            "--user" => self.user = text(),
            "--server" => self.server = text(),
            "--certificate-authority" => self.certificate_authority = path(),
            "--tls-server-name" => self.tls_server_name = text(),
            "--client-certificate" => self.client_certificate = path(),
            "--client-key" => self.client_key = path(),
            _ => unreachable!("every option that is read has a place"),
        }
    }
}

/// An option's name and the value that is written with it: `--name=value`, `-s=value`, `-svalue`.
fn split(word: &OsStr) -> (&OsStr, Option<&OsStr>) {
    let bytes = word.as_bytes();
    if let Some(rest) = bytes.strip_prefix(b"-s") {
        let value = rest.strip_prefix(b"=").unwrap_or(rest);
        let glued = (!rest.is_empty()).then(|| OsStr::from_bytes(value));
        return (OsStr::new("--server"), glued);
    }
    match bytes.iter().position(|byte| *byte == b'=') {
        Some(at) if bytes.starts_with(b"--") => (
            OsStr::from_bytes(&bytes[..at]),
            Some(OsStr::from_bytes(&bytes[at + 1..])),
        ),
        _ => (word, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Words {
        let args: Vec<_> = line.split(' ').map(OsString::from).collect();
        Words::read(&args)
    }

    fn rest(words: &Words) -> String {
        let rest: Vec<_> = words.rest.iter().map(|word| word.to_str().unwrap()).collect();
        rest.join(" ")
    }

    #[test]
    fn options_about_the_server_are_taken_out() {
        let check = |line: &str, expected: &str, options: Options| {
            let words = read(line);
            assert_eq!(rest(&words), expected, "{line}");
            assert_eq!(words.options, options, "{line}");
        };
        let none = Options::default;
        check("get pods -o wide", "get pods -o wide", none());
        check(
            "--context site1 get pods --server=https://a:1 --insecure-skip-tls-verify",
            "get pods",
            Options {
                context: Some("site1".to_owned()),
                server: Some("https://a:1".to_owned()),
                insecure: Some(true),
                ..none()
            },
        );
        for short in ["-s http://a:1", "-s=http://a:1", "-shttp://a:1"] {
            let server = Some("http://a:1".to_owned());
            check(
                &format!("get pods {short} -w"),
                "get pods -w",
                Options { server, ..none() },
            );
        }
        check(
            "get --user bob --kubeconfig k --insecure-skip-tls-verify=false",
            "get --user bob",
            Options {
                user: Some("bob".to_owned()),
                kubeconfig: Some("k".into()),
                insecure: Some(false),
                ..none()
            },
        );
        // For another program.
        check("exec web -- run --server x", "exec web -- run --server x", none());
        // Without a value kubectl is to complain.
        check("get --context", "get --context", none());
    }

    #[test]
    fn a_word_that_is_being_written_stays() {
        let words = read("__complete --cluster a get pods --context");
        assert_eq!(rest(&words), "__complete get pods --context");
        assert_eq!(words.options.cluster.as_deref(), Some("a"));
        let words = read("__complete get --context si");
        assert_eq!(rest(&words), "__complete get --context si");
        assert_eq!(words.options, Options::default());
    }

    #[test]
    fn the_command_is_found_behind_options() {
        let check = |line: &str, command: Option<&str>| {
            let words = read(line);
            assert_eq!(words.command.as_deref(), command.map(OsStr::new), "{line}");
        };
        check("config view", Some("config"));
        check("-n default --v=3 --context a config view", Some("config"));
        check("--as bob get config", Some("get"));
        check("--namespace default", None);
    }
}
