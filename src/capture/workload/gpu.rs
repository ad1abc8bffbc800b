//! The device's memory, for the simulator's allocator: what it takes from the driver is real.
//!
//! The driver is found when the program runs, never when it is built or started. A function that is looked up there and
//! missing would end the process, so each one that is used is looked for first.
//! Always: no more is taken than the share of the free memory that was agreed on; all is given back when this is dropped.

use crate::simulator::device::{Driver, range_size};
use cudarc::driver::{DriverError, result, sys};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Functions that every workload uses.
const NEEDED: &[&str] = &[
    "cuInit",
    "cuDriverGetVersion",
    "cuDeviceGetCount",
    "cuDeviceGet",
    "cuDeviceGetName",
    "cuDeviceGetUuid",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuMemGetInfo_v2",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemsetD8_v2",
    "cuGetErrorName",
    "cuGetErrorString",
];
/// Functions that expandable segments use.
const NEEDED_TO_MAP: &[&str] = &[
    "cuMemAddressReserve",
    "cuMemAddressFree",
    "cuMemCreate",
    "cuMemRelease",
    "cuMemMap",
    "cuMemUnmap",
    "cuMemSetAccess",
    "cuMemGetAllocationGranularity",
];

/// What the driver refused otherwise than for want of memory; shared with who writes the log.
pub(super) type Trouble = Rc<RefCell<Option<String>>>;

/// A piece of physical memory, mapped.
#[derive(Clone, Copy)]
struct Piece {
    size: u64,
    handle: sys::CUmemGenericAllocationHandle,
}

/// See the head of this file.
pub(super) struct Gpu {
    device: sys::CUdevice,
    /// What the device is called.
    pub(super) name: String,
    /// Its unchanging name, as NVML has it.
    pub(super) uuid: String,
    /// The driver's version, as `12.4`.
    pub(super) version: String,
    /// All its memory in bytes.
    pub(super) total: u64,
    /// Memory that was in use when the run began, the context of this process included.
    pub(super) used_before: u64,
    /// The most that may be taken, in bytes.
    pub(super) budget: u64,
    trouble: Trouble,
    segments: BTreeMap<u64, u64>,
    /// Reserved ranges: size and granule.
    ranges: BTreeMap<u64, (u64, u64)>,
    pieces: BTreeMap<u64, Piece>,
}

impl Gpu {
    /// The first device, with a share of its free memory; a sentence why not.
    pub(super) fn open(share_percent: u32, maps: bool) -> Result<Gpu, String> {
        // SAFETY: it loads the driver's library and looks no further.
        if !unsafe { sys::is_culib_present() } {
            return Err(
                "a workload needs an NVIDIA GPU, and this machine has no NVIDIA driver (libcuda.so.1 was not found)".to_owned()
            );
        }
        for (functions, what) in [(NEEDED, "a workload"), (NEEDED_TO_MAP, "expandable_segments:True")] {
            if let Some(name) = functions.iter().find(|name| !has(name)).filter(|_| maps || what == "a workload") {
                return Err(format!("the NVIDIA driver of this machine is too old for {what}: it has no {name}"));
            }
        }
        let failed = |error: DriverError| format!("the NVIDIA driver cannot be used: {}", words(error));
        result::init().map_err(failed)?;
        if result::device::get_count().map_err(failed)? < 1 {
            return Err("a workload needs an NVIDIA GPU, and the driver of this machine finds none".to_owned());
        }
        let device = result::device::get(0).map_err(failed)?;
        let mut version = 0;
        // SAFETY: a device of this machine; the place is this function's.
        let context = unsafe {
            sys::cuDriverGetVersion(&mut version).result().map_err(failed)?;
            result::primary_ctx::retain(device).map_err(failed)?
        };
        let mut gpu = Gpu {
            device,
            name: result::device::get_name(device).unwrap_or_default(),
            uuid: uuid(device),
            version: format!("{}.{}", version / 1000, version % 1000 / 10),
            total: 0,
            used_before: 0,
            budget: 0,
            trouble: Trouble::default(),
            segments: BTreeMap::new(),
            ranges: BTreeMap::new(),
            pieces: BTreeMap::new(),
        };
        // SAFETY: the context that was just retained.
        unsafe { result::ctx::set_current(context) }.map_err(failed)?;
        let (free, total) = result::mem_get_info().map_err(failed)?;
        gpu.total = total as u64;
        gpu.used_before = gpu.total.saturating_sub(free as u64);
        let share = u128::from(share_percent) * free as u128 / 100;
        gpu.budget = u64::try_from(share).unwrap_or(0) / UNIT * UNIT;
        if gpu.budget < LEAST {
            return Err(format!(
                "{share_percent} % of the device's free memory are {}, and a workload needs {}: name a larger --share, or free some",
                crate::base::Bytes(gpu.budget),
                crate::base::Bytes(LEAST)
            ));
        }
        Ok(gpu)
    }
    /// What the driver refused, for who writes the log.
    pub(super) fn trouble(&self) -> Trouble {
        Rc::clone(&self.trouble)
    }
    /// Fills a block, so that its memory is really there.
    pub(super) fn touch(&self, address: u64, size: u64) -> Result<(), String> {
        // SAFETY: the allocator has just handed it out, of memory that is mapped.
        unsafe { result::memset_d8_sync(address, 0x5a, size as usize) }.map_err(words)
    }
    fn refused(&mut self, what: &str, error: DriverError) {
        if error.0 != sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            self.trouble.borrow_mut().get_or_insert(format!("{what}: {}", words(error)));
        }
    }
    fn has_room(&self, size: u64, reserved: u64) -> bool {
        reserved.saturating_add(size) <= self.budget && self.trouble.borrow().is_none()
    }
    fn properties(&self) -> sys::CUmemAllocationProp {
        sys::CUmemAllocationProp {
            type_: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            requestedHandleTypes: sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
            location: self.location(),
            win32HandleMetaData: std::ptr::null_mut(),
            allocFlags: sys::CUmemAllocationProp_st__bindgen_ty_1 {
                compressionType: 0,
                gpuDirectRDMACapable: 0,
                usage: 0,
                reserved: [0; 4],
            },
        }
    }
    fn location(&self) -> sys::CUmemLocation {
        sys::CUmemLocation { type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: self.device }
    }
    /// Maps one piece.
    fn map_piece(&mut self, address: u64, size: u64) -> Result<(), (&'static str, DriverError)> {
        let (properties, bytes) = (self.properties(), size as usize);
        let access =
            sys::CUmemAccessDesc { location: self.location(), flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
        let mut handle = 0;
        // SAFETY: the range is reserved by this and nothing is mapped at the address; the functions are there.
        unsafe {
            sys::cuMemCreate(&mut handle, bytes, &properties, 0).result().map_err(|error| ("cuMemCreate", error))?;
            if let Err(error) = sys::cuMemMap(address, bytes, 0, handle, 0).result() {
                let _ = sys::cuMemRelease(handle).result();
                return Err(("cuMemMap", error));
            }
            self.pieces.insert(address, Piece { size, handle });
            sys::cuMemSetAccess(address, bytes, &access, 1).result().map_err(|error| ("cuMemSetAccess", error))
        }
    }
    fn unmap_piece(&mut self, address: u64) {
        let Some(piece) = self.pieces.remove(&address) else { return };
        // SAFETY: it was mapped by this, and the allocator has nothing in it any more.
        let done = unsafe {
            let unmapped = sys::cuMemUnmap(address, piece.size as usize).result();
            unmapped.and(sys::cuMemRelease(piece.handle).result())
        };
        if let Err(error) = done {
            self.refused("cuMemUnmap", error);
        }
    }
}

/// The budget comes in whole units of this.
const UNIT: u64 = 2 << 20;
/// The least a workload can be made of.
const LEAST: u64 = 64 << 20;

impl Driver for Gpu {
    fn allocate(&mut self, size: u64, reserved: u64) -> Option<u64> {
        if !self.has_room(size, reserved) {
            return None;
        }
        // SAFETY: a context is current.
        match unsafe { result::malloc_sync(size as usize) } {
            Ok(address) => {
                self.segments.insert(address, size);
                Some(address)
            }
            Err(error) => {
                self.refused("cuMemAlloc", error);
                None
            }
        }
    }
    fn release(&mut self, address: u64, _size: u64) {
        self.segments.remove(&address);
        // SAFETY: the allocator has nothing in it any more.
        if let Err(error) = unsafe { result::free_sync(address) } {
            self.refused("cuMemFree", error);
        }
    }
    fn reserve(&mut self, granule: u64) -> Option<(u64, u64)> {
        let (mut unit, mut base, properties) = (0, 0, self.properties());
        let least = sys::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
        // SAFETY: places of this function; the functions are there.
        let reserved = unsafe {
            sys::cuMemGetAllocationGranularity(&mut unit, &properties, least).result().and_then(|()| {
                let size = range_size(Some(self.total), granule).checked_next_multiple_of(unit.max(1) as u64).unwrap_or(granule);
                sys::cuMemAddressReserve(&mut base, size as usize, 0, 0, 0).result().map(|()| size)
            })
        };
        match reserved {
            Ok(size) if granule.is_multiple_of(unit.max(1) as u64) => {
                self.ranges.insert(base, (size, granule));
                Some((base, size))
            }
            Ok(_) => {
                let what =
                    format!("the device maps memory in units of {unit} bytes, which PyTorch's granules are no multiple of");
                self.trouble.borrow_mut().get_or_insert(what);
                None
            }
            Err(error) => {
                self.refused("cuMemAddressReserve", error);
                None
            }
        }
    }
    fn map(&mut self, address: u64, size: u64, reserved: u64) -> bool {
        if !self.has_room(size, reserved) {
            return false;
        }
        // Pieces of one granule: any of them may be taken out later.
        let granule = self.ranges.range(..=address).next_back().map_or(size, |(_, (_, granule))| *granule);
        let mut at = address;
        while at < address + size {
            let piece = granule.min(address + size - at);
            if let Err((what, error)) = self.map_piece(at, piece) {
                self.refused(what, error);
                self.unmap(address, at + piece - address);
                return false;
            }
            at += piece;
        }
        true
    }
    fn unmap(&mut self, address: u64, size: u64) {
        let within: Vec<u64> = self.pieces.range(address..address.saturating_add(size)).map(|(at, _)| *at).collect();
        for at in within {
            self.unmap_piece(at);
        }
    }
    fn hold(&mut self, _address: u64, _size: u64, _expandable: bool) {}
    fn lift(&mut self) {}
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // The device may be lost: then there is nothing to give back, and nobody to tell.
        let _ = result::ctx::synchronize();
        self.unmap(0, u64::MAX);
        for (base, (size, _)) in std::mem::take(&mut self.ranges) {
            // SAFETY: it was reserved by this, and nothing is mapped in it any more.
            let _ = unsafe { sys::cuMemAddressFree(base, size as usize) };
        }
        for address in std::mem::take(&mut self.segments).into_keys() {
            // SAFETY: it was taken by this.
            let _ = unsafe { result::free_sync(address) };
        }
        // SAFETY: it was retained when this was made.
        let _ = unsafe { result::primary_ctx::release(self.device) };
    }
}

/// Whether the driver has a function.
fn has(name: &str) -> bool {
    // SAFETY: the library is there; the symbol is looked up and not called.
    unsafe { sys::culib().get::<unsafe extern "C" fn()>(name) }.is_ok()
}

fn uuid(device: sys::CUdevice) -> String {
    let Ok(uuid) = result::device::get_uuid(device) else { return String::new() };
    let hex: String = uuid.bytes.iter().map(|byte| format!("{:02x}", *byte as u8)).collect();
    ["GPU", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// What the driver calls an answer.
fn words(error: DriverError) -> String {
    let text = |text: Result<&std::ffi::CStr, DriverError>| text.map(|text| text.to_string_lossy().into_owned()).ok();
    let name = text(error.error_name()).unwrap_or_else(|| format!("{:?}", error.0));
    match text(error.error_string()) {
        Some(meaning) => format!("{name} ({meaning})"),
        None => name,
    }
}

/// Free bytes and all bytes of the current device, where it answers.
pub(super) fn memory_info() -> Option<(u64, u64)> {
    result::mem_get_info().ok().map(|(free, total)| (free as u64, total as u64))
}
