//! Histories whose answer is known, good ones and bad ones.

use std::fmt::Write as _;

use cheops_linear::{Reason, Report, STEPS_MAX, Violation, check};

use crate::text;

fn checked(history: &str) -> Report {
    check(&text::history(history), STEPS_MAX)
}

#[track_caller]
fn good(history: &str) {
    let report = checked(history);
    assert!(report.is_linearizable(), "{report}");
}

/// Bad, with this as the first answer that no order explains, and this reason.
#[track_caller]
fn bad(history: &str, wrong: &str, reason: Reason) -> Violation {
    let mut report = checked(history);
    assert!(report.too_hard.is_empty(), "{report}");
    let violation = report.violations.pop().expect("an order was found");
    let expected = text::operation(wrong);
    assert_eq!(violation.wrong, expected, "{violation}");
    assert_eq!(violation.reason, reason, "{violation}");
    assert!(violation.core.contains(&expected), "{violation}");
    assert!(
        !check(&violation.core, STEPS_MAX).is_linearizable(),
        "{violation}"
    );
    violation
}

#[test]
fn nothing_is_linearizable() {
    good("");
    assert_eq!(checked("").keys, 0);
}

#[test]
fn one_after_the_other() {
    good(
        "p1 read -       0-1
         p1 create 1     2-3
         p2 read 1       4-5
         p1 write 2      6-7
         p2 cas 2 3      8-9
         p1 read 3       10-11
         p1 delete       12-13
         p2 read -       14-15
         p2 create 4     16-17",
    );
}

#[test]
fn who_overlaps_may_come_in_any_order() {
    good("p1 write 1 0-10\np2 write 2 0-10\np3 read 1 11-12");
    good("p1 write 1 0-10\np2 write 2 0-10\np3 read 2 11-12");
    good("p1 write 1 0-10\np2 read - 5-6\np3 read 1 7-8");
    good("p1 write 1 0-10\np2 read 1 5-6\np3 read 1 7-8");
    // A moment is long enough for an answer and the next question.
    good("p1 write 1 0-1\np2 write 2 2-3\np3 read 1 3-4");
}

#[test]
fn a_write_without_an_answer_happens_late_or_never() {
    good("p1 write 1 0-5 unknown\np2 read - 6-7\np2 read 1 8-9\np2 read 1 10-11");
    good("p1 write 1 0-5 unknown\np2 read - 6-7\np2 read - 8-9");
    good("p1 write 1 0-1\np1 write 2 2-3 unknown\np2 read 1 100-101\np2 read 2 102-103");
    good("p1 write 1 0-1\np2 cas 1 2 2-3 unknown\np3 cas 2 3 4-5 unknown\np1 read 3 6-7");
    good("p1 write 1 0-1\np2 delete 2-3 unknown\np1 read 1 4-5\np1 read - 6-7");
    good("p1 read 7 0-1 unknown");
}

#[test]
fn a_refusal_tells_nothing_and_an_unmet_condition_does() {
    good("p1 write 1 0-1 refused\np1 read - 2-3");
    good("p1 write 1 0-1\np2 cas 1 2 2-3 refused\np1 read 1 4-5");
    good("p1 write 1 0-1\np2 cas 7 2 2-3 unmet\np1 read 1 4-5");
    good("p1 write 1 0-5\np2 create 2 0-6 unmet\np1 read 1 7-8");
    good("p1 delete 0-1 unmet\np1 create 1 2-3");
}

#[test]
fn a_write_that_nobody_reads_may_be_what_a_condition_was_not_met_by() {
    good("p1 write 2 0-10\np2 write 1 0-5 unknown\np3 read 1 2-3\np4 cas 1 7 11-12 unmet");
    good("p1 write 2 0-10\np2 write 1 1-9\np4 cas 1 7 11-12 unmet");
    good("p1 write 1 0-10\np4 cas 1 7 1-10 unmet");
}

#[test]
fn keys_have_nothing_to_do_with_each_other() {
    good("p1 write 1 0-1 @a\np2 read - 2-3 @b");
    let report = checked("p1 write 1 0-1 @a\np2 read - 2-3 @a\np1 read 1 0-1 @b\np1 read - 0-1 @c");
    let keys: Vec<_> = report
        .violations
        .iter()
        .map(|violation| violation.key.as_str())
        .collect();
    assert_eq!((report.keys, keys), (3, vec!["a", "b"]));
}

#[test]
fn a_stale_read() {
    let violation = bad(
        "p1 write 1 0-1
         p2 read 1  2-3
         p1 write 2 4-5
         p3 read 1  6-7",
        "p3 read 1 6-7",
        Reason::NoPlace,
    );
    assert_eq!(violation.core.len(), 3, "{violation}");
}

#[test]
fn a_lost_write() {
    bad("p1 write 1 0-1\np2 read - 2-3", "p2 read - 2-3", Reason::NoPlace);
}

#[test]
fn a_write_that_vanished_after_a_fail_over() {
    // Acknowledged by a leader that was none any more; the next one never had it.
    bad(
        "p1 write 1 0-10
         p1 write 2 20-30
         p2 read 2  31-32
         p2 write 3 40-50 refused
         p3 read 1  60-61",
        "p3 read 1  60-61",
        Reason::NoPlace,
    );
    bad(
        "p1 write 1 0-10
         p1 write 2 20-30
         p2 cas 1 3 40-50
         p2 read 3  60-61",
        "p2 cas 1 3 40-50",
        Reason::NoPlace,
    );
}

#[test]
fn a_read_of_a_refused_write() {
    bad(
        "p1 write 1 0-1\np1 write 2 2-3 refused\np2 read 2 4-5",
        "p2 read 2 4-5",
        Reason::RefusedOnly(2),
    );
    bad(
        "p1 write 1 0-1\np1 cas 9 2 2-3 unmet\np2 read 2 4-5",
        "p2 read 2 4-5",
        Reason::RefusedOnly(2),
    );
}

#[test]
fn a_value_that_nobody_wrote() {
    bad(
        "p1 write 1 0-1\np2 read 8 2-3",
        "p2 read 8 2-3",
        Reason::NeverSet(8),
    );
}

#[test]
fn a_value_before_it_was_written() {
    bad(
        "p2 read 1 0-1\np1 write 1 2-3",
        "p2 read 1 0-1",
        Reason::SetLater(1),
    );
}

#[test]
fn reads_that_go_back() {
    // Both reads overlap the write; the first has seen it, so the second must.
    bad(
        "p1 write 1 0-1
         p1 write 2 10-50
         p2 read 2  20-25
         p3 read 1  26-30",
        "p3 read 1  26-30",
        Reason::NoPlace,
    );
    bad(
        "p1 write 1 0-100
         p2 write 2 0-100
         p3 read 1  10-11
         p3 read 2  12-13
         p3 read 1  14-15",
        "p3 read 1  14-15",
        Reason::NoPlace,
    );
}

#[test]
fn readers_that_disagree_about_the_order() {
    bad(
        "p1 write 1 0-100
         p2 write 2 0-100
         p3 read 1  10-20
         p3 read 2  30-40
         p4 read 2  15-25
         p4 read 1  35-45",
        "p4 read 1  35-45",
        Reason::NoPlace,
    );
}

#[test]
fn one_value_replaced_twice() {
    bad(
        "p1 write 1 0-1
         p2 cas 1 2 2-10
         p3 cas 1 3 2-11",
        "p3 cas 1 3 2-11",
        Reason::NoPlace,
    );
}

#[test]
fn a_write_that_executed_twice() {
    // 2 came back after 3 had replaced it, though it was written once.
    bad(
        "p1 write 1 0-1
         p2 write 2 2-3
         p3 write 3 4-5
         p1 read 3  6-7
         p1 read 2  8-9",
        "p1 read 2  8-9",
        Reason::NoPlace,
    );
}

#[test]
fn an_unknown_write_that_was_seen_cannot_be_undone() {
    bad(
        "p1 write 1 0-1
         p1 write 2 2-3 unknown
         p2 read 2  4-5
         p3 read 1  6-7",
        "p3 read 1  6-7",
        Reason::NoPlace,
    );
}

#[test]
fn an_unknown_write_happens_once() {
    bad(
        "p1 write 1 0-1
         p1 write 2 2-3 unknown
         p2 read 2  4-5
         p2 write 3 6-7
         p2 read 3  8-9
         p3 read 2  10-11",
        "p3 read 2  10-11",
        Reason::NoPlace,
    );
}

#[test]
fn conditions_that_were_met_and_said_not_to_be() {
    bad(
        "p1 write 1 0-1\np2 cas 1 2 2-3 unmet",
        "p2 cas 1 2 2-3 unmet",
        Reason::NoPlace,
    );
    bad(
        "p1 create 1 0-1\np2 create 2 2-3",
        "p2 create 2 2-3",
        Reason::NoPlace,
    );
    bad("p2 create 2 2-3 unmet", "p2 create 2 2-3 unmet", Reason::NoPlace);
    bad(
        "p1 write 1 0-1\np2 delete 2-3 unmet",
        "p2 delete 2-3 unmet",
        Reason::NoPlace,
    );
    bad("p1 delete 0-1", "p1 delete 0-1", Reason::NoPlace);
    bad(
        "p1 write 1 0-1\np1 delete 2-3\np2 delete 2-4\np1 read - 5-6",
        "p2 delete 2-4",
        Reason::NoPlace,
    );
}

#[test]
fn of_answers_that_come_at_once_the_wrong_one_is_shown() {
    for (one, other) in [("p8 read 1", "p9 read 2"), ("p9 read 2", "p8 read 1")] {
        let history = format!("p1 write 1 0-1\np1 write 2 2-3\n{one} 4-5\n{other} 4-5");
        bad(&history, "p8 read 1 4-5", Reason::NoPlace);
    }
}

#[test]
fn only_what_matters_is_shown() {
    let mut history = String::new();
    for number in 0..200 {
        let at = number * 10;
        let _ = writeln!(history, "p1 write {number} {at}-{}", at + 3);
        let _ = writeln!(history, "p2 read {number} {}-{}", at + 4, at + 8);
    }
    history += "p3 read 150 1990-2005\np1 write 500 2010-2020";
    let violation = bad(&history, "p3 read 150 1990-2005", Reason::NoPlace);
    assert!(violation.core.len() <= 3, "{violation}");
    assert!(violation.around.len() <= 17, "{violation}");
}

#[test]
fn a_violation_is_a_picture() {
    let violation = bad(
        "p1 write 1 0-1
         p2 write 2 2-9 unknown
         p1 read 2  4-5
         p3 read 1  6-7",
        "p3 read 1  6-7",
        Reason::NoPlace,
    );
    let expected = "\
k: 4 operations, and no order in which every answer is right
  the first answer that no order explains: p3 read 1, 6 … done at 7
  because it has no place among what was answered before
  these have no order by themselves:
";
    let picture = violation.to_string();
    assert!(picture.starts_with(expected), "{picture}");
    assert_eq!(
        picture.lines().filter(|line| line.contains('◀')).count(),
        2,
        "{picture}"
    );
}

#[test]
fn too_hard_is_said() {
    // Values that come again, so that nothing can be left out.
    let mut history = String::new();
    for number in 0..30 {
        let _ = writeln!(history, "p{number} write {} 0-100", number % 3);
        let _ = writeln!(history, "p{number} read {} 0-100", number % 2);
    }
    history += "p1 read 9 101-102";
    let report = check(&text::history(&history), 5);
    assert_eq!(
        (report.violations.len(), report.too_hard.len()),
        (0, 1),
        "{report}"
    );
    assert!(!report.is_linearizable());
}

#[test]
#[should_panic(expected = "answered before it was invoked")]
fn a_clock_that_is_none() {
    checked("p1 write 1 5-4");
}
