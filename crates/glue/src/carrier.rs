//! What an application passes from call to call, and so carries a workflow's scope.

/// One way in which a service's own call shows the workflow that it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Carrier {
    /// The services pass on the scope header itself.
    ScopeHeader,
    /// W3C `traceparent`: the trace id is the key.
    Traceparent,
    /// W3C `tracestate`: a member of the agent holds the key.
    Tracestate,
    /// W3C `baggage`: a member of the agent holds the key.
    Baggage,
    /// A header of the application, such as a request id.
    Header {
        /// In lower case.
        name: String,
        format: KeyFormat,
    },
}

impl Carrier {
    /// The carriers of an application that nothing is known about.
    pub(crate) fn plain() -> Vec<Self> {
        vec![Self::ScopeHeader, Self::Tracestate, Self::Traceparent]
    }
}

/// How a key of 128 bits is written in an application's header: fixed text around one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyFormat {
    prefix: String,
    suffix: String,
    digits: Digits,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Digits {
    /// 32 hexadecimal digits in groups of 8-4-4-4-12.
    Uuid,
    /// 32 hexadecimal digits.
    Hex,
}

impl Default for KeyFormat {
    fn default() -> Self {
        Self {
            prefix: String::new(),
            suffix: String::new(),
            digits: Digits::Uuid,
        }
    }
}

impl KeyFormat {
    /// Reads a template such as `req-{uuid}`; exactly one `{uuid}` or `{hex}` stands for the key.
    pub(crate) fn parse(template: &str) -> Option<Self> {
        let (digits, (prefix, suffix)) = match template.split_once("{uuid}") {
            Some(around) => (Digits::Uuid, around),
            None => (Digits::Hex, template.split_once("{hex}")?),
        };
        let fixed = |text: &str| {
            text.bytes()
                .all(|b| b.is_ascii_graphic() && b != b'{' && b != b'}')
        };
        (fixed(prefix) && fixed(suffix)).then(|| Self {
            prefix: prefix.to_owned(),
            suffix: suffix.to_owned(),
            digits,
        })
    }

    /// The header value that carries `key`.
    pub fn write(&self, key: u128) -> String {
        let Self { prefix, suffix, .. } = self;
        match self.digits {
            Digits::Hex => format!("{prefix}{key:032x}{suffix}"),
            Digits::Uuid => format!(
                "{prefix}{:08x}-{:04x}-{:04x}-{:04x}-{:012x}{suffix}",
                key >> 96,
                (key >> 80) & 0xffff,
                (key >> 64) & 0xffff,
                (key >> 48) & 0xffff,
                key & 0xffff_ffff_ffff,
            ),
        }
    }

    /// The key in a header value; none when the value is written in another way.
    pub fn read(&self, value: &str) -> Option<u128> {
        let digits = value.strip_prefix(&*self.prefix)?.strip_suffix(&*self.suffix)?;
        let mut key = 0;
        let mut count = 0;
        for (i, byte) in digits.bytes().enumerate() {
            if self.digits == Digits::Uuid && matches!(i, 8 | 13 | 18 | 23) {
                if byte != b'-' {
                    return None;
                }
                continue;
            }
            count += 1;
            if count > 32 {
                return None;
            }
            key = key << 4 | u128::from(char::from(byte).to_digit(16)?);
        }
        (count == 32).then_some(key)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_request_id_carries_a_key() {
        let format = KeyFormat::parse("req-{uuid}").unwrap();
        let value = "req-00112233-4455-6677-8899-aabbccddeeff";
        assert_eq!(
            format.read(value),
            Some(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff)
        );
        assert_eq!(format.write(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff), value);
        for other in [
            "",
            "req-",
            "00112233-4455-6677-8899-aabbccddeeff",
            "req-00112233-4455-6677-8899-aabbccddeef",
            "req-00112233-4455-6677-8899-aabbccddeeff0",
            "req-001122334455-6677-8899-aabbccddeeffaa",
            "req-00112233-4455-6677-8899-aabbccddeexx",
        ] {
            assert_eq!(format.read(other), None, "{other}");
        }
    }

    #[test]
    fn templates_have_one_key_and_fit_a_header() {
        for bad in ["", "req-", "{id}", "{uuid}{uuid}", "a b{hex}", "{hex}é"] {
            assert_eq!(KeyFormat::parse(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn keys_survive(key: u128) {
            for template in ["{uuid}", "{hex}", "a-{hex}.b"] {
                let format = KeyFormat::parse(template).unwrap();
                prop_assert_eq!(format.read(&format.write(key)), Some(key));
            }
        }
    }
}
