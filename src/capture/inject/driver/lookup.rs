//! Programs that look the driver's functions up: `dlsym` and `cuGetProcAddress`, in place of those.
//!
//! Always: what is not a function of the driver that this library stands before is looked up as if this library were
//! not there; what the driver lacks stays lacking.

use crate::hooks::{HOOKS, Hook};
use crate::real;
use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::AtomicUsize;

/// The hook of a name.
fn hook_of(name: &[u8]) -> Option<&'static Hook> {
    let is_like_one = name.starts_with(b"cu") && name.get(2).is_some_and(u8::is_ascii_uppercase);
    is_like_one.then(|| HOOKS.iter().find(|hook| hook.real.name().to_bytes() == name)).flatten()
}

/// What `dlsym` is to answer.
#[repr(C)]
struct Chosen {
    /// 0: what the C library says.
    ours: usize,
    /// Else this.
    address: usize,
}

const NOT_OURS: Chosen = Chosen { ours: 0, address: 0 };

/// Whether a look-up is answered here, and with what.
unsafe extern "C" fn chosen(handle: *mut c_void, name: *const c_char) -> Chosen {
    real::find_dlsym();
    // From behind the asker on: that is never this library.
    if handle as isize == -1 || name.is_null() {
        return NOT_OURS;
    }
    // SAFETY: the program's own name, which `dlsym` would read.
    let text = unsafe { CStr::from_ptr(name) };
    let Some(hook) = hook_of(text.to_bytes()) else { return NOT_OURS };
    // SAFETY: as the program asks.
    let found = unsafe { real::dlsym_itself(handle, name) };
    let address = hook.address();
    if found == address {
        // In the program's own scope this library comes first: what counts is whether the driver has it.
        let there = hook.real.address(address).is_some();
        return Chosen { ours: 1, address: if there { address } else { 0 } };
    }
    if found == 0 || !real::is_of_driver(found) {
        return NOT_OURS;
    }
    hook.real.is_at(found);
    Chosen { ours: 1, address }
}

/// `dlsym` of the C library looks from which module it is called, so it must see the caller, not this library: it is
/// jumped to.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    core::arch::naked_asm!(
        "endbr64",
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {chosen}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "test rax, rax",
        "jne 2f",
        "mov rax, [rip + {dlsym}]",
        "test rax, rax",
        "je 3f",
        "jmp rax",
        "2:",
        "mov rax, rdx",
        "3:",
        "ret",
        chosen = sym chosen,
        dlsym = sym DLSYM_AT,
    )
}

// The static that the jump reads, under a name of this module.
use crate::real::DLSYM as DLSYM_AT;
const _: &AtomicUsize = &DLSYM_AT;

/// `CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM`.
const PER_THREAD: u64 = 2;

/// What `cuGetProcAddress` is to hand out for a function it found.
///
/// # Safety
/// As the driver was asked: `symbol` ends, `out` was filled.
pub unsafe fn replace(symbol: *const c_char, out: *mut *mut c_void, version: i32, flags: u64) {
    // SAFETY: by the caller's word.
    unsafe {
        if symbol.is_null() || out.is_null() || (*out).is_null() {
            return;
        }
        let base = CStr::from_ptr(symbol).to_bytes();
        let fits = |hook: &&Hook| hook.base.as_bytes() == base && hook.since <= version;
        let Some(newest) = HOOKS.iter().filter(fits).filter(|hook| !hook.per_thread).max_by_key(|hook| hook.since) else {
            return;
        };
        let own = HOOKS.iter().filter(fits).find(|hook| hook.per_thread).filter(|_| flags & PER_THREAD != 0);
        let hook = own.unwrap_or(newest);
        // The driver may hand out what it was handed by `dlsym`.
        if *out as usize != hook.address() {
            hook.real.is_at(*out as usize);
        }
        *out = hook.address() as *mut c_void;
    }
}
