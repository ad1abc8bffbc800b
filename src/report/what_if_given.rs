//! What a user gives a what-if in words, read for the command line and the window alike: settings strings, and what the
//! recording ran with where the file does not say.

use crate::base::Bytes;
use crate::model::{AllocatorSettings, Origin, Snapshot};
use crate::simulator::{Recorded, conf};

/// What the recording ran with: the file, then a string like `max_split_size_mb:128,total:80GiB`. The error is a sentence.
pub fn recorded(snapshot: &Snapshot, text: &str) -> Result<Recorded, String> {
    let mut recorded = Recorded { settings: snapshot.settings.clone(), total: None };
    let (totals, rest): (Vec<&str>, Vec<&str>) = conf::pairs(text).into_iter().partition(|pair| pair.starts_with("total:"));
    for total in totals {
        let size = Bytes::parse(total.trim_start_matches("total:")).filter(|size| 0 < size.0);
        let size = size.ok_or_else(|| format!("`{total}` does not do: a size like total:80GiB or total:512MiB"))?;
        recorded.total = Some(size.0);
    }
    conf::read(&mut recorded.settings, &rest.join(","), &snapshot.origin)?;
    Ok(recorded)
}

/// The settings of a scenario, from its whole settings string. The error is a sentence.
pub fn settings(recorded: &Recorded, text: &str, origin: &Origin) -> Result<AllocatorSettings, String> {
    // A fraction is set by the program too: it stays unless the scenario says another.
    let per_process_memory_fraction = recorded.settings.per_process_memory_fraction;
    let mut settings = AllocatorSettings { conf: text.to_owned(), per_process_memory_fraction, ..AllocatorSettings::default() };
    conf::read(&mut settings, text, origin)?;
    Ok(settings)
}
