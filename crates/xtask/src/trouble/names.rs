//! What sites are called.

/// A site by its number, from 0.
pub(crate) type Site = usize;

pub(crate) fn name(site: Site) -> String {
    format!("site{}", site + 1)
}

pub(crate) fn number(name: &str) -> Option<Site> {
    name.strip_prefix("site")?.parse::<Site>().ok()?.checked_sub(1)
}

/// The site that accepted an operation, or decided about it: `<set>:<site>.<incarnation>.<epoch>.<sequence>`.
pub(crate) fn origin(operation: &str) -> Option<Site> {
    let (_, own) = operation.rsplit_once(':')?;
    number(own.split('.').next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_each_others() {
        assert_eq!((name(0), number("site1")), ("site1".to_owned(), Some(0)));
        assert_eq!((origin("72:site2.9.0.3"), origin("72")), (Some(1), None));
        assert_eq!([number("site0"), number("site"), number("x1")], [None; 3]);
    }
}
