//! What is remembered from one start to the next: recent files, theme, arrangement,
//! and of each file where one was in it.
//!
//! Always: a missing, old or broken file is no error, it only means starting afresh; a file of a newer
//! version is left alone. The folder is `$FRAGSCOPE_CONFIG_DIR`, else `fragscope` in
//! `$XDG_CONFIG_HOME`, `%APPDATA%` or `~/.config`.

use crate::chart::{ColourBy, Theme, TimeAxis};
use crate::model::{DeviceId, Position};
use crate::session::capture_form::CaptureForm;
use crate::session::set_choice::SetChoice;
use crate::session::what_if::WhatIfForm;
use crate::session::workspace::{Place, Window};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The version this program writes.
pub const VERSION: u32 = 1;
const RECENT: usize = 12;
/// Files of which the places are remembered.
const FILES: usize = 50;

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
    /// The window's arrangement, in the window's own words: that of files without one of their own.
    pub layout: String,
    /// How large everything is, as a factor.
    pub zoom: f32,
    /// What is remembered of files, the newest first.
    pub files: Vec<FileMemory>,
    /// The file of categories that was loaded; none: that of the folder, else the built-in ones.
    pub categories: Option<PathBuf>,
    /// How jobs were recorded lately, the newest first.
    pub captures: Vec<CaptureForm>,
}

/// Which file, and in which state: another size or time of change is another file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStamp {
    /// Its absolute path.
    pub path: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
    /// When it was changed, in nanoseconds of Unix time.
    pub changed_ns: u64,
}

impl FileStamp {
    /// The stamp of a file; none where the system does not tell.
    pub fn of(path: &Path) -> Option<FileStamp> {
        let told = std::fs::metadata(path).ok()?;
        let changed = told.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
        let changed_ns = u64::try_from(changed.as_nanos()).ok()?;
        Some(FileStamp { path: std::path::absolute(path).ok()?, bytes: told.len(), changed_ns })
    }
}

/// What is remembered of a file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileMemory {
    /// Which file.
    pub stamp: FileStamp,
    /// The device in front, by its row.
    pub device: u32,
    /// Name of what colours mean.
    pub colour_by: String,
    /// The arrangement the user gave the tiles while this file was in front; empty: none.
    pub layout: String,
    /// Where one is on each device.
    pub places: Vec<PlaceMemory>,
}

impl FileMemory {
    /// Where one was on a device whose trace ends at `end`; what lies beyond is left out.
    pub fn place(&self, device: DeviceId, end: Position) -> Option<Place> {
        Some(self.places.iter().find(|place| place.device == device.0)?.place(end))
    }
}

/// Where one was on a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PlaceMemory {
    /// The device's row.
    pub device: u32,
    /// The cursor.
    pub cursor: u32,
    /// Whether the user put it there.
    pub moved: bool,
    /// The window: whether it counts real time, from, to; none: the whole trace.
    pub window: Option<(bool, f64, f64)>,
    /// The visible bytes; none: all.
    pub bytes: Option<(f64, f64)>,
    /// The visible addresses; none: all.
    pub rows: Option<(f64, f64)>,
    /// The selected stretch of time.
    pub range: Option<(u32, u32)>,
    /// Marks A, B, C …
    pub marks: Vec<u32>,
    /// What is filled in to be served again.
    pub what_if: WhatIfForm,
}

impl PlaceMemory {
    /// What is to be remembered of a place.
    pub fn of(device: DeviceId, place: &Place) -> PlaceMemory {
        let pair = |range: &Option<Range<f64>>| range.as_ref().and_then(|range| sound(range.start, range.end));
        PlaceMemory {
            device: device.0,
            cursor: place.cursor.0,
            moved: place.moved,
            window: match &place.window {
                Window::Units(axis, range) => sound(range.start, range.end).map(|(a, b)| (*axis == TimeAxis::Time, a, b)),
                Window::Whole | Window::Positions(_) => None,
            },
            bytes: pair(&place.bytes),
            rows: pair(&place.rows),
            range: place.range.as_ref().map(|range| (range.start.0, range.end.0)),
            marks: place.marks.iter().map(|mark| mark.0).collect(),
            what_if: place.what_if.clone(),
        }
    }
    fn place(&self, end: Position) -> Place {
        let pair = |pair: Option<(f64, f64)>| pair.and_then(|(from, to)| sound(from, to)).map(|(from, to)| from..to);
        let axis = |real_time| if real_time { TimeAxis::Time } else { TimeAxis::Events };
        let window =
            self.window.and_then(|(real_time, from, to)| sound(from, to).map(|_| Window::Units(axis(real_time), from..to)));
        Place {
            cursor: Position(self.cursor).min(end),
            window: window.unwrap_or_default(),
            bytes: pair(self.bytes),
            rows: pair(self.rows),
            selection: Vec::new(),
            range: self.range.filter(|(from, to)| from < to && *to <= end.0).map(|(from, to)| Position(from)..Position(to)),
            marks: self.marks.iter().map(|mark| Position(*mark)).filter(|mark| *mark <= end).collect(),
            set: SetChoice::default(),
            what_if: self.what_if.clone(),
            follows: false,
            moved: self.moved,
        }
    }
}

/// Both ends of a range, where they are two numbers in order: JSON knows no others.
fn sound(from: f64, to: f64) -> Option<(f64, f64)> {
    (from.is_finite() && to.is_finite() && from < to).then_some((from, to))
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
            zoom: 1.0,
            files: Vec::new(),
            categories: None,
            captures: Vec::new(),
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
    /// What is remembered of a file in this very state.
    pub fn file(&self, stamp: &FileStamp) -> Option<&FileMemory> {
        self.files.iter().find(|file| file.stamp == *stamp)
    }
    /// Remembers it as the newest; of one file only one state is kept, and the oldest files are dropped.
    pub fn remember_file(&mut self, memory: FileMemory) {
        self.files.retain(|other| other.stamp.path != memory.stamp.path);
        self.files.insert(0, memory);
        self.files.truncate(FILES);
    }
    /// How large everything is, as a factor that can be read.
    pub fn zoom(&self) -> f32 {
        if self.zoom.is_finite() { self.zoom.clamp(0.5, 4.0) } else { 1.0 }
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
        colour_by(&self.colour_by).unwrap_or_default()
    }
}

/// The meaning of colours that is called so.
pub fn colour_by(name: &str) -> Option<ColourBy> {
    ColourBy::ALL.iter().copied().find(|by| by.name() == name)
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
