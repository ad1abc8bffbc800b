//! The driver's own functions, behind those of this library.
//!
//! Always: what is called is what the program itself would have called: the function it was handed, else the next one of
//! that name behind this library, else that of the driver which is loaded.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a function answers that is not there: `CUDA_ERROR_NOT_FOUND`.
pub const NOT_FOUND: i32 = 500;
/// `CUDA_ERROR_OUT_OF_MEMORY`.
pub const OUT_OF_MEMORY: i32 = 2;

/// Behind the library that asks.
const RTLD_NEXT: *mut c_void = -1isize as *mut c_void;
const RTLD_LAZY: c_int = 1;
const RTLD_NOLOAD: c_int = 4;

#[repr(C)]
struct DlInfo {
    file: *const c_char,
    base: *mut c_void,
    symbol: *const c_char,
    address: *mut c_void,
}

unsafe extern "C" {
    fn dlvsym(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
    fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void;
    fn dladdr(address: *const c_void, info: *mut DlInfo) -> c_int;
}

/// The C library's `dlsym`; 0 before it was looked for.
pub static DLSYM: AtomicUsize = AtomicUsize::new(0);
/// A handle of the driver; 0 before one was seen.
static DRIVER: AtomicUsize = AtomicUsize::new(0);

/// Where an address lies.
pub struct Place {
    /// The file of its module.
    pub file: String,
    /// Where the module begins.
    pub base: usize,
    /// The symbol it lies in, where the module says so.
    pub symbol: Option<String>,
}

/// Where an address lies; none outside of all modules.
pub fn place(address: usize) -> Option<Place> {
    let mut info =
        DlInfo { file: std::ptr::null(), base: std::ptr::null_mut(), symbol: std::ptr::null(), address: std::ptr::null_mut() };
    // SAFETY: any address may be asked for; the texts stay for as long as the module.
    unsafe {
        if dladdr(address as *const c_void, &mut info) == 0 || info.file.is_null() {
            return None;
        }
        let text = |text: *const c_char| CStr::from_ptr(text).to_string_lossy().into_owned();
        let symbol = (!info.symbol.is_null()).then(|| text(info.symbol));
        Some(Place { file: text(info.file), base: info.base as usize, symbol })
    }
}

/// The C library's `dlsym`, which this library hides.
pub fn find_dlsym() -> usize {
    let known = DLSYM.load(Ordering::Acquire);
    if known != 0 {
        return known;
    }
    for version in [c"GLIBC_2.34", c"GLIBC_2.2.5", c"GLIBC_2.17"] {
        // SAFETY: texts that end.
        let found = unsafe { dlvsym(RTLD_NEXT, c"dlsym".as_ptr(), version.as_ptr()) } as usize;
        if found != 0 {
            DLSYM.store(found, Ordering::Release);
            return found;
        }
    }
    0
}

/// What the C library's `dlsym` says.
///
/// # Safety
/// `name` is a text that ends.
pub unsafe fn dlsym_itself(handle: *mut c_void, name: *const c_char) -> usize {
    let dlsym = find_dlsym();
    if dlsym == 0 {
        return 0;
    }
    // SAFETY: it is `dlsym`.
    unsafe {
        let dlsym: unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void = std::mem::transmute(dlsym);
        dlsym(handle, name) as usize
    }
}

/// Whether an address lies in the driver.
pub fn is_of_driver(address: usize) -> bool {
    let Some(place) = place(address) else { return false };
    let name = place.file.rsplit('/').next().unwrap_or_default();
    let is = name.starts_with("libcuda.so");
    if is && DRIVER.load(Ordering::Relaxed) == 0 {
        let mut file = place.file.into_bytes();
        file.push(0);
        // SAFETY: a text that ends; nothing is loaded.
        let handle = unsafe { dlopen(file.as_ptr().cast(), RTLD_LAZY | RTLD_NOLOAD) };
        DRIVER.store(handle as usize, Ordering::Relaxed);
    }
    is
}

/// A handle of the driver that is loaded; null where none is.
fn driver() -> *mut c_void {
    let known = DRIVER.load(Ordering::Relaxed);
    if known != 0 {
        return known as *mut c_void;
    }
    // SAFETY: a text that ends; nothing is loaded.
    let handle = unsafe { dlopen(c"libcuda.so.1".as_ptr(), RTLD_LAZY | RTLD_NOLOAD) };
    DRIVER.store(handle as usize, Ordering::Relaxed);
    handle
}

/// One function of the driver.
pub struct Real {
    name: &'static CStr,
    address: AtomicUsize,
}

impl Real {
    /// A function by its name.
    pub const fn new(name: &'static CStr) -> Real {
        Real { name, address: AtomicUsize::new(0) }
    }
    /// Its name.
    pub fn name(&self) -> &'static CStr {
        self.name
    }
    /// Takes note of where the program was told that it is. The first word counts.
    pub fn is_at(&self, address: usize) {
        let _ = self.address.compare_exchange(0, address, Ordering::Relaxed, Ordering::Relaxed);
    }
    /// Where it is; `hook` is this library's own of that name, if it has one.
    pub fn address(&self, hook: usize) -> Option<usize> {
        let known = self.address.load(Ordering::Relaxed);
        if known != 0 {
            return Some(known);
        }
        let name = self.name.as_ptr();
        // SAFETY: a text that ends.
        let found = unsafe {
            let next = dlsym_itself(RTLD_NEXT, name);
            if next != 0 && next != hook {
                next
            } else {
                match driver() {
                    handle if handle.is_null() => 0,
                    handle => dlsym_itself(handle, name),
                }
            }
        };
        if found == 0 || found == hook {
            return None;
        }
        is_of_driver(found);
        self.is_at(found);
        Some(found)
    }
}

/// Functions that are only called from here.
macro_rules! asked {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {
        $(
            /// The driver's function of that name.
            #[expect(non_snake_case, reason = "the driver's name")]
            pub fn $name($($argument: $type),*) -> i32 {
                static REAL: Real = Real::new(match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => c"",
                });
                let Some(address) = REAL.address(0) else { return NOT_FOUND };
                // SAFETY: it is the driver's function of that name; its arguments are values, and places of this library.
                unsafe {
                    let function: unsafe extern "C" fn($($type),*) -> i32 = std::mem::transmute(address);
                    function($($argument),*)
                }
            }
        )*
    };
}

asked! {
    cuCtxGetCurrent(context: &mut usize);
    cuCtxGetDevice(device: &mut i32);
    cuCtxPushCurrent_v2(context: usize);
    cuCtxPopCurrent_v2(context: &mut usize);
    cuMemGetInfo_v2(free: &mut usize, total: &mut usize);
    cuDeviceGetName(name: *mut c_char, len: c_int, device: i32);
    cuDeviceTotalMem_v2(total: &mut usize, device: i32);
    cuDeviceGetUuid(uuid: &mut [u8; 16], device: i32);
    cuDeviceGetMemPool(pool: &mut usize, device: i32);
    cuDevicePrimaryCtxGetState(device: i32, flags: &mut u32, active: &mut i32);
    cuDriverGetVersion(version: &mut i32);
    cuGetErrorName(error: i32, name: &mut *const c_char);
}

/// What the driver calls an answer.
pub fn error_name(error: i32) -> String {
    let mut name = std::ptr::null();
    if cuGetErrorName(error, &mut name) != 0 || name.is_null() {
        return error.to_string();
    }
    // SAFETY: the driver's text, which stays.
    format!("{error} ({})", unsafe { CStr::from_ptr(name) }.to_string_lossy())
}

/// The device of the current context.
pub fn current_device() -> Option<i32> {
    let mut device = 0;
    (cuCtxGetDevice(&mut device) == 0).then_some(device)
}

/// The current context; 0 where there is none.
pub fn current_context() -> usize {
    let mut context = 0;
    if cuCtxGetCurrent(&mut context) == 0 { context } else { 0 }
}

/// Free bytes and all bytes of the current context's device.
pub fn memory_info() -> Option<(u64, u64)> {
    let (mut free, mut total) = (0, 0);
    (cuMemGetInfo_v2(&mut free, &mut total) == 0).then_some((free as u64, total as u64))
}
