use bytes::Bytes;
use cheops_types::SiteName;
use proptest::prelude::*;

use super::*;

fn intent(token: u128, set: &str) -> Intent {
    Intent {
        token: Token(token),
        set: set.to_owned(),
        from: SiteName::new("a").unwrap(),
        content: Bytes::from_static(b"x"),
    }
}

fn executed(what: &'static str) -> Verdict {
    Verdict::Executed {
        content: Bytes::from_static(what.as_bytes()),
    }
}

fn outcome(token: u128, verdict: Verdict) -> Command {
    Command::Outcome {
        token: Token(token),
        verdict,
    }
}

#[test]
fn the_first_outcome_counts() {
    let mut state = State::default();
    assert_eq!(state.apply(1, Command::Intent(intent(1, "x"))), Effect::Opened);
    assert_eq!(state.apply(2, Command::Intent(intent(2, "x"))), Effect::Opened);
    assert_eq!(state.first_open("x"), Some(&intent(1, "x")));
    assert_eq!(
        state.apply(3, outcome(1, executed("first"))),
        Effect::Closed(intent(1, "x"), executed("first"))
    );
    assert_eq!(
        state.apply(4, outcome(1, Verdict::Refused { status: 409 })),
        Effect::AlreadyDecided
    );
    assert_eq!(state.first_open("x"), Some(&intent(2, "x")));
    assert_eq!(state.apply(5, outcome(9, executed("?"))), Effect::Unknown);
}

#[test]
fn a_token_is_opened_once() {
    let mut state = State::default();
    assert_eq!(state.apply(1, Command::Intent(intent(1, "x"))), Effect::Opened);
    assert_eq!(
        state.apply(2, Command::Intent(intent(1, "x"))),
        Effect::AlreadyOpen
    );
    state.apply(3, outcome(1, executed("y")));
    assert_eq!(
        state.apply(4, Command::Intent(intent(1, "x"))),
        Effect::AlreadyDecided
    );
    assert_eq!(state.open_len(), 0);
}

#[test]
fn the_memory_of_decided_tokens_is_bounded() {
    let mut state = State::default();
    for token in 0..=DECIDED_MAX as u128 {
        state.apply(2 * token as u64, Command::Intent(intent(token, "x")));
        state.apply(2 * token as u64 + 1, outcome(token, executed("y")));
    }
    assert_eq!(state.decided.len(), DECIDED_MAX);
    assert_eq!(state.is_decided.len(), DECIDED_MAX);
    assert!(!state.is_decided.contains(&Token(0)) && state.is_decided.contains(&Token(1)));
}

/// Small numbers, so that tokens and sets meet.
fn commands() -> impl Strategy<Value = Vec<Command>> {
    let command = prop_oneof![
        (0u128..12, 0u8..3).prop_map(|(token, set)| Command::Intent(intent(token, &set.to_string()))),
        (0u128..12, 0u16..4).prop_map(|(token, status)| outcome(token, Verdict::Refused { status })),
    ];
    proptest::collection::vec(command, 0..60)
}

proptest! {
    #[test]
    fn each_token_closes_at_most_once_and_only_when_open(commands in commands()) {
        let mut state = State::default();
        let (mut opened, mut closed) = (BTreeSet::new(), BTreeSet::new());
        for (index, command) in commands.into_iter().enumerate() {
            let token = match &command {
                Command::Intent(intent) => intent.token,
                Command::Outcome { token, .. } => *token,
            };
            match state.apply(index as u64, command) {
                Effect::Opened => prop_assert!(opened.insert(token)),
                Effect::Closed(intent, _) => {
                    prop_assert_eq!(intent.token, token);
                    prop_assert!(opened.contains(&token) && closed.insert(token));
                }
                Effect::AlreadyOpen => prop_assert!(opened.contains(&token) && !closed.contains(&token)),
                Effect::AlreadyDecided => prop_assert!(closed.contains(&token)),
                Effect::Unknown => prop_assert!(!opened.contains(&token)),
            }
            prop_assert_eq!(state.open_len(), opened.len() - closed.len());
            prop_assert_eq!(state.by_set.values().map(BTreeSet::len).sum::<usize>(), state.open_len());
        }
    }

    #[test]
    fn a_restored_state_goes_on_as_the_saved_one(before in commands(), after in commands()) {
        let mut state = State::default();
        let at = before.len() as u64;
        for (index, command) in before.into_iter().enumerate() {
            state.apply(index as u64, command);
        }
        let bytes = rmp_serde::to_vec(&state.save()).unwrap();
        let mut restored = State::restore(rmp_serde::from_slice(&bytes).unwrap());
        prop_assert_eq!(&restored, &state);
        for (index, command) in after.into_iter().enumerate() {
            let index = at + index as u64;
            prop_assert_eq!(state.apply(index, command.clone()), restored.apply(index, command));
        }
    }
}
