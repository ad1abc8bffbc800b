//! Which PyTorch wrote a file, as far as its keys tell: presence gives the oldest, absence the newest.

use crate::format::words::Key;
use crate::model::VersionRange;

/// Which keys and which kinds of rows were seen.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Evidence(u32);

/// Releases of which snapshots were tried, oldest first.
const RELEASES: [&str; 16] =
    ["1.13", "2.0", "2.1", "2.2", "2.3", "2.4", "2.5", "2.6", "2.7", "2.8", "2.9", "2.10", "2.11", "2.12", "2.13", "2.14"];
/// The newest release known.
const NEWEST: &str = "2.15";

/// What can be seen; each is one bit.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Seen {
    TopDict,
    Settings,
    Event,
    Segment,
    Block,
    RequestedSize,
    BlockAddress,
    Time,
    Annotations,
    CompileContext,
    StreamReuse,
    UserMetadata,
    Pool,
    RoundThreshold,
    Host,
    InternalMetadata,
    Annotate,
}

/// A key, the release it came with, and where it would have to be if the release wrote it.
const FEATURES: [(Seen, &str, Option<Seen>); 15] = [
    (Seen::TopDict, "2.0", None),
    (Seen::RequestedSize, "2.0", Some(Seen::Block)),
    (Seen::BlockAddress, "2.1", Some(Seen::Block)),
    (Seen::Time, "2.2", Some(Seen::Event)),
    (Seen::Settings, "2.3", Some(Seen::TopDict)),
    (Seen::Annotations, "2.5", Some(Seen::TopDict)),
    (Seen::CompileContext, "2.8", Some(Seen::Event)),
    (Seen::StreamReuse, "2.9", Some(Seen::Settings)),
    (Seen::UserMetadata, "2.10", Some(Seen::Event)),
    (Seen::Pool, "2.12", Some(Seen::Event)),
    (Seen::RoundThreshold, "2.13", Some(Seen::Settings)),
    (Seen::Host, "2.14", Some(Seen::TopDict)),
    (Seen::Annotate, "2.14", None),
    (Seen::InternalMetadata, NEWEST, None),
    (Seen::Segment, "1.13", None),
];

impl Evidence {
    /// Notes that something was seen.
    #[inline]
    pub(crate) fn see(&mut self, seen: Seen) {
        self.0 |= 1 << seen as u32;
    }
    fn has(self, seen: Seen) -> bool {
        self.0 & 1 << seen as u32 != 0
    }
    /// Notes a key of an event.
    #[inline]
    pub(crate) fn see_event_key(&mut self, key: Key) {
        match key {
            Key::TimeUs => self.see(Seen::Time),
            Key::CompileContext => self.see(Seen::CompileContext),
            Key::UserMetadata => self.see(Seen::UserMetadata),
            Key::PoolId => self.see(Seen::Pool),
            Key::InternalMetadata => self.see(Seen::InternalMetadata),
            _ => {}
        }
    }
    /// The releases that write exactly these keys.
    pub(crate) fn range(self) -> VersionRange {
        let rank = |version: &str| RELEASES.iter().position(|known| *known == version).unwrap_or(RELEASES.len());
        let present = FEATURES.iter().filter(|(seen, ..)| self.has(*seen)).map(|(_, version, _)| rank(version));
        let at_least = present.max().unwrap_or(0);
        let absent = FEATURES
            .iter()
            .filter(|(seen, _, place)| !self.has(*seen) && place.is_some_and(|place| self.has(place)))
            .map(|(_, version, _)| rank(version));
        // A key that is missing although a younger one is there was removed by somebody: it tells nothing.
        let at_most = absent.filter(|rank| at_least < *rank).min();
        VersionRange {
            at_least: RELEASES.get(at_least).unwrap_or(&NEWEST).to_string(),
            at_most: at_most.and_then(|rank| RELEASES.get(rank.checked_sub(1)?)).map(|version| version.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_tell_the_release() {
        use Seen::*;
        let event_29: &[Seen] = &[
            TopDict,
            Segment,
            Block,
            RequestedSize,
            BlockAddress,
            Settings,
            Annotations,
            StreamReuse,
            Event,
            Time,
            CompileContext,
        ];
        for (seen, at_least, at_most) in [
            (&[Segment, Block][..], "1.13", Some("1.13")),
            (&[TopDict, Segment, Block, RequestedSize], "2.0", Some("2.0")),
            (&[TopDict, Segment, Block, RequestedSize, BlockAddress], "2.1", Some("2.2")),
            (&[TopDict, Settings, Annotations], "2.5", Some("2.8")),
            (event_29, "2.9", Some("2.9")),
            (&[TopDict, Settings, Annotations, StreamReuse, RoundThreshold, Host], "2.14", None),
            (&[TopDict, Host, InternalMetadata, Event], "2.15", None),
            (&[Segment, Block, RequestedSize, BlockAddress], "2.1", None),
        ] {
            let mut evidence = Evidence::default();
            for seen in seen {
                evidence.see(*seen);
            }
            let range = evidence.range();
            assert_eq!((range.at_least.as_str(), range.at_most.as_deref()), (at_least, at_most), "{seen:?}");
        }
    }
}
