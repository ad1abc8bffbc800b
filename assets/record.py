"""Fragscope's recorder: writes what PyTorch's CUDA caching allocator does to a log (.fsl), from inside the job.

One file, Python 3.8 and later, the standard library only. It never imports torch; it waits until the program does, and
starts inside the program's own CUDA initialisation. Whatever goes wrong in here is written into the log, and the job
goes on. Standard output and standard error stay the job's.

    python record.py [--out job.fsl] train.py ARGS...      records a script
    with record.recording("job.fsl"): ...                   records a stretch of a program

`fragscope capture -- python train.py` puts this file on the job's path instead, without touching the job's files.
The format of the log is described in Fragscope's src/format/fsl/format.md.
"""
import atexit
import gc
import json
import os
import signal
import struct
import sys
import threading
import time
import zlib

# The compiled library that receives trace entries, as base64 of zlib; put in by Fragscope. Empty: the slower way is used.
LIBRARY = ""

ENVIRONMENT = "FRAGSCOPE_RECORD"
MAGIC = b"\x89FSL\r\n\x1a\n"
MARKER = b"\xf5\x1c\x10\x9a"
(FACTS, TEXTS, FRAMES, STACKS, POOLS, EVENTS, GAP, SAMPLES, STATE, MARKS, NOTE, SAVED, EXTRAS, END) = range(1, 15)
NAMES = ("alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map", "segment_unmap",
         "snapshot", "oom", "annotate")
ACTIONS = {name: number for number, name in enumerate(NAMES)}
ALLOC, FREE_COMPLETED, SNAPSHOT = 0, 2, 7
NO_STACK, EMPTY_STACK, FIRST_TRACKER_STACK = 0xFFFFFFFF, 0, 0x80000000
UNKNOWN, NO_TIME = (1 << 64) - 1, -(1 << 63)
AT_START, AT_END, AFTER_GAP, BETWEEN = range(4)
MAX_PAYLOAD = 16 << 20
EVENT = struct.Struct("<BbHIQQqq")
EVENTS_IN_RECORD = 200000

# Entries of the allocator's ring. A fetch copies all of them with the GIL held, about 0.6 us each: 20000 stall the job
# for 10 to 12 ms.
RING = 20000
TRACKER_RING = 10000
# Entries of our own ring, 64 bytes each: a quarter of a second at a million events a second.
TRACKER_ENTRIES = 1 << 18
# Entries that are turned into records at once.
TURN = 200
# Events that must agree before the tracker is believed.
PROOF = 16


def now_us():
    return time.time_ns() // 1000


class Dead(Exception):
    """The log cannot be written any more."""


class Log:
    """Appends records. A record that does not fit on the disk is taken back, and nothing is written after it."""

    def __init__(self, path):
        self.path = path
        self.lock = threading.RLock()
        flags = os.O_WRONLY | os.O_APPEND | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        if is_pipe(path):
            # Without a reader this fails; the job would wait otherwise.
            flags |= getattr(os, "O_NONBLOCK", 0)
        else:
            flags |= os.O_CREAT | os.O_EXCL
        self.fd = os.open(path, flags, 0o644)
        if hasattr(os, "set_blocking"):
            os.set_blocking(self.fd, True)
        self.size = 0
        self.dead = None
        self.texts, self.frames, self.stacks, self.pools = {}, {}, {(): EMPTY_STACK}, {}
        self.new_texts, self.new_frames, self.new_stacks, self.new_pools = [], [], [], []
        self.write([MAGIC + struct.pack("<HHI", 1, 0, 0)])

    def write(self, parts):
        if self.dead:
            raise Dead(self.dead)
        total = sum(len(part) for part in parts)
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        try:
            done = os.write(self.fd, data)
            while done < total:
                done += os.write(self.fd, memoryview(data)[done:])
        except OSError as error:
            self.dead = "%s" % error
            try:
                os.ftruncate(self.fd, self.size)
            except OSError:
                pass
            raise Dead(self.dead)
        self.size += total

    def record(self, kind, *parts):
        with self.lock:
            tail = struct.pack("<HH", kind, 0)
            crc = zlib.crc32(tail)
            length = 0
            for part in parts:
                crc = zlib.crc32(part, crc)
                length += len(part)
            self.write([MARKER + struct.pack("<II", length, crc) + tail] + list(parts))

    def text(self, text):
        number = self.texts.get(text)
        if number is None:
            number = self.texts[text] = len(self.texts)
            data = text.encode("utf-8", "replace")[:MAX_PAYLOAD // 4]
            self.new_texts.append(struct.pack("<I", len(data)) + data)
        return number

    def frame(self, name, filename, line):
        key = (name, filename, line)
        number = self.frames.get(key)
        if number is None:
            texts = (self.text(name), self.text(filename))
            number = self.frames[key] = len(self.frames)
            line = line if -(1 << 63) <= line < 1 << 63 else -1
            self.new_frames.append(struct.pack("<IIq", texts[0], texts[1], line))
        return number

    def stack(self, frames):
        number = self.stacks.get(frames)
        if number is None:
            number = self.stacks[frames] = len(self.stacks)
            self.define_stack(number, frames)
        return number

    def define_stack(self, number, frames):
        self.new_stacks.append(struct.pack("<II%dI" % len(frames), number, len(frames), *frames))

    def pool(self, pair):
        number = self.pools.get(pair)
        if number is None:
            if 65000 < len(self.pools):
                return 0
            number = self.pools[pair] = len(self.pools)
            self.new_pools.append(struct.pack("<qq", *pair))
        return number + 1

    def definitions(self):
        """Writes what was defined since the last time."""
        for kind, rows, known, head in (
            (TEXTS, self.new_texts, self.texts, "<I"),
            (FRAMES, self.new_frames, self.frames, "<I"),
            (STACKS, self.new_stacks, None, None),
            (POOLS, self.new_pools, self.pools, "<H6x"),
        ):
            if not rows:
                continue
            first = None if known is None else len(known) - len(rows)
            batch, size, begun = [], 0, 0
            for at, row in enumerate(rows):
                batch.append(row)
                size += len(row)
                if MAX_PAYLOAD // 4 < size or at == len(rows) - 1:
                    start = b"" if first is None else struct.pack(head, first + begun)
                    self.record(kind, start + b"".join(batch))
                    batch, size, begun = [], 0, at + 1
            del rows[:]

    def events(self, data):
        step = EVENTS_IN_RECORD * EVENT.size
        for at in range(0, len(data), step):
            self.record(EVENTS, data[at:at + step])

    def gap(self, device, reason, missed):
        reason = self.text(reason)
        self.definitions()
        self.record(GAP, struct.pack("<iIQq", device, reason, UNKNOWN if missed is None else max(0, missed), now_us()))

    def note(self, severity, text):
        try:
            self.record(NOTE, struct.pack("<qB7x", now_us(), severity) + text.encode("utf-8", "replace")[:65536])
        except Dead:
            pass

    def facts(self, facts):
        self.record(FACTS, json.dumps(facts, default=str).encode())

    def mark(self, name, stage, device=0):
        text = self.text(name)
        self.definitions()
        self.record(MARKS, struct.pack("<qiIB7x", now_us(), device, text, stage))

    def close(self):
        with self.lock:
            self.dead = self.dead or "closed"
            try:
                os.close(self.fd)
            except OSError:
                pass


def is_pipe(path):
    import stat
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False


class Allocator:
    """What is asked of torch, whatever its release."""

    def __init__(self, torch):
        self.torch = torch
        self.c = torch._C
        self.snapshot_takes = None
        self.set_history = torch.cuda.memory._record_memory_history
        import inspect
        self.knows = set(inspect.signature(self.set_history).parameters)

    def version(self):
        numbers = []
        for part in str(self.torch.__version__).split("+")[0].split(".")[:2]:
            numbers.append(int("".join(c for c in part if c.isdigit()) or 0))
        return tuple(numbers)

    def backend(self):
        return self.torch.cuda.get_allocator_backend()

    def history(self, enabled, **options):
        """The `enabled` and `stacks` words exist since 2.1; what a release does not know is left out."""
        known = {key: value for key, value in options.items() if key in self.knows}
        self.set_history(enabled, **known)

    def snapshot(self):
        """A snapshot looks for code that torch._inductor made, as an attribute of torch; asking for that imports it where
        the program has not. From another thread this takes seconds, and can break an import that is under way."""
        held = vars(self.torch)
        if "_inductor" in held:
            return self.plain_snapshot()
        absent = held["_inductor"] = Absent("torch._inductor")
        try:
            return self.plain_snapshot()
        finally:
            if held.get("_inductor") is absent:
                del held["_inductor"]

    def plain_snapshot(self):
        if self.snapshot_takes is None:
            try:
                found = self.c._cuda_memorySnapshot(None)
                self.snapshot_takes = (None,)
                return found
            except TypeError:
                self.snapshot_takes = ()
        return self.c._cuda_memorySnapshot(*self.snapshot_takes)

    def counters(self, device):
        """Allocations, frees, segments given and taken so far."""
        stats = self.c._cuda_memoryStats(device)
        allocation, segment = stats["allocation"]["all"], stats["segment"]["all"]
        return (allocation["allocated"], allocation["freed"], segment["allocated"], segment["freed"])

    def observe_oom(self, function):
        attach = getattr(self.c, "_cuda_attach_out_of_memory_observer", None)
        attach = attach or getattr(self.c, "_cuda_attachOutOfMemoryObserver", None)
        if attach:
            attach(function)

    def facts(self):
        cuda = self.torch.cuda
        devices = []
        for ordinal in range(cuda.device_count()):
            properties = cuda.get_device_properties(ordinal)
            device = {"ordinal": ordinal, "name": properties.name, "total": properties.total_memory}
            # PyTorch 2.5 and later name the card.
            if getattr(properties, "uuid", None) is not None:
                device["uuid"] = "GPU-%s" % properties.uuid
            devices.append(device)
        return {"torch": str(self.torch.__version__), "cuda": self.torch.version.cuda, "devices": devices}


class Absent(type(sys)):
    """Stands for a module for the moment of a call; whoever else asks it for something gets the real one."""

    def __init__(self, name):
        super().__init__(name)
        self.__dict__["_asker"] = threading.get_ident()

    def __getattr__(self, name):
        if threading.get_ident() == self.__dict__["_asker"]:
            raise AttributeError(name)
        import importlib
        return getattr(importlib.import_module(self.__name__), name)


class Names:
    """Frames of one fetch as stacks of the log. Within a fetch equal frames are one object."""

    def __init__(self, log):
        self.log = log
        self.by_list, self.by_frames, self.by_frame = {}, {}, {}

    def stack(self, frames):
        if frames is None:
            return NO_STACK
        number = self.by_list.get(id(frames))
        if number is None:
            key = tuple(map(id, frames))
            number = self.by_frames.get(key)
            if number is None:
                number = self.by_frames[key] = self.log.stack(self.frames(frames))
            self.by_list[id(frames)] = number
        return number

    def frames(self, frames):
        return tuple([self.frame(frame) for frame in frames])

    def frame(self, frame):
        number = self.by_frame.get(id(frame))
        if number is None:
            number = self.log.frame(frame["name"], frame["filename"], frame["line"])
            self.by_frame[id(frame)] = number
        return number


def state_of(log, names, segments, device, when):
    """A state record of one device of a snapshot."""
    states = {"inactive": 0, "active_allocated": 1, "active_pending_free": 2, "active_awaiting_free": 2}
    parts = []
    count = 0
    for segment in segments:
        if segment["device"] != device:
            continue
        count += 1
        blocks = segment["blocks"]
        pool = segment.get("segment_pool_id")
        parts.append(struct.pack(
            "<QQqIIHBB4x", segment["address"], segment["total_size"], segment.get("stream", 0),
            names.stack(segment.get("frames")), len(blocks), log.pool(tuple(pool)) if pool else 0,
            segment.get("segment_type") != "small", bool(segment.get("is_expandable"))))
        address = segment["address"]
        for block in blocks:
            address = block.get("address", address)
            requested = block.get("requested_size", UNKNOWN)
            parts.append(struct.pack("<QQQIB3x", address, block["size"], requested, names.stack(block.get("frames")),
                                     states.get(block["state"], 1)))
            address += block["size"]
    log.definitions()
    data = struct.pack("<iB3xqI4x", device, when, now_us(), count) + b"".join(parts)
    if MAX_PAYLOAD < len(data):
        log.note(1, "a state of device %d is too large for a record and was left out" % device)
        return
    log.record(STATE, data)


class Followed:
    """How far the ring of one device was followed."""

    def __init__(self, whole):
        # Whether every entry there is belongs to the recording, or only those behind our first snapshot.
        self.whole = whole
        self.fetched = False
        self.tail = []
        # Snapshot entries that our own fetches left and that were not seen yet.
        self.own = 0
        self.counters = None


class Ring:
    """Follows the allocator's ring by overlapping fetches, cut at the `snapshot` entry that each fetch leaves."""

    way = "ring"

    def __init__(self, recorder, whole):
        self.recorder, self.log, self.allocator = recorder, recorder.log, recorder.allocator
        self.whole = whole
        self.devices = {}
        self.size = recorder.ring_size
        self.cost, self.last = 0.0, 0.0
        self.seen = {}

    def device(self, number):
        followed = self.devices.get(number)
        if followed is None:
            followed = self.devices[number] = Followed(self.whole)
        return followed

    def waiting(self):
        """Events since the last fetch, about."""
        total = 0
        for number in range(self.recorder.device_count):
            counters = self.allocator.counters(number)
            before = self.seen.get(number, (0, 0, 0, 0))
            total += sum(counters) - sum(before) + counters[1] - before[1]
        return total

    def tick(self):
        """Fetches when enough waits; gives the seconds until the next look."""
        now = time.monotonic()
        if not self.whole and not self.last:
            # What is there already is a state; it is to be as old as possible.
            self.fetch()
        waiting = self.waiting()
        since = now - self.last
        # What is fetched may cost a third of the time at most, whatever is lost by that.
        if waiting and (since >= self.recorder.interval or waiting >= 0.4 * self.size) and since >= 3 * self.cost:
            self.fetch()
        rate = waiting / max(since, 0.02)
        return min(self.recorder.interval, max(0.01, 0.3 * self.size / rate if rate else 1.0))

    def fetch(self, end=None):
        self.seen = {n: self.allocator.counters(n) for n in range(self.recorder.device_count)}
        began = time.perf_counter()
        with Fetched(self.allocator) as snapshot:
            self.take(snapshot, end)
        self.cost = time.perf_counter() - began
        self.last = time.monotonic()

    def take(self, snapshot, end=None):
        names = Names(self.log)
        for number, trace in enumerate(snapshot["device_traces"]):
            followed = self.device(number)
            if not trace and not followed.fetched:
                followed.own += 1
                if not self.whole:
                    state_of(self.log, names, snapshot["segments"], number, AT_START)
                    followed.fetched, followed.whole = True, True
                continue
            begin = self.begin(followed, trace)
            if not followed.fetched and not followed.whole:
                # The recording begins at our first snapshot: what came before is in its state.
                state_of(self.log, names, snapshot["segments"], number, AT_START)
                begin = len(trace)
                followed.own = 0
            elif begin is None:
                self.gap(followed, number)
                begin = 0
                followed.own = 0
                self.write(followed, number, trace, names)
                # Nothing tells yet which of these came behind the state; the next fetch would, but it may wrap again.
                state_of(self.log, names, snapshot["segments"], number, AFTER_GAP)
                begin = len(trace)
            if begin < len(trace):
                self.write(followed, number, trace[begin:] if begin else trace, names)
            followed.fetched = True
            followed.own += 1
            depth = 8 if trace and "time_us" in trace[-1] else 64
            followed.tail = [key(entry) for entry in trace[-depth:]]
            followed.counters = self.seen.get(number)
            if end is not None:
                state_of(self.log, names, snapshot["segments"], number, end)

    def begin(self, followed, trace):
        """The first entry that is new; none where the ring wrapped since the last fetch."""
        if not followed.tail:
            return None if followed.whole and len(trace) >= self.size else 0
        tail, depth = followed.tail, len(followed.tail)
        at = len(trace) - 1
        while at >= 0 and trace[at]["action"] != "snapshot":
            at -= 1
        last = tail[-1]
        while at >= depth - 1:
            if trace[at]["action"] == last[0] and key(trace[at]) == last:
                if all(key(trace[at - i]) == tail[-1 - i] for i in range(1, depth)):
                    return at + 1
            at -= 1
        return None

    def gap(self, followed, number):
        before = followed.counters or (0, 0, 0, 0)
        now = self.seen.get(number, before)
        missed = (now[0] - before[0]) + 2 * (now[1] - before[1]) + (now[2] - before[2]) + (now[3] - before[3]) - self.size
        self.log.gap(number, "the allocator's ring of %d entries wrapped between two fetches" % self.size, max(0, missed))

    def write(self, followed, number, entries, names):
        log, stack, pack, actions, out, extras = self.log, names.stack, EVENT.pack, ACTIONS, [], []
        turn = 0
        for entry in entries:
            turn += 1
            if turn == TURN:
                # The job's threads come first: they would wait five milliseconds each time otherwise.
                turn = 0
                time.sleep(0.00005)
            action = actions.get(entry["action"], 255)
            if action == SNAPSHOT and followed.own:
                followed.own -= 1
                continue
            address = entry.get("addr")
            if address is None:
                address = entry.get("device_free", 0)
            pool = entry.get("pool_id")
            for word in ("user_metadata", "compile_context"):
                value = entry.get(word)
                if value and value != "N/A":
                    extras.append(struct.pack("<iIII", number, log.text(word), log.text(str(value)), len(out)))
            out.append(pack(action, number, log.pool(tuple(pool)) if pool else 0, stack(entry.get("frames")), address,
                            entry["size"], entry["stream"], entry.get("time_us", NO_TIME)))
        log.definitions()
        if extras:
            log.record(EXTRAS, b"".join(extras))
        log.events(b"".join(out))


def key(entry):
    return (entry["action"], entry.get("addr"), entry["size"], entry["stream"], entry.get("time_us"))


class Fetched:
    """A snapshot, with Python's collector off for as long as it lives: walking it is most of the cost."""

    # Called once, with the first snapshot.
    on_first = None

    def __init__(self, allocator):
        self.allocator = allocator

    def __enter__(self):
        self.was = gc.isenabled()
        gc.disable()
        try:
            self.snapshot = self.allocator.snapshot()
        except BaseException:
            self.__exit__()
            raise
        if Fetched.on_first is not None:
            first, Fetched.on_first = Fetched.on_first, None
            first(self.snapshot)
        return self.snapshot

    def __exit__(self, *_):
        self.snapshot = None
        if self.was:
            gc.enable()


class NoTracker(Exception):
    """Why the tracker cannot be used here, in a few words."""


class Tracker:
    """Receives the allocator's trace entries by its own trace tracker, proven against a snapshot before it is believed."""

    way = "tracker"
    CLASS = "_ZTVN5torch4cuda22CUDAPluggableAllocator22CUDAPluggableAllocatorE"
    METHOD = ("_ZN5torch4cuda22CUDAPluggableAllocator22CUDAPluggableAllocator27attachAllocatorTraceTrackerESt8functionIFvRKN3c10"
              "%s10TraceEntryEEE")
    ENTRIES = ("22CachingDeviceAllocator", "4cuda20CUDACachingAllocator")
    OBJECT = "_ZN3c104cuda20CUDACachingAllocator9allocatorE"
    library = None
    attached = False

    def __init__(self, recorder, whole):
        import ctypes
        self.recorder, self.log, self.allocator = recorder, recorder.log, recorder.allocator
        self.whole = whole
        self.with_stacks = recorder.stacks == "python"
        self.size = recorder.ring_size
        self.attach(ctypes)
        self.proven, self.stacks_proven = False, not self.with_stacks
        self.tries = 0
        self.held = b""
        self.recent = b""
        self.named = set()
        self.began = time.monotonic()
        self.dropped, self.total = 0, 0
        # Snapshot entries: those that our own fetches left and that were not written yet, and all that passed.
        self.own, self.passed = 0, 0
        self.cost, self.last_fetch = 0.0, 0.0
        self.credit = 0.2
        self.unnamed = False
        self.code_names, self.lines = {}, {}
        self.history_off = False
        self.buffer = bytearray(EVENT.size * TRACKER_ENTRIES)
        self.room = (ctypes.c_char * len(self.buffer)).from_buffer(self.buffer)
        self.count = ctypes.c_uint64()
        self.lib.fst_mode(2 if self.with_stacks else 1)
        self.rate_from = (time.monotonic(), 0)

    def attach(self, ctypes):
        """Finds the allocator's own method and hands it our function. Every step that does not hold is a reason."""
        import platform
        if not sys.platform.startswith("linux") or platform.machine() not in ("x86_64", "AMD64"):
            raise NoTracker("it is there on Linux on x86-64 only")
        if not LIBRARY and not os.environ.get("FRAGSCOPE_TRACKER"):
            raise NoTracker("this recorder carries no library")
        if self.recorder.stacks == "all":
            raise NoTracker("C++ stacks are not read by it")
        if self.allocator.version() < (2, 2):
            raise NoTracker("PyTorch before 2.2 has none")
        if self.allocator.backend() != "native":
            raise NoTracker("the allocator's backend is %s" % self.allocator.backend())
        if not hasattr(sys, "_current_frames"):
            raise NoTracker("this Python does not show its frames")
        folder = os.path.join(os.path.dirname(self.allocator.torch.__file__), "lib")
        method = table = None
        for name in ("libtorch_cuda.so", "libtorch_python.so"):
            try:
                lib = ctypes.CDLL(os.path.join(folder, name))
                table = ctypes.addressof(ctypes.c_char.in_dll(lib, self.CLASS))
            except (OSError, ValueError):
                continue
            for entry in self.ENTRIES:
                try:
                    method = ctypes.cast(getattr(lib, self.METHOD % entry), ctypes.c_void_p).value
                    break
                except AttributeError:
                    pass
            if method:
                break
        if not method:
            raise NoTracker("its symbols are not found")
        word = lambda address: ctypes.c_uint64.from_address(address).value
        slots = [i for i in range(2, 120) if word(table + 8 * i) == method]
        if len(slots) != 1:
            raise NoTracker("its place is found %d times" % len(slots))
        try:
            c10 = ctypes.CDLL(os.path.join(folder, "libc10_cuda.so"))
            allocator = word(ctypes.addressof(ctypes.c_char.in_dll(c10, self.OBJECT)))
        except (OSError, ValueError):
            raise NoTracker("the allocator's object is not found")
        if not allocator:
            raise NoTracker("the allocator is not there yet")
        attach = word(word(allocator) + 8 * (slots[0] - 2))

        class Place(ctypes.Structure):
            _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("name", ctypes.c_char_p),
                        ("address", ctypes.c_void_p)]

        libc = ctypes.CDLL(None)
        place = Place()
        known = libc.dladdr(ctypes.c_void_p(attach), ctypes.byref(place))
        if not known or os.path.basename(place.file or b"") != b"libc10_cuda.so":
            raise NoTracker("the method is not the native allocator's")
        if Tracker.library is None:
            Tracker.library = self.load(ctypes, libc)
        self.lib = Tracker.library
        if not Tracker.attached:
            self.lib.fst_attach(ctypes.c_void_p(allocator), ctypes.c_size_t(attach))
            Tracker.attached = True

    @staticmethod
    def load(ctypes, libc):
        """Loads the library out of memory, so that nothing is left on the disk and no mount forbids it."""
        import base64
        import mmap
        given = os.environ.get("FRAGSCOPE_TRACKER")
        if given:
            lib = ctypes.CDLL(given)
        else:
            data = zlib.decompress(base64.b64decode(LIBRARY))
            if not hasattr(os, "memfd_create"):
                raise NoTracker("this Python cannot make a file in memory")
            try:
                fd = os.memfd_create("fragscope-tracker")
                os.write(fd, data)
                lib = ctypes.CDLL("/proc/self/fd/%d" % fd)
                os.close(fd)
            except OSError as error:
                raise NoTracker("its library is not loaded: %s" % error)
        if lib.fst_version() != 1:
            raise NoTracker("its library is of another version")
        for name in ("fst_bytes", "fst_drain", "fst_dropped", "fst_dropped_before"):
            getattr(lib, name).restype = ctypes.c_uint64
        lib.fst_stack_of.restype = ctypes.c_uint32
        lib.fst_stack_of.argtypes = [ctypes.c_uint64]
        lib.fst_name.argtypes = [ctypes.c_uint32]
        lib.fst_drain.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p]
        lib.fst_bytes.argtypes = [ctypes.c_uint64]
        lib.fst_setup.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_uint32]
        # A child that is forked gets a copy of its own.
        memory = mmap.mmap(-1, lib.fst_bytes(TRACKER_ENTRIES), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        Tracker.memory = memory
        at = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        function = lambda name: ctypes.cast(getattr(libc, name), ctypes.c_void_p).value
        lib.fst_setup(at, TRACKER_ENTRIES, function("clock_gettime"), function("process_vm_readv"), os.getpid())
        return lib

    def detach(self):
        self.lib.fst_mode(0)

    def drain(self):
        """All that waits, as events of the log."""
        import ctypes
        out = []
        while True:
            count = self.lib.fst_drain(ctypes.addressof(self.room), TRACKER_ENTRIES, ctypes.addressof(self.count))
            if not count:
                break
            back = self.count.value
            if back and back <= self.size // 2:
                self.unnamed = True
            out.append(bytes(memoryview(self.buffer)[:count * EVENT.size]))
            if count < TRACKER_ENTRIES:
                break
        data = out[0] if len(out) == 1 else b"".join(out)
        self.total += len(data) // EVENT.size
        return data

    def keep(self, data):
        """Remembers the latest events, to lay a fetch on them."""
        self.recent = (self.recent + data)[-2 * self.size * EVENT.size - len(data):]

    def tick(self):
        data = self.drain()
        now = time.monotonic()
        events = len(data) // EVENT.size
        self.keep(data)
        if not self.proven:
            self.held += data
            waiting = len(self.held) // EVENT.size
            if waiting >= PROOF or (waiting >= 3 and now - self.began > 1.0):
                self.fetch()
            elif not waiting and not self.whole and now - self.began > 0.3:
                self.begin_idle()
        else:
            dropped = self.lib.fst_dropped()
            if dropped != self.dropped:
                self.lost(data, dropped - self.dropped)
                self.dropped = dropped
                data = b""
            self.write(data)
            if self.with_stacks and (self.unnamed or not self.stacks_proven):
                # Names may cost a twenty-fifth of the time, and a burst of them at the start.
                since = now - self.last_fetch
                if not self.unnamed:
                    pass
                elif since >= 25 * self.cost or (self.credit > self.cost and since >= self.cost):
                    self.credit -= self.cost
                    self.fetch()
        rate = events / max(0.001, now - self.rate_from[0])
        self.rate_from = (now, events)
        return min(0.05, max(0.01, 0.4 * self.size / rate if rate else 1.0)) if self.with_stacks else 0.05

    def write(self, data):
        """Hands events to the log, without the snapshot entries that our own fetches left. A snapshot leaves one of each
        device, in their order, all under the number of the first."""
        marks = markers(data)
        if marks:
            parts, begin, devices = [], 0, max(1, self.recorder.device_count)
            for at in marks:
                device = self.passed % devices
                self.passed += 1
                parts.append(data[begin:at])
                begin = at + EVENT.size
                if self.own:
                    self.own -= 1
                else:
                    parts.append(data[at:at + 1] + bytes([device]) + data[at + 2:begin])
            parts.append(data[begin:])
            data = b"".join(parts)
        if data:
            self.log.events(data)

    def fetch(self, state=None):
        """Lays a snapshot on the stream: proves it, names its stacks, and places a state in it."""
        began = time.perf_counter()
        with Fetched(self.allocator) as snapshot:
            self.cost_of_call = time.perf_counter() - began
            self.own += len(snapshot["device_traces"])
            data = self.drain()
            self.keep(data)
            self.lay(snapshot, data, state)
        self.cost = time.perf_counter() - began
        self.last_fetch = time.monotonic()

    def lay(self, snapshot, data, state):
        names = Names(self.log)
        self.unnamed = False
        if not self.proven:
            self.tries += 1
        devices = len(snapshot["device_traces"])
        marks = markers(self.recent)[-devices:]
        if len(marks) < devices:
            raise Disagreement("a snapshot left no entry in what the tracker gave")
        places, used = dict(enumerate(marks)), 0
        for number, trace in enumerate(snapshot["device_traces"]):
            # With the history off nothing is to be compared.
            trace = [entry for entry in trace if entry["action"] != "snapshot"] if not self.history_off else None
            if not trace:
                continue
            rows = self.rows_of(number, marks[number])
            at = self.align(trace, rows)
            if at is None:
                raise Disagreement("a snapshot does not agree with what the tracker gave")
            used += self.compare(trace, rows, at, names)
        self.log.definitions()
        if not self.proven:
            if not used:
                return
            self.proven = True
            self.recorder.proven(self)
            self.held += data
            held, self.held = self.held, b""
            if not self.whole:
                held = self.begin_late(snapshot, held, names)
                self.whole, places = True, {}
            if state is None:
                return self.write(held)
            data = held
        if state is not None:
            self.place(snapshot, data, places, names, state)
        else:
            self.write(data)

    def begin_idle(self):
        """The same where the job does nothing yet."""
        with Fetched(self.allocator) as snapshot:
            self.held = self.begin_late(snapshot, self.drain(), Names(self.log))
            self.keep(self.held)
        self.whole = True

    def begin_late(self, snapshot, held, names):
        """The recording begins at our snapshot: what came before is in its state. Gives what came behind it."""
        for number in range(len(snapshot["device_traces"])):
            state_of(self.log, names, snapshot["segments"], number, AT_START)
        marks = markers(held)[-len(snapshot["device_traces"]):]
        behind = [row for at in range(0, len(held), EVENT.size) for row in (held[at:at + EVENT.size],)
                  if row[0] != SNAPSHOT and row[1] < len(marks) and marks[row[1]] < at]
        self.own = 0
        self.passed += len(markers(held))
        return b"".join(behind)

    def place(self, snapshot, data, places, names, state):
        """Writes a state where its snapshot entry stands in the stream."""
        before = len(self.recent) - len(data)
        cuts = sorted((max(0, row - before), number) for number, row in places.items())
        done = 0
        for cut, number in cuts:
            self.write(data[done:cut])
            state_of(self.log, names, snapshot["segments"], number, state)
            done = cut
        self.write(data[done:])
        for number in range(len(snapshot["device_traces"])):
            if number not in places:
                state_of(self.log, names, snapshot["segments"], number, state)

    def rows_of(self, device, end):
        """Where the events of a device lie in what is remembered, up to a place; without snapshot entries."""
        size = EVENT.size
        devices, actions = self.recent[1:end:size], self.recent[0:end:size]
        if devices.count(device) == len(devices):
            rows = list(range(0, len(devices) * size, size))
            for at in reversed(markers(self.recent[:end])):
                del rows[at // size]
            return rows
        return [row * size for row, of in enumerate(devices) if of == device and actions[row] != SNAPSHOT]

    def align(self, trace, rows):
        """The row in which the fetch ends: a few may have come between it and its snapshot entry."""
        recent = self.recent
        last, before = quad(trace[-1]), [quad(entry) for entry in trace[-9:-1]]
        for race in range(min(256, len(rows))):
            at = len(rows) - 1 - race
            if quad_at(recent, rows[at]) == last:
                if all(quad_at(recent, rows[at - 1 - i]) == before[-1 - i] for i in range(min(len(before), at))):
                    return at
        return None

    def compare(self, trace, rows, at, names):
        """Compares entry by entry, and names stacks. Tells how many agreed."""
        count = min(len(trace), at + 1)
        recent, named, FIRST = self.recent, self.named, FIRST_TRACKER_STACK
        if self.proven:
            for i in range(count):
                row = rows[at - i]
                stack = int.from_bytes(recent[row + 4:row + 8], "little")
                if FIRST <= stack != NO_STACK and stack not in named:
                    entry = trace[-1 - i]
                    if quad(entry) != quad_at(recent, row):
                        raise Disagreement("an entry of a snapshot differs from what the tracker gave")
                    self.name(stack, entry.get("frames"), names)
            if not self.stacks_proven:
                self.prove_stacks(trace, rows, at, count)
            return count
        alloc = False
        for i in range(count):
            entry, row = trace[-1 - i], rows[at - i]
            if quad(entry) != quad_at(recent, row):
                raise Disagreement("an entry of a snapshot differs from what the tracker gave")
            alloc = alloc or entry["action"] == "alloc"
        if not alloc:
            return 0
        if self.with_stacks:
            self.prove_stacks(trace, rows, at, count)
            for i in range(count):
                row = rows[at - i]
                stack = int.from_bytes(recent[row + 4:row + 8], "little")
                if FIRST <= stack != NO_STACK and stack not in named:
                    self.name(stack, trace[-1 - i].get("frames"), names)
        return count

    def name(self, stack, frames, names):
        if frames is None:
            raise Disagreement("an entry without a stack had one in the tracker")
        self.named.add(stack)
        self.lib.fst_name(stack)
        self.log.define_stack(stack, names.frames(frames))

    def prove_stacks(self, trace, rows, at, count):
        """Compares the frames that the library saw with those of the snapshot, by number, by code object, by line."""
        import ctypes
        size = 16 + 64 * 16
        out = ctypes.create_string_buffer(64 * size)
        kept = {}
        for i in range(self.lib.fst_samples(out)):
            hash_, frames = struct.unpack_from("<QQ", out, i * size)
            pairs = struct.unpack_from("<%dQ" % (2 * min(frames, 64)), out, i * size + 16)
            kept[self.lib.fst_stack_of(hash_)] = (frames, pairs)
        text_of, compared = {}, 0
        codes = live_code()
        met = 0
        for i in range(count):
            row = rows[at - i]
            stack = int.from_bytes(self.recent[row + 4:row + 8], "little")
            frames = trace[-1 - i].get("frames")
            if stack == NO_STACK:
                if frames:
                    raise Disagreement("a stack was not seen")
                continue
            if stack == EMPTY_STACK:
                if frames:
                    raise Disagreement("a stack was taken for an empty one")
                continue
            text = tuple((frame["filename"], frame["line"], frame["name"]) for frame in frames or ())
            if text_of.setdefault(stack, text) != text:
                raise Disagreement("two stacks were taken for one")
            if stack not in kept:
                continue
            number, pairs = kept.pop(stack)
            if number != len(text):
                raise Disagreement("a stack has %d frames, not %d" % (len(text), number))
            for j in range(len(pairs) // 2):
                code, last = pairs[2 * j], pairs[2 * j + 1] & 0xFFFFFFFF
                filename, line, name = text[j]
                if self.code_names.setdefault(code, (filename, name)) != (filename, name):
                    raise Disagreement("a code object has two names")
                if self.lines.setdefault((code, last), line) != line:
                    raise Disagreement("an instruction has two lines")
                known = codes.get(code)
                if known is not None:
                    met += 1
                    if known != (filename, name):
                        raise Disagreement("a code object is another one")
            compared += 1
        if compared >= 2 and met:
            self.stacks_proven = True
            self.lib.fst_mode(3)

    def lost(self, data, count):
        """Our own ring was full: says so where it was, and mends the books."""
        before = self.lib.fst_dropped_before() - (self.total - len(data) // EVENT.size)
        cut = max(0, min(len(data), before * EVENT.size))
        self.write(data[:cut])
        for number in range(self.recorder.device_count):
            reason = "the recorder was not served for too long, and its own ring was full"
            self.log.gap(number, reason, count if self.recorder.device_count == 1 else None)
        self.write(data[cut:])
        self.fetch(AFTER_GAP)

    def finish(self):
        data = self.drain()
        self.keep(data)
        if self.proven:
            self.write(data)
        else:
            self.held += data
        self.fetch(AT_END)


class Disagreement(Exception):
    """What the tracker gave is not what a snapshot holds."""


def markers(data):
    """Where the snapshot entries lie."""
    found, actions, row = [], data[0::EVENT.size], -1
    while True:
        row = actions.find(SNAPSHOT, row + 1)
        if row < 0:
            return found
        found.append(row * EVENT.size)


def quad(entry):
    address = entry.get("addr")
    if address is None:
        address = entry.get("device_free", 0)
    return (ACTIONS.get(entry["action"], 255), address, entry["size"], entry["stream"])


def quad_at(data, at):
    action, _, _, _, address, size, stream, _ = EVENT.unpack_from(data, at)
    return (action, address, size, stream)


def live_code():
    """Code objects that run now, by address."""
    found = {}
    for frame in sys._current_frames().values():
        while frame is not None:
            code = frame.f_code
            found[id(code)] = (code.co_filename, code.co_name)
            frame = frame.f_back
    return found


class Recorder:
    """The recording of this process."""

    def __init__(self, torch, settings):
        self.settings = settings
        self.stacks = settings.get("stacks", "python")
        self.interval = max(0.01, float(settings.get("interval_ms", 200)) / 1000)
        self.asked_entries = settings.get("max_entries")
        self.signal = settings.get("signal", "SIGUSR2")
        self.allocator = Allocator(torch)
        self.pid = os.getpid()
        self.base, path = log_path(settings.get("out") or "fragscope.fsl")
        self.log = Log(path)
        self.way = None
        self.thread = None
        self.stopped = False
        self.failed = None
        self.lock = threading.RLock()
        self.wake = threading.Event()
        self.wanted = []
        self.ooms, self.saves = 0, 0
        self.asking = path + ".ask"
        self.device_count = 0
        self.ring_size = 0

    def start(self, whole):
        """Begins. `whole`: nothing was allocated yet."""
        facts = {"source": "torch", "pid": self.pid, "argv": getattr(sys, "orig_argv", None) or [sys.executable] + sys.argv,
                 "cwd": os.getcwd(), "started_us": now_us(), "python": sys.version.split()[0], "starts_empty": whole,
                 "stacks": self.stacks, "interval_ms": int(self.interval * 1000)}
        try:
            import platform
            facts["host"] = platform.node()
        except Exception:
            pass
        for key, names in (("rank", RANKS), ("local_rank", LOCAL_RANKS), ("world_size", WORLDS)):
            value = first_of(names)
            if value is not None:
                facts[key] = int(value) if value.isdigit() else value
        facts.update(self.allocator.facts())
        self.device_count = len(facts["devices"])
        self.log.facts(facts)
        if self.allocator.backend() == "cudaMallocAsync":
            self.log.note(2, "the allocator is cudaMallocAsync, which keeps no history: nothing can be recorded")
            self.failed = "cudaMallocAsync"
            return
        context = {"python": "all", "all": "all"}.get(self.stacks)
        why = None
        if self.settings.get("way", "auto") != "ring":
            try:
                self.ring_size = self.asked_entries or TRACKER_RING
                self.way = Tracker(self, whole)
            except NoTracker as reason:
                why = "%s" % reason
            except Exception as error:
                why = describe(error)
        if self.way is None:
            self.ring_size = self.asked_entries or RING
            self.way = Ring(self, whole)
        try:
            self.allocator.history("all", context=context, stacks="all" if self.stacks == "all" else "python",
                                   max_entries=self.ring_size, clear_history=False)
        except Exception as error:
            if isinstance(self.way, Tracker):
                self.way.detach()
            self.log.note(2, "the history cannot be turned on: %s" % describe(error))
            self.failed = describe(error)
            return
        self.guard_history()
        self.log.facts({"way": "tracker, not proven yet" if isinstance(self.way, Tracker) else "ring", "context": context or "none",
                        "max_entries": self.ring_size})
        if why:
            self.log.note(0, "events come by fetching the allocator's ring, not by its trace tracker: %s" % why)
        try:
            self.allocator.observe_oom(self.out_of_memory)
        except Exception as error:
            self.log.note(1, "failures are not announced: %s" % describe(error))
        Fetched.on_first = self.settings_known
        self.thread = threading.Thread(target=self.run, name="fragscope recorder", daemon=True)
        self.thread.start()
        atexit.register(self.stop)
        # Children of multiprocessing leave without atexit.
        util = sys.modules.get("multiprocessing.util")
        if util is not None:
            try:
                util.Finalize(None, self.stop, exitpriority=-100)
            except Exception:
                pass
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.forked)

    def patiently(self):
        """Our lock, or not, where a log that takes nothing holds it: the job never waits long for it."""
        return Patiently(self.lock, 5)

    def settings_known(self, snapshot):
        settings = snapshot.get("allocator_settings")
        if settings is not None:
            self.log.facts({"allocator_settings": settings})

    def guard_history(self):
        """A program that sets the history itself keeps its wishes, as far as ours allow."""
        memory, ours = self.allocator.torch.cuda.memory, self.allocator.set_history

        def set_history(enabled="all", *args, **kwargs):
            if os.getpid() != self.pid or self.stopped or self.failed:
                return ours(enabled, *args, **kwargs)
            if not enabled:
                self.log.note(0, "the program turned the history off; the recorder keeps it on")
                return None
            if isinstance(enabled, bool) or args:
                self.log.note(0, "the program turned the history on in an older form; the recorder's settings stay")
                return None
            with self.patiently() as free:
                if not free:
                    return None
                self.guarded(self.way.tick)
                if kwargs.get("max_entries", 0) < self.ring_size:
                    kwargs["max_entries"] = self.ring_size
                elif kwargs["max_entries"] > 200000:
                    # A fetch copies the whole ring.
                    self.log.note(0, "the program wanted %s entries of history; it gets 200000" % kwargs["max_entries"])
                    kwargs["max_entries"] = 200000
                if isinstance(self.way, Tracker):
                    kwargs.update(context="all" if self.stacks != "none" else None, stacks="python")
                if "clear_history" in self.allocator.knows:
                    kwargs["clear_history"] = True
                ours(enabled, **kwargs)
                self.ring_size = self.way.size = kwargs["max_entries"]
                self.guarded(self.cleared)
            return None

        set_history.__signature__ = __import__("inspect").signature(ours)
        set_history.__doc__ = ours.__doc__
        memory._record_memory_history = set_history

    def cleared(self):
        """The ring was cleared by the program's own call."""
        if isinstance(self.way, Ring):
            for number, followed in self.way.devices.items():
                followed.tail, followed.own, followed.whole = [], 0, True
                self.log.gap(number, "the program set the history anew", None)
            self.way.fetch(AFTER_GAP)

    def proven(self, way):
        self.log.facts({"way": "tracker"})
        if self.stacks == "none" and not self.asked_entries:
            self.allocator.history(None)
            way.history_off = True

    def run(self):
        pause = 0.02
        while not self.stopped:
            self.wake.wait(pause)
            self.wake.clear()
            if self.stopped:
                return
            with self.lock:
                if self.stopped or self.failed:
                    return
                pause = self.guarded(self.way.tick) or 0.05
                self.guarded(self.serve)

    def guarded(self, work, *args):
        """Whatever goes wrong in here is written down, and the job goes on."""
        try:
            return work(*args)
        except Dead as error:
            self.give_up("the log cannot be written: %s" % error)
        except Disagreement as error:
            self.fall_back("%s" % error)
        except Exception as error:
            self.errors = getattr(self, "errors", 0) + 1
            self.log.note(2, "the recorder failed: %s" % describe(error))
            if self.errors > 20:
                self.give_up("it failed %d times" % self.errors)
        return None

    def fall_back(self, why):
        """From the tracker to the ring."""
        tracker = self.way
        if not isinstance(tracker, Tracker):
            return
        tracker.detach()
        self.log.note(1, "the trace tracker is not used any more: %s" % why)
        self.log.facts({"way": "ring"})
        self.way = Ring(self, tracker.whole)
        if tracker.proven:
            for number in range(self.device_count):
                self.log.gap(number, "the recorder changed its way", None)
                followed = self.way.device(number)
                followed.whole = False
            self.guarded(self.way.fetch, AFTER_GAP)
        else:
            # Nothing was written yet; what the ring still holds is.
            for number in range(self.device_count):
                self.way.device(number).own = tracker.own // max(1, self.device_count)
            self.guarded(self.way.fetch)

    def give_up(self, why):
        self.failed = why
        if isinstance(self.way, Tracker):
            self.way.detach()
        self.log.note(2, "the recorder stops: %s" % why)
        try:
            self.allocator.history(None)
        except Exception:
            pass

    def serve(self):
        """What the viewer or a signal asked for."""
        while self.wanted:
            self.save(self.wanted.pop(0))
        try:
            os.stat(self.asking)
        except OSError:
            return
        with open(self.asking, encoding="utf-8", errors="replace") as file:
            lines = file.read().split("\n")
        os.unlink(self.asking)
        for line in lines:
            word, _, rest = line.strip().partition(" ")
            if word == "snapshot":
                self.save("asked for", rest or None)
            elif word == "mark":
                self.log.mark(rest or "mark", 2)
            elif word == "stop":
                self.finish("it was asked to stop")

    def save(self, reason, path=None):
        """Writes a whole snapshot beside the log."""
        self.saves += 1
        path = path or "%s.%d.pickle" % (self.base, self.saves)
        with Fetched(self.allocator) as snapshot:
            if isinstance(self.way, Tracker):
                self.way.own += len(snapshot["device_traces"])
            else:
                for number in range(len(snapshot["device_traces"])):
                    self.way.device(number).own += 1
            dump(snapshot, path)
        self.guarded(self.way.tick)
        self.saved(reason, path)
        return path

    def saved(self, reason, path):
        reason = reason.encode("utf-8", "replace")
        data = struct.pack("<qI", now_us(), len(reason)) + reason + os.path.abspath(path).encode("utf-8", "replace")
        self.log.record(SAVED, data)

    def out_of_memory(self, device, wanted, total, free):
        """Called by the allocator before the exception unwinds: the state is still that of the failure."""
        if os.getpid() != self.pid or self.stopped or self.failed:
            return
        with self.patiently() as ours:
            if ours:
                self.guarded(self.save_failure, device, wanted, total, free)

    def save_failure(self, device, wanted, total, free):
        self.ooms += 1
        self.log.record(SAMPLES, struct.pack("<iIQQQq", device, 0, total, total - free, free, now_us()))
        if self.ooms <= int(self.settings.get("ooms", 3)):
            self.save("out of memory: %d bytes wanted, %d free" % (wanted, free), "%s.oom%d.pickle" % (self.base, self.ooms))
        else:
            self.way.tick()

    def on_signal(self, *_):
        self.wanted.append("signal")
        self.wake.set()

    def stop(self):
        """At the end of the program."""
        if os.getpid() == self.pid:
            self.finish("")

    def finish(self, why):
        with self.patiently() as ours:
            if self.stopped:
                return
            self.stopped = True
            self.wake.set()
            if not ours:
                # The log's reader does not read; the job's end does not wait for it.
                return
            if not self.failed:
                self.guarded(self.finish_way)
                if self.settings.get("exit_snapshot", True) and not self.failed:
                    self.guarded(self.save_exit)
            if isinstance(self.way, Tracker):
                self.way.detach()
            try:
                data = struct.pack("<qii", now_us(), -1, -1) + why.encode()
                self.log.definitions()
                self.log.record(END, data)
            except Dead:
                pass
            self.log.close()
            try:
                self.allocator.torch.cuda.memory._record_memory_history = self.allocator.set_history
            except Exception:
                pass
        thread = self.thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(2)

    def finish_way(self):
        if isinstance(self.way, Tracker):
            try:
                self.way.finish()
            except Disagreement as error:
                self.fall_back("%s" % error)
            if isinstance(self.way, Tracker) and not self.way.proven:
                self.fall_back("too little happened to prove it")
        if isinstance(self.way, Ring):
            self.way.fetch()
            self.way.fetch(AT_END)

    def save_exit(self):
        with Fetched(self.allocator) as snapshot:
            if any(snapshot["device_traces"]) or snapshot["segments"]:
                path = self.base + ".exit.pickle"
                dump(snapshot, path)
                self.saved("the program's end", path)

    def forked(self):
        """In a forked child: the recording is the parent's."""
        self.stopped = True
        if isinstance(self.way, Tracker):
            self.way.detach()
        try:
            os.close(self.log.fd)
        except OSError:
            pass
        Tracker.library = None


class Patiently:
    """A lock that is waited for so many seconds at most."""

    def __init__(self, lock, seconds):
        self.lock, self.seconds = lock, seconds

    def __enter__(self):
        self.ours = self.lock.acquire(timeout=self.seconds)
        return self.ours

    def __exit__(self, *_):
        if self.ours:
            self.lock.release()


def dump(snapshot, path):
    import pickle
    temporary = "%s.%d.part" % (path, os.getpid())
    with open(temporary, "wb") as file:
        pickle.dump(snapshot, file, protocol=4)
    os.replace(temporary, path)


def describe(error):
    import traceback
    last = traceback.extract_tb(error.__traceback__)
    place = " (line %d)" % last[-1].lineno if last else ""
    return "%s: %s%s" % (type(error).__name__, error, place)


RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
LOCAL_RANKS = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")
WORLDS = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")


def first_of(names):
    for name in names:
        value = os.environ.get(name)
        if value:
            return value
    return None


def log_path(out):
    """Where this process writes: the name that was asked for, with its rank where it is one of several."""
    if is_pipe(out):
        return out, out
    base = out[:-4] if out.endswith(".fsl") else out
    rank = first_of(RANKS)
    if rank is not None and first_of(WORLDS) not in (None, "1"):
        base += ".rank%s" % rank
    path = base + ".fsl"
    number = 1
    while os.path.exists(path):
        base_ = "%s.pid%d" % (base, os.getpid()) + ("" if number == 1 else ".%d" % number)
        path, number = base_ + ".fsl", number + 1
        if not os.path.exists(path):
            return base_, path
    return base, path


active = None


def begin(torch, settings, whole):
    """Starts the recording of this process, once. Never raises."""
    global active
    if active is not None and active.pid == os.getpid() and not active.stopped:
        return active
    try:
        recorder = Recorder(torch, settings)
    except Exception as error:
        failed(settings, "the log cannot be begun: %s" % describe(error))
        return None
    active = recorder
    try:
        recorder.start(whole)
    except Exception as error:
        recorder.failed = describe(error)
        recorder.log.note(2, "the recording did not begin: %s" % describe(error))
    return recorder


def failed(settings, text):
    """There is no log to say it in: beside it, where Fragscope looks."""
    try:
        with open((settings.get("out") or "fragscope.fsl") + ".error", "a") as file:
            file.write("pid %d: %s\n" % (os.getpid(), text))
    except OSError:
        pass


def hook(torch, settings):
    """Torch was imported: the recording starts with its CUDA, or now where that is running."""
    try:
        running = torch.cuda.is_initialized()
        if running:
            begin(torch, settings, False)
        else:
            torch.cuda._lazy_call(lambda: begin(torch, settings, True))
        catch_signal(settings)
    except Exception as error:
        failed(settings, "torch cannot be watched: %s" % describe(error))


def catch_signal(settings):
    """A signal that nobody else handles writes a snapshot."""
    number = getattr(signal, str(settings.get("signal", "SIGUSR2")), None)
    if number is None or threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(number) == signal.SIG_DFL:
        signal.signal(number, lambda *_: active.on_signal() if active is not None and active.pid == os.getpid() else None)


class Waiting:
    """An import hook that waits for torch and then takes itself away."""

    def __init__(self, settings):
        self.settings = settings
        self.busy = False

    def find_spec(self, name, path=None, target=None):
        if name != "torch" or self.busy:
            return None
        self.busy = True
        try:
            import importlib.util
            spec = importlib.util.find_spec(name)
        finally:
            self.busy = False
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return spec
        original, waiting = spec.loader.exec_module, self

        def exec_module(module):
            original(module)
            if waiting in sys.meta_path:
                sys.meta_path.remove(waiting)
            hook(module, waiting.settings)

        try:
            spec.loader.exec_module = exec_module
        except AttributeError:
            failed(self.settings, "torch's loader cannot be watched")
        return spec


def install(settings):
    """Waits for torch, or takes it where it is there already."""
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "cuda"):
        hook(torch, settings)
    elif not any(isinstance(finder, Waiting) for finder in sys.meta_path):
        sys.meta_path.insert(0, Waiting(settings))


def from_environment():
    """Called by the `sitecustomize` beside this file, at the start of every Python of the job."""
    try:
        text = os.environ.get(ENVIRONMENT)
        if text:
            install(json.loads(text))
    except Exception as error:
        failed({}, describe(error))


def chain(folder):
    """Runs the `sitecustomize` that would have been found without ours."""
    import importlib.machinery
    folder = os.path.realpath(folder)
    rest = [place for place in sys.path if os.path.realpath(place or os.curdir) != folder]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", rest)
    if spec is None or spec.loader is None:
        return
    import importlib.util
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def attach(settings):
    """Inside a program that runs already."""
    if "torch" not in sys.modules:
        failed(settings, "this program has not imported torch yet; the recording begins when it does")
    install(settings)


class recording:
    """Records a stretch: `with record.recording("job.fsl"): ...`"""

    def __init__(self, out="fragscope.fsl", **settings):
        self.settings = dict(settings, out=out)

    def __enter__(self):
        install(self.settings)
        return self

    def __exit__(self, *_):
        if active is not None:
            active.finish("the recorded stretch is over")


def main(arguments):
    settings = {"out": "fragscope.fsl"}
    while arguments and arguments[0].startswith("--"):
        option = arguments.pop(0)
        if option == "--":
            break
        name, equals, value = option[2:].partition("=")
        if not equals:
            if not arguments:
                break
            value = arguments.pop(0)
        name = name.replace("-", "_")
        settings[name] = int(value) if name in ("max_entries", "interval_ms", "ooms") else value
    if not arguments:
        sys.stderr.write("usage: python record.py [--out job.fsl] [--stacks python|all|none] [--max-entries N] "
                         "[--interval-ms N] SCRIPT ARGS...\n")
        return 2
    import runpy
    # A script that is run twice under one name would find this module as its `record`.
    sys.modules.setdefault("record", sys.modules["__main__"])
    sys.argv = arguments
    sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
    install(settings)
    runpy.run_path(arguments[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
