//! Creates of one name that count again after a delete.

use cheops_replica::{Event, Message};

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
