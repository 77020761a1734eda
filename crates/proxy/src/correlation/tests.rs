use cheops_scope::{ParseLimits, parse};

use super::*;

fn table() -> Correlation {
    Correlation::new(KeyMaker::new(&[1; 16], &[2; 16]))
}

fn carried(text: &str) -> Arc<Carried> {
    let limits = ParseLimits {
        max_bytes: 100,
        max_depth: 4,
    };
    Carried::new(parse(text, &limits).unwrap())
}

fn begin(table: &Correlation, text: &str, lasting: Lasting) -> Arc<Workflow> {
    table.begin(carried(text), lasting, 100).unwrap()
}

fn limits(read_s: u64, write_s: u64, async_s: u64) -> Limits {
    Limits {
        correlation_read_idle_s: read_s,
        correlation_idle_s: write_s,
        correlation_async_idle_s: async_s,
        ..Limits::default()
    }
}

/// Makes a moment pass, so that a limit of zero seconds is over.
fn tick(table: &Correlation) {
    let now_ms = table.now_ms();
    while table.now_ms() == now_ms {
        std::hint::spin_loop();
    }
}

fn is_known(table: &Correlation, key: u128) -> bool {
    matches!(table.find(key), Found::Known(_))
}

#[test]
fn each_kind_lasts_as_long_as_its_limit() {
    let table = table();
    let keys = [Lasting::Read, Lasting::Write, Lasting::Asynchronous]
        .map(|lasting| begin(&table, "B: site2", lasting).key);
    let known = || keys.map(|key| is_known(&table, key));
    tick(&table);
    table.expire(&limits(100, 100, 100));
    assert_eq!(known(), [true, true, true]);
    tick(&table);
    table.expire(&limits(0, 100, 100));
    assert_eq!(known(), [false, true, true]);
    tick(&table);
    table.expire(&limits(100, 0, 100));
    assert_eq!(known(), [false, false, true]);
    tick(&table);
    table.expire(&limits(100, 100, 0));
    assert_eq!((known(), table.len()), ([false, false, false], 0));
}

#[test]
fn a_workflow_is_not_forgotten_while_a_request_of_it_is_under_way() {
    let table = table();
    let under_way = begin(&table, "B: site2", Lasting::Read);
    tick(&table);
    table.expire(&limits(0, 0, 0));
    assert!(is_known(&table, under_way.key));
    let key = under_way.key;
    drop(under_way);
    tick(&table);
    table.expire(&limits(0, 0, 0));
    assert!(matches!(table.find(key), Found::Lost));
}

#[tokio::test]
async fn what_goes_on_is_saved_once_and_comes_back() {
    let before = table();
    let sync = begin(&before, "B: site1", Lasting::Write);
    let workflow = begin(&before, "A: site1, B: site2 ; site3", Lasting::Write);
    assert_eq!(before.take_unsaved(), []);
    before.goes_on(&workflow);
    before.goes_on(&workflow);
    let saved = before.unsaved().await;
    assert_eq!(saved.len(), 1);
    assert_eq!(before.take_unsaved(), []);
    assert_eq!(before.to_be_kept(), saved);

    let line = saved[0].to_string();
    let read: SavedWorkflow = line.parse().unwrap();
    assert_eq!(read, saved[0], "{line}");
    let after = Correlation::new(KeyMaker::new(&[1; 16], &[3; 16]));
    assert!(after.restore(&read, &Limits::default()));
    assert!(
        after.restore(&read, &Limits::default()),
        "a second line of the same"
    );
    assert_eq!(after.len(), 1);
    let Found::Known(restored) = after.find(workflow.key) else {
        panic!("the workflow is not known");
    };
    assert_eq!(restored.carried.text, workflow.carried.text);
    assert!(matches!(after.find(sync.key), Found::Lost));
    // It lasts as before, and is kept over the next restart.
    assert_eq!(after.to_be_kept(), saved);

    let stranger = Correlation::new(KeyMaker::new(&[4; 16], &[3; 16]));
    assert!(!stranger.restore(&read, &Limits::default()));
}

#[test]
fn a_replicas_workflow_stays_one() {
    let carried = Arc::new(Carried {
        inside_replica: true,
        ..Arc::into_inner(carried("B: site1")).unwrap()
    });
    let table = table();
    let workflow = table.begin(carried, Lasting::Asynchronous, 1).unwrap();
    let line = workflow.to_saved().to_string();
    let read: SavedWorkflow = line.parse().unwrap();
    assert!(read.carried(&Limits::default()).unwrap().inside_replica);
}

#[test]
fn nonsense_is_no_saved_workflow() {
    let key = "00112233445566778899aabbccddeeff";
    for line in [
        "",
        "x",
        key,
        &format!("{key} scope"),
        &format!("{key} other B: site1"),
        &format!("{} scope B: site1", &key[1..]),
        &format!("+{} scope B: site1", &key[1..]),
    ] {
        assert_eq!(line.parse::<SavedWorkflow>(), Err(InvalidSaved), "{line}");
    }
    let unreadable: SavedWorkflow = format!("{key} scope B: site1 &").parse().unwrap();
    assert!(unreadable.carried(&Limits::default()).is_none());
}

#[test]
fn what_ended_does_not_wait_to_be_saved() {
    let table = table();
    let workflow = begin(&table, "B: site2", Lasting::Write);
    table.goes_on(&workflow);
    table.end(workflow.key);
    assert_eq!(table.take_unsaved(), []);
    table.goes_on(&begin(&table, "B: site2", Lasting::Write));
    tick(&table);
    table.expire(&limits(0, 0, 0));
    assert!(lock(&table.unsaved).is_empty());
}

#[test]
fn workflows_are_found_by_the_credential_that_they_began_with() {
    let table = table();
    let found = |credential: &[u8]| -> Vec<String> {
        let found = table.find_by_credential("I", credential);
        found
            .iter()
            .map(|workflow| workflow.carried.text.clone())
            .collect()
    };
    assert_eq!(found(b"token"), [""; 0]);
    let first = begin(&table, "I: site2, B: site1", Lasting::Write);
    table.note_credential("I", b"token", &first);
    // It says nothing about the service.
    table.note_credential("I", b"token", &begin(&table, "B: site2", Lasting::Write));
    assert_eq!(found(b"token"), ["I: site2, B: site1"]);
    assert_eq!(found(b"other"), [""; 0]);
    assert_eq!(table.find_by_credential("B", b"token").len(), 0);

    let second = begin(&table, "I: site2, B: site3", Lasting::Read);
    table.note_credential("I", b"token", &second);
    assert_eq!(found(b"token"), ["I: site2, B: site3"], "the last one");
    let elsewhere = begin(&table, "I: site1", Lasting::Write);
    table.note_credential("I", b"token", &elsewhere);
    assert_eq!(found(b"token"), ["I: site2, B: site3", "I: site1"]);

    for ended in [second, elsewhere] {
        table.end(ended.key);
    }
    assert_eq!(found(b"token"), ["I: site2, B: site1"]);
    table.end(first.key);
    drop(first);
    table.expire(&Limits::default());
    assert!(table.credentials.is_empty());
}
