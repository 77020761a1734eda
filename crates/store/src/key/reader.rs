/// The bytes are no key of this type: the table was written by something else, or is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the key cannot be read")]
pub struct BadKey;

/// What is left of a key that is being read.
#[derive(Debug)]
pub struct KeyReader<'a>(&'a [u8]);

impl<'a> KeyReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn end(&self) -> Result<(), BadKey> {
        if self.0.is_empty() { Ok(()) } else { Err(BadKey) }
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], BadKey> {
        let (head, rest) = self.0.split_first_chunk().ok_or(BadKey)?;
        self.0 = rest;
        Ok(*head)
    }

    /// A byte string, without its end.
    pub fn bytes(&mut self) -> Result<Vec<u8>, BadKey> {
        let mut bytes = Vec::new();
        loop {
            match self.0 {
                [0, 1, rest @ ..] => {
                    self.0 = rest;
                    return Ok(bytes);
                }
                [0, 0xff, rest @ ..] => {
                    bytes.push(0);
                    self.0 = rest;
                }
                [] | [0, ..] => return Err(BadKey),
                [byte, rest @ ..] => {
                    bytes.push(*byte);
                    self.0 = rest;
                }
            }
        }
    }

    pub fn text(&mut self) -> Result<String, BadKey> {
        String::from_utf8(self.bytes()?).map_err(|_| BadKey)
    }
}
