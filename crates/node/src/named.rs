//! The meta-id of a resource whose name its client chose.
//!
//! It is drawn from what the create says, not from chance: two sites that create one name at the same time, each
//! without hearing of the other, begin the same set, and their creates meet in it as any two concurrent operations do.

use cheops_replica::{Birth, MetaId};
use ring::digest::{SHA256, digest};

use crate::{mint, pack::pack};

/// Begins everything that is hashed here.
const CONTEXT: &str = "cheops name 1";

/// The meta-id that a create makes at every site; none where the client chose no name.
pub(crate) fn derive(birth: &Birth) -> Option<MetaId> {
    let Birth {
        service,
        kind,
        parents,
        name,
        sites,
        span,
        generation,
        consistency,
    } = birth;
    let name = name.as_ref()?;
    let what = (service, kind, parents, name, sites, span, generation);
    let said = if consistency.is_eventual() {
        pack(&(CONTEXT, what))
    } else {
        pack(&(CONTEXT, what, consistency))
    };
    let hash = digest(&SHA256, &said?);
    let (first, _) = hash.as_ref().split_first_chunk::<16>()?;
    Some(mint::uuid_of(*first, mint::MADE))
}

/// Whether a create may begin or continue a set of this id.
pub(crate) fn is_rightful(set: &MetaId, birth: &Birth) -> bool {
    derive(birth).is_none_or(|derived| derived == *set)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use cheops_types::Consistency;

    use super::*;
    use crate::lab::{service, site};

    fn birth(name: &str, sites: &[&str]) -> Birth {
        Birth {
            service: service("web"),
            kind: "/orders".into(),
            parents: vec!["shop".into()],
            name: Some(name.into()),
            sites: sites.iter().map(|name| site(name)).collect::<BTreeSet<_>>(),
            span: None,
            generation: 0,
            consistency: Consistency::Eventual,
        }
    }

    #[test]
    fn what_is_said_alike_has_one_id() {
        let one = birth("x", &["a", "b"]);
        let id = derive(&one).unwrap();
        assert_eq!(derive(&birth("x", &["b", "a"])).unwrap(), id);
        assert_eq!(id.as_str().len(), 36);
        let others = [
            birth("y", &["a", "b"]),
            birth("x", &["a", "c"]),
            Birth {
                generation: 1,
                ..one.clone()
            },
            Birth {
                consistency: Consistency::Strong,
                ..one.clone()
            },
            Birth {
                parents: vec![],
                ..one.clone()
            },
            Birth {
                kind: "/things".into(),
                ..one.clone()
            },
        ];
        let ids: BTreeSet<_> = others.iter().map(|birth| derive(birth).unwrap()).collect();
        assert_eq!(ids.len(), others.len());
        assert!(!ids.contains(&id));
        assert!(is_rightful(&id, &one) && others.iter().all(|other| !is_rightful(&id, other)));
        assert_eq!(derive(&Birth { name: None, ..one }), None);
    }
}
