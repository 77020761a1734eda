//! Rooms, and boxes in them. A room's boxes go with it.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use axum::{Router, extract::State, routing::get};
use http::StatusCode;

use super::{
    Answer,
    named::{Named, merge_into, name_of},
};
use crate::{
    collection::{Collection, Page},
    failure::Failure,
    if_match::IfMatch,
    request::{Name, Names, Object, Parameters},
};

struct House {
    rooms: Named,
    /// By room, opened when they are asked for.
    boxes: Mutex<BTreeMap<String, Arc<Named>>>,
    data_dir: PathBuf,
}

pub(super) fn router(data_dir: &Path) -> io::Result<Router> {
    let rooms = House {
        rooms: Collection::open("rooms", "name", data_dir)?,
        boxes: Mutex::default(),
        data_dir: data_dir.join("boxes"),
    };
    let room = get(read).patch(patch).delete(delete);
    let one = get(read_box).put(replace_box).patch(patch_box).delete(delete_box);
    let router = Router::new()
        .route("/rooms", get(list).post(create))
        .route("/rooms/{room}", room)
        .route("/rooms/{room}/boxes", get(list_boxes).post(create_box))
        .route("/rooms/{room}/boxes/{name}", one)
        .with_state(Arc::new(rooms));
    Ok(router)
}

impl House {
    /// What is in a room that exists.
    fn boxes_in(&self, room: &String) -> Result<Arc<Named>, Failure> {
        self.rooms.check(room)?;
        let mut open = self.boxes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(boxes) = open.get(room) {
            return Ok(Arc::clone(boxes));
        }
        let name = format!("rooms/{room}/boxes");
        let file = self.data_dir.join(format!("{room}.jsonl"));
        let boxes = Arc::new(Collection::open_file(&name, "name", &file)?);
        open.insert(room.clone(), Arc::clone(&boxes));
        Ok(boxes)
    }
}

async fn list(State(rooms): State<Arc<House>>, Parameters(page): Parameters<Page>) -> Answer {
    rooms.rooms.list(&page, |_| true)
}

async fn create(State(rooms): State<Arc<House>>, Object(room): Object) -> Answer {
    rooms.rooms.create(&name_of(&room)?, room)
}

async fn read(State(rooms): State<Arc<House>>, Name(room): Name) -> Answer {
    rooms.rooms.get(&room)
}

async fn patch(
    State(rooms): State<Arc<House>>,
    Name(room): Name,
    if_match: IfMatch,
    Object(patch): Object,
) -> Answer {
    merge_into(&rooms.rooms, &room, &if_match, patch)
}

async fn delete(State(rooms): State<Arc<House>>, Name(room): Name, if_match: IfMatch) -> Answer {
    let boxes = rooms.boxes_in(&room)?;
    let deleted = rooms.rooms.delete(&room, &if_match)?;
    debug_assert_eq!(deleted.status(), StatusCode::NO_CONTENT);
    boxes.clear()?;
    Ok(deleted)
}

async fn list_boxes(
    State(rooms): State<Arc<House>>,
    Name(room): Name,
    Parameters(page): Parameters<Page>,
) -> Answer {
    rooms.boxes_in(&room)?.list(&page, |_| true)
}

async fn create_box(State(rooms): State<Arc<House>>, Name(room): Name, Object(one): Object) -> Answer {
    rooms.boxes_in(&room)?.create(&name_of(&one)?, one)
}

async fn read_box(State(rooms): State<Arc<House>>, Names([room, name]): Names<2>) -> Answer {
    rooms.boxes_in(&room)?.get(&name)
}

async fn replace_box(
    State(rooms): State<Arc<House>>,
    Names([room, name]): Names<2>,
    if_match: IfMatch,
    Object(one): Object,
) -> Answer {
    rooms.boxes_in(&room)?.change(&name, &if_match, |_| Ok(one))
}

async fn patch_box(
    State(rooms): State<Arc<House>>,
    Names([room, name]): Names<2>,
    if_match: IfMatch,
    Object(patch): Object,
) -> Answer {
    merge_into(&*rooms.boxes_in(&room)?, &name, &if_match, patch)
}

async fn delete_box(
    State(rooms): State<Arc<House>>,
    Names([room, name]): Names<2>,
    if_match: IfMatch,
) -> Answer {
    rooms.boxes_in(&room)?.delete(&name, &if_match)
}
