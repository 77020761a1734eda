//! A question that is the same for everybody, and what its answer depends on.

use std::hash::{Hash, Hasher};

use cheops_types::ServiceName;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method,
    header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, COOKIE, HOST, VARY},
    request,
};

const AUTH_TOKEN: HeaderName = HeaderName::from_static("x-auth-token");
const FORWARDED_FOR: &str = "x-forwarded-for";
/// Beside `X-Forwarded-*`, what applications are known to make links of, each with `-` for `_`.
const TELL_ORIGIN: [&str; 10] = [
    "forwarded",
    "front-end-https",
    "x-host",
    "x-http-host-override",
    "x-original-host",
    "x-original-url",
    "x-rewrite-url",
    "x-scheme",
    "x-script-name",
    "x-url-scheme",
];
/// An answer that depends on more headers than this is not kept.
const VARY_MAX: usize = 16;

/// Where a caller says that it has reached the service: links in answers are made of it, so what one caller says must
/// not be in another's answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Origin {
    host: Vec<HeaderValue>,
    /// With their names, in their order.
    told: Vec<(HeaderName, HeaderValue)>,
}

impl Origin {
    pub(crate) fn of(head: &request::Parts) -> Self {
        let authority = head.uri.authority();
        let host = authority.and_then(|authority| HeaderValue::from_str(authority.as_str()).ok());
        let told = head.headers.iter().filter(|(name, _)| tells_origin(name));
        Self {
            host: host.into_iter().chain(values(&head.headers, &HOST)).collect(),
            told: told.map(|(name, value)| (name.clone(), value.clone())).collect(),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let told = self
            .told
            .iter()
            .map(|(name, value)| name.as_str().len() + value.len());
        self.host.iter().map(HeaderValue::len).chain(told).sum()
    }
}

/// Some servers take `_` for `-`. The address of the caller itself is in no link, and nobody would share an answer if
/// it counted.
fn tells_origin(name: &HeaderName) -> bool {
    let name = name.as_str();
    let dashed;
    let name = if name.contains('_') {
        dashed = name.replace('_', "-");
        &*dashed
    } else {
        name
    };
    (name.starts_with("x-forwarded-") && name != FORWARDED_FOR) || TELL_ORIGIN.contains(&name)
}

fn values(headers: &HeaderMap, name: &HeaderName) -> Vec<HeaderValue> {
    headers.get_all(name).iter().cloned().collect()
}

/// A question that is asked without a credential: its answer is everybody's who asks from the same origin.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    key: Key,
    /// All that came with it: only the answer says what else it depends on.
    headers: HeaderMap,
}

/// What every answer is taken to depend on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    service: ServiceName,
    target: String,
    origin: Origin,
    accept: Vec<HeaderValue>,
}

impl PartialEq for Question {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Question {}

impl Hash for Question {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key.hash(state);
    }
}

impl Question {
    /// None for a question of somebody in particular: with a credential, or over a connection with a certificate.
    pub(crate) fn of(service: &ServiceName, head: &request::Parts, has_certificate: bool) -> Option<Self> {
        let headers = &head.headers;
        let has_credential = has_certificate
            || [AUTHORIZATION, AUTH_TOKEN, COOKIE]
                .iter()
                .any(|name| headers.contains_key(name));
        if head.method != Method::GET || has_credential {
            return None;
        }
        let key = Key {
            service: service.clone(),
            target: head.uri.path_and_query()?.to_string(),
            origin: Origin::of(head),
            accept: values(headers, &ACCEPT),
        };
        let headers = headers.clone();
        Some(Self { key, headers })
    }

    /// What keeping it takes.
    pub(super) fn bytes(&self) -> usize {
        let Key {
            target,
            origin,
            accept,
            ..
        } = &self.key;
        target.len() + origin.bytes() + accept.iter().map(HeaderValue::len).sum::<usize>()
    }

    /// The same without what only the answer needed to know.
    pub(super) fn alone(self) -> Self {
        let headers = HeaderMap::new();
        Self { headers, ..self }
    }

    /// What else an answer depends on, with what the question says there; none where nobody knows what.
    pub(super) fn variant(&self, answer: &HeaderMap) -> Option<Variant> {
        let mut names: Vec<HeaderName> = Vec::new();
        for value in answer.get_all(VARY) {
            for name in value.to_str().ok()?.split(',').map(str::trim) {
                // What is kept is not encoded, so everybody can read it.
                let name: HeaderName = name.parse().ok().filter(|_| name != "*")?;
                if name != ACCEPT_ENCODING {
                    names.push(name);
                }
            }
            if names.len() > VARY_MAX {
                return None;
            }
        }
        names.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        names.dedup();
        let with_values = names.into_iter().map(|name| {
            let values = values(&self.headers, &name);
            (name, values)
        });
        Some(Variant(with_values.collect()))
    }
}

/// Headers that an answer depends on, as they were.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Variant(Vec<(HeaderName, Vec<HeaderValue>)>);

impl Variant {
    pub(super) fn is_of(&self, question: &Question) -> bool {
        let is_same = |(name, then): &(HeaderName, Vec<HeaderValue>)| {
            question.headers.get_all(name).iter().eq(then.iter())
        };
        self.0.iter().all(is_same)
    }

    pub(super) fn bytes(&self) -> usize {
        let of = |(name, values): &(HeaderName, Vec<HeaderValue>)| {
            name.as_str().len() + values.iter().map(HeaderValue::len).sum::<usize>()
        };
        self.0.iter().map(of).sum()
    }
}
