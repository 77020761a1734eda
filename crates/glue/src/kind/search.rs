//! Finding the replica that carries a marker.

use std::sync::Arc;

use bytes::Bytes;

use super::{Kind, Marker};
use crate::{
    ListShape, NotAList, edit,
    json::{self, Found},
    percent,
};

/// A read of a collection, or of one page of it, in which a marker may be found.
#[derive(Debug, Clone)]
pub struct Search {
    /// Path and query to ask the application for.
    pub path: String,
    collection: String,
    token: String,
    kind: Kind,
}

/// What one page shows.
#[derive(Debug, Clone)]
pub enum Sighting {
    /// The own id of the resource that carries the marker.
    Found(String),
    /// Not here; the next page is to be read.
    Next(Search),
    /// Nowhere in the collection.
    Nowhere,
}

impl Kind {
    /// How to search for the resource that carries this token; none where the kind has no marker.
    pub fn marker_search(&self, key: &str, token: &str) -> Option<Search> {
        let marker = self.rules.marker.as_ref()?;
        let mut collection = self.collection_path(key);
        if let Some(parameter) = &marker.query {
            collection.push('?');
            collection.push_str(parameter);
            collection.push('=');
            percent::encode_into(&mut collection, token);
        }
        Some(Search {
            path: collection.clone(),
            collection,
            token: token.to_owned(),
            kind: self.clone(),
        })
    }
}

impl Search {
    /// Reads the answer to the request for [`Search::path`].
    pub fn read(&self, body: Bytes) -> Result<Sighting, NotAList> {
        let shape: &Arc<ListShape> = &self.kind.list;
        let page = shape.read(body)?;
        let marked = |item: &&str| {
            let marker = self.kind.rules.marker.as_ref();
            marker.is_some_and(|marker| carries(item, marker, &self.token))
        };
        if let Some(id) = page
            .items()
            .find(marked)
            .and_then(|item| self.kind.id_of_item(item))
        {
            return Ok(Sighting::Found(id));
        }
        let (Some(next), Some(paging)) = (page.next(), &shape.paging) else {
            return Ok(Sighting::Nowhere);
        };
        let mut path = self.collection.clone();
        path.push(if path.contains('?') { '&' } else { '?' });
        path.push_str(&paging.token);
        path.push('=');
        percent::encode_into(&mut path, next);
        Ok(Sighting::Next(Search { path, ..self.clone() }))
    }
}

fn carries(item: &str, marker: &Marker, token: &str) -> bool {
    let found = json::read(item).and_then(|item| json::find(item, &marker.pointer));
    matches!(found, Ok(Found::Value(value)) if edit::id_text(value).is_some_and(|text| text == token))
}
