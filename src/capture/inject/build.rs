//! Compiles what runs inside a job (`tracker.rs`) to a small shared library that the program carries.
//!
//! Always: this needs nothing that building the program itself does not need: rustc and its linker. Elsewhere than on
//! Linux on x86-64, and where it does not work out, the program carries an empty one and says so when it matters.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let folder = Path::new("src/capture/inject");
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let out = PathBuf::from(variable("OUT_DIR"));
    build(&folder.join("tracker.rs"), &out.join("tracker.so"), &variable("TARGET"), &variable("RUSTC"));
    println!("cargo::rerun-if-changed={}", folder.display());
}

/// One file becomes one library; an empty file where it cannot.
fn build(source: &Path, library: &Path, target: &str, rustc: &str) {
    println!("cargo::rerun-if-changed={}", source.display());
    let fits = target.starts_with("x86_64-") && target.contains("-linux-");
    let done = fits
        && Command::new(rustc)
            .args(["--edition", "2024", "--crate-type", "cdylib", "--crate-name", "fragscope_inject", "--target", target])
            .args(["-C", "opt-level=3", "-C", "panic=abort", "-C", "strip=symbols", "-C", "overflow-checks=off"])
            .args(["-C", "target-feature=-crt-static", "-C", "link-arg=-nostdlib"])
            .arg("-o")
            .args([library, source])
            .status()
            .is_ok_and(|status| status.success());
    if !done {
        if fits {
            println!("cargo::warning={} was not compiled: jobs are recorded by the slower way", source.display());
        }
        if let Err(error) = std::fs::write(library, []) {
            println!("cargo::warning={} cannot be written: {error}", library.display());
        }
    }
}
