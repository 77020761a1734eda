//! Times for people.

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// Milliseconds since 1970 as `2026-03-01 12:30:05.250Z`.
pub(super) fn utc(ms: u64) -> String {
    let (year, month, day) = date(ms / DAY_MS);
    let rest = ms % DAY_MS;
    let (hours, minutes) = (rest / 3_600_000, rest / 60_000 % 60);
    let (seconds, millis) = (rest / 1000 % 60, rest % 1000);
    format!("{year:04}-{month:02}-{day:02} {hours:02}:{minutes:02}:{seconds:02}.{millis:03}Z")
}

/// The date of a day since 1970. Years are counted from March, so that the leap day is the last one.
fn date(day: u64) -> (u64, u64, u64) {
    const ERA_DAYS: u64 = 146_097; // 400 years
    let day = day + 719_468; // since 0000-03-01
    let (era, of_era) = (day / ERA_DAYS, day % ERA_DAYS);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (ms, expected) in [
            (0, "1970-01-01 00:00:00.000Z"),
            (951_782_400_000, "2000-02-29 00:00:00.000Z"),
            (951_868_799_999, "2000-02-29 23:59:59.999Z"),
            (1_767_225_599_001, "2025-12-31 23:59:59.001Z"),
            (4_107_542_400_000, "2100-03-01 00:00:00.000Z"),
        ] {
            assert_eq!(utc(ms), expected);
        }
    }
}
