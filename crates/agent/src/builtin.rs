//! The glue files that come with the agent.

use cheops_glue::Profile;

/// A glue file that comes with the agent. `glue = "<name>"` in a configuration chooses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BuiltIn {
    pub(crate) name: &'static str,
    /// Where it stands in the sources; its name in errors.
    pub(crate) file: &'static str,
    pub(crate) text: &'static str,
}

macro_rules! built_in {
    ($($name:literal),*) => {
        &[$(BuiltIn {
            name: $name,
            file: concat!("glue/", $name, ".toml"),
            text: include_str!(concat!("../../../glue/", $name, ".toml")),
        }),*]
    };
}

pub(crate) const BUILT_IN: &[BuiltIn] = built_in!("example", "kubernetes", "openstack");

impl BuiltIn {
    pub(crate) fn find(name: &str) -> Option<&'static Self> {
        BUILT_IN.iter().find(|built_in| built_in.name == name)
    }

    pub(crate) fn profile(&self) -> Profile {
        Profile::parse(self.file, self.text).expect("a test compiles every built-in file")
    }
}

#[cfg(test)]
mod tests;
