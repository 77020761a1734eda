//! A site's own token beside a caller's.

use super::value_at;
use crate::{Pointer, edit};

/// How a site gets a token of its own, and where it goes: beside the caller's, to say that a known service
/// speaks for it. An application may then accept a caller's token that has just ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StandIn {
    pub method: String,
    pub path: String,
    /// The header of the answer that has the token, in lower case.
    pub token: String,
    /// Where the answer tells when the token ends, as a date of RFC 3339; none where it does not.
    pub expires: Option<Pointer>,
    /// The header in which the token is sent, in lower case.
    pub beside: String,
}

impl StandIn {
    /// When the token of an answer ends, in milliseconds since 1970.
    pub fn expires_ms(&self, body: &[u8]) -> Option<u64> {
        let document = edit::build(body).ok()?;
        rfc3339_ms(value_at(&document, self.expires.as_ref()?)?.as_str()?)
    }
}

/// A date such as `2024-05-06T07:08:09.000000Z`, in UTC or with an offset.
fn rfc3339_ms(text: &str) -> Option<u64> {
    let number = |range: std::ops::Range<usize>| text.get(range)?.parse::<i64>().ok();
    let mark = |at: usize, expect: &[u8]| text.as_bytes().get(at).is_some_and(|byte| expect.contains(byte));
    if !(mark(4, b"-") && mark(7, b"-") && mark(10, b"Tt ") && mark(13, b":") && mark(16, b":")) {
        return None;
    }
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    let rest = text.get(19..)?;
    let zone_at = rest
        .find(|c: char| c != '.' && !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let offset_s = match &rest[zone_at..] {
        "" | "Z" | "z" => 0,
        zone => offset_s(zone)?,
    };
    let days = days_since_1970(year, month, day)?;
    let seconds = days * 86_400 + hour * 3_600 + minute * 60 + second - offset_s;
    u64::try_from(seconds).ok()?.checked_mul(1_000)
}

fn offset_s(zone: &str) -> Option<i64> {
    let sign = match zone.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let digits = zone.get(1..)?.replace(':', "");
    let (hours, minutes) = (digits.get(0..2)?, digits.get(2..4)?);
    Some(sign * (hours.parse::<i64>().ok()? * 3_600 + minutes.parse::<i64>().ok()? * 60))
}

/// Days between 1 January 1970 and a date of the Gregorian calendar, which repeats every 400 years.
fn days_since_1970(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Years begin in March here, so that the leap day is their last.
    let year = if month <= 2 { year - 1 } else { year };
    let month = (month + 9) % 12;
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

#[cfg(test)]
mod tests {
    use super::rfc3339_ms;

    #[test]
    fn dates() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2000-02-29T12:00:00.5Z", Some(951_825_600)),
            ("2024-05-06T07:08:09.000000Z", Some(1_714_979_289)),
            ("2024-05-06T09:08:09+02:00", Some(1_714_979_289)),
            ("2024-05-06T07:08:09", Some(1_714_979_289)),
            ("2024-13-06T07:08:09Z", None),
            ("2024-05-06", None),
            ("tomorrow", None),
        ] {
            assert_eq!(rfc3339_ms(text), seconds.map(|s: u64| s * 1_000), "{text}");
        }
    }
}
