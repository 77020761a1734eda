//! The identity of a client's certificate on its way to the application.
//!
//! Inside the agent it stands in the headers in which the application takes it. No port lets such a
//! header in; the agent itself puts them on, and a request that has them goes to the application on a
//! connection that proves who the agent is.

use cheops_glue::{CallerRules, Profile};
use cheops_net::Subject;
use cheops_types::{Caller, Code, Problem, SiteName, headers::PEER_CALLER};
use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{AUTHORIZATION, GetAll},
};

use super::Service;

/// Who sent a request to this agent.
#[derive(Clone, Copy)]
pub(crate) enum Sender<'c> {
    /// A user or a service, with the certificate that it showed.
    Client(Option<&'c Subject>),
    /// Another site's agent.
    Peer {
        site: &'c SiteName,
        /// Whether its word about who a caller is counts at all.
        is_believed: bool,
    },
}

/// How one service takes the identity of a certificate.
pub(crate) struct Identity {
    user: HeaderName,
    group: HeaderName,
    /// How headers begin that nobody but the agent may send.
    strip: Vec<String>,
    rules: CallerRules,
}

impl Identity {
    /// None where the glue does not tell.
    pub(crate) fn of_service(profile: &Profile, service: &str) -> Option<Self> {
        let rules = profile.caller(service)?;
        let certificate = rules.certificate.as_ref()?;
        Some(Self {
            user: HeaderName::try_from(certificate.user.as_str()).ok()?,
            group: HeaderName::try_from(certificate.group.as_str()).ok()?,
            strip: certificate.strip.clone(),
            rules: rules.clone(),
        })
    }

    /// How headers begin that nobody but the agent may send.
    pub(crate) fn stripped(&self) -> impl Iterator<Item = &str> {
        self.strip.iter().map(String::as_str)
    }

    pub(crate) fn is_in(&self, headers: &HeaderMap) -> bool {
        headers.contains_key(&self.user)
    }

    /// Takes off every header that nobody but the agent may send. Some applications do not tell `_` from
    /// `-`, so neither is let in.
    pub(crate) fn strip(&self, headers: &mut HeaderMap) {
        let is_kept = |name: &HeaderName| !self.strip.iter().any(|prefix| begins(name.as_str(), prefix));
        if headers.keys().all(is_kept) {
            return;
        }
        let names: Vec<HeaderName> = headers.keys().filter(|name| !is_kept(name)).cloned().collect();
        for name in names {
            headers.remove(name);
        }
    }

    fn put(&self, headers: &mut HeaderMap, caller: &Caller) -> Result<(), Problem> {
        let value = |text: &str| {
            HeaderValue::from_bytes(text.as_bytes())
                .map_err(|_| Problem::new(Code::BadRequest, "the caller's name cannot stand in a header"))
        };
        headers.insert(&self.user, value(&caller.user)?);
        for group in &caller.groups {
            headers.append(&self.group, value(group)?);
        }
        Ok(())
    }

    fn read(&self, headers: &HeaderMap) -> Option<Caller> {
        let user = text(headers.get(&self.user)?)?;
        let groups = headers.get_all(&self.group);
        Some(Caller {
            user,
            groups: texts(&groups)?,
        })
    }
}

/// Whether a name begins like that, with `_` for `-`.
pub(crate) fn begins(name: &str, prefix: &str) -> bool {
    let dashed = |byte: u8| if byte == b'_' { b'-' } else { byte };
    let mut name = name.bytes().map(dashed);
    prefix.bytes().map(dashed).all(|byte| name.next() == Some(byte))
}

fn text(value: &HeaderValue) -> Option<String> {
    std::str::from_utf8(value.as_bytes()).ok().map(str::to_owned)
}

fn texts(values: &GetAll<'_, HeaderValue>) -> Option<Vec<String>> {
    values.iter().map(text).collect()
}

/// The caller that a request's sender stands for; called before agents' own headers are taken off.
pub(crate) fn told(
    headers: &HeaderMap,
    service: &Service,
    sender: Sender<'_>,
) -> Result<Option<Caller>, Problem> {
    match sender {
        Sender::Client(None) => Ok(None),
        Sender::Client(Some(subject)) => Ok(Some(Caller {
            user: subject.common_name.clone(),
            groups: subject.organizations.clone(),
        })),
        Sender::Peer { site, is_believed } => match headers.get(PEER_CALLER) {
            None => Ok(None),
            Some(value) if is_believed => admit(value, service).map(Some),
            Some(_) => Err(Problem::new(
                Code::CallerRefused,
                format!("site `{site}` is not believed about callers here: its `vouch` is `none`"),
            )),
        },
    }
}

/// A peer is believed about the users of the application, and about others only where this site's
/// configuration says so.
fn admit(value: &HeaderValue, service: &Service) -> Result<Caller, Problem> {
    let name = &service.name;
    let refused = |detail| Problem::new(Code::CallerRefused, detail).of(name);
    let caller: Caller = serde_json::from_slice(value.as_bytes()).map_err(|_| {
        Problem::new(
            Code::BadRequest,
            "the peer's word about the caller cannot be read",
        )
    })?;
    let (Some(identity), true) = (&service.identity, service.vouched.is_some()) else {
        return Err(refused(format!(
            "service `{name}` cannot be told who `{}` is: the caller was identified by a certificate, and \
             this site has no `upstream_cert` for the service",
            caller.user
        )));
    };
    match identity.rules.unvouched(&caller, &service.vouch) {
        None => Ok(caller),
        Some(privileged) => Err(refused(format!(
            "another site's word does not count for `{privileged}` here; to let it count, add that name to \
             `vouch` of service `{name}`"
        ))),
    }
}

/// Puts a caller on a cleaned head. Its certificate decides who it is: a credential beside it could be
/// somebody else's.
pub(crate) fn enter(
    headers: &mut HeaderMap,
    service: &Service,
    caller: Option<&Caller>,
) -> Result<(), Problem> {
    let Some(identity) = &service.identity else {
        return Ok(());
    };
    identity.strip(headers);
    if let Some(caller) = caller {
        headers.remove(AUTHORIZATION);
        identity.put(headers, caller)?;
    }
    Ok(())
}

/// Writes the caller as one agent tells another.
pub(crate) fn hand_on(headers: &mut HeaderMap, service: &Service) {
    let Some(identity) = service.identity.as_ref() else {
        return;
    };
    let caller = identity.read(headers);
    identity.strip(headers);
    if let Some(caller) = caller
        && let Ok(text) = serde_json::to_vec(&caller)
        && let Ok(value) = HeaderValue::from_bytes(&text)
    {
        headers.insert(HeaderName::from_static(PEER_CALLER), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> Identity {
        let glue = "application = \"a\"\n[services.A.caller]\n\
                    certificate = { user = \"X-Remote-User\", group = \"X-Remote-Group\", strip = [\"X-Remote-\"] }\n";
        let profile = Profile::parse("a.toml", glue).unwrap();
        Identity::of_service(&profile, "A").unwrap()
    }

    #[test]
    fn nobody_brings_an_identity() {
        let mut headers = HeaderMap::new();
        for name in [
            "X-Remote-User",
            "x-remote-group",
            "X-REMOTE-Extra-scopes",
            "x_remote_user",
            "X-Remote_User",
        ] {
            headers.append(
                HeaderName::from_bytes(name.as_bytes()).unwrap(),
                HeaderValue::from_static("root"),
            );
        }
        headers.insert("x-remote", HeaderValue::from_static("kept"));
        headers.insert("accept", HeaderValue::from_static("kept"));
        identity().strip(&mut headers);
        let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["accept", "x-remote"]);
    }

    #[test]
    fn what_is_written_is_read_again() {
        let caller = Caller {
            user: "Zoé".into(),
            groups: vec!["a, b".into(), "c".into()],
        };
        let mut headers = HeaderMap::new();
        identity().put(&mut headers, &caller).unwrap();
        assert_eq!(headers.get_all("x-remote-group").iter().count(), 2);
        assert_eq!(identity().read(&headers), Some(caller));
    }
}
