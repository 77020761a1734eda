//! No message, and no credential, goes to a site that is not involved.

use cheops_replica::Message;
use cheops_types::SiteName;

use crate::World;

pub fn check(world: &mut World, to: &SiteName, message: &Message) {
    let involved = world.oracle.involved.get(&message.set);
    if !involved.is_some_and(|sites| sites.contains(to)) {
        let what = format!(
            "involved: {to} is sent {:?} about {}",
            message.content, message.set
        );
        world.oracle.violation(what);
    }
}
