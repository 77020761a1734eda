//! How a recorded operation stands, for callers that did not wait for it.

use std::{rc::Rc, sync::Arc};

use cheops_net::{Body, Bulk};
use cheops_ports::Coordinator;
use cheops_types::{Code, Limit, Problem, SiteName, VerbClass, headers};
use http::{
    HeaderValue, Method, Request, Response,
    header::{CONTENT_TYPE, LOCATION},
    request,
};

use crate::{answer, core::Core, head};

/// Whether a request of a client asks how an operation stands. Every request is looked at: a few bytes.
pub(crate) fn is_asked(core: &Core, head: &request::Parts) -> bool {
    head.uri.path().starts_with(headers::OPERATION_PATH)
        && head.method.is_safe()
        && core.shared.replication().is_some()
}

/// Answers a client. An operation that another site accepted is asked for there.
pub(crate) async fn answer(core: &Rc<Core>, head: &request::Parts) -> Response<Body> {
    let id = head
        .uri
        .path()
        .strip_prefix(headers::OPERATION_PATH)
        .unwrap_or_default();
    let elsewhere = site_of(head.uri.query()).filter(|site| *site != core.world.site);
    let answer = match (elsewhere, core.shared.replication()) {
        (Some(site), _) => ask(core, &site, id).await,
        (None, Some(coordinator)) => show(core, coordinator, id),
        (None, None) => Err(unknown(core, id)),
    };
    answer.unwrap_or_else(|problem| core.refuse(&problem))
}

/// How an operation stands as far as this site knows.
pub(crate) fn show(
    core: &Core,
    coordinator: &Arc<dyn Coordinator>,
    id: &str,
) -> Result<Response<Body>, Problem> {
    let state = coordinator.operation(id)?.ok_or_else(|| unknown(core, id))?;
    let mut response = Response::new(Body::full(state));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

fn unknown(core: &Core, id: &str) -> Problem {
    let here = &core.world.site;
    Problem::new(
        Code::UnknownOperation,
        format!("site `{here}` knows no operation `{id}`: it is finished and pruned, or of another site"),
    )
    .at(here)
}

/// The place where a caller can ask for an operation that this site accepted.
pub(crate) fn location(id: &str) -> String {
    format!("{}{id}", headers::OPERATION_PATH)
}

/// Makes such a place, in another site's answer, one that this site understands.
pub(crate) fn relay_location(response: &mut Response<Body>, site: &SiteName) {
    let Some(place) = response
        .headers()
        .get(LOCATION)
        .and_then(|place| place.to_str().ok())
    else {
        return;
    };
    if place.starts_with(headers::OPERATION_PATH)
        && site_of(place.split_once('?').map(|(_, query)| query)).is_none()
        && let Ok(place) = HeaderValue::try_from(format!("{place}?site={site}"))
    {
        response.headers_mut().insert(LOCATION, place);
    }
}

fn site_of(query: Option<&str>) -> Option<SiteName> {
    let name = query?.split('&').find_map(|pair| pair.strip_prefix("site="))?;
    SiteName::new(name).ok()
}

async fn ask(core: &Rc<Core>, site: &SiteName, id: &str) -> Result<Response<Body>, Problem> {
    let no_link = || answer::unlinked(site);
    let link = core.peer(site).ok_or_else(no_link)?;
    let request = Request::builder()
        .method(Method::GET)
        .uri(location(id))
        .body(Body::Empty)
        .map_err(|_| unknown(core, id))?;
    let timeout_ms = core.limits().peer_timeout_ms;
    let sent = core
        .clock
        .timeout(timeout_ms, Box::pin(link.send(request, Bulk::No)))
        .await;
    let sent = sent.unwrap_or_else(|_| {
        Limit::PeerTimeout.hit();
        Err(cheops_net::SendError::timeout(timeout_ms))
    });
    let mut response = sent.map_err(|error| answer::peer_problem(&error, site, VerbClass::ReadOne))?;
    head::clean_response(response.headers_mut());
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relayed_place_names_its_site_once() {
        let site = |name| SiteName::new(name).unwrap();
        let mut response = Response::new(Body::Empty);
        response
            .headers_mut()
            .insert(LOCATION, HeaderValue::try_from(location("m:1")).unwrap());
        relay_location(&mut response, &site("paris"));
        relay_location(&mut response, &site("nantes"));
        assert_eq!(response.headers()[LOCATION], "/.cheops/operations/m:1?site=paris");
        assert_eq!(site_of(Some("a=b&site=paris")), Some(site("paris")));
        let mut other = Response::new(Body::Empty);
        other
            .headers_mut()
            .insert(LOCATION, HeaderValue::from_static("/orders/7"));
        relay_location(&mut other, &site("paris"));
        assert_eq!(other.headers()[LOCATION], "/orders/7");
    }
}
