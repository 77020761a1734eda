//! Credentials come from a file or from standard input, never from the command line: that is for everyone
//! on the machine to see.

use std::{
    fs,
    io::{self, Read as _},
    path::PathBuf,
};

use anyhow::Context as _;
use cheops_node::model::Credential;

use super::BadInput;

#[derive(Debug, clap::Args)]
pub(super) struct CredentialArg {
    /// Headers to execute with, one `Name: value` per line, from a file or from standard input (-)
    #[arg(long, value_name = "FILE|-")]
    credential: Option<PathBuf>,
}

impl CredentialArg {
    /// Empty when none was named.
    pub(super) fn read(&self) -> anyhow::Result<Credential> {
        let Some(path) = &self.credential else {
            return Ok(Credential::default());
        };
        let text = if path.as_os_str() == "-" {
            let mut text = String::new();
            io::stdin()
                .read_to_string(&mut text)
                .context("cannot read the credential from standard input")?;
            text
        } else {
            fs::read_to_string(path).map_err(|error| {
                BadInput(format!("cannot read the credential {}: {error}", path.display()))
            })?
        };
        Ok(headers(&text)?)
    }
}

/// The text is never part of an error: it may be a secret.
fn headers(text: &str) -> Result<Credential, BadInput> {
    let mut credential = Credential::default();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() {
            continue;
        }
        let is_token = |name: &str| {
            !name.is_empty()
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        let Some((name, value)) = line.split_once(':').filter(|(name, _)| is_token(name)) else {
            return Err(BadInput(format!(
                "line {number} of the credential is no header; write `Authorization: Bearer …`"
            )));
        };
        let name = name.to_ascii_lowercase();
        if credential.0.insert(name, value.trim().to_owned()).is_some() {
            return Err(BadInput(format!(
                "line {number} of the credential has a header for the second time"
            )));
        }
    }
    if credential.is_empty() {
        return Err(BadInput(
            "the credential is empty; write one header per line, `Authorization: Bearer …`".to_owned(),
        ));
    }
    Ok(credential)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_line_by_line() {
        let credential = headers("Authorization: Bearer a:b \n\nX-Auth-Token:t\r\n").unwrap();
        let pairs: Vec<_> = credential
            .0
            .iter()
            .map(|(name, value)| (&**name, &**value))
            .collect();
        assert_eq!(pairs, [("authorization", "Bearer a:b"), ("x-auth-token", "t")]);
    }

    #[test]
    fn what_is_wrong_is_told_without_the_text() {
        for text in ["s3cret", "a b: s3cret", "A: s3cret\na: s3cret", "\n"] {
            let error = headers(text).unwrap_err().to_string();
            assert!(!error.contains("s3cret"), "{error}");
        }
    }
}
