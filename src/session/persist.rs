//! What is remembered from one start to the next: recent files, theme, arrangement.
//!
//! Always: a missing, old or broken file is no error, it only means starting afresh; a file of a newer
//! version is left alone. The folder is `$FRAGSCOPE_CONFIG_DIR`, else `fragscope` in
//! `$XDG_CONFIG_HOME`, `%APPDATA%` or `~/.config`.

use crate::chart::{ColourBy, Theme, TimeAxis};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The version this program writes.
pub const VERSION: u32 = 1;
const RECENT: usize = 12;

/// The saved form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Saved {
    /// Version of the form.
    pub version: u32,
    /// Files opened lately, the newest first.
    pub recent: Vec<PathBuf>,
    /// Whether the window is dark.
    pub dark: bool,
    /// Whether time axes show real time.
    pub real_time: bool,
    /// Name of what colours mean.
    pub colour_by: String,
    /// The window's arrangement, in the window's own words.
    pub layout: String,
    /// The file of categories that was loaded; none: that of the folder, else the built-in ones.
    pub categories: Option<PathBuf>,
}

impl Default for Saved {
    fn default() -> Self {
        Self {
            version: VERSION,
            recent: Vec::new(),
            dark: false,
            real_time: false,
            colour_by: String::new(),
            layout: String::new(),
            categories: None,
        }
    }
}

impl Saved {
    /// Puts a file to the front of the recent ones.
    pub fn remember(&mut self, path: &Path) {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        self.recent.retain(|other| *other != path);
        self.recent.insert(0, path);
        self.recent.truncate(RECENT);
    }
    /// The theme.
    pub fn theme(&self) -> Theme {
        if self.dark { Theme::Dark } else { Theme::Light }
    }
    /// The axis.
    pub fn axis(&self) -> TimeAxis {
        if self.real_time { TimeAxis::Time } else { TimeAxis::Events }
    }
    /// What colours mean.
    pub fn colour_by(&self) -> ColourBy {
        ColourBy::ALL.iter().copied().find(|by| by.name() == self.colour_by).unwrap_or_default()
    }
}

/// Reads what was saved in a folder; afresh where there is nothing to read.
pub fn load(folder: &Path) -> Saved {
    let read = || -> Option<Saved> { serde_json::from_slice(&std::fs::read(folder.join(FILE)).ok()?).ok() };
    match read() {
        Some(saved) if saved.version <= VERSION => Saved { version: VERSION, ..saved },
        Some(_) | None => Saved::default(),
    }
}

/// Writes it, whole or not at all.
pub fn store(folder: &Path, saved: &Saved) -> std::io::Result<()> {
    let newer = std::fs::read(folder.join(FILE)).ok().and_then(|bytes| serde_json::from_slice::<Saved>(&bytes).ok());
    if newer.is_some_and(|newer| VERSION < newer.version) {
        return Ok(());
    }
    std::fs::create_dir_all(folder)?;
    let beside = folder.join(format!("{FILE}.{}", std::process::id()));
    std::fs::write(&beside, serde_json::to_vec_pretty(saved)?)?;
    std::fs::rename(beside, folder.join(FILE))
}

/// The folder of this user, if the environment names one.
pub fn folder() -> Option<PathBuf> {
    folder_from(|name| std::env::var_os(name))
}

const FILE: &str = "window.json";

fn folder_from(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("FRAGSCOPE_CONFIG_DIR")
        .or_else(|| set("XDG_CONFIG_HOME").filter(|path| path.is_absolute()).map(|path| path.join("fragscope")))
        .or_else(|| set("APPDATA").map(|path| path.join("fragscope")))
        .or_else(|| set("HOME").map(|path| path.join(".config").join("fragscope")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_loaded() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = dir.path().join("deep").join("er");
        let mut saved = Saved { dark: true, layout: "x".into(), ..Saved::default() };
        for n in 0..20 {
            saved.remember(Path::new(&format!("/data/{n}.pickle")));
        }
        saved.remember(Path::new("/data/15.pickle"));
        store(&folder, &saved).expect("stored");
        let loaded = load(&folder);
        assert_eq!(loaded, saved);
        assert_eq!(loaded.recent.len(), 12);
        assert_eq!(loaded.recent[..3], ["/data/15.pickle", "/data/19.pickle", "/data/18.pickle"].map(PathBuf::from));
    }

    #[test]
    fn broken_old_and_newer_files_are_survived() {
        for (text, kept) in [
            ("", false),
            ("{", false),
            ("[1, 2]", false),
            (r#"{"dark": "maybe"}"#, false),
            (r#"{"dark": true}"#, true),
            (r#"{"version": 0, "dark": true, "unknown": 1}"#, true),
            (r#"{"version": 99, "dark": true}"#, false),
        ] {
            let dir = tempfile::tempdir().expect("a folder");
            std::fs::write(dir.path().join(FILE), text).expect("written");
            assert_eq!(load(dir.path()).dark, kept, "{text}");
            store(dir.path(), &Saved::default()).expect("stored");
            let after = std::fs::read_to_string(dir.path().join(FILE)).expect("there");
            assert_eq!(after == text, text.contains("99"), "only a newer file is left alone: {text}");
        }
        assert_eq!(load(Path::new("/nowhere/at/all")), Saved::default());
        assert!(store(Path::new("/dev/null/folder"), &Saved::default()).is_err());
    }

    #[test]
    fn the_folder_follows_the_environment() {
        for (set, expected) in [
            (&[("FRAGSCOPE_CONFIG_DIR", "/a"), ("HOME", "/h")][..], Some("/a")),
            (&[("XDG_CONFIG_HOME", "/x"), ("HOME", "/h")], Some("/x/fragscope")),
            (&[("XDG_CONFIG_HOME", "relative"), ("HOME", "/h")], Some("/h/.config/fragscope")),
            (&[("XDG_CONFIG_HOME", ""), ("HOME", "/h")], Some("/h/.config/fragscope")),
            (&[], None),
        ] {
            let of = |name: &str| set.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value));
            assert_eq!(folder_from(of), expected.map(PathBuf::from), "{set:?}");
        }
    }
}
