//! Learning rate of an epoch.

use crate::config::{Schedule, Train};

/// Learning rate of epoch 0, 1, ...
pub fn learning_rate(train: &Train, epoch: usize) -> f64 {
    match train.schedule {
        Schedule::Constant => train.learning_rate,
        Schedule::Root => train.learning_rate / ((epoch + 1) as f64).sqrt(),
        Schedule::Cosine => {
            let progress = epoch as f64 / train.epochs as f64;
            let weight = 0.5 * (1.0 + (std::f64::consts::PI * progress).cos());
            train.final_learning_rate + weight * (train.learning_rate - train.final_learning_rate)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn cosine_starts_halves_and_ends_where_it_should() {
        let mut train = Config::default().train;
        (train.schedule, train.learning_rate, train.final_learning_rate, train.epochs) =
            (Schedule::Cosine, 1.0, 0.2, 10);
        assert_eq!(learning_rate(&train, 0), 1.0);
        assert!((learning_rate(&train, 5) - 0.6).abs() < 1e-12);
        assert!((learning_rate(&train, 10) - 0.2).abs() < 1e-12);
        train.schedule = Schedule::Constant;
        assert_eq!(learning_rate(&train, 7), 1.0);
        train.schedule = Schedule::Root;
        assert_eq!([0, 3, 8].map(|epoch| learning_rate(&train, epoch)), [1.0, 0.5, 1.0 / 3.0]);
    }
}
