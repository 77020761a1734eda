//! Keys as bytes whose order is the order of what they stand for.
//!
//! - Integers have a fixed width, most significant byte first.
//! - Byte arrays of fixed length stand as they are.
//! - Texts and byte strings end with `00 01`; a zero byte inside is `00 ff`. So no key is the
//!   beginning of another one, "a" comes before "ab", and whatever follows cannot disturb the order.
//! - Tuples and structs are their fields, one after another.
//!
//! Because every part ends by itself, the first fields of a key are a prefix that can be scanned, and
//! a row of an index is the index key followed by the key of its record.

use cheops_types::{ServiceName, SiteName, Stamp};

mod reader;

pub use reader::{BadKey, KeyReader};

/// Something that can be a key. `read` of what `write` wrote gives the same, and bytes compare as
/// values do.
pub trait Key: Sized {
    fn write(&self, out: &mut Vec<u8>);

    fn read(input: &mut KeyReader<'_>) -> Result<Self, BadKey>;

    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out);
        out
    }

    /// A key that is all of `bytes`.
    fn from_bytes(bytes: &[u8]) -> Result<Self, BadKey> {
        let mut input = KeyReader::new(bytes);
        let key = Self::read(&mut input)?;
        input.end()?;
        Ok(key)
    }
}

/// Writes a text or byte string with its end.
pub fn write_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    for byte in bytes {
        out.push(*byte);
        if *byte == 0 {
            out.push(0xff);
        }
    }
    out.extend([0, 1]);
}

macro_rules! integers {
    ($($type:ty)*) => {$(
        impl Key for $type {
            fn write(&self, out: &mut Vec<u8>) {
                out.extend(self.to_be_bytes());
            }

            fn read(input: &mut KeyReader<'_>) -> Result<Self, BadKey> {
                input.array().map(Self::from_be_bytes)
            }
        }
    )*};
}

integers!(u8 u16 u32 u64 u128);

impl<const N: usize> Key for [u8; N] {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self);
    }

    fn read(input: &mut KeyReader<'_>) -> Result<Self, BadKey> {
        input.array()
    }
}

impl Key for Vec<u8> {
    fn write(&self, out: &mut Vec<u8>) {
        write_bytes(self, out);
    }

    fn read(input: &mut KeyReader<'_>) -> Result<Self, BadKey> {
        input.bytes()
    }
}

impl Key for String {
    fn write(&self, out: &mut Vec<u8>) {
        write_bytes(self.as_bytes(), out);
    }

    fn read(input: &mut KeyReader<'_>) -> Result<Self, BadKey> {
        input.text()
    }
}

macro_rules! names {
    ($($type:ty)*) => {$(
        impl Key for $type {
            fn write(&self, out: &mut Vec<u8>) {
                write_bytes(self.as_str().as_bytes(), out);
            }

            fn read(input: &mut KeyReader<'_>) -> Result<Self, BadKey> {
                Self::new(&input.text()?).map_err(|_| BadKey)
            }
        }
    )*};
}

names!(SiteName ServiceName);

impl Key for Stamp {
    fn write(&self, out: &mut Vec<u8>) {
        self.millis.write(out);
        self.count.write(out);
    }

    fn read(input: &mut KeyReader<'_>) -> Result<Self, BadKey> {
        Ok(Self {
            millis: u64::read(input)?,
            count: u32::read(input)?,
        })
    }
}

macro_rules! tuples {
    ($(($($part:ident),*))*) => {$(
        impl<$($part: Key),*> Key for ($($part,)*) {
            #[allow(non_snake_case, unused_variables)] // the empty tuple has no parts
            fn write(&self, out: &mut Vec<u8>) {
                let ($($part,)*) = self;
                $($part.write(out);)*
            }

            #[allow(unused_variables, clippy::unused_unit)] // the empty tuple has no parts
            fn read(input: &mut KeyReader<'_>) -> Result<Self, BadKey> {
                Ok(($($part::read(input)?,)*))
            }
        }
    )*};
}

tuples!(()(A)(A, B)(A, B, C)(A, B, C, D));

#[cfg(test)]
mod tests;
