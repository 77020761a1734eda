//! A directory with a program that pretends to be kubectl, and `cheops` called with it.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Output, Stdio},
};

use serde_json::{Value, json};
use tempfile::TempDir;

/// Answers `config view` with a file. Otherwise it tells its arguments and its configuration, in one line, waits
/// for the end of its input, tells that, and ends as it was told.
const KUBECTL: &str = r#"#!/bin/sh
if [ "$1 $2" = "config view" ]; then
    echo viewed >> "$FAKE/views"
    cat "$FAKE/view.json"
    exit 0
fi
case "$*" in
*--dry-run=client*)
    echo "made by $*"
    exit "${FAKE_MAKE_CODE:-0}"
    ;;
esac
echo "args:$*"
echo "KUBECONFIG:$KUBECONFIG"
read -r input
echo "input:$input"
[ -z "$FAKE_SIGNAL" ] || kill -s "$FAKE_SIGNAL" $$
exit "${FAKE_CODE:-0}"
"#;

const CURL: &str = "#!/bin/sh\nfor word in \"$@\"; do echo \"$word\"; done\nexit 22\n";

pub(crate) struct Fake {
    dir: TempDir,
}

/// A `cheops kubectl` under way.
pub(crate) struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
    stdin: Option<ChildStdin>,
    pub(crate) args: String,
    /// The value of KUBECONFIG that kubectl has.
    pub(crate) files: String,
}

impl Fake {
    /// kubectl's server is `server`, whatever else is in `cluster` and `user`.
    pub(crate) fn new(server: &str, mut cluster: Value, user: &Value) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in [("kubectl", KUBECTL), ("curl", CURL)] {
            let file = dir.path().join(name);
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        cluster["server"] = server.into();
        let view = json!({
            "clusters": [{ "name": "c", "cluster": cluster }],
            "users": [{ "name": "u", "user": user }],
            "contexts": [{ "name": "x", "context": { "cluster": "c", "user": "u", "namespace": "shop" } }],
            "current-context": "x",
        });
        fs::write(dir.path().join("view.json"), view.to_string()).unwrap();
        fs::write(dir.path().join("own"), "").unwrap();
        Self { dir }
    }

    pub(crate) fn plain(server: &str) -> Self {
        Self::new(server, json!({}), &json!({ "token": "secret" }))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// How often kubectl was asked for its configuration.
    pub(crate) fn views(&self) -> usize {
        fs::read_to_string(self.path("views")).map_or(0, |text| text.lines().count())
    }

    /// Temporary files that are left.
    pub(crate) fn left(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path("tmp")).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        self.command_as(Path::new(env!("CARGO_BIN_EXE_cheops")), args)
    }

    /// `cheops` by another name.
    pub(crate) fn linked(&self, name: &str, args: &[&str]) -> Command {
        let link = self.path(name);
        symlink(env!("CARGO_BIN_EXE_cheops"), &link).unwrap();
        self.command_as(&link, args)
    }

    fn command_as(&self, program: &Path, args: &[&str]) -> Command {
        let _ = fs::create_dir(self.path("tmp"));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths(
            [self.dir.path().to_owned()]
                .into_iter()
                .chain(std::env::split_paths(&path)),
        );
        let mut command = Command::new(program);
        command
            .args(args)
            .env("PATH", path.unwrap())
            .env("FAKE", self.dir.path())
            .env("TMPDIR", self.path("tmp"))
            .env("KUBECONFIG", self.path("own"))
            .stdin(Stdio::null());
        for name in ["KUBECTL", "CHEOPS_SCOPE", "HTTP_PROXY", "http_proxy", "NO_COLOR"] {
            command.env_remove(name);
        }
        command
    }

    pub(crate) fn output(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Starts it and waits until kubectl waits for its input.
    pub(crate) fn start(&self, args: &[&str]) -> Running {
        Running::of(&mut self.command(args))
    }
}

impl Running {
    pub(crate) fn of(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = |prefix: &str| {
            let mut line = String::new();
            stdout.read_line(&mut line).unwrap();
            let text = line.strip_prefix(prefix);
            text.unwrap_or_else(|| panic!("{line:?} instead of {prefix}"))
                .trim_end()
                .to_owned()
        };
        let (args, files) = (line("args:"), line("KUBECONFIG:"));
        Self {
            stdin: child.stdin.take(),
            child,
            stdout,
            args,
            files,
        }
    }

    /// The file that was put before the others.
    pub(crate) fn layer(&self) -> Value {
        let first = self.files.split(':').next().unwrap();
        serde_json::from_slice(&fs::read(first).unwrap()).unwrap()
    }

    /// What kubectl is to ask.
    pub(crate) fn url(&self) -> String {
        let layer = self.layer();
        layer["clusters"][0]["cluster"]["server"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    pub(crate) fn address(&self) -> String {
        let url = self.url();
        let rest = url.split("://").nth(1).unwrap();
        rest.split('/').next().unwrap().to_owned()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Gives kubectl its input, and waits for the end.
    pub(crate) fn end(mut self, input: &str) -> Output {
        if let Some(mut stdin) = self.stdin.take() {
            std::io::Write::write_all(&mut stdin, input.as_bytes()).unwrap();
        }
        self.wait()
    }

    /// Waits for an end that has a reason of its own.
    pub(crate) fn wait(mut self) -> Output {
        let mut output = Output {
            status: ExitStatus::default(),
            stdout: Vec::new(),
            stderr: Vec::new(),
        };
        let mut stderr = self.child.stderr.take().unwrap();
        self.stdout.read_to_end(&mut output.stdout).unwrap();
        stderr.read_to_end(&mut output.stderr).unwrap();
        output.status = self.child.wait().unwrap();
        output
    }
}

pub(crate) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}
