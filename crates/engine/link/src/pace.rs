use lineside_time::Nanoseconds;

use crate::bucket::Bucket;
use crate::deliveries::DeliveryPace;
use crate::path_file::PathPace;
use crate::settings::{Excess, Schedule, Settings};

/// When frames whose delay has ended may leave.
#[derive(Debug, Clone)]
pub(crate) enum Pace {
    /// At once.
    None,
    Bucket(Bucket),
    Path(PathPace),
    Deliveries(DeliveryPace),
}

impl Pace {
    /// The pace of `settings`, which follow `previous` ones at `now`: a schedule that stays goes
    /// on, and a bucket is not filled again.
    pub(crate) fn changed(
        &self,
        settings: &Settings,
        previous: &Settings,
        origin_ns: Nanoseconds,
        now: Nanoseconds,
    ) -> Self {
        let is_same = settings.schedule == previous.schedule;
        match (&settings.schedule, settings.rate) {
            (Some(Schedule::Path(path)), _) if path.has_rate() => match self {
                Self::Path(_) if is_same => self.clone(),
                _ => Self::Path(PathPace::new(path.clone(), origin_ns)),
            },
            (Some(Schedule::Deliveries(deliveries)), _) => match self {
                Self::Deliveries(_) if is_same => self.clone(),
                _ => Self::Deliveries(DeliveryPace::new(deliveries.clone(), origin_ns)),
            },
            (_, Some(rate)) => Self::Bucket(match self {
                Self::Bucket(bucket) if *bucket.limit() == rate => bucket.clone(),
                Self::Bucket(bucket) => bucket.changed(rate, now),
                _ => Bucket::new(rate, now),
            }),
            (_, None) => Self::None,
        }
    }

    /// What counts time from the beginning of the link begins at `origin_ns`.
    pub(crate) fn begin(&mut self, settings: &Settings, origin_ns: Nanoseconds) {
        match (&mut *self, &settings.schedule) {
            (Self::Path(pace), Some(Schedule::Path(path))) => {
                *pace = PathPace::new(path.clone(), origin_ns);
            }
            (Self::Deliveries(pace), Some(Schedule::Deliveries(deliveries))) => {
                *pace = DeliveryPace::new(deliveries.clone(), origin_ns);
            }
            _ => {}
        }
    }

    #[inline]
    pub(crate) fn ready_ns(&self, due: Nanoseconds, len_bytes: u32) -> Nanoseconds {
        match self {
            Self::None => due,
            Self::Bucket(bucket) => bucket.ready_ns(due, len_bytes),
            Self::Path(path) => path.ready_ns(due, len_bytes),
            Self::Deliveries(deliveries) => deliveries.ready_ns(due, len_bytes),
        }
    }

    #[inline]
    pub(crate) fn take(&mut self, due: Nanoseconds, len_bytes: u32) {
        match self {
            Self::None => {}
            Self::Bucket(bucket) => bucket.take(due, len_bytes),
            Self::Path(path) => path.take(due, len_bytes),
            Self::Deliveries(deliveries) => deliveries.take(due, len_bytes),
        }
    }

    /// Whether frames above the rate are dropped.
    #[inline]
    pub(crate) fn drops(&self) -> bool {
        matches!(self, Self::Bucket(bucket) if bucket.limit().excess == Excess::Drop)
    }
}
