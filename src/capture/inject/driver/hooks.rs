//! The driver's functions that take and give memory, in place of them.
//!
//! Always: each calls the real function with what it was called with and answers what that answered. A function that is
//! called by another of these, or by the driver itself, tells nothing.

#![expect(non_upper_case_globals, reason = "the driver's names")]

use crate::books::Call;
use crate::lookup;
use crate::real::{self, NOT_FOUND, Real};
use std::ffi::{CStr, c_char, c_void};

/// A function of the driver that this library stands before.
pub struct Hook {
    /// The real one.
    pub real: &'static Real,
    /// This library's.
    own: *const (),
    /// Its name without a version, as `cuGetProcAddress` has it.
    pub base: &'static str,
    /// The version of CUDA from which on this form is the one.
    pub since: i32,
    /// Whether it is the form whose default stream is the thread's own.
    pub per_thread: bool,
}

// SAFETY: a function stays where it is.
unsafe impl Sync for Hook {}

impl Hook {
    /// This library's function.
    pub fn address(&self) -> usize {
        self.own as usize
    }
}

macro_rules! hooks {
    ($( $base:ident $since:literal $form:ident $name:ident[$real:ident, $call:ident]($($argument:ident: $type:ty),* $(,)?) $body:block )*) => {
        mod real_ones {
            use super::{CStr, Real};
            $( pub static $name: Real = Real::new(match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => c"",
            }); )*
        }
        $(
            /// In place of the driver's function of that name.
            ///
            /// # Safety
            /// As the driver says.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> i32 {
                let Some(address) = real_ones::$name.address($name as *const () as usize) else { return NOT_FOUND };
                // SAFETY: it is the driver's function of that name, called as this was.
                let $real = |$($argument: $type),*| unsafe {
                    let function: unsafe extern "C" fn($($type),*) -> i32 = std::mem::transmute(address);
                    function($($argument),*)
                };
                let $call = Call::begin(stringify!($name));
                $body
            }
        )*
        /// All of them.
        pub static HOOKS: &[Hook] = &[$(
            Hook {
                real: &real_ones::$name,
                own: $name as *const (),
                base: stringify!($base),
                since: $since,
                per_thread: is_per_thread(stringify!($form)),
            },
        )*];
    };
}

const fn is_per_thread(form: &str) -> bool {
    form.len() == "per_thread".len()
}

/// What stands at a place of the program's, where the driver has just filled it.
unsafe fn filled<T: Copy + Default>(answer: i32, place: *const T) -> T {
    // SAFETY: by the caller's word.
    if answer == 0 && !place.is_null() { unsafe { place.read_unaligned() } } else { T::default() }
}

/// `CUmemLocationType`: a device.
const LOCATION_DEVICE: i32 = 1;

/// The device of a place of memory: −1 for the host's.
unsafe fn location(properties: *const i32) -> i32 {
    // Both `CUmemAllocationProp` and `CUmemPoolProps` begin with two words, then the kind of place and its number.
    if properties.is_null() {
        return -1;
    }
    // SAFETY: by the caller's word.
    unsafe { if properties.add(2).read() == LOCATION_DEVICE { properties.add(3).read() } else { -1 } }
}

hooks! {
    cuMemAlloc 3020 plain cuMemAlloc_v2[real, call](out: *mut u64, size: usize) {
        let answer = real(out, size);
        let address = unsafe { filled(answer, out) };
        call.tell(|books, caller| books.asked(answer, address, size as u64, 0, 0, None, &caller));
        answer
    }
    cuMemAllocPitch 3020 plain cuMemAllocPitch_v2[real, call](out: *mut u64, pitch: *mut usize, width: usize, height: usize, element: u32) {
        let answer = real(out, pitch, width, height, element);
        let (address, row) = unsafe { (filled(answer, out), filled(answer, pitch)) };
        let size = row.max(width).saturating_mul(height) as u64;
        call.tell(|books, caller| books.asked(answer, address, size, 0, 0, None, &caller));
        answer
    }
    cuMemAllocManaged 6000 plain cuMemAllocManaged[real, call](out: *mut u64, size: usize, flags: u32) {
        let answer = real(out, size, flags);
        let address = unsafe { filled(answer, out) };
        call.tell(|books, caller| books.asked(answer, address, size as u64, 0, 0, None, &caller));
        answer
    }
    cuMemFree 3020 plain cuMemFree_v2[real, call](address: u64) {
        let block = call.tell(|books, caller| books.release(address, None, &caller)).flatten();
        let answer = real(address);
        call.tell(|books, caller| books.released(answer, block.into_iter().collect(), &caller));
        answer
    }
    cuMemAllocAsync 11020 plain cuMemAllocAsync[real, call](out: *mut u64, size: usize, stream: u64) {
        let answer = real(out, size, stream);
        let address = unsafe { filled(answer, out) };
        call.tell(|books, caller| books.asked(answer, address, size as u64, stream, pool_of_device(), None, &caller));
        answer
    }
    cuMemAllocAsync 11020 per_thread cuMemAllocAsync_ptsz[real, call](out: *mut u64, size: usize, stream: u64) {
        let answer = real(out, size, stream);
        let address = unsafe { filled(answer, out) };
        call.tell(|books, caller| books.asked(answer, address, size as u64, stream, pool_of_device(), None, &caller));
        answer
    }
    cuMemAllocFromPoolAsync 11020 plain cuMemAllocFromPoolAsync[real, call](out: *mut u64, size: usize, pool: u64, stream: u64) {
        let answer = real(out, size, pool, stream);
        let address = unsafe { filled(answer, out) };
        call.tell(|books, caller| {
            let device = books.device_of_pool(pool);
            books.asked(answer, address, size as u64, stream, pool, device, &caller);
        });
        answer
    }
    cuMemAllocFromPoolAsync 11020 per_thread cuMemAllocFromPoolAsync_ptsz[real, call](out: *mut u64, size: usize, pool: u64, stream: u64) {
        let answer = real(out, size, pool, stream);
        let address = unsafe { filled(answer, out) };
        call.tell(|books, caller| {
            let device = books.device_of_pool(pool);
            books.asked(answer, address, size as u64, stream, pool, device, &caller);
        });
        answer
    }
    cuMemFreeAsync 11020 plain cuMemFreeAsync[real, call](address: u64, stream: u64) {
        let block = call.tell(|books, caller| books.release(address, Some(stream), &caller)).flatten();
        let answer = real(address, stream);
        call.tell(|books, caller| books.released(answer, block.into_iter().collect(), &caller));
        answer
    }
    cuMemFreeAsync 11020 per_thread cuMemFreeAsync_ptsz[real, call](address: u64, stream: u64) {
        let block = call.tell(|books, caller| books.release(address, Some(stream), &caller)).flatten();
        let answer = real(address, stream);
        call.tell(|books, caller| books.released(answer, block.into_iter().collect(), &caller));
        answer
    }
    cuMemPoolCreate 11020 plain cuMemPoolCreate[real, call](out: *mut u64, properties: *const i32) {
        let answer = real(out, properties);
        let (pool, device) = unsafe { (filled(answer, out), location(properties)) };
        call.tell(|books, caller| books.pool_made(answer, pool, device, &caller));
        answer
    }
    cuMemPoolDestroy 11020 plain cuMemPoolDestroy[real, call](pool: u64) {
        let answer = real(pool);
        call.tell(|books, caller| books.pool_changed(answer, pool, "destroyed", &caller));
        answer
    }
    cuMemPoolTrimTo 11020 plain cuMemPoolTrimTo[real, call](pool: u64, keep: usize) {
        let answer = real(pool, keep);
        call.tell(|books, caller| books.pool_changed(answer, pool, &format!("trimmed to {keep} bytes"), &caller));
        answer
    }
    cuMemAddressReserve 10020 plain cuMemAddressReserve[real, call](out: *mut u64, size: usize, alignment: usize, at: u64, flags: u64) {
        let answer = real(out, size, alignment, at, flags);
        let address = unsafe { filled(answer, out) };
        call.tell(|books, caller| match answer {
            0 => books.mark(None, &format!("{size} bytes of addresses reserved at {address:#x}")),
            other => books.complain(caller.0, other),
        });
        answer
    }
    cuMemAddressFree 10020 plain cuMemAddressFree[real, call](address: u64, size: usize) {
        let answer = real(address, size);
        call.tell(|books, caller| match answer {
            0 => books.mark(None, &format!("{size} bytes of addresses at {address:#x} given back")),
            other => books.complain(caller.0, other),
        });
        answer
    }
    cuMemCreate 10020 plain cuMemCreate[real, call](out: *mut u64, size: usize, properties: *const i32, flags: u64) {
        let answer = real(out, size, properties, flags);
        let (handle, device) = unsafe { (filled(answer, out), location(properties)) };
        call.tell(|books, caller| books.created(answer, handle, size as u64, device, &caller));
        answer
    }
    cuMemRelease 10020 plain cuMemRelease[real, call](handle: u64) {
        let answer = real(handle);
        call.tell(|books, caller| if answer == 0 { books.let_go(handle) } else { books.complain(caller.0, answer) });
        answer
    }
    cuMemMap 10020 plain cuMemMap[real, call](address: u64, size: usize, offset: usize, handle: u64, flags: u64) {
        let answer = real(address, size, offset, handle, flags);
        call.tell(|books, caller| books.mapped(answer, address, size as u64, handle, &caller));
        answer
    }
    cuMemUnmap 10020 plain cuMemUnmap[real, call](address: u64, size: usize) {
        let blocks = call.tell(|books, caller| books.unmap(address, size as u64, &caller)).unwrap_or_default();
        let answer = real(address, size);
        call.tell(|books, caller| books.unmapped(answer, blocks, &caller));
        answer
    }
    cuMemSetAccess 10020 plain cuMemSetAccess[real, call](address: u64, size: usize, who: *const c_void, count: usize) {
        let answer = real(address, size, who, count);
        // It takes nothing; only that it failed is worth a word.
        call.tell(|books, caller| books.complain(caller.0, answer));
        answer
    }
    cuMemHostAlloc 2020 plain cuMemHostAlloc[real, call](out: *mut u64, size: usize, flags: u32) {
        let answer = real(out, size, flags);
        let address = unsafe { filled(answer, out) };
        call.tell(|books, caller| books.pinned(answer, address, size as u64, &caller));
        answer
    }
    cuMemAllocHost 3020 plain cuMemAllocHost_v2[real, call](out: *mut u64, size: usize) {
        let answer = real(out, size);
        let address = unsafe { filled(answer, out) };
        call.tell(|books, caller| books.pinned(answer, address, size as u64, &caller));
        answer
    }
    cuMemFreeHost 2000 plain cuMemFreeHost[real, call](address: u64) {
        let block = call.tell(|books, caller| books.release(address, None, &caller)).flatten();
        let answer = real(address);
        call.tell(|books, caller| books.released(answer, block.into_iter().collect(), &caller));
        answer
    }
    cuMemHostRegister 6050 plain cuMemHostRegister_v2[real, call](address: u64, size: usize, flags: u32) {
        let answer = real(address, size, flags);
        call.tell(|books, caller| books.pinned(answer, address, size as u64, &caller));
        answer
    }
    cuMemHostUnregister 4000 plain cuMemHostUnregister[real, call](address: u64) {
        let block = call.tell(|books, caller| books.release(address, None, &caller)).flatten();
        let answer = real(address);
        call.tell(|books, caller| books.released(answer, block.into_iter().collect(), &caller));
        answer
    }
    cuDevicePrimaryCtxRetain 7000 plain cuDevicePrimaryCtxRetain[real, call](out: *mut usize, device: i32) {
        let answer = real(out, device);
        let context = unsafe { filled(answer, out) };
        call.tell(|books, caller| books.context(answer, device, context, &caller));
        answer
    }
    cuDevicePrimaryCtxRelease 11000 plain cuDevicePrimaryCtxRelease_v2[real, call](device: i32) {
        let answer = real(device);
        call.tell(|books, caller| {
            let (mut flags, mut active) = (0, 1);
            if answer == 0 && real::cuDevicePrimaryCtxGetState(device, &mut flags, &mut active) == 0 && active == 0 {
                books.primary_ended(device, &caller);
            }
        });
        answer
    }
    cuDevicePrimaryCtxReset 11000 plain cuDevicePrimaryCtxReset_v2[real, call](device: i32) {
        let answer = real(device);
        call.tell(|books, caller| if answer == 0 { books.primary_ended(device, &caller) } else { books.complain(caller.0, answer) });
        answer
    }
    cuCtxCreate 3020 plain cuCtxCreate_v2[real, call](out: *mut usize, flags: u32, device: i32) {
        let answer = real(out, flags, device);
        let context = unsafe { filled(answer, out) };
        call.tell(|books, caller| books.context(answer, device, context, &caller));
        answer
    }
    cuCtxCreate 11040 plain cuCtxCreate_v3[real, call](out: *mut usize, affinity: *mut c_void, count: i32, flags: u32, device: i32) {
        let answer = real(out, affinity, count, flags, device);
        let context = unsafe { filled(answer, out) };
        call.tell(|books, caller| books.context(answer, device, context, &caller));
        answer
    }
    cuCtxCreate 12050 plain cuCtxCreate_v4[real, call](out: *mut usize, parameters: *mut c_void, flags: u32, device: i32) {
        let answer = real(out, parameters, flags, device);
        let context = unsafe { filled(answer, out) };
        call.tell(|books, caller| books.context(answer, device, context, &caller));
        answer
    }
    cuCtxDestroy 4000 plain cuCtxDestroy_v2[real, call](context: usize) {
        let blocks = call.tell(|books, caller| books.context_ends(|of, _| of == context, &caller)).unwrap_or_default();
        let answer = real(context);
        call.tell(|books, caller| books.released(answer, blocks, &caller));
        answer
    }
    cuModuleLoad 2000 plain cuModuleLoad[real, call](out: *mut c_void, file: *const c_char) {
        let before = real::memory_info();
        let answer = real(out, file);
        call.tell(|books, caller| books.module(answer, before, &caller));
        answer
    }
    cuModuleLoadData 2000 plain cuModuleLoadData[real, call](out: *mut c_void, image: *const c_void) {
        let before = real::memory_info();
        let answer = real(out, image);
        call.tell(|books, caller| books.module(answer, before, &caller));
        answer
    }
    cuModuleLoadDataEx 2010 plain cuModuleLoadDataEx[real, call](out: *mut c_void, image: *const c_void, count: u32, options: *mut c_void, values: *mut c_void) {
        let before = real::memory_info();
        let answer = real(out, image, count, options, values);
        call.tell(|books, caller| books.module(answer, before, &caller));
        answer
    }
    cuModuleLoadFatBinary 2000 plain cuModuleLoadFatBinary[real, call](out: *mut c_void, image: *const c_void) {
        let before = real::memory_info();
        let answer = real(out, image);
        call.tell(|books, caller| books.module(answer, before, &caller));
        answer
    }
    cuLibraryLoadData 12000 plain cuLibraryLoadData[real, call](out: *mut c_void, code: *const c_void, options: *mut c_void, values: *mut c_void, count: u32, more: *mut c_void, more_values: *mut c_void, more_count: u32) {
        let before = real::memory_info();
        let answer = real(out, code, options, values, count, more, more_values, more_count);
        call.tell(|books, caller| books.module(answer, before, &caller));
        answer
    }
    cuLibraryLoadFromFile 12000 plain cuLibraryLoadFromFile[real, call](out: *mut c_void, file: *const c_char, options: *mut c_void, values: *mut c_void, count: u32, more: *mut c_void, more_values: *mut c_void, more_count: u32) {
        let before = real::memory_info();
        let answer = real(out, file, options, values, count, more, more_values, more_count);
        call.tell(|books, caller| books.module(answer, before, &caller));
        answer
    }
    cuGetProcAddress 11030 plain cuGetProcAddress[real, call](symbol: *const c_char, out: *mut *mut c_void, version: i32, flags: u64) {
        let answer = real(symbol, out, version, flags);
        if answer == 0 {
            unsafe { lookup::replace(symbol, out, version, flags) };
        }
        drop(call);
        answer
    }
    cuGetProcAddress 12000 plain cuGetProcAddress_v2[real, call](symbol: *const c_char, out: *mut *mut c_void, version: i32, flags: u64, status: *mut c_void) {
        let answer = real(symbol, out, version, flags, status);
        if answer == 0 {
            unsafe { lookup::replace(symbol, out, version, flags) };
        }
        drop(call);
        answer
    }
}

/// The pool that stream-ordered allocations of the current device come from; 1 where it cannot be told.
fn pool_of_device() -> u64 {
    let mut pool = 0;
    let known = real::current_device().is_some_and(|device| real::cuDeviceGetMemPool(&mut pool, device) == 0);
    if known && pool != 0 { pool as u64 } else { 1 }
}
