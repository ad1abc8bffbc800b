//! What runs inside a PyTorch job: receives the caching allocator's trace entries and keeps them in a ring.
//!
//! A library of its own, compiled by `build.rs` and carried in the program; the recorder loads it into the job. It needs
//! nothing but the few functions that the recorder hands it, no libc of a certain age, nothing of PyTorch and no C++:
//! a `std::function` of libstdc++ is two words of data and two plain functions.
//! Always: the callback runs under the allocator's lock, so it never waits, never allocates and never calls Python; what
//! finds no room is counted. Whether entries have the layout that is read here is for the recorder to prove, by
//! comparing what comes out with a snapshot, before anything is believed.

#![no_std]

use core::ffi::c_void;
use core::ptr::{null_mut, read_unaligned, read_volatile, write_unaligned};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Of this library's functions, for the recorder to ask.
const VERSION: u32 = 1;
/// Entries are passed over. (In mode 1, and any other without a name here, they are kept and their stacks not looked at.)
const IDLE: u32 = 0;
/// Stacks are looked at through the kernel, which fails where a pointer is none, and copies of them are kept to compare.
const CAREFUL: u32 = 2;
/// Stacks are looked at.
const STACKS: u32 = 3;

/// The longest stack that is looked at, in frames.
const FRAMES: usize = 1024;
/// Stacks that are kept to compare, and frames of each.
const SAMPLES: usize = 64;
const SAMPLE_FRAMES: usize = 64;
/// Stacks that can be told apart; a power of two.
const TABLE: usize = 1 << 17;
/// Stacks are numbered from here on, so that numbers of the recorder's own are others.
const FIRST_STACK: u32 = 0x8000_0000;
const NO_STACK: u32 = u32::MAX;
const EMPTY_STACK: u32 = 0;
/// The hash of a stack without frames, and that of no stack.
const HASH_EMPTY: u64 = 1;
const HASH_NONE: u64 = 0;

/// An entry in the ring.
#[repr(C, align(64))]
struct Slot {
    /// The ticket it is for; that + 1 when it is filled.
    ticket: AtomicU64,
    time_us: i64,
    action: u32,
    device: i32,
    address: u64,
    size: u64,
    stream: i64,
    hash: u64,
}

/// A stack that was kept to compare: its hash, its length, its frames.
#[repr(C)]
struct Sample {
    hash: u64,
    frames: u64,
    words: [u64; 2 * SAMPLE_FRAMES],
}

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}
#[repr(C)]
struct Iovec {
    base: *mut c_void,
    len: usize,
}
type Clock = unsafe extern "C" fn(i32, *mut Timespec) -> i32;
type ReadMemory = unsafe extern "C" fn(i32, *const Iovec, usize, *const Iovec, usize, usize) -> isize;

/// The memory that the recorder gave: slots, then the table of stacks, then samples. It is zero at first.
static SLOTS: AtomicPtr<Slot> = AtomicPtr::new(null_mut());
static CAPACITY: AtomicUsize = AtomicUsize::new(0);
static HASHES: AtomicPtr<u64> = AtomicPtr::new(null_mut());
static NUMBERS: AtomicPtr<u32> = AtomicPtr::new(null_mut());
static NAMED: AtomicPtr<u8> = AtomicPtr::new(null_mut());
static SAMPLE: AtomicPtr<Sample> = AtomicPtr::new(null_mut());
static CLOCK: AtomicUsize = AtomicUsize::new(0);
static READ_MEMORY: AtomicUsize = AtomicUsize::new(0);
static PROCESS: AtomicU32 = AtomicU32::new(0);
static MODE: AtomicU32 = AtomicU32::new(IDLE);
static HEAD: AtomicU64 = AtomicU64::new(0);
static TAIL: AtomicU64 = AtomicU64::new(0);
static DROPPED: AtomicU64 = AtomicU64::new(0);
/// The number of the entry before which the latest one found no room.
static DROPPED_BEFORE: AtomicU64 = AtomicU64::new(0);
static SAMPLED: AtomicUsize = AtomicUsize::new(0);
static STACKS_KNOWN: AtomicU32 = AtomicU32::new(0);

/// The version of these functions.
#[unsafe(no_mangle)]
pub extern "C" fn fst_version() -> u32 {
    VERSION
}

/// Bytes that [`fst_setup`] wants for a ring of so many entries.
#[unsafe(no_mangle)]
pub extern "C" fn fst_bytes(entries: u64) -> u64 {
    entries * size_of::<Slot>() as u64 + (TABLE * (8 + 4 + 1)) as u64 + (SAMPLES * size_of::<Sample>()) as u64
}

/// Takes zeroed memory for a ring of `entries` (a power of two), and the functions it needs of the C library.
///
/// # Safety
/// `memory` is aligned to 64 and stays for as long as the process; the functions are `clock_gettime` and
/// `process_vm_readv`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fst_setup(memory: *mut u8, entries: u64, clock: usize, read_memory: usize, process: u32) {
    let capacity = entries as usize;
    let slots = memory.cast::<Slot>();
    for i in 0..capacity {
        // SAFETY: the memory holds so many slots.
        unsafe { (*slots.add(i)).ticket.store(i as u64, Ordering::Relaxed) };
    }
    // SAFETY: the parts lie one behind another in the memory, the widest aligned first.
    unsafe {
        let samples = memory.add(capacity * size_of::<Slot>());
        let hashes = samples.add(SAMPLES * size_of::<Sample>());
        let numbers = hashes.add(TABLE * 8);
        SAMPLE.store(samples.cast(), Ordering::Relaxed);
        HASHES.store(hashes.cast(), Ordering::Relaxed);
        NUMBERS.store(numbers.cast(), Ordering::Relaxed);
        NAMED.store(numbers.add(TABLE * 4), Ordering::Relaxed);
    }
    CLOCK.store(clock, Ordering::Relaxed);
    READ_MEMORY.store(read_memory, Ordering::Relaxed);
    PROCESS.store(process, Ordering::Relaxed);
    CAPACITY.store(capacity, Ordering::Relaxed);
    SLOTS.store(slots, Ordering::Release);
}

/// What is done with entries from now on.
#[unsafe(no_mangle)]
pub extern "C" fn fst_mode(mode: u32) {
    MODE.store(mode, Ordering::SeqCst);
}

/// Entries that found no room so far.
#[unsafe(no_mangle)]
pub extern "C" fn fst_dropped() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

/// How many entries came before the latest one that found no room.
#[unsafe(no_mangle)]
pub extern "C" fn fst_dropped_before() -> u64 {
    DROPPED_BEFORE.load(Ordering::Relaxed)
}

/// libstdc++'s `std::function<void(const TraceEntry&)>`.
#[repr(C)]
struct Function {
    data: [usize; 2],
    manager: extern "C" fn(*mut c_void, *const c_void, i32) -> i32,
    invoker: extern "C" fn(*const c_void, *const u8),
}

extern "C" fn manage(to: *mut c_void, from: *const c_void, operation: i32) -> i32 {
    // SAFETY: libstdc++ hands over the two words of a function's data; 0 asks for its type, 1 for its address, 2 for a
    // copy, 3 to destroy it.
    unsafe {
        match operation {
            0 => write_unaligned(to.cast::<usize>(), 0),
            1 => write_unaligned(to.cast::<*const c_void>(), from),
            2 => {
                let words = read_unaligned(from.cast::<[usize; 2]>());
                write_unaligned(to.cast::<[usize; 2]>(), words);
            }
            _ => {}
        }
    }
    0
}

/// Attaches to an allocator by its own method. It cannot be detached; mode 0 makes it idle.
///
/// # Safety
/// `method` is `attachAllocatorTraceTracker` of the object at `allocator`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fst_attach(allocator: *mut c_void, method: usize) {
    let mut function = Function { data: [0; 2], manager: manage, invoker: receive };
    // SAFETY: by the caller's word; a function by value is passed by its address.
    unsafe {
        let method: unsafe extern "C" fn(*mut c_void, *mut Function) = core::mem::transmute(method);
        method(allocator, &mut function);
    }
}

/// One trace entry. Runs under the lock of its device's allocator; several devices may be here at once.
extern "C" fn receive(_: *const c_void, entry: *const u8) {
    let mode = MODE.load(Ordering::Relaxed);
    let slots = SLOTS.load(Ordering::Acquire);
    if mode == IDLE || slots.is_null() {
        return;
    }
    // SAFETY: an entry is at least 56 bytes long in every release, and only its first 48 are read, as plain words; the
    // slots are the recorder's memory. Contexts are followed only in mode 3, after mode 2 has shown what they hold.
    unsafe {
        let word = |at: usize| read_unaligned(entry.add(at).cast::<u64>());
        let capacity = CAPACITY.load(Ordering::Relaxed) as u64;
        let mut ticket = HEAD.load(Ordering::Relaxed);
        let slot = loop {
            let slot = slots.add((ticket & (capacity - 1)) as usize);
            let there = (*slot).ticket.load(Ordering::Acquire);
            if there == ticket {
                match HEAD.compare_exchange_weak(ticket, ticket + 1, Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(_) => break slot,
                    Err(now) => ticket = now,
                }
            } else if there < ticket {
                DROPPED_BEFORE.store(ticket, Ordering::Relaxed);
                DROPPED.fetch_add(1, Ordering::Relaxed);
                return;
            } else {
                ticket = HEAD.load(Ordering::Relaxed);
            }
        };
        let context = word(16);
        let hash = match mode {
            STACKS if context != 0 => hash_of(context),
            CAREFUL if context != 0 => careful_hash_of(context),
            _ => HASH_NONE,
        };
        let mut now = Timespec { seconds: 0, nanoseconds: 0 };
        let clock: Clock = core::mem::transmute(CLOCK.load(Ordering::Relaxed));
        clock(0, &mut now);
        (*slot).time_us = now.seconds * 1_000_000 + now.nanoseconds / 1000;
        let first = word(0);
        (*slot).action = first as u32;
        (*slot).device = i32::from((first >> 32) as i8);
        (*slot).address = word(8);
        (*slot).stream = word(32) as i64;
        (*slot).size = word(40);
        (*slot).hash = hash;
        (*slot).ticket.store(ticket + 1, Ordering::Release);
    }
}

/// Mixes one frame into a hash: its code object and how far it was.
fn mix(hash: u64, code: u64, last: u64) -> u64 {
    let mut hash = (hash ^ code).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 32;
    hash = (hash ^ (last & 0xffff_ffff)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 29)
}

fn finished(hash: u64, frames: usize) -> u64 {
    if frames == 0 { HASH_EMPTY } else { hash.max(2) }
}

/// The hash of a context's frames: behind its first word lies a vector of 16-byte frames.
unsafe fn hash_of(context: u64) -> u64 {
    // SAFETY: by what mode 2 has shown.
    unsafe {
        let vector = context as *const u64;
        let (begin, end) = (read_volatile(vector.add(1)), read_volatile(vector.add(2)));
        let frames = end.wrapping_sub(begin) as usize / 16;
        if FRAMES < frames || (begin == 0 && frames != 0) {
            return HASH_NONE;
        }
        let words = begin as *const u64;
        let mut hash = 0x9e37_79b9_7f4a_7c15;
        for i in 0..frames {
            hash = mix(hash, *words.add(2 * i), *words.add(2 * i + 1));
        }
        finished(hash, frames)
    }
}

/// Reads memory of this process through the kernel; false where there is none.
unsafe fn peek(from: u64, to: *mut u64, words: usize) -> bool {
    let local = Iovec { base: to.cast(), len: words * 8 };
    let remote = Iovec { base: from as *mut c_void, len: words * 8 };
    // SAFETY: the kernel checks the source; the destination is the caller's.
    unsafe {
        let read: ReadMemory = core::mem::transmute(READ_MEMORY.load(Ordering::Relaxed));
        read(PROCESS.load(Ordering::Relaxed) as i32, &local, 1, &remote, 1, 0) == (words * 8) as isize
    }
}

/// The same hash without trusting anything; the first stacks are kept.
unsafe fn careful_hash_of(context: u64) -> u64 {
    let mut vector = [0u64; 3];
    let mut frames = [0u64; 2 * SAMPLE_FRAMES];
    // SAFETY: all reading goes through the kernel.
    unsafe {
        if !peek(context, vector.as_mut_ptr(), 3) {
            return HASH_NONE;
        }
        let bytes = vector[2].wrapping_sub(vector[1]) as usize;
        let count = bytes / 16;
        if bytes % 16 != 0 || FRAMES < count {
            return HASH_NONE;
        }
        let mut hash = 0x9e37_79b9_7f4a_7c15;
        let mut kept = [0u64; 2 * SAMPLE_FRAMES];
        let mut done = 0;
        while done < count {
            let part = (count - done).min(SAMPLE_FRAMES);
            if !peek(vector[1].wrapping_add(16 * done as u64), frames.as_mut_ptr(), 2 * part) {
                return HASH_NONE;
            }
            for i in 0..part {
                hash = mix(hash, frames[2 * i], frames[2 * i + 1]);
            }
            if done == 0 {
                kept = frames;
            }
            done += part;
        }
        let hash = finished(hash, count);
        let sample = SAMPLED.fetch_add(1, Ordering::Relaxed);
        if sample < SAMPLES {
            let to = SAMPLE.load(Ordering::Relaxed).add(sample);
            (*to).words = kept;
            (*to).frames = count as u64;
            (*to).hash = hash;
        }
        hash
    }
}

/// Copies the stacks that were kept to compare: 64 times hash, number of frames, and 64 pairs of words. Tells how many.
///
/// # Safety
/// `out` has room for 64 samples of 1040 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fst_samples(out: *mut u8) -> u32 {
    let count = SAMPLED.load(Ordering::Relaxed).min(SAMPLES);
    // SAFETY: by the caller's word.
    unsafe { core::ptr::copy_nonoverlapping(SAMPLE.load(Ordering::Relaxed).cast::<u8>(), out, count * size_of::<Sample>()) };
    count as u32
}

/// The row of a hash in the table, new or known; none where the table is full.
unsafe fn row_of(hash: u64) -> Option<usize> {
    let (hashes, numbers) = (HASHES.load(Ordering::Relaxed), NUMBERS.load(Ordering::Relaxed));
    let mut row = (hash as usize ^ (hash >> 40) as usize) & (TABLE - 1);
    // SAFETY: the table has so many rows; only the thread that drains is here.
    unsafe {
        loop {
            let there = *hashes.add(row);
            if there == hash {
                return Some(row);
            }
            if there == 0 {
                let known = STACKS_KNOWN.load(Ordering::Relaxed);
                if (TABLE - TABLE / 4) as u32 <= known {
                    return None;
                }
                *hashes.add(row) = hash;
                *numbers.add(row) = known;
                STACKS_KNOWN.store(known + 1, Ordering::Relaxed);
                return Some(row);
            }
            row = (row + 1) & (TABLE - 1);
        }
    }
}

/// The stack's number that a hash has in drained events; for samples.
///
/// # Safety
/// Only for the thread that drains.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fst_stack_of(hash: u64) -> u32 {
    match hash {
        HASH_NONE => NO_STACK,
        HASH_EMPTY => EMPTY_STACK,
        // SAFETY: by the caller's word.
        hash => match unsafe { row_of(hash) } {
            // SAFETY: a row of the table.
            Some(row) => FIRST_STACK + unsafe { *NUMBERS.load(Ordering::Relaxed).add(row) },
            None => NO_STACK,
        },
    }
}

/// Says that the frames of a stack are written down.
///
/// # Safety
/// Only for the thread that drains.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fst_name(stack: u32) {
    let at = stack.wrapping_sub(FIRST_STACK) as usize;
    if at < TABLE {
        // SAFETY: within the table.
        unsafe { *NAMED.load(Ordering::Relaxed).add(at) = 1 };
    }
}

/// Takes up to `most` entries out of the ring as events of a log, 40 bytes each. Tells how many; into `unnamed` goes how
/// many of the last ones back the latest event lies whose stack is not written down yet (0: there is none).
///
/// # Safety
/// `out` has room for so many; one thread at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fst_drain(out: *mut u8, most: u64, unnamed: *mut u64) -> u64 {
    let slots = SLOTS.load(Ordering::Acquire);
    let capacity = CAPACITY.load(Ordering::Relaxed) as u64;
    let mut tail = TAIL.load(Ordering::Relaxed);
    let (mut count, mut latest) = (0u64, 0u64);
    if slots.is_null() {
        return 0;
    }
    // SAFETY: the slots are the recorder's memory, and a slot whose ticket says so is filled.
    unsafe {
        while count < most {
            let slot = slots.add((tail & (capacity - 1)) as usize);
            if (*slot).ticket.load(Ordering::Acquire) != tail + 1 {
                break;
            }
            let stack = fst_stack_of((*slot).hash);
            let at = stack.wrapping_sub(FIRST_STACK) as usize;
            if at < TABLE && *NAMED.load(Ordering::Relaxed).add(at) == 0 {
                latest = count + 1;
            }
            let event = out.add(count as usize * 40);
            let head = u64::from((*slot).action.min(255)) | u64::from((*slot).device as u8) << 8 | u64::from(stack) << 32;
            write_unaligned(event.cast::<u64>(), head);
            write_unaligned(event.add(8).cast::<u64>(), (*slot).address);
            write_unaligned(event.add(16).cast::<u64>(), (*slot).size);
            write_unaligned(event.add(24).cast::<i64>(), (*slot).stream);
            write_unaligned(event.add(32).cast::<i64>(), (*slot).time_us);
            (*slot).ticket.store(tail + capacity, Ordering::Release);
            tail += 1;
            count += 1;
        }
        TAIL.store(tail, Ordering::Relaxed);
        *unnamed = if latest == 0 { 0 } else { count - latest + 1 };
    }
    count
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
