//! A PyTorch job, unmodified: the recorder is put on its Python path.

use crate::capture::recorder;
use crate::capture::source::{CaptureError, CaptureSource, Prepared, Request};
use std::ffi::OsString;
use std::path::Path;

/// See the head of this file.
#[derive(Debug)]
pub struct Torch;

impl CaptureSource for Torch {
    fn name(&self) -> &'static str {
        "torch"
    }
    fn about(&self) -> &'static str {
        "PyTorch's CUDA caching allocator, 2.1 and later: every allocation with its Python stack"
    }
    fn unavailable(&self) -> Option<String> {
        None
    }
    fn why_nothing(&self) -> &'static str {
        "no process of the job used CUDA through PyTorch, or its Python ran with -S, -I or -E, which leave out what is put on \
         its path"
    }
    fn prepare(&self, request: &Request, folder: &Path) -> Result<Prepared, CaptureError> {
        recorder::write_for_job(folder)?;
        let mut path = folder.as_os_str().to_owned();
        if let Some(old) = std::env::var_os("PYTHONPATH").filter(|old| !old.is_empty()) {
            path.push(if cfg!(windows) { ";" } else { ":" });
            path.push(old);
        }
        let mut environment: Vec<(OsString, OsString)> =
            vec![("PYTHONPATH".into(), path), ("FRAGSCOPE_RECORD".into(), settings(request).into())];
        environment.extend(settings_variable(request));
        Ok(Prepared { environment })
    }
}

/// The variable that hands PyTorch's allocator its settings, where some were asked for: behind those that are set.
pub(super) fn settings_variable(request: &Request) -> Option<(OsString, OsString)> {
    let wanted = request.settings.as_ref()?;
    let name = "PYTORCH_CUDA_ALLOC_CONF";
    let joined = match std::env::var(name).ok().filter(|old| !old.is_empty()) {
        Some(old) => format!("{old},{wanted}"),
        None => wanted.clone(),
    };
    Some((name.into(), joined.into()))
}

/// What the recorder is told, as JSON.
pub(super) fn settings(request: &Request) -> String {
    let out = std::path::absolute(&request.out).unwrap_or_else(|_| request.out.clone());
    let mut text = format!("{{\"out\": {}, \"stacks\": \"{}\"", json_text(&out.to_string_lossy()), request.stacks.name());
    if let Some(entries) = request.max_entries {
        text.push_str(&format!(", \"max_entries\": {entries}"));
    }
    if let Some(interval) = request.interval_ms {
        text.push_str(&format!(", \"interval_ms\": {interval}"));
    }
    if request.only_ring {
        text.push_str(", \"way\": \"ring\"");
    }
    text.push('}');
    text
}

/// A text as JSON has it.
pub(super) fn json_text(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recorder_is_told_in_json() {
        let request = Request { out: "/x/a\"b\\c\n.fsl".into(), max_entries: Some(7), only_ring: true, ..Request::default() };
        let value: serde_json::Value = serde_json::from_str(&settings(&request)).expect("a test's own");
        assert_eq!(value["out"], "/x/a\"b\\c\n.fsl");
        assert_eq!(value["max_entries"], 7);
        assert_eq!(value["way"], "ring");
        assert_eq!(value["stacks"], "python");
    }
}
