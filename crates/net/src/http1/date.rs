//! The date of an answer.

use std::fmt::Write as _;

const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];
const DAY_S: u64 = 24 * 60 * 60;

/// The line `date: …`, written anew once in a second.
#[derive(Debug, Default)]
pub(crate) struct DateLine {
    written_at_s: u64,
    line: String,
}

impl DateLine {
    /// The line at so many seconds since 1970.
    pub(crate) fn at(&mut self, unix_s: u64) -> &[u8] {
        if self.line.is_empty() || self.written_at_s != unix_s {
            self.written_at_s = unix_s;
            self.write(unix_s);
        }
        self.line.as_bytes()
    }

    fn write(&mut self, unix_s: u64) {
        let (day, second) = (unix_s / DAY_S, unix_s % DAY_S);
        let (year, month, of_month) = civil(day);
        let weekday = WEEKDAYS[(day % 7) as usize];
        let month = MONTHS[month];
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        self.line.clear();
        // Writing to a string does not fail.
        let _ = write!(
            self.line,
            "date: {weekday}, {of_month:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT\r\n"
        );
    }
}

/// Year, month from 0 and day of the month of a day since 1970. Years begin with March in the calculation, so that the day
/// that some of them have more is their last.
fn civil(day: u64) -> (u64, usize, u64) {
    let day = day + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * from_march + 2) / 5 + 1;
    let month = (from_march + 2) % 12;
    let year = era * 400 + year + u64::from(month < 2);
    (year, month as usize, of_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_written_as_http_wants_it() {
        let mut line = DateLine::default();
        for (unix_s, date) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (1_735_689_599, "Tue, 31 Dec 2024 23:59:59 GMT"),
            (1_772_323_200, "Sun, 01 Mar 2026 00:00:00 GMT"),
        ] {
            assert_eq!(line.at(unix_s), format!("date: {date}\r\n").as_bytes());
        }
    }
}
