//! From what was recorded to a request for this site's application.

use std::borrow::Cow;

use bytes::Bytes;
use cheops_glue::{self as glue, Address, Changed, Effect, Ids, Kind, Own, Profile};
use cheops_replica::{LocalId, Recognise, Record, Request, Token};
use cheops_types::{Code, KeptBody, Problem};

use super::{ids::Filled, recast::Join};
use crate::{
    secret::{self, Headers},
    waiting::CallerHeaders,
};

/// Set anew for every request, or true only for the connection that it came on.
const NOT_REPEATED: [&str; 10] = [
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// A request for the application. Headers may be credentials: it is not printed.
pub(crate) struct AppRequest {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Headers,
    pub(crate) body: KeptBody,
}

impl AppRequest {
    /// A read.
    pub(crate) fn get(path: String) -> Self {
        Self {
            method: "GET".to_owned(),
            path,
            headers: vec![json("accept")],
            body: KeptBody::EMPTY,
        }
    }
}

/// How the application recognises a request that it has seen.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    pub(super) recognise: Recognise,
    pub(super) token: Token,
    /// Makes another key of the token, or of the caller's own.
    pub(super) renewal: Option<Token>,
}

/// Renders requests for one resource.
pub(super) struct Render<'r> {
    pub(super) profile: &'r Profile,
    pub(super) record: &'r Record,
    /// From ids that all sites know to those of this site.
    pub(super) ids: &'r dyn Ids,
}

impl Render<'_> {
    pub(super) fn kind(&self) -> Cow<'_, Kind> {
        self.profile.kind(&self.record.service, &self.record.kind)
    }

    /// The create as it was recorded, for the first time or once more.
    pub(super) fn create(
        &self,
        request: &Request,
        body: KeptBody,
        caller: Option<&CallerHeaders>,
        mark: Mark,
    ) -> Result<AppRequest, Problem> {
        let service = &self.record.service;
        let path = self.profile.map_path(service, &request.path, Own::Keep, self.ids);
        let address = self.address(&request.path);
        let body = self.map(address.as_ref(), request, body, Own::Keep, self.ids)?;
        let body = self.marked(body, mark)?;
        Ok(self.order(request, path, body, caller, mark))
    }

    /// Any other request as it was recorded, with this site's id in its hole.
    pub(super) fn repeat(
        &self,
        request: &Request,
        body: KeptBody,
        local: &LocalId,
        caller: Option<&CallerHeaders>,
        mark: Mark,
    ) -> Result<AppRequest, Problem> {
        let ids = self.filled(local);
        let path = self
            .profile
            .map_path(&self.record.service, &request.path, Own::Map, &ids);
        let address = self.address(&request.path);
        let own = Own::Put(local.as_str());
        let body = self.map(address.as_ref(), request, body, own, &ids)?;
        Ok(self.order(request, path, body, caller, mark))
    }

    /// A create that makes a replica like another one. `key` has the parents' ids here.
    pub(super) fn create_from(&self, key: &str, state: &[u8], mark: Mark) -> Result<AppRequest, Problem> {
        let kind = self.kind();
        let state = self.map_state(&kind.collection_path(key), state)?;
        let rendered = kind.create_from(key, &state);
        let mut order = of_rendered(rendered);
        if let (Some(name), KeptBody::Inline(body)) = (&self.record.name, &order.body) {
            let named = kind
                .with_id(body, name)
                .map_err(|error| self.unreadable(&error))?;
            order.body = KeptBody::Inline(named.into());
        }
        order.body = self.marked(order.body, mark)?;
        self.add_key(&mut order.headers, &[], mark);
        Ok(order)
    }

    /// An update that makes this site's replica, `current`, like another one; none where it is.
    pub(super) fn overwrite(
        &self,
        key: &str,
        state: &[u8],
        current: &[u8],
    ) -> Result<Option<AppRequest>, Problem> {
        let kind = self.kind();
        let state = self.map_state(&kind.item_path(key), state)?;
        self.changed(kind.overwrite_from(key, &state, current))
    }

    /// A recorded change of this site's replica, `current`, whose own values stay; none where it changes nothing.
    pub(super) fn join(
        &self,
        join: Join,
        request: &Request,
        body: &[u8],
        local: &LocalId,
        key: &str,
        current: &[u8],
    ) -> Result<Option<AppRequest>, Problem> {
        let kind = self.kind();
        let ids = self.filled(local);
        let address = self.address(&request.path);
        let mapped = match &address {
            Some(address) => address
                .map_body(body, Own::Put(local.as_str()), &ids)
                .map_err(|error| self.unreadable(&error))?,
            None => Cow::Borrowed(body),
        };
        self.changed(match join {
            Join::Merge => kind.merge_into(key, &mapped, current),
            Join::Replace => kind.overwrite_from(key, &mapped, current),
        })
    }

    /// What a create would have made, as a change of the replica that has its name here.
    pub(super) fn remake(
        &self,
        request: &Request,
        body: &KeptBody,
        local: &LocalId,
        key: &str,
        current: &[u8],
    ) -> Result<Option<AppRequest>, Problem> {
        match body {
            KeptBody::Inline(body) => self.join(Join::Replace, request, body, local, key, current),
            KeptBody::Spooled { .. } => Err(self.unreadable(&"it is too long to be set over another one")),
        }
    }

    fn filled<'f>(&'f self, local: &'f LocalId) -> Filled<'f> {
        Filled {
            ids: self.ids,
            kind: &self.record.kind,
            local: local.as_str(),
        }
    }

    fn changed(&self, changed: Result<Changed, glue::NotJson>) -> Result<Option<AppRequest>, Problem> {
        match changed.map_err(|error| self.unreadable(&error))? {
            Changed::Request(rendered) => Ok(Some(of_rendered(rendered))),
            Changed::Nothing => Ok(None),
        }
    }

    /// A delete that nobody asked for.
    pub(super) fn delete(&self, key: &str) -> AppRequest {
        AppRequest {
            method: "DELETE".to_owned(),
            path: self.kind().item_path(key),
            headers: Vec::new(),
            body: KeptBody::EMPTY,
        }
    }

    /// Whether a body that is in the spool has to be read and changed before it is sent.
    pub(super) fn changes_body(&self, request: &Request, mark: Mark) -> bool {
        let is_marked = matches!(mark.recognise, Recognise::Marker | Recognise::ChosenId);
        let address = self.address(&request.path);
        is_marked || address.is_some_and(|address| must_read(&address, request))
    }

    /// The resource that a recorded path is or lies within, or its collection for a create.
    fn address<'a>(&'a self, path: &'a str) -> Option<Address<'a>> {
        let path = path.split(['?', '#']).next().unwrap_or_default();
        let Record { service, kind, .. } = self.record;
        let mut within = self.profile.within(service, path).into_iter();
        within
            .find(|address| address.kind == kind.as_str())
            .or_else(|| self.profile.address(service, path))
    }

    fn map(
        &self,
        address: Option<&Address<'_>>,
        request: &Request,
        body: KeptBody,
        own: Own<'_>,
        ids: &dyn Ids,
    ) -> Result<KeptBody, Problem> {
        let (Some(address), KeptBody::Inline(bytes)) = (address, &body) else {
            return Ok(body);
        };
        match address.map_body(bytes, own, ids) {
            Ok(Cow::Owned(mapped)) => Ok(KeptBody::Inline(mapped.into())),
            Err(error) if must_read(address, request) => Err(self.unreadable(&error)),
            // Nothing to change, or a body of another kind, with no ids that anyone could know of.
            Ok(Cow::Borrowed(_)) | Err(_) => Ok(body),
        }
    }

    fn map_state<'s>(&self, path: &str, state: &'s [u8]) -> Result<Cow<'s, [u8]>, Problem> {
        match self.profile.address(&self.record.service, path) {
            Some(address) => address
                .map_body(state, Own::Keep, self.ids)
                .map_err(|error| self.unreadable(&error)),
            None => Ok(Cow::Borrowed(state)),
        }
    }

    /// The body of a create with what it is recognised by.
    fn marked(&self, body: KeptBody, mark: Mark) -> Result<KeptBody, Problem> {
        let kind = self.kind();
        let marked = match (mark.recognise, &body) {
            (Recognise::Nothing | Recognise::Key, _) => return Ok(body),
            // What is in the spool was found too long to be changed.
            (_, KeptBody::Spooled { .. }) => Err("it is too long".to_owned()),
            (Recognise::Marker, KeptBody::Inline(bytes)) => kind
                .with_marker(bytes, &mark.token.to_string())
                .map_err(|error| error.to_string()),
            (Recognise::ChosenId, KeptBody::Inline(bytes)) => kind
                .with_id(bytes, self.record.meta.as_str())
                .map_err(|error| error.to_string()),
        };
        marked
            .map(|bytes| KeptBody::Inline(bytes.into()))
            .map_err(|reason| self.unreadable(&reason))
    }

    fn order(
        &self,
        request: &Request,
        path: String,
        body: KeptBody,
        caller: Option<&CallerHeaders>,
        mark: Mark,
    ) -> AppRequest {
        let recorded = request.headers.iter().map(|(name, value)| {
            (
                name.to_ascii_lowercase(),
                Bytes::copy_from_slice(value.as_bytes()),
            )
        });
        let mut headers: Headers = match caller {
            Some(caller) => secret::listed(&caller.headers, |_| true),
            None => recorded.collect(),
        };
        headers.retain(|(name, _)| !NOT_REPEATED.contains(&name.as_str()));
        self.add_key(&mut headers, &request.headers, mark);
        AppRequest {
            method: request.method.clone(),
            path,
            headers,
            body,
        }
    }

    /// The header by which the application recognises a repetition. A key that is recorded is the caller's
    /// own, and counts at every site, until the replica there was set to another one's state.
    fn add_key(&self, headers: &mut Headers, recorded: &[(String, String)], mark: Mark) {
        if mark.recognise != Recognise::Key {
            return;
        }
        let kind = self.kind();
        let glue::Recognise::Key { header } = kind.recognise(self.record.name.is_some()) else {
            return;
        };
        let own = recorded
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(header));
        let value = own.map_or_else(|| mark.token.to_string(), |(_, value)| value.clone());
        let value = match mark.renewal {
            Some(renewal) => format!("{value}-{renewal}"),
            None => value,
        };
        headers.retain(|(name, _)| !name.eq_ignore_ascii_case(header));
        headers.push((header.to_ascii_lowercase(), value.into()));
    }

    fn unreadable(&self, reason: &dyn std::fmt::Display) -> Problem {
        let detail = format!(
            "the body of a `{}` must be JSON that can be read and changed: {reason}; nothing was executed",
            self.record.kind
        );
        Problem::new(Code::BodyUnsupported, detail).of(&self.record.service)
    }
}

fn must_read(address: &Address<'_>, request: &Request) -> bool {
    let effect: Effect = address.effect(&request.method, content_type(request));
    address.reads_request_body(&effect)
}

pub(super) fn content_type(request: &Request) -> Option<&str> {
    let mut headers = request.headers.iter();
    let (_, value) = headers.find(|(name, _)| name.eq_ignore_ascii_case("content-type"))?;
    Some(value)
}

/// A header of a request, as text.
pub(super) fn header<'h>(headers: &'h Headers, name: &str) -> Option<&'h str> {
    let (_, value) = headers
        .iter()
        .find(|(found, _)| found.eq_ignore_ascii_case(name))?;
    std::str::from_utf8(value).ok()
}

fn of_rendered(rendered: glue::Rendered) -> AppRequest {
    AppRequest {
        method: rendered.method,
        path: rendered.path,
        headers: vec![
            ("content-type".to_owned(), Bytes::from(rendered.content_type)),
            json("accept"),
        ],
        body: KeptBody::Inline(rendered.body.into()),
    }
}

fn json(name: &str) -> (String, Bytes) {
    (name.to_owned(), Bytes::from_static(b"application/json"))
}
