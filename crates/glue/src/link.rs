//! The next page as a URL.

use std::ops::ControlFlow;

use serde_json::value::RawValue;

use crate::{NextStyle, Paging, json, percent};

/// The URL of the next page, where a page tells it as a URL or as a list of links; none where there is none.
/// Nothing where it is something else.
pub(crate) fn url_at(value: &RawValue) -> Result<Option<String>, serde_json::Error> {
    let text = |value: &RawValue| serde_json::from_str::<String>(value.get()).ok();
    if !json::is_array(value) {
        return Ok(text(value).filter(|url| !url.is_empty()));
    }
    let mut next = None;
    json::visit_elements(value, |link| {
        let of = |name| json::member(link, name).ok().flatten().and_then(text);
        if json::is_object(link) && of("rel").as_deref() == Some("next") {
            next = of("href");
        }
        match next {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    })?;
    Ok(next)
}

/// The value of a parameter of a URL's query, decoded.
pub(crate) fn parameter(url: &str, name: &str) -> Option<String> {
    let (_, query) = url.split_once('?')?;
    let query = query.split('#').next().unwrap_or_default();
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.find(|(key, _)| percent::decode_text(key) == name)?;
    Some(percent::decode_text(value).into_owned())
}

/// The caller's own request, from which the URL of the next page is made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// `https://host`; empty where it is not known.
    pub(crate) origin: String,
    pub(crate) path: String,
}

/// What tells the next page, as a text of JSON. `old` is what the answer has there, `query` the query without
/// the token.
pub(crate) fn write(
    paging: &Paging,
    asked: &Asked,
    query: &str,
    token: &str,
    old: Option<&RawValue>,
) -> String {
    let mut url = String::new();
    // As the application writes it; a link alone mostly has no origin.
    let was_absolute = old
        .and_then(|old| url_at(old).ok().flatten())
        .map(|url| url.contains("://"));
    if was_absolute.unwrap_or(paging.style == NextStyle::Links) {
        url.push_str(&asked.origin);
    }
    url.push_str(&asked.path);
    url.push('?');
    if !query.is_empty() {
        url.push_str(query);
        url.push('&');
    }
    url.push_str(&paging.token);
    url.push('=');
    percent::encode_into(&mut url, token);
    let is_list = old.map_or(paging.style == NextStyle::Links, json::is_array);
    if is_list {
        format!(r#"[{{"rel":"next","href":{}}}]"#, json::quote(&url))
    } else {
        json::quote(&url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pointer;

    #[test]
    fn urls_are_found() {
        for (text, expect) in [
            (r#""/v2/images?marker=7""#, Some("/v2/images?marker=7")),
            (r#""""#, None),
            ("null", None),
            ("[]", None),
            (
                r#"[{"rel":"self","href":"a"},{"rel":"next","href":"b"}]"#,
                Some("b"),
            ),
            (r#"[{"rel":"previous","href":"a"}]"#, None),
            (r#"[1,"x",{"rel":"next"}]"#, None),
        ] {
            let url = url_at(json::read(text).unwrap()).unwrap();
            assert_eq!(url.as_deref(), expect, "{text}");
        }
        for (url, expect) in [
            ("/images?limit=2&marker=a%2Fb", Some("a/b")),
            ("http://h/x?m%61rker=7#f", Some("7")),
            ("/images?xmarker=7", None),
            ("/images", None),
        ] {
            assert_eq!(parameter(url, "marker").as_deref(), expect, "{url}");
        }
    }

    #[test]
    fn the_next_page_is_told_as_the_application_does() {
        let asked = Asked {
            origin: "https://me:1".to_owned(),
            path: "/v2/images".to_owned(),
        };
        let check = |style, old: Option<&str>, expect: &str| {
            let paging = Paging {
                style,
                limit: None,
                token: "marker".to_owned(),
                next: Pointer::parse("/next").unwrap(),
            };
            let old = old.map(|old| json::read(old).unwrap());
            assert_eq!(write(&paging, &asked, "limit=2", "T=", old), expect);
        };
        let (path, absolute) = (
            "/v2/images?limit=2&marker=T%3D",
            "https://me:1/v2/images?limit=2&marker=T%3D",
        );
        let link = |url: &str| format!("\"{url}\"");
        let links = |url: &str| format!(r#"[{{"rel":"next","href":"{url}"}}]"#);
        check(NextStyle::Link, None, &link(path));
        check(
            NextStyle::Link,
            Some(r#""http://other/x?marker=1""#),
            &link(absolute),
        );
        check(NextStyle::Links, None, &links(absolute));
        check(
            NextStyle::Link,
            Some(r#"[{"rel":"next","href":"/x?marker=1"}]"#),
            &links(path),
        );
    }
}
