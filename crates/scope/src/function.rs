//! The functions of the language, by name.

use cheops_types::Consistency;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    All,
    Around,
    Wrap(Consistency),
}

impl Function {
    pub(crate) const NAMES: [&str; 4] = ["all", "around", "eventual", "strong"];

    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "all" => Some(Self::All),
            "around" => Some(Self::Around),
            "eventual" => Some(Self::Wrap(Consistency::Eventual)),
            "strong" => Some(Self::Wrap(Consistency::Strong)),
            _ => None,
        }
    }
}

/// The function that asks for `consistency`.
pub(crate) fn wrapper(consistency: Consistency) -> &'static str {
    match consistency {
        Consistency::Eventual => "eventual",
        Consistency::Strong => "strong",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_function() {
        for name in Function::NAMES {
            assert!(Function::named(name).is_some(), "{name}");
        }
    }
}
