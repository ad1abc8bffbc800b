//! Who calls: return addresses, and what they are called.
//!
//! Always: an address is looked up once; what has no name is told by its module and how far into it, so that a debugger
//! can say more.

use crate::real;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

/// The deepest stack that is kept, in frames.
const DEEPEST: usize = 96;

unsafe extern "C" {
    fn _Unwind_Backtrace(each: extern "C" fn(*mut c_void, *mut c_void) -> c_int, told: *mut c_void) -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
    fn free(memory: *mut c_void);
}

/// The return addresses of the calling thread, innermost first, without those of this library.
pub fn addresses() -> Vec<usize> {
    extern "C" fn each(context: *mut c_void, told: *mut c_void) -> c_int {
        // SAFETY: called by the unwinder below, with the vector it was given.
        unsafe {
            let found = &mut *told.cast::<Vec<usize>>();
            let address = _Unwind_GetIP(context);
            if address == 0 {
                return 5;
            }
            found.push(address);
            if found.len() < found.capacity() { 0 } else { 5 }
        }
    }
    let mut found: Vec<usize> = Vec::with_capacity(DEEPEST);
    // SAFETY: the vector outlives the walk, and never grows in it.
    unsafe { _Unwind_Backtrace(each, (&raw mut found).cast()) };
    let own = own_base();
    let theirs = found.iter().position(|address| real::place(*address).is_none_or(|place| place.base != own));
    found.drain(..theirs.unwrap_or(found.len()));
    found
}

/// Where this library begins.
fn own_base() -> usize {
    static BASE: OnceLock<usize> = OnceLock::new();
    *BASE.get_or_init(|| real::place(own_base as *const () as usize).map_or(0, |place| place.base))
}

/// A return address in words: the function, and the file of its module.
pub fn words(address: usize) -> (String, String) {
    // The call lies before the address that it returns to.
    let Some(place) = real::place(address.wrapping_sub(1)) else { return (format!("{address:#x}"), "??".to_owned()) };
    let name = match place.symbol {
        Some(symbol) => demangled(&symbol),
        None => {
            let file = place.file.rsplit('/').next().unwrap_or_default();
            format!("{file}+{:#x}", address.wrapping_sub(place.base))
        }
    };
    (name, place.file)
}

/// A name of C++ as it was written, where the C++ library is loaded.
fn demangled(symbol: &str) -> String {
    type Demangle = unsafe extern "C" fn(*const c_char, *mut c_char, *mut usize, *mut c_int) -> *mut c_char;
    if !symbol.starts_with("_Z") {
        return symbol.to_owned();
    }
    let mut name = symbol.as_bytes().to_vec();
    name.push(0);
    // SAFETY: texts that end; what comes back is the caller's to free.
    unsafe {
        let demangle = real::dlsym_itself(std::ptr::null_mut(), c"__cxa_demangle".as_ptr());
        if demangle == 0 {
            return symbol.to_owned();
        }
        let demangle: Demangle = std::mem::transmute(demangle);
        let mut status = 0;
        let text = demangle(name.as_ptr().cast(), std::ptr::null_mut(), std::ptr::null_mut(), &mut status);
        if text.is_null() {
            return symbol.to_owned();
        }
        let found = CStr::from_ptr(text).to_string_lossy().into_owned();
        free(text.cast());
        found
    }
}
