//! Any CUDA program, unmodified: a library that logs what it asks of the driver is loaded before all others.
//!
//! What the library does is told in `inject/driver/lib.rs`. It sees the driver's calls, not what a framework does with the
//! memory: a block of the log is what one call gave, with the native stack of that call.

use crate::capture::source::{CaptureError, CaptureSource, Prepared, Request, Stacks};
use std::ffi::OsString;
use std::path::Path;

/// What is loaded into the job; empty where it could not be built.
const LOGGER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/driver.so"));
/// What the loader is told by.
const PRELOAD: &str = "LD_PRELOAD";

/// See the head of this file.
#[derive(Debug)]
pub struct Driver;

impl CaptureSource for Driver {
    fn name(&self) -> &'static str {
        "driver"
    }
    fn about(&self) -> &'static str {
        "any CUDA program on Linux: what it asks of the driver, with native stacks"
    }
    fn unavailable(&self) -> Option<String> {
        LOGGER.is_empty().then(|| {
            "the driver's calls can be logged on Linux on x86-64 only, by a library that this program carries there; \
             `--source torch` records PyTorch jobs everywhere"
                .to_owned()
        })
    }
    fn why_nothing(&self) -> &'static str {
        "no process of the job asked the CUDA driver for memory or a context, or those that did are linked statically or run \
         with other rights, so that no library can be loaded before theirs"
    }
    fn prepare(&self, request: &Request, folder: &Path) -> Result<Prepared, CaptureError> {
        let library = folder.join("libfragscope_driver.so");
        std::fs::write(&library, LOGGER).map_err(|source| CaptureError::Write { path: library.clone(), source })?;
        let mut preload = library.into_os_string();
        if preload.to_string_lossy().contains([' ', ':']) {
            let path = preload.to_string_lossy();
            return Err(CaptureError::Attach(format!(
                "the folder for temporary files has a blank or a colon in its name ({path}), which {PRELOAD} cannot hold; \
                 set TMPDIR to another"
            )));
        }
        if let Some(others) = std::env::var_os(PRELOAD).filter(|others| !others.is_empty()) {
            preload.push(":");
            preload.push(others);
        }
        let out = std::path::absolute(&request.out).unwrap_or_else(|_| request.out.clone());
        let stacks = if request.stacks == Stacks::None { "none" } else { "native" };
        let mut environment: Vec<(OsString, OsString)> = vec![
            (PRELOAD.into(), preload),
            ("FRAGSCOPE_DRIVER_OUT".into(), out.into_os_string()),
            ("FRAGSCOPE_DRIVER_STACKS".into(), stacks.into()),
        ];
        environment.extend(crate::capture::torch::settings_variable(request));
        Ok(Prepared { environment })
    }
}
