use cheops_scope::{ParseLimits, parse};
use proptest::prelude::*;

use super::*;

fn table() -> Correlation {
    Correlation::new(KeyMaker::new(&[1; 16], &[2; 16]))
}

/// The same agent after a restart.
fn restarted() -> Correlation {
    Correlation::new(KeyMaker::new(&[1; 16], &[3; 16]))
}

fn carried(text: &str) -> Arc<Carried> {
    let limits = ParseLimits {
        max_bytes: 1000,
        max_depth: 4,
    };
    Carried::new(parse(text, &limits).unwrap())
}

/// Room for about so many short scopes.
fn room_for(scopes: usize) -> Limits {
    Limits {
        correlation_scopes_max_bytes: scopes * 1024,
        ..Limits::default()
    }
}

fn caller(address: u64) -> Owner {
    Owner::new(Some(address), None)
}

fn begin(table: &Correlation, text: &str) -> Workflow {
    table
        .begin(&carried(text), caller(10), &Limits::default())
        .unwrap()
}

/// The scope that a key finds.
fn scope_of(table: &Correlation, key: u128) -> String {
    match table.find(key, &Limits::default()) {
        Found::Known(workflow) => workflow.carried.text.clone(),
        Found::Lost => "lost".to_owned(),
        Found::Foreign => "foreign".to_owned(),
    }
}

/// A whole workflow; its key.
fn run(table: &Correlation, text: &str, owner: Owner, limits: &Limits) -> u128 {
    let workflow = table.begin(&carried(text), owner, limits).expect("refused");
    table.end(&workflow);
    workflow.key
}

#[test]
fn nothing_is_kept_for_a_workflow_that_is_answered() {
    let (table, limits) = (table(), room_for(16));
    let keys: Vec<u128> = (0..100_000)
        .map(|_| run(&table, "B: site2", caller(10), &limits))
        .collect();
    assert_eq!((table.len(), table.under_way.len()), (1, 0));
    assert!(keys.iter().all(|key| scope_of(&table, *key) == "B: site2"));
}

#[test]
fn any_number_of_scopes_can_come_one_after_the_other() {
    let (table, limits) = (table(), room_for(64));
    let mut keys = Vec::new();
    for number in 0..20_000 {
        let text = format!("B: site{number}");
        keys.push((run(&table, &text, caller(number % 3 + 10), &limits), text));
        assert!(table.len() <= 64, "{}", table.len());
    }
    let mut known = 0;
    for (key, text) in &keys {
        let found = scope_of(&table, *key);
        assert!(found == *text || found == "lost", "{text}: {found}");
        known += usize::from(found == *text);
    }
    assert_eq!(known, table.len());
    // The last ones are there.
    assert!(
        keys.iter()
            .rev()
            .take(20)
            .all(|(key, text)| scope_of(&table, *key) == *text)
    );
}

#[test]
fn a_scope_stays_while_a_request_with_it_is_under_way() {
    let (table, limits) = (table(), room_for(64));
    let under_way = table.begin(&carried("B: slow"), caller(10), &limits).unwrap();
    let joined = run(&table, "B: joined", caller(10), &limits);
    let Found::Known(join) = table.find(joined, &limits) else {
        panic!("not known");
    };
    for number in 0..1000 {
        run(&table, &format!("B: site{number}"), caller(10), &limits);
    }
    assert_eq!(scope_of(&table, under_way.key), "B: slow");
    assert_eq!(scope_of(&table, joined), "B: joined");
    let key = under_way.key;
    drop((under_way, join));
    for number in 0..1000 {
        run(&table, &format!("B: site{number}"), caller(10), &limits);
    }
    assert_eq!(scope_of(&table, key), "lost");
    assert_eq!(scope_of(&table, joined), "lost");
}

#[test]
fn what_is_used_again_and_again_stays() {
    let (table, limits) = (table(), room_for(64));
    let key = run(&table, "B: often", caller(10), &limits);
    for number in 0..1000 {
        run(&table, &format!("B: site{number}"), caller(10), &limits);
        assert_eq!(scope_of(&table, key), "B: often", "after {number}");
    }
}

#[test]
fn a_flood_costs_nobody_else_a_scope() {
    let (table, limits) = (table(), room_for(256));
    let keys: Vec<(u128, String)> = (0..30)
        .map(|number| {
            let text = format!("B: mine{number}");
            (run(&table, &text, caller(20), &limits), text)
        })
        .collect();
    for number in 0..5_000 {
        run(&table, &format!("B: site{number}"), caller(10), &limits);
    }
    assert!(keys.iter().all(|(key, text)| scope_of(&table, *key) == *text));
    // It holds its share and no more.
    assert!(table.len() <= 30 + 256 / 2, "{}", table.len());

    // Nor does a flood with the same scopes: what both have is not the flood's to lose.
    for number in 0..30 {
        run(&table, &format!("B: mine{number}"), caller(10), &limits);
    }
    for number in 0..5_000 {
        run(&table, &format!("B: site{number}"), caller(10), &limits);
    }
    assert!(keys.iter().all(|(key, text)| scope_of(&table, *key) == *text));
}

#[test]
fn a_flood_with_one_credential_costs_nobody_else_at_the_address() {
    let (table, limits) = (table(), room_for(256));
    let of = |credential| Owner::new(Some(10), Some(credential));
    let key = run(&table, "B: mine", of(1), &limits);
    for number in 0..5_000 {
        run(&table, &format!("B: site{number}"), of(2), &limits);
        run(&table, &format!("B: other{number}"), caller(10), &limits);
    }
    assert_eq!(scope_of(&table, key), "B: mine");
}

#[test]
fn a_newcomer_finds_a_place_in_a_full_table() {
    let (table, limits) = (table(), room_for(64));
    let mut keys = Vec::new();
    for address in 10..20 {
        for number in 0..100 {
            let text = format!("B: site{address}x{number}");
            keys.push(run(&table, &text, caller(address), &limits));
        }
    }
    let known = |keys: &[u128]| {
        keys.iter()
            .filter(|key| scope_of(&table, **key) != "lost")
            .count()
    };
    let before = known(&keys);
    // And then floods: others lose what it may claim and no more.
    for number in 0..1000 {
        run(&table, &format!("B: new{number}"), caller(99), &limits);
    }
    assert!(before - known(&keys) <= 2, "{before} {}", known(&keys));
}

#[test]
fn who_has_all_of_his_in_use_is_refused_and_nobody_else() {
    let (table, limits) = (table(), room_for(64));
    let begin = |number| table.begin(&carried(&format!("B: site{number}")), caller(10), &limits);
    let mut under_way: Vec<Workflow> = (0..100).map_while(begin).collect();
    assert!((8..=32).contains(&under_way.len()), "{}", under_way.len());
    run(&table, "B: theirs", caller(20), &limits);
    // What he has already he may use again.
    let again = table.begin(&carried("B: site0"), caller(10), &limits).unwrap();
    table.end(&again);
    for workflow in under_way.drain(..) {
        table.end(&workflow);
    }
    run(&table, "B: more", caller(10), &limits);
}

#[test]
fn replays_and_callers_have_places_of_their_own() {
    let (table, limits) = (table(), room_for(64));
    let replay = |text: &str| Carried::of(carried(text).scope.clone(), true);
    let of_caller = run(&table, "B: site2", caller(10), &limits);
    let of_replay = table.begin(&replay("B: site2"), Owner::COMMON, &limits).unwrap();
    table.end(&of_replay);
    // As many under way as callers can have.
    let mut under_way = Vec::new();
    for address in 10..40 {
        for number in 0..50 {
            let text = format!("B: site{address}x{number}");
            under_way.extend(table.begin(&carried(&text), caller(address), &limits));
        }
    }
    assert!(table.begin(&carried("B: full"), caller(90), &limits).is_none());
    assert_eq!(scope_of(&table, of_replay.key), "B: site2");
    let key = of_replay.key;
    drop(of_replay);
    for number in 0..1000 {
        let workflow = table.begin(&replay(&format!("B: r{number}")), Owner::COMMON, &limits);
        table.end(&workflow.expect("a replay is refused"));
    }
    assert_eq!(scope_of(&table, key), "lost");
    drop(under_way);
    assert!(["B: site2", "lost"].contains(&scope_of(&table, of_caller).as_str()));
}

#[test]
fn an_execution_is_never_refused_and_costs_others_nothing() {
    let (table, limits) = (table(), room_for(64));
    let begin = |credential, text: &str| {
        let owner = Owner::new(None, Some(credential));
        let carried = Carried::of(carried(text).scope.clone(), true);
        table.begin(&carried, owner, &limits).expect("refused")
    };
    let theirs = begin(1, "B: theirs");
    table.goes_on(&theirs, &limits);
    table.end(&theirs);
    let key = theirs.key;
    drop(theirs);
    // One caller's, all at once, and then all of them go on behind a 202.
    let flood: Vec<Workflow> = (0..100).map(|n| begin(2, &format!("B: site{n}"))).collect();
    table.end(&begin(1, "B: more"));
    for workflow in &flood {
        assert_eq!(scope_of(&table, workflow.key), workflow.carried.text);
        table.goes_on(workflow, &limits);
        table.end(workflow);
    }
    drop(flood);
    for number in 0..100 {
        table.end(&begin(2, &format!("B: later{number}")));
        table.end(&begin(1, &format!("B: other{number}")));
        table.end(&begin(3, &format!("B: third{number}")));
    }
    assert_eq!(scope_of(&table, key), "B: theirs");
    assert!(table.len() <= 18, "{}", table.len());
}

#[test]
fn what_goes_on_keeps_nobody_else_out() {
    let (table, limits) = (table(), room_for(64));
    let goes_on = |text: &str, owner| {
        let workflow = table.begin(&carried(text), owner, &limits).expect("refused");
        table.goes_on(&workflow, &limits);
        table.end(&workflow);
        workflow.key
    };
    let key = goes_on("B: mine", caller(20));
    // Another site's agent, for two of its users.
    let user = |credential| Owner::new(Some(10), Some(credential));
    let mut last = 0;
    for number in 0..100 {
        goes_on(&format!("B: one{number}"), user(1));
        last = goes_on(&format!("B: two{number}"), user(2));
    }
    assert_eq!(scope_of(&table, last), "B: two99");
    run(&table, "B: three", user(3), &limits);
    run(&table, "B: anybody", caller(10), &limits);
    assert_eq!(scope_of(&table, key), "B: mine");
}

#[test]
fn two_addresses_with_the_same_scopes_leave_room_for_others() {
    let (table, limits) = (table(), room_for(64));
    let begin = |text: &str, owner| table.begin(&carried(text), owner, &limits).expect("refused");
    let mine: Vec<_> = (0..10)
        .map(|n| run(&table, &format!("B: mine{n}"), caller(20), &limits))
        .collect();
    for number in 0..200 {
        for address in [10, 11] {
            let workflow = begin(&format!("B: site{number}"), caller(address));
            table.goes_on(&workflow, &limits);
            table.end(&workflow);
        }
    }
    assert!(mine.iter().all(|key| scope_of(&table, *key) != "lost"));
    assert!(table.len() <= 10 + 36 + 18, "{}", table.len());
    run(&table, "B: new", caller(30), &limits);
}

#[test]
fn a_replicas_workflow_is_none_of_a_callers() {
    let table = table();
    let inside = Carried::of(carried("B: site2").scope.clone(), true);
    let limits = Limits::default();
    let replay = table.begin(&inside, Owner::COMMON, &limits).unwrap();
    let own = begin(&table, "B: site2");
    assert_eq!(table.len(), 2);
    for (key, expected) in [(replay.key, true), (own.key, false)] {
        let Found::Known(workflow) = table.find(key, &limits) else {
            panic!("not known");
        };
        assert_eq!(workflow.carried.inside_replica, expected);
    }
}

#[test]
fn a_receipt_learns_of_later_calls_while_its_request_is_under_way() {
    let table = table();
    let (one, other) = (begin(&table, "B: site2"), begin(&table, "B: site2"));
    let visit = |site: &str| Visit::executed(&cheops_types::SiteName::new(site).unwrap(), 200);
    let Found::Known(call) = table.find(one.key, &Limits::default()) else {
        panic!("not known");
    };
    table.note(&call, [visit("site2")]);
    assert_eq!(table.end(&other), []);
    assert_eq!(table.end(&one), [visit("site2")]);
    table.note(&call, [visit("site3")]);
    assert_eq!((table.end(&one), table.under_way.len()), (Vec::new(), 0));
}

#[tokio::test]
async fn what_goes_on_is_saved_once_and_comes_back() {
    let (before, limits) = (table(), Limits::default());
    let sync = begin(&before, "B: site1");
    let workflow = begin(&before, "A: site1, B: site2 ; site3");
    let same_scope = begin(&before, "A: site1, B: site2 ; site3");
    assert_eq!(before.take_unsaved(), []);
    before.goes_on(&workflow, &limits);
    before.goes_on(&workflow, &limits);
    let saved = before.unsaved().await;
    assert_eq!(saved.len(), 1);
    assert_eq!(before.take_unsaved(), []);
    assert_eq!(before.to_be_kept(), saved);

    let line = saved[0].to_string();
    let read: SavedScope = line.parse().unwrap();
    assert_eq!(read, saved[0], "{line}");
    let after = restarted();
    assert!(after.restore(&read, &limits));
    assert!(after.restore(&read, &limits), "a second line of the same");
    assert_eq!(after.len(), 1);
    assert_eq!(scope_of(&after, workflow.key), workflow.carried.text);
    assert_eq!(scope_of(&after, same_scope.key), workflow.carried.text);
    assert_eq!(scope_of(&after, sync.key), "lost");
    // It lasts as before, and is kept over the next restart.
    assert_eq!(after.to_be_kept(), saved);
    // The same scope begins anew, under keys of its own.
    let again = begin(&after, &workflow.carried.text);
    assert_eq!(
        (after.len(), scope_of(&after, again.key)),
        (2, workflow.carried.text.clone())
    );
}

/// Its line may have left the file meanwhile.
#[test]
fn what_was_over_and_goes_on_is_saved_again() {
    let (table, limits) = (table(), Limits::default());
    let workflow = begin(&table, "B: site2");
    while table.now_ms() == 0 {
        std::hint::spin_loop();
    }
    let short = Limits {
        correlation_async_idle_s: 0,
        ..Limits::default()
    };
    table.goes_on(&workflow, &short);
    assert_eq!(table.take_unsaved().len(), 1);
    assert_eq!(table.to_be_kept(), []);
    assert_eq!(scope_of(&table, workflow.key), "B: site2");
    assert_eq!(table.take_unsaved(), table.to_be_kept());
    assert_eq!(table.to_be_kept().len(), 1);
    // Once is enough.
    assert!(matches!(table.find(workflow.key, &limits), Found::Known(_)));
    assert_eq!(table.take_unsaved(), []);
}

#[test]
fn what_goes_on_stays_until_it_is_over() {
    let (table, room) = (table(), room_for(64));
    let flood = |owner| {
        for number in 0..1000 {
            run(&table, &format!("B: site{number}"), owner, &room);
        }
    };
    let workflow = table.begin(&carried("B: goes-on"), caller(10), &room).unwrap();
    table.goes_on(&workflow, &room);
    table.end(&workflow);
    let key = workflow.key;
    drop(workflow);
    flood(caller(10));
    assert_eq!(scope_of(&table, key), "B: goes-on");
    assert_eq!(table.to_be_kept().len(), 1);

    // Used once more with another limit, it is over at once.
    let short = Limits {
        correlation_async_idle_s: 0,
        ..room.clone()
    };
    assert!(matches!(table.find(key, &short), Found::Known(_)));
    let now_ms = table.now_ms();
    while table.now_ms() == now_ms {
        std::hint::spin_loop();
    }
    table.expire();
    assert_eq!(table.to_be_kept(), []);
    flood(caller(10));
    assert!(matches!(table.find(key, &short), Found::Lost));
}

#[test]
fn nonsense_is_no_saved_scope() {
    let generation = "00112233445ab";
    for line in [
        "",
        "x",
        generation,
        &format!("{generation} scope"),
        &format!("{generation} scope 8"),
        &format!("{generation} other 8 B: site1"),
        &format!("{} scope 8 B: site1", &generation[1..]),
        &format!("+{} scope 8 B: site1", &generation[1..]),
        &format!("{generation} scope 8 B: site"),
        &format!("{generation} scope 8 B: site12"),
        &format!("{generation} scope +8 B: site1"),
        &format!("{generation} scope B: site1"),
    ] {
        assert_eq!(line.parse::<SavedScope>(), Err(InvalidSaved), "{line}");
    }
    let unreadable: SavedScope = format!("{generation} scope 10 B: site1 &").parse().unwrap();
    assert!(!table().restore(&unreadable, &Limits::default()));
}

mod by_credential {
    use super::*;

    fn service(name: &str) -> ServiceName {
        ServiceName::new(name).unwrap()
    }

    fn begin_with(
        table: &Correlation,
        owner: Owner,
        credential: &[u8],
        workflow: &Workflow,
        limits: &Limits,
    ) -> Option<WithCredential> {
        let about = About {
            service: &service("I"),
            credential,
            is_read: false,
        };
        let loc = workflow.carried.scope.loc_of(about.service).unwrap();
        table.begin_with_credential(about, loc, workflow, owner, limits)
    }

    fn begins(table: &Correlation, credential: &[u8], workflow: &Workflow) -> WithCredential {
        begin_with(table, caller(10), credential, workflow, &Limits::default()).unwrap()
    }

    fn end(table: &Correlation, with: WithCredential, happened: Happened) {
        table.end_with_credential(with, happened, &Limits::default());
    }

    /// Room for about so many places.
    fn credentials_room_for(places: usize) -> Limits {
        Limits {
            correlation_credentials_max_bytes: places * 1024,
            ..Limits::default()
        }
    }

    /// A clock that has gone on.
    fn wait(table: &Correlation) {
        let now_ms = table.now_ms();
        while table.now_ms() == now_ms {
            std::hint::spin_loop();
        }
    }

    fn found(table: &Correlation, credential: &[u8]) -> Vec<String> {
        let Some(found) = table.find_by_credential("I", credential) else {
            return vec!["lost".to_owned()];
        };
        found
            .iter()
            .map(|workflow| workflow.carried.text.clone())
            .collect()
    }

    #[test]
    fn workflows_are_found_by_the_credential_that_they_began_with() {
        let table = table();
        assert_eq!(found(&table, b"token"), [""; 0]);
        let first = begin(&table, "I: site2, B: site1");
        let with_first = begins(&table, b"token", &first);
        assert_eq!(found(&table, b"token"), ["I: site2"]);
        assert_eq!(found(&table, b"other"), [""; 0]);
        assert_eq!(table.find_by_credential("B", b"token").unwrap().len(), 0);

        let second = begin(&table, "I: site2, B: site3");
        let with_second = begins(&table, b"token", &second);
        assert_eq!(found(&table, b"token"), ["I: site2"]);
        assert_eq!(key_of(&table, b"token"), second.key, "the last one");
        let elsewhere = begin(&table, "I: site1");
        let with_elsewhere = begins(&table, b"token", &elsewhere);
        assert_eq!(found(&table, b"token"), ["I: site2", "I: site1"]);

        // No service has seen these.
        for with in [with_second, with_elsewhere] {
            end(&table, with, Happened::NotExecuted);
        }
        assert_eq!(found(&table, b"token"), ["I: site2"]);
        end(&table, with_first, Happened::NotExecuted);
        assert!(table.credentials.is_empty());
    }

    fn key_of(table: &Correlation, credential: &[u8]) -> u128 {
        table.find_by_credential("I", credential).unwrap()[0].key
    }

    #[test]
    fn a_workflow_that_did_not_begin_takes_back_itself_and_no_other() {
        let table = table();
        let [first, second, third] = [(); 3].map(|()| begin(&table, "I: site2"));
        let with_first = begins(&table, b"token", &first);
        let with_second = begins(&table, b"token", &second);
        end(&table, with_second, Happened::NotExecuted);
        assert_eq!(key_of(&table, b"token"), first.key);
        end(&table, with_first, Happened::Ends);
        let with_third = begins(&table, b"token", &third);
        assert_eq!(key_of(&table, b"token"), third.key);
        end(&table, with_third, Happened::NotExecuted);
        assert_eq!(key_of(&table, b"token"), first.key);
    }

    #[test]
    fn what_is_over_counts_no_more() {
        let table = table();
        let short = Limits {
            correlation_credential_s: 0,
            ..Limits::default()
        };
        let workflow = begin(&table, "I: site2");
        for (token, happened) in [
            (&b"short"[..], Happened::Ends),
            (b"goes on", Happened::Ends),
            (b"goes on", Happened::GoesOn),
        ] {
            let with = begins(&table, token, &workflow);
            wait(&table);
            table.expire();
            assert_eq!(found(&table, token), ["I: site2"], "while it is under way");
            table.end_with_credential(with, happened, &short);
        }
        assert_eq!(found(&table, b"short"), [""; 0]);
        assert_eq!(found(&table, b"goes on"), ["I: site2"]);
        table.expire();
        assert_eq!(found(&table, b"goes on"), ["I: site2"]);
        assert!(!table.credentials.is_empty());
    }

    #[test]
    fn a_flood_of_credentials_costs_nobody_else_his() {
        let (table, limits) = (table(), credentials_room_for(64));
        let workflow = begin(&table, "I: site2");
        let run = |owner, token: &[u8]| {
            let with = begin_with(&table, owner, token, &workflow, &limits);
            end(&table, with.expect("refused"), Happened::Ends);
        };
        run(caller(20), b"mine");
        for number in 0..5_000_u32 {
            run(caller(10), &number.to_be_bytes());
        }
        assert_eq!(found(&table, b"mine"), ["I: site2"]);
        assert_eq!(found(&table, &0_u32.to_be_bytes()), [""; 0]);
        assert_eq!(found(&table, &4_999_u32.to_be_bytes()), ["I: site2"]);
    }

    /// What would be local then belongs to a workflow.
    #[test]
    fn a_credential_is_not_forgotten_while_its_request_is_under_way() {
        let (table, limits) = (table(), credentials_room_for(64));
        let workflow = begin(&table, "I: site2");
        let begin = |token: &[u8]| begin_with(&table, caller(10), token, &workflow, &limits);
        let slow = begin(b"slow").unwrap();
        for number in 0..1_000_u32 {
            let with = begin(&number.to_be_bytes()).expect("refused");
            end(&table, with, Happened::Ends);
        }
        assert_eq!(found(&table, b"slow"), ["I: site2"]);

        // What finds no room is told so.
        let under_way: Vec<_> = (0..100_u32).map_while(|n| begin(&n.to_be_bytes())).collect();
        assert!((8..=18).contains(&under_way.len()), "{}", under_way.len());
        for number in 0..under_way.len() as u32 {
            assert_eq!(found(&table, &number.to_be_bytes()), ["I: site2"]);
        }
        end(&table, slow, Happened::Ends);
        assert!(begin(b"more").is_some());
    }

    #[test]
    fn a_place_that_leaves_although_its_workflow_goes_on_is_lost_and_not_local() {
        let (table, limits) = (table(), credentials_room_for(64));
        let workflow = begin(&table, "I: site2, B: site1");
        let goes_on = |workflow: &Workflow, token: &[u8]| {
            let with = begin_with(&table, caller(10), token, workflow, &limits);
            table.end_with_credential(with.expect("refused"), Happened::GoesOn, &limits);
        };
        let tokens: Vec<_> = (0..100_u32).map(u32::to_be_bytes).collect();
        for token in &tokens {
            goes_on(&workflow, token);
        }
        let known = tokens
            .iter()
            .filter(|token| found(&table, *token) == ["I: site2"]);
        assert!((8..=18).contains(&known.count()));
        for token in &tokens {
            assert_ne!(found(&table, token), [""; 0]);
        }
        assert_eq!(found(&table, &tokens[0]), ["lost"]);
        assert_eq!(found(&table, &tokens[99]), ["I: site2"]);
        // With the lost place known again it is as good as before, with another one it is not.
        goes_on(&workflow, &tokens[0]);
        assert_eq!(found(&table, &tokens[0]), ["I: site2"]);
        goes_on(&begin(&table, "I: site3"), &tokens[1]);
        assert_eq!(found(&table, &tokens[1]), ["lost"]);
    }
}

proptest! {
    /// What callers do in any order: a key finds its own scope or none, and what is in use or goes on is never lost.
    #[test]
    fn a_key_never_finds_another_scope(steps in proptest::collection::vec((0_u8..6, 0_u64..5, 0_u32..60), 1..400)) {
        let (table, limits) = (table(), room_for(64));
        // Whether an address may have had all of its share in use or kept.
        let mut was_tight = false;
        let mut under_way: Vec<Workflow> = Vec::new();
        let mut keys: Vec<(u128, String, bool)> = Vec::new();
        for (step, address, number) in steps {
            let text = format!("B: site{number}");
            match step {
                0..=2 => {
                    if let Some(workflow) = table.begin(&carried(&text), caller(address + 10), &limits) {
                        keys.push((workflow.key, text, false));
                        under_way.push(workflow);
                    }
                }
                3 | 4 if !under_way.is_empty() => {
                    let workflow = under_way.swap_remove(number as usize % under_way.len());
                    table.end(&workflow);
                }
                5 if number % 8 == 0 => {
                    if let Some(workflow) = under_way.last() {
                        table.goes_on(workflow, &limits);
                        for (key, _, goes_on) in &mut keys {
                            *goes_on |= *key == workflow.key;
                        }
                    }
                }
                _ => {}
            }
            was_tight |= under_way.len() + keys.iter().filter(|(_, _, goes_on)| *goes_on).count() > 12;
            for (key, text, goes_on) in &keys {
                let found = scope_of(&table, *key);
                let must_be_known = *goes_on && !was_tight || under_way.iter().any(|workflow| workflow.key == *key);
                prop_assert!(found == *text || found == "lost" && !must_be_known, "{}: {}", text, found);
            }
            prop_assert!(table.len() <= 73);
        }
    }
}
