//! What runs where, and what to try.

use crate::demo::{
    exchange::Call,
    screen::{Screen, WIDTH},
    sites::Map,
};

/// Prints the map and commands to paste, or the map as one JSON object.
pub(super) fn print(map: &Map, screen: Screen) {
    screen.json(&map.to_json());
    screen.line(&table(map, screen));
    screen.line(&suggestions(map, screen));
    screen.line("\nCtrl-C stops everything and removes its data.");
}

/// A table of sites and addresses.
pub(super) fn table(map: &Map, screen: Screen) -> String {
    let head = format!(
        "{:<8}{:<9}{:<24}{:<24}{}",
        "site", "service", "for users", "for services", "itself"
    );
    let mut lines = vec![String::new(), screen.bold(&head)];
    for site in &map.sites {
        let mut name = site.name.as_str();
        for (service, at) in &site.services {
            lines.push(format!(
                "{name:<8}{service:<9}{:<24}{:<24}{}",
                at.public.to_string(),
                at.internal.to_string(),
                at.upstream
            ));
            name = "";
        }
        lines.push(format!("{:<8}{:<9}{}", "", "agent", site.config.display()));
    }
    lines.push(String::new());
    lines.push(screen.bold("round trips"));
    let pairs = map.links.iter().filter(|link| link.from < link.to);
    for link in pairs {
        let millis = link.round_trip.as_millis();
        lines.push(format!("{} – {}   {millis} ms", link.from, link.to));
    }
    lines.join("\n")
}

fn suggestions(map: &Map, screen: Screen) -> String {
    let (a, b) = (map.sites[0].a(), map.sites[0].b());
    let last = &map.sites[map.sites.len() - 1].name;
    let item = r#"{"name":"bolt"}"#;
    let calls = [
        ("here: A calls B, both at site1", Call::get(a, "/hello")),
        (
            "A here, its call to B goes to site2",
            Call::get(a, "/hello").scope("B: site2"),
        ),
        (
            "all of it at site2, by the agent of site1",
            Call::get(a, "/hello").scope("site2"),
        ),
        (
            "an item made at site2",
            Call::post(b, "/items", item).scope("site2"),
        ),
        ("an item made at site1", Call::post(b, "/items", item)),
        (
            "one list of all sites' items",
            Call::get(b, "/items").scope("all()"),
        ),
        (
            "site2, otherwise the last site",
            Call::get(b, "/string").scope(&format!("site2 ; {last}")),
        ),
        (
            "the nearest of two",
            Call::get(b, "/string").scope(&format!("{last} | site2")),
        ),
        (
            "a room that spans two sites; boxes in it have names once",
            Call::post(b, "/rooms", r#"{"name":"hall"}"#).scope("site1 % site2"),
        ),
        ("a mistake, explained", Call::get(a, "/hello").scope("B: sight2")),
    ];
    let mut lines = vec![String::new(), screen.bold("try")];
    for (what, call) in calls {
        lines.push(screen.cyan(&format!("# {what}")));
        lines.push(call.curl(WIDTH));
    }
    lines.push(screen.cyan("# what an agent sees"));
    lines.push(format!("cheops sites --admin {}", map.sites[0].admin.display()));
    lines.join("\n")
}
