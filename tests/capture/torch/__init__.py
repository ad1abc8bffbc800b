"""A stand-in for PyTorch, for tests of the recorder: an allocator in Python with a ring of history, as PyTorch's has.

FAKE_TORCH=2.1 makes it an old one: no times, no clear_history, a snapshot without arguments.
FAKE_TRUTH=FILE writes all events and the live blocks at exit, whatever the ring has lost.
"""
import atexit
import os
import pickle
import sys
import threading
import time
import types

OLD = os.environ.get("FAKE_TORCH") == "2.1"
__version__ = "2.1.2+fake" if OLD else "2.11.0+fake"
version = types.SimpleNamespace(cuda="13.0")


class OutOfMemoryError(RuntimeError):
    pass


class Allocator:
    """One segment of 1 GiB; blocks of 512 bytes and more, first fit."""

    BASE, SIZE = 0x700000000000, 1 << 30

    def __init__(self):
        self.lock = threading.RLock()
        self.ring, self.limit, self.recording, self.context = [], 0, None, None
        self.free = [(self.BASE, self.SIZE)]
        self.live = {}
        self.segments = []
        self.counts = [0, 0, 0, 0]
        self.truth = []
        self.observers = []

    def note(self, action, address, size, frames):
        entry = {"action": action, "addr": address, "size": size, "stream": 0}
        if action == "oom":
            del entry["addr"]
            entry["device_free"] = address
        if not OLD:
            entry["time_us"] = time.time_ns() // 1000
        if frames is not None and self.context:
            entry["frames"] = frames
        if action != "snapshot":
            self.truth.append(dict(entry))
        if self.recording:
            self.ring.append(entry)
            if len(self.ring) > self.limit:
                del self.ring[0]

    def alloc(self, size):
        frames, frame = [], sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            frames.append({"filename": code.co_filename, "line": frame.f_lineno, "name": code.co_name})
            frame = frame.f_back
        with self.lock:
            rounded = max(512, (size + 511) // 512 * 512)
            if not self.segments:
                self.segments.append(self.BASE)
                self.counts[2] += 1
                self.note("segment_alloc", self.BASE, self.SIZE, frames)
            for at, (begin, length) in enumerate(self.free):
                if length >= rounded:
                    self.free[at:at + 1] = [(begin + rounded, length - rounded)] if length > rounded else []
                    self.live[begin] = (rounded, size, frames)
                    self.counts[0] += 1
                    self.note("alloc", begin, size, frames)
                    return begin
            left = 7 << 20
            self.note("oom", left, rounded, frames)
            observers = list(self.observers)
        for observer in observers:
            observer(0, rounded, 2 << 30, left)
        raise OutOfMemoryError("CUDA out of memory")

    def give_back(self, address):
        with self.lock:
            rounded, size, _ = self.live.pop(address)
            self.counts[1] += 1
            self.note("free_requested", address, size, [])
            self.note("free_completed", address, size, [])
            self.free.append((address, rounded))
            self.free.sort()
            merged = []
            for begin, length in self.free:
                if merged and merged[-1][0] + merged[-1][1] == begin:
                    merged[-1] = (merged[-1][0], merged[-1][1] + length)
                else:
                    merged.append((begin, length))
            self.free = merged

    def state(self):
        if not self.segments:
            return []
        blocks = [{"address": a, "size": r, "requested_size": s, "state": "active_allocated", "frames": f}
                  for a, (r, s, f) in self.live.items()]
        blocks += [{"address": a, "size": l, "requested_size": 0, "state": "inactive", "frames": []} for a, l in self.free]
        blocks.sort(key=lambda block: block["address"])
        active = sum(r for r, _, _ in self.live.values())
        return [{"device": 0, "address": self.BASE, "total_size": self.SIZE, "allocated_size": active, "active_size": active,
                 "requested_size": sum(s for _, s, _ in self.live.values()), "stream": 0, "segment_type": "large",
                 "segment_pool_id": (0, 0), "is_expandable": False, "frames": [], "blocks": blocks}]


allocator = Allocator()


def end():
    path = os.environ.get("FAKE_TRUTH")
    if path:
        with open("%s.%s" % (path, os.environ.get("RANK", "main")), "wb") as file:
            found = {"segments": allocator.state(), "device_traces": [allocator.truth]}
            pickle.dump(found, file)


atexit.register(end)


def snapshot():
    with allocator.lock:
        found = {"segments": allocator.state(), "device_traces": [[dict(entry) for entry in allocator.ring]]}
        if not OLD:
            found["allocator_settings"] = {"PYTORCH_CUDA_ALLOC_CONF": os.environ.get("PYTORCH_CUDA_ALLOC_CONF", ""),
                                           "expandable_segments": False}
        allocator.note("snapshot", 0, sum(r for r, _, _ in allocator.live.values()), None)
    return found


def observe(function):
    allocator.observers.append(function)


_C = types.SimpleNamespace(
    _cuda_memorySnapshot=(lambda: snapshot()) if OLD else (lambda asked: snapshot()),
    _cuda_memoryStats=lambda device: {
        "allocation": {"all": {"allocated": allocator.counts[0], "freed": allocator.counts[1]}},
        "segment": {"all": {"allocated": allocator.counts[2], "freed": allocator.counts[3]}},
    },
    _cuda_attach_out_of_memory_observer=observe,
)

from . import cuda
