//! What the agents say about replica sets.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::Sites;

/// What the API gives each site its own value for, beside what is its business alone.
const OWN: &[&str] = &[
    "/metadata/uid",
    "/metadata/resourceVersion",
    "/metadata/generation",
    "/metadata/creationTimestamp",
    "/metadata/managedFields",
    "/metadata/selfLink",
    "/metadata/annotations/deployment.kubernetes.io~1revision",
    "/metadata/annotations/cheops~1operation",
    "/status",
];

impl Sites {
    /// What a site's agent says about the replica set of a resource; nothing if it knows none.
    pub(super) fn set(&self, site: usize, key: &str) -> Result<Option<Value>> {
        let shown = self
            .mesh
            .site(site)
            .cheops(["replicas", "show", key, "--json"])
            .output()?;
        if shown.code == Some(2) && shown.stderr.contains("unknown_replica_set") {
            return Ok(None);
        }
        ensure!(shown.is_ok(), "{shown}");
        Ok(Some(serde_json::from_str(&shown.stdout)?))
    }

    /// Waits until everything about a set has executed everywhere, as all of `among` say.
    pub(super) fn until_ok(&self, among: &[usize], key: &str) -> Result<()> {
        for site in among {
            self.until(&format!("the set {key} is ok at Site{site}"), || {
                let set = self.set(*site, key)?.context("it is not known")?;
                ensure!(set["set"]["state"] == "ok", "it is {set:#}");
                Ok(Some(()))
            })?;
        }
        Ok(())
    }

    /// Waits until a resource is the same at all of `among`, but for what each site has its own value for:
    /// `OWN` and `own`. Returns it.
    pub(super) fn until_equal(
        &self,
        among: &[usize],
        namespace: &str,
        what: &str,
        own: &[&str],
    ) -> Result<Value> {
        let same = self.until(&format!("{what} is the same at {among:?}"), || {
            let mut first: Option<Value> = None;
            for site in among {
                let mut value = self
                    .read(*site, namespace, what)?
                    .with_context(|| format!("it is not at Site{site}"))?;
                for pointer in OWN.iter().chain(own) {
                    remove(&mut value, pointer);
                }
                match &first {
                    None => first = Some(value),
                    Some(first) => ensure!(
                        *first == value,
                        "Site{} has {first:#}\nSite{site} has {value:#}",
                        among[0]
                    ),
                }
            }
            Ok(first)
        })?;
        Ok(same)
    }

    /// The conflicts that a site's agent lists for sets of this id.
    pub(super) fn conflicts(&self, site: usize) -> Result<Vec<Value>> {
        let list = self
            .mesh
            .site(site)
            .cheops(["conflicts", "ls", "--json"])
            .json()?;
        Ok(list["conflicts"]
            .as_array()
            .with_context(|| format!("no conflicts in {list:#}"))?
            .clone())
    }
}

/// Removes what a pointer leads to; a step `*` is every element.
fn remove(value: &mut Value, pointer: &str) {
    let Some((step, rest)) = pointer.trim_start_matches('/').split_once('/') else {
        let name = pointer.trim_start_matches('/').replace("~1", "/");
        if let Some(object) = value.as_object_mut() {
            object.remove(&name);
        }
        return;
    };
    match value {
        Value::Array(elements) if step == "*" => {
            for element in elements {
                remove(element, rest);
            }
        }
        Value::Object(object) => {
            if let Some(inner) = object.get_mut(step) {
                remove(inner, rest);
            }
        }
        _ => {}
    }
    // An object that has nothing else left is as good as none.
    if let Some(object) = value.as_object_mut()
        && object
            .get(step)
            .is_some_and(|inner| inner == &Value::Object(serde_json::Map::new()))
    {
        object.remove(step);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_a_sites_own_is_taken_away() {
        let mut value = json!({"metadata": {"name": "a", "annotations": {"cheops/operation": "1"}},
            "spec": {"ports": [{"port": 1, "nodePort": 3}, {"port": 2}]}, "status": {}});
        for pointer in [
            "/metadata/annotations/cheops~1operation",
            "/spec/ports/*/nodePort",
            "/status",
        ] {
            remove(&mut value, pointer);
        }
        let expected = json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 1}, {"port": 2}]}});
        assert_eq!(value, expected);
    }
}
