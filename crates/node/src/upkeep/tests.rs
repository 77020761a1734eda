use std::collections::BTreeSet;

use cheops_replica::MetaId;
use cheops_types::SiteName;

use super::{
    fold::{BUCKETS, bucket, fold},
    ranges::{differing, listed},
    walk::page,
};
use crate::{
    lab::{Lab, site},
    rows::Sets,
};

fn up(names: &[&str]) -> BTreeSet<SiteName> {
    names.iter().copied().map(site).collect()
}

/// Lets a site hold a set in some way.
fn hold(lab: &Lab, meta: &str, hash: u128, sites: &[&str]) {
    lab.know("B", "item", meta, Some("1"), sites);
    let key = meta.to_owned();
    let put = lab.core.store.write(move |session| {
        use cheops_store::Read as _;
        let mut row = session.get::<Sets>(&key)?.unwrap();
        row.head.held_hash = hash;
        session.put::<Sets>(&key, &row)
    });
    put.unwrap().wait().unwrap();
}

#[test]
fn one_member_begins_a_comparison_and_no_more_than_the_rate_are_begun() {
    let lab = Lab::new("a");
    for number in 0..5 {
        hold(&lab, &format!("shared{number}"), 1, &["a", "b"]);
        hold(&lab, &format!("theirs{number}"), 1, &["b", "c"]);
        hold(&lab, &format!("alone{number}"), 1, &["a"]);
    }
    let read = lab.core.store.read().unwrap();
    let go = |here: &str, up: &BTreeSet<SiteName>, after, rate| {
        page(&read, after, &site(here), up, rate, 0).unwrap()
    };
    let all = up(&["a", "b", "c"]);
    let first = go("a", &all, None, 3);
    assert_eq!(first.chosen, ["shared0", "shared1", "shared2"].map(MetaId::new));
    let rest = go("a", &all, first.after, 3);
    assert_eq!(rest.chosen, ["shared3", "shared4"].map(MetaId::new));
    assert_eq!(rest.after, None, "it is the end");
    // The other one begins only what the first cannot.
    assert_eq!(go("b", &all, None, 100).chosen.len(), 5, "those of b and c");
    assert_eq!(go("b", &up(&["b", "c"]), None, 100).chosen.len(), 10);
}

#[test]
fn only_what_differs_is_listed_and_spoken_about() {
    let (a, b) = (Lab::new("a"), Lab::new("b"));
    for number in 0..1_000_u128 {
        let meta = format!("set{number}");
        hold(&a, &meta, number + 1, &["a", "b"]);
        if number != 500 {
            let hash = if number == 7 { 99_999 } else { number + 1 };
            hold(&b, &meta, hash, &["b", "a"]);
        }
        // Nobody else's business.
        hold(&b, &format!("other{number}"), 5, &["b", "c"]);
    }
    let (read_a, read_b) = (a.core.store.read().unwrap(), b.core.store.read().unwrap());
    let mine = fold(&read_a, &site("b")).unwrap();
    let theirs = listed(&read_b, &site("a"), &mine).unwrap();
    let found = differing(&read_a, &site("b"), &theirs, 0).unwrap();
    assert_eq!(found, ["set500", "set7"].map(MetaId::new));
    let buckets: BTreeSet<_> = ["set500", "set7"].map(bucket).into();
    let in_them = (0..1_000).filter(|number| buckets.contains(&bucket(&format!("set{number}"))));
    assert!(in_them.count() < 1_000 * 4 / BUCKETS, "few others are listed");
    let same = listed(&read_a, &site("b"), &mine).unwrap();
    assert_eq!(
        same,
        super::ranges::Listed::default(),
        "nothing differs from itself"
    );
}
