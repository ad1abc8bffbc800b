//! The rules of categories in force: the user's file, else the built-in ones.
//!
//! Always: a file that cannot be read changes nothing but says so; a line that is no rule is told, and the others work.

use crate::analysis::Categories;
use crate::session::jobs::{JobError, JobSpec, Lane};
use crate::session::persist::Saved;
use crate::session::{Message, Session};
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// A file in the folder of settings that is read without being asked for.
const FILE: &str = "categories.txt";
/// Nobody writes more rules than this by hand.
const LARGEST_FILE: u64 = 1 << 20;
/// Sentences about one file that are shown; the rest is counted.
const MOST_FAULTS: usize = 3;

/// The rules at the start, and what there is to say about them.
pub(super) fn at_start(folder: Option<&Path>, saved: &Saved) -> (Categories, Vec<String>) {
    let own = folder.map(|folder| folder.join(FILE)).filter(|path| path.exists());
    let Some(path) = saved.categories.clone().or(own) else { return (Categories::built_in(), Vec::new()) };
    match read(&path) {
        Ok(text) => {
            let rules = Categories::parse(&text);
            let told = faults(&rules);
            (rules, told)
        }
        Err(error) => (Categories::built_in(), vec![format!("{error} The built-in categories are used.")]),
    }
}

impl Session {
    /// The rules in force.
    pub fn categories(&self) -> &Categories {
        &self.categories
    }
    pub(super) fn load_categories(&mut self, path: PathBuf) {
        let spec = JobSpec { title: "reading categories".into(), slot: None, lane: Lane::Own, listed: false };
        self.jobs.start(spec, move |cx| {
            let path = std::path::absolute(&path).unwrap_or(path);
            let text = read(&path).map_err(JobError::Failed)?;
            cx.send(Message::Categories(path, Categories::parse(&text)));
            Ok(())
        });
    }
    /// Puts rules in force and remembers where they are from.
    pub(super) fn use_categories(&mut self, path: Option<PathBuf>, rules: Categories) {
        for fault in faults(&rules) {
            self.note(fault, true);
        }
        if let Some(path) = &path {
            let named = rules.names().len() - 1;
            let count = if named == 1 { "1 category".to_owned() } else { format!("{named} categories") };
            self.note(format!("Read {count} from {}.", path.display()), false);
        }
        if self.categories != rules {
            self.categories = rules;
            let Session { pictures, jobs, .. } = self;
            pictures.get_mut().start_anew(|job| jobs.cancel(job));
        }
        if self.saved.categories != path {
            self.saved.categories = path;
            self.save();
        }
    }
}

fn read(path: &Path) -> Result<String, String> {
    let failed = |why: &dyn std::fmt::Display| format!("Could not read the categories {}: {why}.", path.display());
    let file = std::fs::File::open(path).map_err(|error| failed(&error))?;
    let mut text = String::new();
    match file.take(LARGEST_FILE + 1).read_to_string(&mut text) {
        Ok(read) if LARGEST_FILE < read as u64 => Err(failed(&"it is larger than 1 MiB")),
        Ok(_) => Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => Err(failed(&"it is no text")),
        Err(error) => Err(failed(&error)),
    }
}

fn faults(rules: &Categories) -> Vec<String> {
    let all = rules.faults();
    let mut told: Vec<String> = all.iter().take(MOST_FAULTS).cloned().collect();
    if MOST_FAULTS < all.len() {
        told.push(format!("{} more lines of the categories are left out.", all.len() - MOST_FAULTS));
    }
    told
}
