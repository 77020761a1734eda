//! Scopes that were read before, by their text: callers repeat a few of them.

use std::{cell::RefCell, collections::HashMap, sync::Arc};

use super::Carried;

/// All texts together, of one service at one core. A scope takes up to 50 times its text, so this is less than a mebibyte.
const TEXTS_MAX_BYTES: usize = 16 * 1024;
/// What an entry takes beside its text, in the same measure.
const ENTRY_BYTES: usize = 32;

/// What a text was read as, as long as nothing changes by which it was checked: whoever has it lives as long as one
/// generation of the configuration.
#[derive(Default)]
pub(crate) struct ReadScopes(RefCell<Known>);

#[derive(Default)]
struct Known {
    by_text: HashMap<Box<str>, Arc<Carried>>,
    bytes: usize,
}

impl ReadScopes {
    pub(crate) fn get_or_read<E>(
        &self,
        text: &str,
        read: impl FnOnce() -> Result<Arc<Carried>, E>,
    ) -> Result<Arc<Carried>, E> {
        if let Some(known) = self.0.borrow().by_text.get(text) {
            return Ok(known.clone());
        }
        let carried = read()?;
        self.0.borrow_mut().put(text, &carried);
        Ok(carried)
    }
}

impl Known {
    fn put(&mut self, text: &str, carried: &Arc<Carried>) {
        let bytes = text.len() + ENTRY_BYTES;
        // To forget all at once is no loss: who comes with ever new scopes has no use for old ones, and who
        // repeats a few has read them again after as many requests.
        if self.bytes + bytes > TEXTS_MAX_BYTES {
            *self = Self::default();
        }
        if bytes <= TEXTS_MAX_BYTES {
            self.bytes += bytes;
            self.by_text.insert(text.into(), carried.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use cheops_scope::{ParseLimits, read};
    use cheops_types::Limits;

    use super::*;

    fn carried(text: &str) -> Result<Arc<Carried>, ()> {
        let limits = ParseLimits::from(&Limits::default());
        read(text, &limits, None).map(Carried::new).map_err(drop)
    }

    #[test]
    fn a_text_is_read_once() {
        let scopes = ReadScopes::default();
        let first = scopes.get_or_read("B: site2", || carried("B: site2")).unwrap();
        let again = scopes.get_or_read("B: site2", || unreachable!());
        assert!(Arc::ptr_eq(&first, &again.unwrap_or_else(|()| unreachable!())));
        scopes.get_or_read("B: &", || carried("B: &")).unwrap_err();
        scopes.get_or_read("B: &", || carried("B: &")).unwrap_err();
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let scopes = ReadScopes::default();
        for number in 0..10_000 {
            let text = format!("B: site{number}");
            scopes.get_or_read(&text, || carried(&text)).unwrap();
            let known = scopes.0.borrow();
            let bytes: usize = known.by_text.keys().map(|text| text.len() + ENTRY_BYTES).sum();
            assert_eq!(bytes, known.bytes);
            assert!(known.bytes <= TEXTS_MAX_BYTES);
            assert!(known.by_text.contains_key(&*text));
        }
        let long = format!("B: {}", "s".repeat(TEXTS_MAX_BYTES));
        scopes.get_or_read(&long, || carried("B: site2")).unwrap();
        assert!(scopes.0.borrow().by_text.is_empty());
    }
}
