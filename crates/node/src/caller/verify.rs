//! The caller of a write, before anything of it is recorded.

use cheops_glue::{CallerRules, Named, Verified};
use cheops_ports::Write;
use cheops_replica::Secret;
use cheops_types::{Caller, ServiceName};
use http::HeaderMap;
use tracing::warn;

use super::{Vouched, last_writer};
use crate::{core::Core, rows::Kept, secret};

/// Who asks for a write, as far as this site can tell. None: its credential speaks for it at every site, and the
/// application decides.
pub(crate) async fn verified(core: &Core, write: &Write) -> Option<Caller> {
    identify(core, &write.service, write.request.headers()).await
}

/// In whose name a site that joins makes its replica: that of whoever lets it in, else of whoever wrote last, if
/// this site would speak for that one too. From then on it is this site's word.
pub(crate) async fn sponsor(core: &Core, kept: &Kept, credential: Option<&Secret>) -> Option<Caller> {
    let service = &kept.set.record().service;
    let opened = credential.and_then(|sealed| secret::open(&core.key, sealed).ok());
    if let Some(opened) = opened {
        // No application has been asked whether its holder may speak in another's name.
        let profile = core.surroundings.profile();
        let rules = profile.caller(service)?;
        let tells_caller = |name: &str| rules.tells_caller(name);
        if opened.headers.keys().any(|name| tells_caller(name.as_str())) {
            return None;
        }
        return identify(core, service, &opened.headers).await;
    }
    let Vouched { by, caller } = last_writer(kept)?;
    let profile = core.surroundings.profile();
    let vouch = core.surroundings.access(service).vouch;
    let is_privileged = profile.caller(service)?.unvouched(&caller, &vouch).is_some();
    let is_believed = by == core.site || core.surroundings.believes(&by) && !is_privileged;
    is_believed.then_some(caller)
}

async fn identify(core: &Core, service: &ServiceName, headers: &HeaderMap) -> Option<Caller> {
    let profile = core.surroundings.profile();
    let rules = profile.caller(service)?;
    let pairs = headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_bytes()));
    // Whether the sender may speak in that name, the application decides before anything is recorded.
    match rules.impersonate.as_ref().map(|names| names.named(pairs)) {
        Some(Named::Other(named)) => return Some(named),
        Some(Named::Unclear) => return None,
        Some(Named::Sender) | None => {}
    }
    if let Some(certified) = certified(rules, headers) {
        return Some(certified);
    }
    let verify = rules.verify.as_ref()?;
    let credential = text(headers, &verify.from).and_then(|value| verify.credential(value))?;
    if verify.body.is_some() && core.surroundings.access(service).credential.is_none() {
        return None;
    }
    let callers = &core.callers;
    let fingerprint = callers.fingerprint(&*core.surroundings, service, credential);
    if let Some(known) = callers.get(&fingerprint) {
        return Some(known);
    }
    match core.asks.caller(service, credential).await {
        Ok(Verified::As(caller)) => {
            callers.put(fingerprint, caller.clone());
            Some(caller)
        }
        Ok(Verified::Invalid) => None,
        Ok(Verified::Unknown) => {
            callers.count_unverified();
            warn!(%service, "the service does not tell who a caller is: check the site's `credential` for it");
            None
        }
        Err(problem) => {
            callers.count_unverified();
            warn!(%service, problem = %problem.detail, "a caller could not be verified");
            None
        }
    }
}

/// The holder of a client certificate. Only this agent writes these headers.
fn certified(rules: &CallerRules, headers: &HeaderMap) -> Option<Caller> {
    let certificate = rules.certificate.as_ref()?;
    let user = text(headers, &certificate.user)?.to_owned();
    let groups = headers.get_all(certificate.group.as_str()).iter();
    let groups = groups
        .filter_map(|value| std::str::from_utf8(value.as_bytes()).ok().map(str::to_owned))
        .collect();
    Some(Caller { user, groups })
}

fn text<'h>(headers: &'h HeaderMap, header: &str) -> Option<&'h str> {
    std::str::from_utf8(headers.get(header)?.as_bytes()).ok()
}
