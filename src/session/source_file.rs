//! Opens a source file at a line in the user's editor.
//!
//! File names come from strangers' snapshots. So only an existing regular file with the ending of a
//! source file is ever handed over, as one argument, without a shell.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const ENDINGS: [&str; 12] = ["py", "pyx", "pyi", "c", "cc", "cpp", "cxx", "cu", "cuh", "h", "hpp", "rs"];

/// Starts the editor. `editor` is a command line in which `{file}` and `{line}` are replaced
/// (`code -g {file}:{line}`); without `{file}` the file is added at the end. None: `xdg-open`.
pub fn open(file: &str, line: i64, editor: Option<&str>) -> Result<(), String> {
    let path = checked(file)?;
    let arguments = command_line(&path, line, editor);
    let (program, arguments) = arguments.split_first().ok_or("FRAGSCOPE_EDITOR is empty.")?;
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map(drop)
        .map_err(|error| {
            format!(
                "Could not start {program} to open {file}: {error}. Set FRAGSCOPE_EDITOR, e.g. to `code -g {{file}}:{{line}}`."
            )
        })
}

fn checked(file: &str) -> Result<PathBuf, String> {
    let path = Path::new(file);
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or("");
    if !ENDINGS.contains(&ending) {
        return Err(format!("Only source files are opened; this does not end like one: {file}."));
    }
    if !path.is_absolute() || !path.is_file() {
        return Err(format!("This file is not on this machine: {file}. Its name was copied from the snapshot."));
    }
    Ok(path.to_owned())
}

fn command_line(path: &Path, line: i64, editor: Option<&str>) -> Vec<String> {
    let file = path.display().to_string();
    let Some(editor) = editor.map(str::trim).filter(|editor| !editor.is_empty()) else {
        return vec!["xdg-open".to_owned(), file];
    };
    let line = line.max(1).to_string();
    let mut arguments: Vec<String> =
        editor.split_whitespace().map(|part| part.replace("{line}", &line).replace("{file}", &file)).collect();
    if !editor.contains("{file}") {
        arguments.push(file);
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_existing_source_files_are_handed_over() {
        let dir = tempfile::tempdir().expect("a folder");
        for (name, ok) in [("a.py", true), ("b.desktop", false), ("c", false), ("d.sh", false)] {
            let path = dir.path().join(name);
            std::fs::write(&path, "").expect("written");
            assert_eq!(checked(&path.display().to_string()).is_ok(), ok, "{name}");
        }
        for name in ["/nowhere/x.py", "relative.py", "-rf.py", "https://x/y.py", "", "<string>", "??"] {
            assert!(checked(name).is_err(), "{name}");
        }
    }

    #[test]
    fn the_editor_gets_file_and_line_as_arguments() {
        let path = Path::new("/tmp/a b;rm {line}.py");
        for (editor, expected) in [
            (None, vec!["xdg-open", "/tmp/a b;rm {line}.py"]),
            (Some(" "), vec!["xdg-open", "/tmp/a b;rm {line}.py"]),
            (Some("code -g {file}:{line}"), vec!["code", "-g", "/tmp/a b;rm {line}.py:7"]),
            (Some("vim +{line}"), vec!["vim", "+7", "/tmp/a b;rm {line}.py"]),
        ] {
            assert_eq!(command_line(path, 7, editor), expected);
        }
    }
}
