use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use cheops_net::BoxError;
use http::Response;
use http_body::Frame;

use super::*;
use crate::lab::{self, Answer, FakePeers, Lab, answer, site};

/// Pieces of a payload, and then perhaps an error instead of an end.
struct Pieces {
    pieces: Vec<Bytes>,
    breaks: bool,
}

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Poll::Ready(match self.pieces.pop() {
            Some(piece) => Some(Ok(Frame::data(piece))),
            None if self.breaks => Some(Err("the link is cut".into())),
            None => None,
        })
    }
}

#[expect(clippy::unnecessary_wraps, reason = "other answers are failures")]
fn pieces(content: &[u8], breaks: bool) -> Answer {
    let pieces = content.chunks(1000).rev().map(Bytes::copy_from_slice).collect();
    Ok(Response::new(Body::other(Pieces { pieces, breaks })))
}

/// What a site gives to another, as its peer port would.
fn served(core: &Core, to: &str, path: &str) -> Answer {
    let (hash, offset) = path
        .strip_prefix(headers::PEER_PAYLOAD_PATH)
        .and_then(|rest| rest.split_once("?offset="))
        .unwrap();
    let Ok(body) = serve_payload(core, &site(to), hash, offset.parse().unwrap()) else {
        return answer(404, &[], "");
    };
    Ok(http::Response::new(body))
}

fn content() -> Vec<u8> {
    (0..3_000_000_u32).map(|at| (at % 251) as u8).collect()
}

fn read(lab: &Lab, payload: &PayloadRef) -> Vec<u8> {
    let mut content = Vec::new();
    let mut reader = lab.core.spool.reader(payload, 0).unwrap();
    std::io::Read::read_to_end(&mut reader, &mut content).unwrap();
    content
}

fn fetcher<F: Fn(&SiteName, &str, Bytes) -> Answer + 'static>(lab: &Lab, answer: F) -> Fetcher {
    Fetcher::new(Arc::clone(&lab.core), FakePeers::new(answer))
}

#[test]
fn a_payload_comes_from_a_holder_once() {
    let (here, there) = (Lab::new("a"), Lab::new("b"));
    there.know("B", "file", "m", Some("m"), &["a", "b"]);
    let payload = there.spool("m", &content());
    here.refer("m", &payload);
    let asked = Rc::new(RefCell::new(0));
    let (core, count) = (Arc::clone(&there.core), Rc::clone(&asked));
    let fetcher = fetcher(&here, move |_, path, _| {
        *count.borrow_mut() += 1;
        served(&core, "a", path)
    });
    lab::run(async {
        let sites = [site("b")];
        let (one, two) = tokio::join!(fetcher.get(&payload, &sites), fetcher.get(&payload, &sites));
        assert!(one.is_ok() && two.is_ok());
        // It is here now.
        assert!(fetcher.get(&payload, &[]).await.is_ok());
    });
    assert_eq!(*asked.borrow(), 1);
    assert!(read(&here, &payload) == content());
    assert!(fetcher.under_way.borrow().is_empty());
    assert!(
        here.core
            .store
            .read()
            .unwrap()
            .scan::<Receiving>(&Span::all(), 9)
            .unwrap()
            .is_empty()
    );
}

#[test]
fn the_next_holder_goes_on_where_the_first_one_broke_off() {
    let (here, there) = (Lab::new("a"), Lab::new("c"));
    there.know("B", "file", "m", Some("m"), &["a", "b", "c"]);
    let payload = there.spool("m", &content());
    let core = Arc::clone(&there.core);
    let asked = Rc::new(RefCell::new(Vec::new()));
    let log = Rc::clone(&asked);
    let fetcher = fetcher(&here, move |from, path, _| {
        let offset = path.split_once('=').unwrap().1.to_owned();
        log.borrow_mut().push(format!("{from} {offset}"));
        match from.as_str() {
            "b" => pieces(&content()[..1_234_000], true),
            _ => served(&core, "a", path),
        }
    });
    lab::run(fetcher.get(&payload, &[site("b"), site("c")])).unwrap();
    assert_eq!(*asked.borrow(), ["b 0", "c 1234000"]);
    assert!(read(&here, &payload) == content());
}

#[test]
fn a_restart_goes_on_too() {
    let (here, there) = (Lab::new("a"), Lab::new("b"));
    there.know("B", "file", "m", Some("m"), &["a", "b"]);
    let payload = there.spool("m", &content());
    let first = fetcher(&here, |_, _, _| pieces(&content()[..2_000_000], true));
    let missing = lab::run(first.get(&payload, &[site("b")])).unwrap_err();
    assert!(matches!(missing, Unfetched::Nowhere(_)), "{missing}");
    drop(first);

    let core = Arc::clone(&there.core);
    let second = fetcher(&here, move |_, path, _| {
        assert!(path.ends_with("?offset=2000000"), "{path}");
        served(&core, "a", path)
    });
    lab::run(second.get(&payload, &[site("b")])).unwrap();
    assert!(read(&here, &payload) == content());
}

#[test]
fn what_is_not_the_payload_is_thrown_away() {
    let (here, there) = (Lab::new("a"), Lab::new("c"));
    there.know("B", "file", "m", Some("m"), &["a", "b", "c"]);
    let payload = there.spool("m", &content());
    let too_long = vec![1; content().len() + 1];
    let other = vec![2; content().len()];
    for wrong in [too_long, other] {
        let core = Arc::clone(&there.core);
        let here = Lab::new("a");
        let fetcher = fetcher(&here, move |from, path, _| match from.as_str() {
            "b" => pieces(&wrong, false),
            _ => served(&core, "a", path),
        });
        let only_b = lab::run(fetcher.get(&payload, &[site("b")]));
        assert!(matches!(only_b, Err(Unfetched::Nowhere(_))));
        assert_eq!(here.core.spool.used_bytes(), 0);
        lab::run(fetcher.get(&payload, &[site("b"), site("c")])).unwrap();
        assert!(read(&here, &payload) == content());
    }
    drop(here);
}

#[test]
fn a_site_that_is_down_is_not_asked() {
    let here = Lab::new("a");
    let payload = Lab::new("b").spool("m", b"x");
    let peers = FakePeers::new(|_, _, _| panic!("nobody is up"));
    peers.down.borrow_mut().insert(site("b"));
    let fetcher = Fetcher::new(Arc::clone(&here.core), peers);
    assert!(lab::run(fetcher.get(&payload, &[site("b")])).is_err());
}

#[test]
fn a_full_spool_is_told() {
    let here = Lab::with("a", None, |limits| limits.spool_max_bytes = 1_000_000);
    let payload = Lab::new("b").spool("m", &content());
    let fetcher = fetcher(&here, |_, _, _| pieces(&content(), false));
    let full = lab::run(fetcher.get(&payload, &[site("b")])).unwrap_err();
    assert!(matches!(full, Unfetched::Spool(_)), "{full}");
    assert_eq!(here.core.spool.used_bytes(), 0);
}

#[test]
fn only_members_of_a_set_that_refers_to_it_get_a_payload() {
    let lab = Lab::new("a");
    lab.know("B", "file", "m", Some("m"), &["a", "b"]);
    lab.know("B", "file", "n", Some("n"), &["a", "c"]);
    let payload = lab.spool("m", b"abc");
    let hash = payload.hash.to_string();
    let get = |to: &str, hash: &str, offset| {
        let body = serve_payload(&lab.core, &site(to), hash, offset).map_err(|problem| problem.status())?;
        let read = lab::run(body.collect()).unwrap();
        Ok::<_, u16>(read.to_bytes())
    };
    assert_eq!(get("b", &hash, 0).unwrap(), "abc");
    assert_eq!(get("b", &hash, 2).unwrap(), "c");
    assert_eq!(get("b", &hash, 3).unwrap(), "");
    assert_eq!(get("b", &hash, 4), Err(404));
    assert_eq!(get("c", &hash, 0), Err(404));
    assert_eq!(get("b", "nonsense", 0), Err(404));
    assert_eq!(get("b", &"0".repeat(64), 0), Err(404));
    // As soon as another set refers to it, its sites may have it too; and no longer than that.
    lab.refer("n", &payload);
    assert_eq!(get("c", &hash, 0).unwrap(), "abc");
    let released = lab
        .core
        .store
        .write(move |session| release(session, &cheops_replica::MetaId::new("n"), &payload));
    released.unwrap().wait().unwrap();
    assert_eq!(get("c", &hash, 0), Err(404));
    assert_eq!(get("b", &hash, 0).unwrap(), "abc");
}

#[test]
fn what_was_fetched_in_vain_is_removed() {
    let here = Lab::new("a");
    let payload = Lab::new("b").spool("m", &content());
    here.refer("m", &payload);
    let fetcher = fetcher(&here, |_, _, _| pieces(&content()[..2_000_000], true));
    let rows = || {
        let read = here.core.store.read().unwrap();
        read.scan::<Receiving>(&Span::all(), 9).unwrap().len()
    };
    lab::run(async {
        fetcher.get(&payload, &[site("b")]).await.unwrap_err();
        fetcher.tidy().await;
        assert_eq!(here.core.spool.used_bytes(), 2_000_000);
        assert_eq!(rows(), 1);
        let unused = here
            .core
            .store
            .write(move |session| release(session, &cheops_replica::MetaId::new("m"), &payload));
        unused.unwrap().wait().unwrap();
        fetcher.tidy().await;
    });
    // The store does what it is told in order.
    here.core.store.write(|_| Ok(())).unwrap().wait().unwrap();
    assert_eq!(here.core.spool.used_bytes(), 0);
    assert_eq!(rows(), 0);
}

#[test]
fn a_transfer_that_is_dropped_goes_on_later() {
    let (here, there) = (Lab::new("a"), Lab::new("b"));
    there.know("B", "file", "m", Some("m"), &["a", "b"]);
    let payload = there.spool("m", &content());
    lab::run(async {
        let mut writing = Fetcher::new(Arc::clone(&here.core), FakePeers::new(|_, _, _| panic!()))
            .begin(&payload)
            .await
            .unwrap();
        writing
            .append(Bytes::from(content()[..1_500_000].to_vec()))
            .await
            .unwrap();
    });
    let core = Arc::clone(&there.core);
    let second = fetcher(&here, move |_, path, _| {
        assert!(path.ends_with("?offset=1500000"), "{path}");
        served(&core, "a", path)
    });
    lab::run(second.get(&payload, &[site("b")])).unwrap();
    assert!(read(&here, &payload) == content());
}
