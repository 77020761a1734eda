//! The requests that are measured, each with ids drawn at random so that no cache helps more than it would.

/// One kind of request.
pub(super) struct Case {
    pub(super) what: &'static str,
    path: Path,
    /// How much more CPU time than without sets it may take.
    pub(super) limit: Option<f64>,
}

enum Path {
    /// Something that is not replicated, below a collection.
    Local(&'static str),
    ByLocalId,
    ByMetaId,
}

const LIMIT: f64 = 1.15;

pub(super) const CASES: &[Case] = &[
    Case {
        what: "not replicated, kind has sets",
        path: Path::Local("orders"),
        limit: Some(LIMIT),
    },
    Case {
        what: "not replicated, kind has none",
        path: Path::Local("other"),
        limit: Some(LIMIT),
    },
    Case {
        what: "replica by its local id",
        path: Path::ByLocalId,
        limit: None,
    },
    Case {
        what: "replica by its meta-id",
        path: Path::ByMetaId,
        limit: None,
    },
];

impl Case {
    /// The requests in the language of `wrk`.
    pub(super) fn script(&self, sets: u32) -> String {
        let path = match self.path {
            Path::Local(collection) => format!("\"/{collection}/x\" .. n"),
            Path::ByLocalId => "\"/orders/\" .. n".to_owned(),
            Path::ByMetaId => format!(
                "string.format(\"/orders/%08x-0000-4000-8000-%012x\", n * {}, n)",
                spread(sets)
            ),
        };
        format!(
            "request = function()
  local n = math.random({sets})
  return wrk.format(nil, {path})
end
"
        )
    }
}

/// The meta-id that the filled store gives to a set.
pub(super) fn meta_id(sets: u32, number: u32) -> String {
    format!("{:08x}-0000-4000-8000-{number:012x}", spread(sets) * number)
}

fn spread(sets: u32) -> u32 {
    u32::MAX / sets.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_name_the_sets_that_are_there() {
        let script = CASES[3].script(1000);
        assert!(script.contains("math.random(1000)"), "{script}");
        assert!(script.contains("n * 4294967, n"), "{script}");
        assert_eq!(meta_id(1000, 1000), "fffffed8-0000-4000-8000-0000000003e8");
    }
}
