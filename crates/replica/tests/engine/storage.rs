//! A set in its stored form.

use cheops_replica::{Event, Set};

use crate::lab::Lab;

#[test]
fn state_survives_its_serialised_form() {
    let mut lab = Lab::created(&["a", "b"]);
    let draft = lab.replace();
    lab.write("a", draft);
    let text = serde_json::to_string(lab.set("a")).unwrap();
    assert_eq!(serde_json::from_str::<Set>(&text).unwrap(), *lab.set("a"));
}

#[test]
fn a_set_is_the_sum_of_its_parts() {
    let mut lab = Lab::created(&["a", "b"]);
    let draft = lab.replace();
    lab.write("a", draft);
    let set = lab.set("a");
    let mut parts = set.without_log();
    assert_eq!(parts.log().count(), 0);
    parts.put_log(set.entries().map(|(_, entry)| entry.clone()));
    assert_eq!(parts, *set);
    assert!(
        parts.drain_changes().is_empty(),
        "what was stored is not written again"
    );
}

#[test]
fn every_change_of_the_log_is_told() {
    let mut lab = Lab::created(&["a", "b"]);
    let mut stored: std::collections::BTreeMap<_, _> = std::collections::BTreeMap::new();
    let mut store = |lab: &mut Lab, at: &'static str| {
        let set = lab.sites.get_mut(at).unwrap().1.as_mut().unwrap();
        for rank in set.drain_changes() {
            match set.entry_at(&rank) {
                Some(entry) => stored.insert(rank, entry.clone()),
                None => stored.remove(&rank),
            };
        }
        let rows: Vec<_> = stored.values().cloned().collect();
        let log: Vec<_> = set.log().cloned().collect();
        assert_eq!(rows, log);
        log.len()
    };
    store(&mut lab, "b");
    let draft = lab.replace();
    let asked = lab.write("a", draft);
    let received = lab.step("b", Event::Message(asked.sent[0].1.clone()));
    assert_eq!(store(&mut lab, "b"), 1);
    lab.answer("b", &received, 403);
    store(&mut lab, "b");
    lab.step("b", Event::Retry);
    store(&mut lab, "b");
    let asked = lab.step("b", Event::Resume);
    lab.settle_at("b", asked);
    store(&mut lab, "b");
}
