//! Compiles what runs inside a job (`tracker.rs`, `driver/`) to small shared libraries that the program carries.
//!
//! Always: this needs nothing that building the program itself does not need: rustc and its linker. Elsewhere than on
//! Linux on x86-64, and where it does not work out, the program carries an empty one and says so when it matters.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let folder = Path::new("src/capture/inject");
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let out = PathBuf::from(variable("OUT_DIR"));
    let (target, rustc) = (variable("TARGET"), variable("RUSTC"));
    // The tracker stands alone: it runs beside whatever C library the job has.
    let tracker = ["-C", "panic=abort", "-C", "link-arg=-nostdlib"];
    build(&folder.join("tracker.rs"), &out.join("tracker.so"), &target, &rustc, &tracker);
    // A panic in the logger ends the recording, so it must be caught: it unwinds.
    build(&folder.join("driver/lib.rs"), &out.join("driver.so"), &target, &rustc, &["-C", "panic=unwind"]);
    println!("cargo::rerun-if-changed={}", folder.display());
}

/// One file becomes one library; an empty file where it cannot.
fn build(source: &Path, library: &Path, target: &str, rustc: &str, more: &[&str]) {
    println!("cargo::rerun-if-changed={}", source.display());
    let fits = target.starts_with("x86_64-") && target.contains("-linux-");
    let done = fits
        && Command::new(rustc)
            .args(["--edition", "2024", "--crate-type", "cdylib", "--crate-name", "fragscope_inject", "--target", target])
            .args(["-C", "opt-level=3", "-C", "strip=symbols", "-C", "overflow-checks=off"])
            .args(["-C", "target-feature=-crt-static"])
            .args(more)
            .arg("-o")
            .args([library, source])
            .status()
            .is_ok_and(|status| status.success());
    if !done {
        if fits {
            println!("cargo::warning={} was not compiled: jobs are recorded without it", source.display());
        }
        if let Err(error) = std::fs::write(library, []) {
            println!("cargo::warning={} cannot be written: {error}", library.display());
        }
    }
}
