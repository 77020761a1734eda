//! How a request that nobody waits for authenticates.

use bytes::Bytes;
use cheops_glue::{CallerRules, Impersonate, Kind, Profile};
use cheops_replica::Record;
use http::HeaderMap;

use super::{OnBehalf, Vouched};
use crate::{
    core::Core,
    secret::{self, Headers, Opened},
    surroundings::Access,
};

/// What is sent, beside what the request itself says.
pub(crate) enum Rights {
    /// The site's own credential, in a caller's name.
    InName(Headers),
    /// The credential that came with the operation, or none where none came.
    Own {
        headers: Headers,
        /// Why the site does not speak in the caller's name, where it could have to.
        why: Option<String>,
    },
    /// Nothing that can be sent: what has to be done first.
    Nobody(String),
}

/// How to ask the application about a set.
pub(crate) fn rights(core: &Core, profile: &Profile, set: &Record, on_behalf: &OnBehalf) -> Rights {
    let kind = profile.kind(&set.service, &set.kind);
    let rules = profile.caller(&set.service);
    // One that cannot be opened any more is the same as none: the application will say so.
    let opened = on_behalf.credential.as_ref();
    let opened = opened.and_then(|sealed| secret::open(&core.key, sealed).ok());
    let is_supplied = opened.as_ref().is_some_and(|opened| opened.is_supplied);
    let why = match (&on_behalf.caller, rules.and_then(named)) {
        // Whether its sender may speak in that name is for the application to say, and here it may not have said
        // it yet: the first attempt may have ended without an answer.
        (Some(vouched), Some((_, impersonate)))
            if vouched.by == core.site && names_another(impersonate, opened.as_ref()) =>
        {
            None
        }
        (Some(vouched), Some((rules, impersonate))) if !is_supplied => {
            let access = core.surroundings.access(&set.service);
            match may_speak(core, rules, &access, set, vouched) {
                Ok(credential) => {
                    return Rights::InName(in_name(rules, impersonate, &credential, vouched));
                }
                // Nor with that caller's own credential, which was left here for something else.
                Err(why)
                    if on_behalf.is_borrowed && rules.unvouched(&vouched.caller, &access.vouch).is_some() =>
                {
                    return Rights::Nobody(why);
                }
                Err(why) => Some(why),
            }
        }
        _ => None,
    };
    match (opened, why) {
        (None, Some(why)) => Rights::Nobody(why),
        (opened, why) => Rights::Own {
            headers: opened.map_or_else(Headers::new, |opened| own(&kind, rules, &opened.headers)),
            why,
        },
    }
}

fn named(rules: &CallerRules) -> Option<(&CallerRules, &Impersonate)> {
    Some((rules, rules.impersonate.as_ref()?))
}

/// Whether a credential was sent to speak in another's name.
fn names_another(impersonate: &Impersonate, opened: Option<&Opened>) -> bool {
    opened.is_some_and(|opened| opened.headers.keys().any(|name| impersonate.has(name.as_str())))
}

/// The site's own credential, if it may be used for this caller; else what stands against it.
fn may_speak(
    core: &Core,
    rules: &CallerRules,
    access: &Access,
    set: &Record,
    vouched: &Vouched,
) -> Result<String, String> {
    let Vouched { by, caller } = vouched;
    let (user, service) = (&caller.user, &set.service);
    let Some(credential) = &access.credential else {
        return Err(format!(
            "this site has no credential of its own to speak for `{user}`: set `credential` in [services.{service}]"
        ));
    };
    if let Some(name) = caller.unsayable() {
        return Err(format!(
            "`{name}` would reach service `{service}` as another name: it cannot be spoken for"
        ));
    }
    if *by != core.site {
        if !core.surroundings.believes(by) {
            return Err(format!(
                "site `{by}` may not vouch for `{user}` here: see `vouch` in [sites.{by}]"
            ));
        }
        if let Some(name) = rules.unvouched(caller, &access.vouch) {
            return Err(format!(
                "`{name}` is privileged, and site `{by}` may not vouch for it here: add it to `vouch` in [services.{service}]"
            ));
        }
    }
    let credential = std::str::from_utf8(credential).map(str::trim);
    match credential {
        Ok(credential) if !credential.is_empty() => Ok(credential.to_owned()),
        _ => Err(format!(
            "the file of `credential` in [services.{service}] holds no token"
        )),
    }
}

fn in_name(rules: &CallerRules, impersonate: &Impersonate, credential: &str, vouched: &Vouched) -> Headers {
    let (header, value) = rules.own_credential(credential);
    let names = impersonate.headers(&vouched.caller).into_iter();
    std::iter::once((header, value))
        .chain(names)
        .map(|(name, value)| (name, Bytes::from(value)))
        .collect()
}

/// What another site calls a credential is one here only if the glue says so: a header that the application
/// believes an agent about is none.
fn own(kind: &Kind, rules: Option<&CallerRules>, headers: &HeaderMap) -> Headers {
    let is_own = |name: &str| {
        let speaks = rules.and_then(|rules| rules.impersonate.as_ref());
        let is_listed = kind.credential_headers().iter().any(|listed| listed == name);
        (is_listed || speaks.is_some_and(|names| names.has(name)))
            && !rules.is_some_and(|rules| rules.is_stripped(name))
    };
    secret::listed(headers, is_own)
}

/// Takes from a recorded request what another site put there and the glue does not list: who asks is said by
/// this site alone.
pub(crate) fn only_recorded(kind: &Kind, headers: &mut Headers) {
    const ALWAYS: [&str; 2] = ["accept", "content-type"];
    let key = match kind.recognise(true) {
        cheops_glue::Recognise::Key { header } => Some(header),
        _ => None,
    };
    let is_listed = |name: &str| {
        let listed = kind.recorded_headers().iter().map(String::as_str);
        let mut listed = listed.chain(ALWAYS).chain(key);
        listed.any(|listed| listed.eq_ignore_ascii_case(name))
    };
    headers.retain(|(name, _)| is_listed(name));
}
