//! URLs, as far as links of an application need it.

/// Splits a URL into scheme and authority, which may be empty, and its path with all that follows. None
/// for what is relative to another URL.
pub(crate) fn split(url: &str) -> Option<(&str, &str)> {
    let authority_at = match url.find("://") {
        Some(at)
            if url[..at]
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b)) =>
        {
            at + 3
        }
        _ if url.starts_with("//") => 2,
        _ => return url.starts_with('/').then_some(("", url)),
    };
    let path_at = url[authority_at..].find('/')? + authority_at;
    Some(url.split_at(path_at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_path_is_the_applications() {
        for (url, expect) in [
            (
                "http://a.b:80/orders/7?x#y",
                Some(("http://a.b:80", "/orders/7?x#y")),
            ),
            ("//host/x", Some(("//host", "/x"))),
            ("/orders?u=http://x/y", Some(("", "/orders?u=http://x/y"))),
            ("http://host", None),
            ("orders/7", None),
            ("", None),
        ] {
            assert_eq!(split(url), expect, "{url}");
        }
    }
}
