//! Requests of other sites' agents. Who calls is what the certificate says, never a header.

mod replication;

use std::{rc::Rc, sync::Arc};

use cheops_net::{Body, Connection, Received};
use cheops_plan::Plan;
use cheops_scope::{ParseLimits, read};
use cheops_types::{Code, Problem, Pulse, SiteName, headers};
use http::{HeaderValue, Request, Response, header::CONTENT_TYPE, request};

use crate::{
    Counted, Tag, carry,
    core::Core,
    correlation::Carried,
    execute::execute,
    facts::{self, Asking},
    head::{self, Facts},
    job::{Flow, Job, Party},
    remainder,
    service::{Service, identity::Sender},
    tunnel::{self, Wish},
};

pub(crate) async fn handle(
    core: &Rc<Core>,
    connection: &Connection<Arc<Tag>>,
    request: Request<Received>,
) -> Response<Body> {
    let Some(peer) = &connection.peer else {
        let detail = "the peer port wants a certificate of the mesh that names a site";
        return core.refuse(&Problem::new(Code::PeerRefused, detail).at(&core.world.site));
    };
    if !core.world.sites.contains(peer) {
        let detail = format!(
            "site `{peer}` is not known at site `{}`: add it there under [sites]",
            core.world.site
        );
        return core.refuse(&Problem::new(Code::PeerRefused, detail).at(&core.world.site));
    }
    // A request for a service names it, whatever its path.
    let is_for_service = request.headers().contains_key(headers::PEER_SERVICE);
    if !is_for_service && request.uri().path() == headers::PEER_HEARTBEAT_PATH {
        return heartbeat(core);
    }
    let request = if is_for_service {
        request
    } else {
        match replication::handle(core, peer, request).await {
            Ok(response) => return response,
            Err(request) => request,
        }
    };
    core.counters.add(Counted::FromPeers);
    let (head, incoming) = request.into_parts();
    match admit(core, connection, peer, head, &incoming) {
        Ok((job, plan, None)) => execute(job, &plan, Body::from(incoming)).await,
        Ok((job, plan, Some(wish))) => tunnel::scoped(job, plan, wish, connection.hold()).await,
        Err(problem) => core.refuse(&problem),
    }
}

fn heartbeat(core: &Core) -> Response<Body> {
    let replication = core.shared.replication();
    let pulse = Pulse {
        incarnation: replication.map_or(0, |replication| replication.incarnation()),
        ..Pulse::of(&core.world.site, &core.shared.distances.load())
    };
    let mut response = Response::new(Body::full(serde_json::to_vec(&pulse).unwrap_or_default()));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The other side has planned already: the request executes here, or is accepted here for a replica set,
/// and its scope goes on with it.
fn admit(
    core: &Rc<Core>,
    connection: &Connection<Arc<Tag>>,
    peer: &SiteName,
    mut head: request::Parts,
    incoming: &Received,
) -> Result<(Box<Job>, Plan, Option<Wish>), Problem> {
    let service = find_service(core, peer, &head)?;
    facts::check_path(&Asking::of(core, &service.name, &head, Party::Peer))
        .map_err(|problem| problem.at(&core.world.site))?;
    let flow = match core
        .world
        .profile
        .context_free(&service.name, head.method.as_str(), head.uri.path())
    {
        // It belongs to no workflow, so it begins none.
        Some(_) => Flow::Alone,
        None => read_flow(core, &head)?,
    };
    let remainder = remainder::read(&head).map_err(|problem| problem.at(&core.world.site))?;
    let facts = Facts::of(&head.headers);
    let wish = Wish::take(&head, facts, incoming, connection);
    let sender = Sender::Peer {
        site: peer,
        is_believed: !core.world.unbelieved.contains(peer),
    };
    head::prepare(&mut head, facts, &service, sender).map_err(|problem| problem.at(&core.world.site))?;
    // A key that another agent minted means nothing here, and one of ours must not come from there.
    carry::strip_keys(
        &mut head.headers,
        core.world.profile.correlation(),
        core.shared.correlation.keys(),
    );
    let mut job = Job::new(core.clone(), service, head, flow, Party::Peer);
    job.peer = Some(peer.clone());
    let plan = facts::decide(&mut job, Some(&remainder), wish.is_some())?;
    Ok((job, plan, wish))
}

fn find_service(core: &Core, peer: &SiteName, head: &request::Parts) -> Result<Rc<Service>, Problem> {
    let name = head
        .headers
        .get(headers::PEER_SERVICE)
        .and_then(|value| value.to_str().ok());
    let Some(name) = name else {
        return Err(Problem::new(
            Code::BadRequest,
            format!("site `{peer}` named no service"),
        ));
    };
    let here = &core.world.site;
    let Some(service) = core.service(name) else {
        let detail =
            format!("site `{here}` has no service `{name}`; its configuration lists the services it has");
        return Err(Problem::new(Code::UnknownService, detail).at(here));
    };
    if !service.is_offered {
        let detail = format!(
            "site `{here}` does not offer service `{name}` to other sites, and site `{peer}` asked for it: \
             leave `{here}` out of the scope for `{name}`, or set `peers = true` under [services.{name}] there"
        );
        return Err(Problem::new(Code::PeerRefused, detail).at(here).of(&service.name));
    }
    Ok(service.clone())
}

/// A request without a scope comes from another agent only where a replica set is concerned.
fn read_flow(core: &Core, head: &request::Parts) -> Result<Flow, Problem> {
    let Some(value) = head.headers.get(headers::PEER_SCOPE) else {
        return Ok(Flow::Alone);
    };
    let text = value.to_str().unwrap_or_default();
    let carried = core.carried_scopes.get_or_read(text, || {
        let limits = ParseLimits::from(core.limits()).for_printed();
        let scope = read(text, &limits, None).map_err(|diagnostics| diagnostics.to_problem(text));
        scope.map(Carried::new)
    })?;
    Ok(Flow::Begins(carried))
}
