//! Dates as numbers: days since 1970-01-01, by the Gregorian calendar, in universal time.

use std::ops::Range;

/// Days since 1970-01-01 of an ISO date (`2026-11-18`), with or without a time (`2026-11-18T09:30:00Z`, `2026-11-18 09:30`).
pub fn days(text: &str) -> Option<f64> {
    let (date, time) = match text.get(..10) {
        Some(date) => (date, text.get(10..)?),
        None => return None,
    };
    let bytes = date.as_bytes();
    let digits = |range: Range<usize>| {
        let part = date.get(range)?;
        part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse::<i64>().ok()).flatten()
    };
    if bytes.get(4) != Some(&b'-') || bytes.get(7) != Some(&b'-') {
        return None;
    }
    let (year, month, day) = (digits(0..4)?, digits(5..7)?, digits(8..10)?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let longest = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=longest).contains(&day) {
        return None;
    }
    let whole = days_from_civil(year, month, day) as f64;
    Some(whole + time_of_day(time)?)
}

/// The part of a day that a time is: `T09:30`, ` 09:30:15.5`, with `Z` or an offset such as `+02:00`.
fn time_of_day(text: &str) -> Option<f64> {
    if text.is_empty() {
        return Some(0.0);
    }
    let text = text.strip_prefix(['T', 't', ' '])?;
    let (clock, offset) = match text.find(['Z', 'z', '+', '-']) {
        None => (text, 0.0),
        Some(at) => {
            let (clock, zone) = text.split_at(at);
            let sign = if zone.starts_with('-') { -1.0 } else { 1.0 };
            match zone {
                "Z" | "z" => (clock, 0.0),
                _ => (clock, sign * clock_of(zone.get(1..)?)?),
            }
        }
    };
    Some((clock_of(clock)? - offset) / 86_400.0)
}

/// Seconds of `09:30`, `09:30:15` or `09:30:15.25`.
fn clock_of(text: &str) -> Option<f64> {
    let mut parts = text.split(':');
    let mut part = |most: f64| -> Option<f64> {
        let part = parts.next()?;
        let sound = part.len() >= 2 && part.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        part.parse::<f64>().ok().filter(|&value| sound && value < most)
    };
    let (hours, minutes) = (part(24.0)?, part(60.0)?);
    let seconds = if text.matches(':').count() > 1 { part(60.0)? } else { 0.0 };
    (parts.next().is_none() && hours.fract() == 0.0 && minutes.fract() == 0.0)
        .then_some(hours * 3600.0 + minutes * 60.0 + seconds)
}

/// A date as people write it; with the time to the minute where there is one.
pub(super) fn date_text(days: f64) -> String {
    let whole = days.floor();
    if !(-719_528.0..2_932_897.0).contains(&whole) {
        return days.to_string();
    }
    let (year, month, day) = civil_from_days(whole as i64);
    let minutes = ((days - whole) * 1440.0).round() as u32;
    match minutes {
        0 => format!("{year:04}-{month:02}-{day:02}"),
        minutes => {
            let minutes = minutes.min(1439);
            format!("{year:04}-{month:02}-{day:02} {:02}:{:02}", minutes / 60, minutes % 60)
        }
    }
}

/// Of the Gregorian calendar: eras of 400 years of 146,097 days, years that begin in March.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let (day, month) = (of_year - (153 * shifted + 2) / 5 + 1, if shifted < 10 { shifted + 3 } else { shifted - 9 });
    (year + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_days_and_read_back() {
        for (text, expected) in [("1970-01-01", 0), ("1969-12-31", -1), ("2000-02-29", 11_016), ("2026-11-18", 20_775)]
        {
            assert_eq!(days(text), Some(f64::from(expected)), "{text}");
            assert_eq!(date_text(f64::from(expected)), text);
        }
        // Every day of 800 years is the one after the day before.
        let mut last = days("1600-01-01").unwrap() - 1.0;
        for number in last as i64 + 1..last as i64 + 292_194 {
            let (year, month, day) = civil_from_days(number);
            let again = days(&format!("{year:04}-{month:02}-{day:02}")).unwrap();
            assert_eq!(again, last + 1.0);
            last = again;
        }
        assert_eq!(days("2026-11-18T12:00:00Z"), Some(20_775.5));
        assert_eq!(days("2026-11-18 06:00"), Some(20_775.25));
        assert_eq!(days("2026-11-18T01:00:00+02:00"), Some(20_775.0 - 1.0 / 24.0));
        assert_eq!(date_text(20_775.5), "2026-11-18 12:00");
        for wrong in
            ["2026-13-01", "2025-02-29", "2026-11-31", "20261118", "2026-11-18x", "2026-11-18T25:00", "", "é026-11-18"]
        {
            assert_eq!(days(wrong), None, "{wrong}");
        }
    }
}
