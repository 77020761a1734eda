//! Requests about what spans sites.
//!
//! ```text
//! a container     `POST /rooms/r/boxes`   r spans two sites: the box is made at one, its name reserved at r's prime site
//!                 `PUT /rooms/r/boxes/b`  goes to the site that has b
//! a divided one   `GET /quotas/q`         each site shows its part; the answer is the whole
//! ```

mod create;
mod names;
mod owner;
mod whole;

use cheops_plan::{Make, Plan};
use cheops_types::{Problem, SiteName};

use crate::{done::Done, job::Job};
use cheops_net::Body;
pub(crate) use owner::change;
pub(crate) use whole::read as read_whole;

/// Makes something in a container, unless one of its sites has it already.
pub(crate) async fn make(job: &mut Job, make: &Make, body: Body) -> Done {
    if make.unless_at.is_empty() {
        create::create(job, &make.place, body).await
    } else {
        owner::change(job, &make.unless_at, Some(&make.place), body).await
    }
}

/// The plan of a request for one resource that one of these sites has: it goes to that one.
pub(crate) async fn plan_for_one(job: &Job, sites: &[SiteName]) -> Result<Plan, Problem> {
    match owner::find(job, sites).await {
        owner::Found::At(site) => Ok(Plan::at(site, job.here())),
        owner::Found::Nowhere => Ok(Plan::Local),
        owner::Found::Unclear(missing) => Err(owner::unclear(&missing)),
    }
}
