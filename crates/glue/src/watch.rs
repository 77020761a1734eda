//! Watching a list: events of several sites as one stream.

use std::{borrow::Cow, collections::BTreeMap, ops::ControlFlow};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use cheops_types::SiteName;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    ListPage, ListShape, NotJson, Pointer,
    edit::{self, Edit},
    json::{self, Found},
    marks::{Marked, Marks, appended},
    percent,
};

const VERSION: u8 = 1;
/// How every text of [`Versions`] begins: `{"v":1,"at":{` in base64.
const PREFIX: &str = "eyJ2IjoxLCJhdCI6e";

/// The versions that sites have of one list, each in its own words, as one text that holds them all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Versions(BTreeMap<SiteName, String>);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    v: u8,
    at: BTreeMap<SiteName, String>,
}

impl Versions {
    pub fn set(&mut self, site: &SiteName, version: &str) {
        self.0.insert(site.clone(), version.to_owned());
    }

    pub fn of(&self, site: &SiteName) -> Option<&str> {
        self.0.get(site).map(String::as_str)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn encode(&self) -> String {
        let wire = Wire {
            v: VERSION,
            at: self.0.clone(),
        };
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&wire).unwrap_or_default())
    }

    /// None for a text that no agent made.
    pub fn decode(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD
            .decode(text.strip_prefix(PREFIX).map(|_| text)?)
            .ok()?;
        let wire: Wire = serde_json::from_slice(&bytes).ok()?;
        (wire.v == VERSION && !wire.at.is_empty()).then_some(Self(wire.at))
    }
}

/// A body with a site's own version wherever one of several sites stands; none where there is none to replace.
pub fn with_version_of(body: &[u8], site: &SiteName) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(body).ok()?;
    let mut rest = text;
    let mut out = String::new();
    while let Some(at) = rest.find(PREFIX) {
        let (before, after) = rest.split_at(at);
        let end = after.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'));
        let (token, after) = after.split_at(end.unwrap_or(after.len()));
        out.push_str(before);
        match Versions::decode(token)
            .as_ref()
            .and_then(|versions| versions.of(site))
        {
            Some(own) => out.push_str(own),
            None => out.push_str(token),
        }
        rest = after;
    }
    out.push_str(rest);
    (out != text).then(|| out.into_bytes())
}

impl ListShape {
    /// The version that one site's list tells; none where it is longer than `max_bytes`.
    pub fn version_of(&self, page: &ListPage, max_bytes: usize) -> Option<String> {
        let watch = self.watch.as_ref()?;
        version_at(json::read(page.text()).ok()?, &watch.version, max_bytes)
    }

    /// A merged list that tells the versions of all its sites.
    pub fn with_versions(&self, body: &[u8], versions: &Versions) -> Result<Vec<u8>, NotJson> {
        let Some(watch) = self.watch.as_ref().filter(|_| !versions.is_empty()) else {
            return Ok(body.to_vec());
        };
        let (text, root) = edit::parse(body)?;
        let found = json::find(root, &watch.version)?;
        if !matches!(found, Found::Value(_)) {
            return Ok(body.to_vec());
        }
        let put = edit::put_where(text, &watch.version, found, &json::quote(&versions.encode()))?;
        Ok(edit::apply(text, vec![put]).into_owned().into_bytes())
    }

    /// The query with which a site is watched: from its own version on, where one is known.
    pub fn watch_query(&self, query: &str, versions: &Versions, site: &SiteName) -> String {
        let Some(watch) = &self.watch else {
            return query.to_owned();
        };
        let is_version = |parameter: &&str| {
            let name = parameter.split('=').next().unwrap_or_default();
            *percent::decode(name) == *watch.parameter.as_bytes()
        };
        let asked = query.split('&').find(is_version);
        // One text: a query has room for ten thousands of parameters, and each site gets its own.
        let mut kept = String::with_capacity(query.len());
        let begin = |kept: &mut String| {
            if !kept.is_empty() {
                kept.push('&');
            }
        };
        let others = query.split('&').filter(|parameter| !parameter.is_empty());
        for parameter in others.filter(|parameter| !is_version(parameter)) {
            begin(&mut kept);
            kept.push_str(parameter);
        }
        let version = match (versions.of(site), asked) {
            (Some(version), _) => Some(version),
            // What stands for no version in particular means the same at all sites.
            (None, Some(asked)) => asked
                .split_once('=')
                .map(|(_, value)| value)
                .filter(|value| *value == "0"),
            (None, None) => None,
        };
        if let Some(version) = version {
            begin(&mut kept);
            kept.push_str(&watch.parameter);
            kept.push('=');
            percent::encode_into(&mut kept, version);
        }
        kept
    }

    /// The versions that a caller wants changes from.
    pub fn versions_asked(&self, query: &str) -> Versions {
        let Some(watch) = &self.watch else {
            return Versions::default();
        };
        let asked = query.split('&').find_map(|parameter| {
            let (name, value) = parameter.split_once('=')?;
            (*percent::decode(name) == *watch.parameter.as_bytes()).then(|| percent::decode_text(value))
        });
        asked.and_then(|text| Versions::decode(&text)).unwrap_or_default()
    }

    /// A site's event for those who watch several: it tells its site, and the versions of all. What tells no version, or
    /// one that is longer than `version_max_bytes`, is about no object of the list and stays as it is. None for a line
    /// that is no event.
    ///
    /// Nothing is built of a line but what is put in it: built, a line of numbers takes thirty times its length.
    pub fn mark_event(
        &self,
        line: &[u8],
        site: &SiteName,
        versions: &mut Versions,
        version_max_bytes: usize,
    ) -> Option<Vec<u8>> {
        let watch = self.watch.as_ref()?;
        let (text, root) = edit::parse(line).ok()?;
        let Found::Value(object) = json::find(root, &watch.object).ok()? else {
            return None;
        };
        let version = version_at(object, &watch.version, version_max_bytes);
        let Some(version) = version.filter(|version| !version.is_empty()) else {
            return Some(root.get().as_bytes().to_vec());
        };
        versions.set(site, &version);
        let found = json::find(object, &watch.version).ok()?;
        let versions = json::quote(&versions.encode());
        let mut edits = vec![edit::put_where(text, &watch.version, found, &versions).ok()?];
        match self.rows_of(object) {
            Some((form, rows)) => self.mark_rows(text, object, form, rows, site, &mut edits),
            None => edits.extend(Marks::of_document(self, watch.object.clone()).edits(text, root, site)),
        }
        let marked = edit::apply(text, edits).into_owned();
        Some(marked.trim_ascii().as_bytes().to_vec())
    }

    /// The form in which what an event is about has several rows, and the array of them.
    fn rows_of<'a>(&self, object: &'a RawValue) -> Option<(usize, &'a RawValue)> {
        self.forms.iter().enumerate().find_map(|(place, form)| {
            match json::find(object, &form.items).ok()? {
                Found::Value(rows) if json::is_array(rows) => Some((place, rows)),
                _ => None,
            }
        })
    }

    fn mark_rows(
        &self,
        text: &str,
        object: &RawValue,
        form: usize,
        rows: &RawValue,
        site: &SiteName,
        edits: &mut Vec<Edit>,
    ) {
        let marks = Marks::new(self, Some(form), true);
        if let Some((definitions, definition)) = marks.column()
            && let Ok(Found::Value(known)) = json::find(object, definitions)
            && json::is_array(known)
            && !json::is_empty(known)
        {
            edits.extend(appended(text, Found::Value(known), definition));
        }
        let mut marked = Marked::default();
        let visited = json::visit_elements(rows, |row| {
            marked.push(&marks, site, row.get());
            ControlFlow::Continue(())
        });
        if visited.is_ok() {
            edits.push((json::range_in(text, rows), marked.finish()));
        }
    }
}

fn version_at(value: &RawValue, pointer: &Pointer, max_bytes: usize) -> Option<String> {
    match json::find(value, pointer).ok()? {
        Found::Value(version) if version.get().len() <= max_bytes => {
            edit::id_text(version).map(Cow::into_owned)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::Profile;

    const VERSION_MAX: usize = 64;

    const GLUE: &str = r#"
application = "shop"

[[services.A.resources]]
kind = "pod"
collection = "/pods"
[services.A.resources.list]
items = "/items"
provenance = "/metadata/annotations/site"
forms = [{ items = "/rows", document = "/object", columns = "/columns", cells = "/cells", column = '{"name":"Site"}' }]
watch = { parameter = "version", version = "/metadata/version", object = "/object" }
"#;

    fn site(name: &str) -> SiteName {
        SiteName::new(name).unwrap()
    }

    fn shape() -> ListShape {
        let profile = Profile::parse("shop.toml", GLUE).unwrap();
        let identity = profile.identify("A", "GET", "/pods");
        ListShape::clone(identity.list.unwrap())
    }

    #[test]
    fn versions_come_back_and_foreign_ones_do_not() {
        let mut versions = Versions::default();
        assert_eq!(
            Versions::decode(&versions.encode()),
            None,
            "empty ones are nobody's"
        );
        versions.set(&site("a"), "12");
        versions.set(&site("b"), "7");
        let text = versions.encode();
        assert!(text.starts_with(PREFIX), "{text}");
        assert_eq!(Versions::decode(&text), Some(versions));
        for foreign in ["", "0", "12", &text[..text.len() - 1], "eyJ2IjoyfQ"] {
            assert_eq!(Versions::decode(foreign), None, "{foreign}");
        }
        let body = format!(r#"{{"metadata":{{"version":"{text}"}},"x":"{PREFIX}"}}"#);
        let own = with_version_of(body.as_bytes(), &site("b")).unwrap();
        let expect = format!(r#"{{"metadata":{{"version":"7"}},"x":"{PREFIX}"}}"#);
        assert_eq!(String::from_utf8(own).unwrap(), expect);
        assert_eq!(with_version_of(b"{}", &site("b")), None);
    }

    #[test]
    fn each_site_is_asked_from_its_own_version_on() {
        let (shape, mut versions) = (shape(), Versions::default());
        versions.set(&site("a"), "1/2");
        let query = format!("watch=1&version={}&x=y", versions.encode());
        assert_eq!(shape.versions_asked(&query), versions);
        assert_eq!(
            shape.watch_query(&query, &versions, &site("a")),
            "watch=1&x=y&version=1%2F2"
        );
        assert_eq!(shape.watch_query(&query, &versions, &site("b")), "watch=1&x=y");
        assert_eq!(
            shape.watch_query("version=0", &Versions::default(), &site("b")),
            "version=0"
        );
        assert_eq!(
            shape.watch_query("version=9", &Versions::default(), &site("b")),
            ""
        );
    }

    #[test]
    fn events_tell_their_site_and_all_versions() {
        let (shape, mut versions) = (shape(), Versions::default());
        versions.set(&site("b"), "7");
        let mut mark = |line: &str| {
            let marked = shape.mark_event(line.as_bytes(), &site("a"), &mut versions, VERSION_MAX)?;
            Some(serde_json::from_slice::<Value>(&marked).unwrap())
        };
        let event = mark(r#"{"type":"ADDED","object":{"metadata":{"name":"x","version":"3"}}}"#).unwrap();
        let told = Versions::decode(event["object"]["metadata"]["version"].as_str().unwrap()).unwrap();
        assert_eq!((told.of(&site("a")), told.of(&site("b"))), (Some("3"), Some("7")));
        assert_eq!(event["object"]["metadata"]["annotations"]["site"], "a");
        let table = r#"{"type":"ADDED","object":{"metadata":{"version":"4"},"columns":[{"name":"N"}],"rows":[{"cells":["x"],"object":{"metadata":{}}}]}}"#;
        let table = mark(table).unwrap();
        assert_eq!(table["object"]["columns"][1]["name"], "Site");
        assert_eq!(table["object"]["rows"][0]["cells"][1], "a");
        let error = r#"{"type":"ERROR","object":{"code":410}}"#;
        assert_eq!(
            mark(error).unwrap(),
            serde_json::from_str::<Value>(error).unwrap()
        );
        assert_eq!(mark("no event"), None);
    }

    /// One site's event must not make those of the others long, which tell the versions of all.
    #[test]
    fn a_version_that_is_too_long_is_not_carried() {
        let (shape, mut versions) = (shape(), Versions::default());
        let event = |version: &str| format!(r#"{{"object":{{"metadata":{{"version":"{version}"}}}}}}"#);
        let long = event(&"9".repeat(VERSION_MAX));
        let marked = shape.mark_event(long.as_bytes(), &site("a"), &mut versions, VERSION_MAX);
        assert_eq!(marked.as_deref(), Some(long.as_bytes()));
        assert!(versions.is_empty());
        let body = format!(
            r#"{{"items":[],"metadata":{{"version":"{}"}}}}"#,
            "9".repeat(VERSION_MAX)
        );
        let page = shape.read(body.into()).unwrap();
        assert_eq!(shape.version_of(&page, VERSION_MAX), None);
        assert!(shape.version_of(&page, VERSION_MAX + 2).is_some());
    }

    #[test]
    fn an_event_keeps_its_bytes_around_what_is_put_in_it() {
        let (shape, mut versions) = (shape(), Versions::default());
        let line = "{ \"n\":1.50,\"object\":{\"metadata\":{\"version\":3}} , \"x\" : []}\r";
        let marked = shape.mark_event(line.as_bytes(), &site("a"), &mut versions, VERSION_MAX);
        let expect = format!(
            r#"{{ "n":1.50,"object":{{"metadata":{{"version":"{}","annotations":{{"site":"a"}}}}}} , "x" : []}}"#,
            versions.encode()
        );
        assert_eq!(String::from_utf8(marked.unwrap()).unwrap(), expect);
    }
}
