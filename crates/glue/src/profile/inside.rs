//! Where a container's path is, for a path that does not begin with it.

use std::borrow::Cow;

use crate::{
    pattern::{Pattern, Segment},
    percent,
};

/// Where a container's path has its ids: the path of another kind, filled with what stands in the path of a child.
#[derive(Debug, Clone)]
pub(crate) struct Inside(Vec<Step>);

#[derive(Debug, Clone)]
enum Step {
    Literal(Box<str>),
    /// What stands at this place of the child's path.
    Place(usize),
}

impl Inside {
    /// None where the container has a placeholder that the child has not; its name.
    pub(crate) fn new(container: &Pattern, child: &Pattern) -> Result<Self, String> {
        let here: Vec<&str> = child.named_placeholders().map(|(_, name)| name).collect();
        let step = |segment: &Segment| match segment {
            Segment::Literal(text) => Ok(Step::Literal(text.clone())),
            Segment::Any { name, .. } => match here.iter().position(|known| **known == **name) {
                Some(place) => Ok(Step::Place(place)),
                None => Err(name.to_string()),
            },
        };
        container
            .segments()
            .iter()
            .map(step)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// `value_at` says what stands at a place of the child's path, decoded.
    pub(crate) fn path<'v>(&self, value_at: impl Fn(usize) -> Cow<'v, str>) -> String {
        let mut path = String::new();
        for step in &self.0 {
            path.push('/');
            match step {
                Step::Literal(text) => path.push_str(text),
                Step::Place(place) => percent::encode_segment_into(&mut path, &value_at(*place)),
            }
        }
        path
    }
}
