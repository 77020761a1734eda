//! Who knows whose name. The core never contains an application's: what is special about one is
//! its glue. The example application does not know that it is geo-distributed.

use anyhow::Result;

use crate::{
    repo::{Finding, Repo},
    source,
};

/// Words that may not stand in the code of some crates.
struct Ban {
    crates: &'static [&'static str],
    words: &'static [&'static str],
    why: &'static str,
}

const BANS: &[Ban] = &[
    Ban {
        crates: &[
            "types", "scope", "glue", "plan", "replica", "store", "net", "mesh", "proxy", "node",
        ],
        words: &[
            "kubernetes",
            "kubectl",
            "k8s",
            "openstack",
            "nova",
            "glance",
            "keystone",
            "neutron",
            "cinder",
        ],
        why: "is an application; the core knows none, say it in a glue",
    },
    Ban {
        crates: &["example"],
        words: &["cheops"],
        why: "is nothing that an application knows",
    },
];

pub(super) fn check(repo: &Repo) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for ban in BANS {
        for crate_name in ban.crates {
            for (file, source) in source::read_crate(repo, crate_name)? {
                let names = source
                    .names
                    .iter()
                    .map(|name| (name.line, name.segments.join("::")));
                let literals = source
                    .literals
                    .iter()
                    .map(|literal| (literal.line, literal.text.clone()));
                for (line, text) in names.chain(literals) {
                    if let Some(word) = ban.find(&text) {
                        findings.push(Finding::new(&file, line, format!("`{word}` {}", ban.why)));
                    }
                }
            }
        }
    }
    Ok(findings)
}

impl Ban {
    /// A banned word that stands in the text on its own, `snake_case` and `CamelCase` included.
    fn find(&self, text: &str) -> Option<&'static str> {
        let words = words(text);
        self.words
            .iter()
            .copied()
            .find(|banned| words.iter().any(|word| word == banned))
    }
}

fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut lower_before = false;
    for c in text.chars() {
        if !c.is_ascii_alphanumeric() || (c.is_ascii_uppercase() && lower_before) {
            words.push(std::mem::take(&mut word));
        }
        if c.is_ascii_alphanumeric() {
            word.push(c.to_ascii_lowercase());
        }
        lower_before = c.is_ascii_lowercase();
    }
    words.push(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_words_only() {
        let core = &BANS[0];
        assert_eq!(core.find("KubernetesGlue"), Some("kubernetes"));
        assert_eq!(core.find("\"X-Openstack-Request-Id\""), Some("openstack"));
        assert_eq!(core.find("is_nova_here"), Some("nova"));
        assert_eq!(core.find("supernovae"), None);
        assert_eq!(core.find("glanced"), None);
    }
}
