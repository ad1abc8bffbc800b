//! What runs on this machine, as far as a capture asks: whether a process is there, and which of this user's hold CUDA.
//!
//! Always: where the system does not tell, that is a sentence, never an empty list.

use std::path::PathBuf;

/// Whether a process is there; where the system does not tell, it is taken to be.
pub fn is_alive(process: u32) -> bool {
    match std::fs::read_to_string(format!("/proc/{process}/stat")) {
        // A zombie is over.
        Ok(stat) => stat.rsplit_once(')').is_none_or(|(_, rest)| !rest.trim_start().starts_with('Z')),
        Err(_) => cfg!(not(target_os = "linux")),
    }
}

/// What this machine calls itself, where the system tells.
pub fn host() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = name.map(|name| name.trim().to_owned()).or_else(|| std::env::var("COMPUTERNAME").ok());
    name.filter(|name| !name.is_empty())
}

/// A program that has loaded the CUDA driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaProcess {
    /// Its process.
    pub process: u32,
    /// Its command line.
    pub command: String,
    /// The program it runs, where the system tells.
    pub program: Option<PathBuf>,
}

impl CudaProcess {
    /// Whether it looks like a program of Python, which may be attached to.
    pub fn is_python(&self) -> bool {
        let name = self.program.as_ref().and_then(|path| path.file_name()).map(|name| name.to_string_lossy().into_owned());
        name.is_some_and(|name| name.starts_with("python"))
    }
}

/// The processes that have loaded the CUDA driver, by their numbers, of those this user may look into; or why nobody can
/// tell.
pub fn cuda_processes() -> Result<Vec<CudaProcess>, String> {
    if cfg!(not(target_os = "linux")) {
        return Err("Which processes use CUDA can be told on Linux only.".to_owned());
    }
    let entries = std::fs::read_dir("/proc").map_err(|error| format!("The processes cannot be listed: {error}."))?;
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut found: Vec<CudaProcess> = numbers.filter(|number| *number != std::process::id()).filter_map(of_cuda).collect();
    found.sort_by_key(|process| process.process);
    Ok(found)
}

fn of_cuda(process: u32) -> Option<CudaProcess> {
    // What belongs to others cannot be read, and could not be recorded either.
    let maps = std::fs::read(format!("/proc/{process}/maps")).ok()?;
    let maps = String::from_utf8_lossy(&maps);
    let driver = |line: &str| line.rsplit_once('/').is_some_and(|(_, name)| name.starts_with("libcuda.so"));
    if !maps.lines().any(driver) {
        return None;
    }
    let line = std::fs::read(format!("/proc/{process}/cmdline")).ok()?;
    let words: Vec<String> = line
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty())
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    let program = std::fs::read_link(format!("/proc/{process}/exe")).ok();
    Some(CudaProcess { process, command: words.join(" "), program })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_there_and_a_strange_number_is_not() {
        assert!(is_alive(std::process::id()));
        assert_eq!(is_alive(4_194_000), cfg!(not(target_os = "linux")));
        assert_eq!(cuda_processes().is_ok(), cfg!(target_os = "linux"));
    }
}
