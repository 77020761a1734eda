//! The canonical form: one space around operators, no parentheses but those that are needed.

use std::fmt;

use crate::{Loc, LocKind, Operator, Scope, function::wrapper};

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bare(loc) => loc.fmt(f),
            Self::Full(entries) => {
                for (i, entry) in entries.iter().enumerate() {
                    let separator = if i > 0 { ", " } else { "" };
                    write!(f, "{separator}{}: {}", entry.service, entry.loc)?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Loc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind() {
            LocKind::Site(name) => f.write_str(name),
            LocKind::All => f.write_str("all()"),
            LocKind::Not(inner) => {
                f.write_str("!")?;
                group(inner, matches!(inner.kind(), LocKind::Joined(..)), f)
            }
            LocKind::Joined(operator, members) => {
                for (i, member) in members.iter().enumerate() {
                    if i > 0 {
                        write!(f, " {operator} ")?;
                    }
                    group(member, binds_looser(member, *operator), f)?;
                }
                Ok(())
            }
            LocKind::Around(center, radius) => write!(f, "around({center}, {radius})"),
            LocKind::Wrapped(consistency, inner) => write!(f, "{}({inner})", wrapper(*consistency)),
        }
    }
}

fn binds_looser(member: &Loc, operator: Operator) -> bool {
    matches!(member.kind(), LocKind::Joined(inner, _) if *inner < operator)
}

fn group(loc: &Loc, parentheses: bool, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if parentheses {
        write!(f, "({loc})")
    } else {
        write!(f, "{loc}")
    }
}
