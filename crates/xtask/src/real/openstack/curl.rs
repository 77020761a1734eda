//! Requests by curl: what a failure shows can be typed.

use anyhow::{Context as _, Result, anyhow};
use cheops_types::Receipt;
use serde_json::Value;

use crate::real::{Interrupt, Run};

/// A request that is being put together.
#[must_use]
pub(super) struct Curl {
    run: Run,
}

/// What came back.
#[derive(Debug)]
pub(super) struct Answer {
    /// The command, for errors.
    command: String,
    pub(super) status: u16,
    head: Vec<(String, String)>,
    pub(super) body: String,
}

impl Curl {
    pub(super) fn new(interrupt: &Interrupt, method: &str, url: &str) -> Self {
        // Heads before bodies, and no question whether a body is welcome, which would be another head.
        let options = ["-sS", "-D", "-", "-H", "Expect:", "-X", method, url];
        Self {
            run: Run::new(interrupt, "curl").args(options),
        }
    }

    fn header(self, name: &str, value: &str) -> Self {
        Self {
            run: self.run.args(["-H", &format!("{name}: {value}")]),
        }
    }

    pub(super) fn token(self, token: &str) -> Self {
        self.header("X-Auth-Token", token)
    }

    pub(super) fn scope(self, scope: &str) -> Self {
        self.header("X-Scope", scope)
    }

    /// Waits until the other sites have executed it too.
    pub(super) fn wait(self) -> Self {
        self.header("Prefer", "wait=20")
    }

    pub(super) fn json(self, body: &Value) -> Self {
        let with_type = self.header("Content-Type", "application/json");
        Self {
            run: with_type.run.args(["-d", &body.to_string()]),
        }
    }

    /// A body of another kind.
    pub(super) fn body(self, content_type: &str, body: &str) -> Self {
        let with_type = self.header("Content-Type", content_type);
        Self {
            run: with_type.run.args(["-d", body]),
        }
    }

    pub(super) fn data(self, bytes: &[u8]) -> Self {
        let with_type = self.header("Content-Type", "application/octet-stream");
        Self {
            run: with_type.run.args(["--data-binary", "@-"]).input(bytes),
        }
    }

    /// Sends it. An error is a request without an answer.
    pub(super) fn send(self) -> Result<Answer> {
        let output = self.run.ok()?;
        Answer::read(output.command, &output.stdout)
    }

    /// Sends it; the answer must have this status.
    pub(super) fn expect(self, status: u16) -> Result<Answer> {
        let answer = self.send()?;
        if answer.status == status {
            Ok(answer)
        } else {
            Err(answer.unexpected(status))
        }
    }
}

impl Answer {
    fn read(command: String, text: &str) -> Result<Self> {
        let (head, body) = text.split_once("\r\n\r\n").context("an answer has a head")?;
        let (first, fields) = head.split_once("\r\n").unwrap_or((head, ""));
        let status = first.split(' ').nth(1).and_then(|status| status.parse().ok());
        let fields = fields.split("\r\n").filter_map(|line| line.split_once(':'));
        Ok(Self {
            command,
            status: status.with_context(|| format!("an answer has a status: {first}"))?,
            head: fields
                .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
                .collect(),
            body: body.to_owned(),
        })
    }

    /// The value of a header, its name in lower case.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.head
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    pub(super) fn receipt(&self) -> Result<Receipt> {
        let value = self.header("cheops-receipt");
        let value = value.with_context(|| format!("`{}` was answered without a receipt", self.command))?;
        Receipt::parse(value).with_context(|| format!("the receipt {value}"))
    }

    pub(super) fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.body)
            .with_context(|| format!("`{}`: no JSON: {}", self.command, self.body))
    }

    pub(super) fn unexpected(&self, status: u16) -> anyhow::Error {
        let receipt = self.header("cheops-receipt").unwrap_or("none");
        anyhow!(
            "`{}` was answered with {} instead of {status}, receipt {receipt}\n{}",
            self.command,
            self.status,
            self.body
        )
    }
}
