//! Numbers as hexadecimal digits, without the machinery of formatting: every scoped request has several.

/// The digits of each byte.
static DIGITS: [[u8; 2]; 256] = {
    let digits = b"0123456789abcdef";
    let mut of_bytes = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        of_bytes[byte] = [digits[byte >> 4], digits[byte & 15]];
        byte += 1;
    }
    of_bytes
};

/// Appends a number's last digits, in lower case: so many that they are whole bytes.
pub(crate) fn push(text: &mut Vec<u8>, number: u128, digits: usize) {
    let mut all = [0; 32];
    let bytes = number.to_be_bytes();
    let first = bytes.len() - digits / 2;
    for (two, byte) in all.chunks_exact_mut(2).zip(&bytes[first..]) {
        two.copy_from_slice(&DIGITS[usize::from(*byte)]);
    }
    text.extend_from_slice(&all[..digits]);
}

/// All digits of a number.
pub(crate) fn text(number: u128) -> String {
    let mut text = Vec::with_capacity(32);
    push(&mut text, number, 32);
    text.into_iter().map(char::from).collect()
}

/// Reads exactly so many digits, in any case.
pub(crate) fn read(text: &[u8], digits: usize) -> Option<u128> {
    if text.len() != digits || digits > 32 {
        return None;
    }
    let mut number = 0;
    for digit in text {
        number = number << 4 | u128::from(char::from(*digit).to_digit(16)?);
    }
    Some(number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_are_written_as_formatting_would(number: u128) {
            let mut text = Vec::new();
            push(&mut text, number, 32);
            prop_assert_eq!(std::str::from_utf8(&text).unwrap(), format!("{number:032x}"));
            prop_assert_eq!(read(&text, 32), Some(number));
            prop_assert_eq!(read(&text.to_ascii_uppercase(), 32), Some(number));
            let mut end = Vec::new();
            push(&mut end, number, 2);
            prop_assert_eq!(&end, &text[30..]);
        }
    }

    #[test]
    fn nothing_else_is_a_number() {
        for text in ["", "0", "000", "+0", "0x", " 0", "g0", "\u{660}"] {
            assert_eq!(read(text.as_bytes(), 2), None, "{text:?}");
        }
    }
}
