//! Creates of one name that count again after a delete.

use cheops_replica::{Content, Event, Message, Report};

use crate::names::{Sites, letter};

/// Takes away what is on its way.
fn on_the_way(sites: &mut Sites) -> Vec<(&'static str, Message)> {
    sites.mail.drain(..).collect()
}

#[test]
fn what_is_made_again_after_a_delete_covers_what_comes_late() {
    let mut sites = Sites::new(&["a", "b", "c", "d"]);
    sites.create("d");
    let first = on_the_way(&mut sites);
    let kept = sites.create("a");
    let second = on_the_way(&mut sites);
    sites.create("b");
    let third = on_the_way(&mut sites);
    // It has seen the third one only.
    sites.delete("b");
    let delete = on_the_way(&mut sites);
    // At `c` the third covers the second, until the delete takes it away. Then the first one arrives.
    for mail in [third, second, delete, first] {
        for (to, message) in mail.into_iter().filter(|(to, _)| *to == "c") {
            let asked = sites.lab.step(to, Event::Message(message));
            sites.run(to, asked);
        }
    }
    assert_eq!(sites.apps["c"], letter(kept).to_string());
    sites.heal();
    assert_eq!(sites.everywhere(), Some(letter(kept).to_string()));
}

/// A store that was set back numbers a create anew that was deleted since, and others after it.
#[test]
fn a_create_that_was_deleted_is_not_made_again_under_another_number() {
    let mut sites = Sites::new(&["a", "b"]);
    sites.create("a");
    let first = on_the_way(&mut sites);
    let (_, mut again) = first.iter().find(|(to, _)| *to == "b").cloned().unwrap();
    for (to, message) in first {
        let asked = sites.lab.step(to, Event::Message(message));
        sites.run(to, asked);
    }
    sites.heal();
    sites.delete("a");
    sites.heal();
    // Neither is it the last one.
    sites.create("a");
    sites.heal();
    sites.delete("a");
    sites.heal();
    assert_eq!(sites.everywhere(), None);
    let Content::Operations(carried) = &mut again.content else {
        panic!("a create was sent");
    };
    for carried in carried {
        carried.op.id.author.incarnation = 77;
    }
    again.report = on_the_way_report(&mut sites);
    let asked = sites.lab.step("b", Event::Message(again));
    sites.run("b", asked);
    let set = sites.lab.set("b");
    let came = set.held().iter().any(|(author, _)| author.incarnation == 77);
    assert!(came && set.held() == set.done());
    assert!(set.is_deleted() && sites.apps.is_empty(), "{:?}", sites.apps);
}

/// What `a` says of itself now.
fn on_the_way_report(sites: &mut Sites) -> Report {
    let told = sites.lab.step("a", Event::Resume);
    told.sent.into_iter().next().unwrap().1.report
}
