//! What a glue file describes, as tables.
//!
//! Read from the file's text, not from what it is compiled to: a reader of the tables wants to find their words
//! in the file. The file has been judged before.

use std::fmt;

use serde_json::{Map, Value};

use crate::cli::output::columns;

/// Keys of a service that list requests, and what the requests in them are.
const REQUESTS: [(&str, &str); 4] = [
    ("context-free", "belongs to no workflow"),
    (
        "discovery",
        "belongs to no workflow, the last good answer is kept",
    ),
    ("effect-free", "changes nothing: executed once, not recorded"),
    ("stream", "answered without end"),
];
/// Keys of an entry that are not taken over from the kind that it is like.
const OWN_KEYS: [&str; 7] = [
    "kind",
    "like",
    "collection",
    "item",
    "singleton",
    "below",
    "deeper",
];
const NONE: &str = "-";

/// A glue file, with `like` carried out.
#[derive(Debug)]
pub(super) struct Description(Value);

/// One entry of `resources`, and its service.
struct Entry<'d> {
    service: &'d str,
    keys: &'d Map<String, Value>,
}

impl Description {
    pub(super) fn read(text: &str) -> anyhow::Result<Self> {
        let table: toml::Table = text.parse()?;
        let mut document = serde_json::to_value(table)?;
        let services = document.get_mut("services").and_then(Value::as_object_mut);
        for service in services.into_iter().flat_map(Map::values_mut) {
            if let Some(entries) = service.get_mut("resources").and_then(Value::as_array_mut) {
                follow_likes(entries);
            }
        }
        Ok(Self(document))
    }

    /// The whole of it.
    pub(super) fn document(&self) -> &Value {
        &self.0
    }

    /// How many kinds there are.
    pub(super) fn kinds(&self) -> usize {
        let mut kinds: Vec<_> = self
            .entries()
            .map(|entry| (entry.service, entry.text("kind")))
            .collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds.len()
    }

    fn services(&self) -> impl Iterator<Item = (&str, &Map<String, Value>)> {
        let services = self.0.get("services").and_then(Value::as_object);
        services
            .into_iter()
            .flatten()
            .filter_map(|(name, service)| Some((name.as_str(), service.as_object()?)))
    }

    fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        self.services().flat_map(|(service, table)| {
            let entries = table.get("resources").and_then(Value::as_array);
            entries
                .into_iter()
                .flatten()
                .filter_map(Value::as_object)
                .map(move |keys| Entry { service, keys })
        })
    }

    /// The entry that another one is like.
    fn model(&self, entry: &Entry<'_>) -> Option<Entry<'_>> {
        let is_meant =
            |other: &Entry<'_>| other.service == entry.service && other.text("kind") == entry.text("like");
        self.entries().find(is_meant)
    }

    fn resources(&self) -> Vec<Vec<String>> {
        let row = |entry: Entry<'_>| {
            let path = |key| entry.text(key).to_owned();
            let (collection, item) = match entry.keys.get("singleton") {
                Some(_) => (NONE.to_owned(), path("singleton")),
                None => (path("collection"), entry.item()),
            };
            vec![
                entry.service.to_owned(),
                path("kind"),
                collection,
                item,
                entry.id(),
                entry.recognised(),
            ]
        };
        self.entries().map(row).collect()
    }

    fn requests(&self) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        for (service, table) in self.services() {
            for (key, meaning) in REQUESTS {
                for request in table.get(key).and_then(Value::as_array).into_iter().flatten() {
                    let text = request.as_str().or_else(|| request.get("request")?.as_str());
                    let text = text.unwrap_or(NONE).to_owned();
                    rows.push(vec![service.to_owned(), text, meaning.to_owned()]);
                }
            }
        }
        rows
    }

    fn verbs(&self) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        for entry in self.entries() {
            let mut verbs = entry.verbs();
            if let Some(model) = self.model(&entry) {
                let same = model.verbs();
                verbs.retain(|verb| !same.contains(verb));
                verbs.insert(0, ("all".to_owned(), format!("as for {}", entry.text("like"))));
            }
            for (request, verb) in verbs {
                rows.push(vec![
                    entry.service.to_owned(),
                    entry.text("kind").to_owned(),
                    request,
                    verb,
                ]);
            }
        }
        rows
    }
}

impl<'d> Entry<'d> {
    fn text(&self, key: &str) -> &'d str {
        self.keys.get(key).and_then(Value::as_str).unwrap_or(NONE)
    }

    fn texts(&self, key: &str) -> impl Iterator<Item = &'d str> {
        let texts = self.keys.get(key).and_then(Value::as_array);
        texts.into_iter().flatten().filter_map(Value::as_str)
    }

    fn item(&self) -> String {
        match (self.text("item"), self.text("collection")) {
            (NONE, NONE) => NONE.to_owned(),
            (NONE, collection) => format!("{}/{{id}}", collection.trim_end_matches('/')),
            (item, _) => item.to_owned(),
        }
    }

    /// Who chooses the id, and where it stands.
    fn id(&self) -> String {
        let name = match self.text("name") {
            NONE => "/id",
            name => name,
        };
        match self.text("chosen-by") {
            _ if self.keys.contains_key("singleton") => NONE.to_owned(),
            "client" => format!("caller: {name}"),
            "settable" => format!("caller or agent: {name}"),
            _ => match self.text("id") {
                NONE => "application".to_owned(),
                id => format!("application: {id}"),
            },
        }
    }

    /// How a create is known again after a crash.
    fn recognised(&self) -> String {
        if self.text("chosen-by") == "settable" {
            return "the chosen id".to_owned();
        }
        let marker = self.keys.get("marker").and_then(|marker| marker.get("pointer"));
        match (self.text("idempotency-key"), marker.and_then(Value::as_str)) {
            (NONE, None) => NONE.to_owned(),
            (NONE, Some(pointer)) => pointer.to_owned(),
            (header, _) => header.to_owned(),
        }
    }

    /// What requests do, where that is not the ordinary meaning.
    fn verbs(&self) -> Vec<(String, String)> {
        let mut verbs = Vec::new();
        for request in self.texts("upsert") {
            verbs.push((request.to_owned(), "also makes what is not there".to_owned()));
        }
        let patches = self.keys.get("patch").and_then(Value::as_object);
        for (media, word) in patches.into_iter().flatten() {
            let word = word.as_str().unwrap_or(NONE);
            verbs.push((format!("PATCH {media}"), word.to_owned()));
        }
        for part in self.texts("parts") {
            verbs.push((format!("PUT …{part}"), "replaces contents of its own".to_owned()));
        }
        let actions = self.keys.get("actions").and_then(Value::as_array);
        for action in actions.into_iter().flatten() {
            let text = |key: &str| action.get(key).and_then(Value::as_str);
            let request = format!(
                "{} …{}",
                text("method").unwrap_or("POST"),
                text("path").unwrap_or_default()
            );
            let mut words = vec![text("as").unwrap_or("action").to_owned()];
            for flag in ["commutes", "idempotent", "effect-free"] {
                if action.get(flag) == Some(&Value::Bool(true)) {
                    words.push(flag.to_owned());
                }
            }
            verbs.push((request, words.join(", ")));
        }
        for parameter in self.texts("effect-free") {
            let place = if parameter.starts_with('/') {
                "body"
            } else {
                "query"
            };
            verbs.push((
                format!("any with {parameter} in its {place}"),
                "changes nothing".to_owned(),
            ));
        }
        verbs
    }
}

/// An entry that is like a kind has all keys of that kind's entries that it has not itself.
fn follow_likes(entries: &mut [Value]) {
    let models = entries.to_vec();
    for entry in entries.iter_mut().filter_map(Value::as_object_mut) {
        let Some(like) = entry.get("like").cloned() else {
            continue;
        };
        let models = models.iter().filter_map(Value::as_object);
        for model in models.filter(|model| model.get("kind") == Some(&like)) {
            for (key, value) in model {
                if !OWN_KEYS.contains(&key.as_str()) && !entry.contains_key(key) {
                    entry.insert(key.clone(), value.clone());
                }
            }
        }
    }
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let application = self.0.get("application").and_then(Value::as_str);
        writeln!(f, "application  {}", application.unwrap_or(NONE))?;
        writeln!(f, "correlation  {}", correlation(&self.0))?;
        let tables = [
            (
                &[
                    "SERVICE",
                    "KIND",
                    "COLLECTION",
                    "ONE",
                    "ID CHOSEN BY",
                    "KNOWN AGAIN BY",
                ][..],
                self.resources(),
            ),
            (&["SERVICE", "KIND", "REQUEST", "IS"][..], self.verbs()),
            (&["SERVICE", "REQUEST", "IS"][..], self.requests()),
        ];
        for (heading, rows) in tables {
            if !rows.is_empty() {
                write!(f, "\n{}", columns(heading, &rows))?;
            }
        }
        Ok(())
    }
}

fn correlation(document: &Value) -> String {
    let Some(carriers) = document.get("correlation").and_then(Value::as_array) else {
        return "scope-header, tracestate, traceparent".to_owned();
    };
    let carriers: Vec<_> = carriers
        .iter()
        .filter_map(|carrier| carrier.as_str().or_else(|| carrier.get("header")?.as_str()))
        .collect();
    if carriers.is_empty() {
        "nothing: no service calls another".to_owned()
    } else {
        carriers.join(", ")
    }
}
