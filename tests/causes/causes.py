"""One cause of an out-of-memory error -> one small snapshot: causes.py NAME OUT.pickle"""
import ctypes, json, os, pickle, sys
import torch
MIB = 1 << 20
NAME, OUT = sys.argv[1], sys.argv[2]
INFO = {"name": NAME, "torch": torch.__version__}


def block(mib):
    return torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")


def limit():
    torch.cuda.set_per_process_memory_fraction(0.25)
    return [block(256) for _ in range(100)]


def trapped_stream():
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        large = [block(512) for _ in range(10)]
        del large
        first, second, kept = ([block(mib) for _ in range(10)] for mib in (300, 200, 12))
        del first, second
    return kept, block(3600)


def trapped_pool():
    keep, graph = [], torch.cuda.CUDAGraph()
    x = block(64)
    with torch.cuda.graph(graph):
        y = [block(700) for _ in range(6)]
        z = x + 1
        del y
    return keep, graph, z, block(3700)


def leak():
    weights = [block(24) for _ in range(12)]
    losses = []

    def step(i):
        a = [block(20 + 4 * (j % 3)) for j in range(4)]
        losses.append(block(90))
        del a

    for i in range(1000):
        step(i)


def empty_cache():
    for i in range(60):
        a = [block(32) for _ in range(10)]
        del a
        torch.cuda.empty_cache()


def clash():
    keep = []
    for i in range(60):
        large = [block(120 + 2 * i), block(104)]
        keep.append(block(8))
        del large
    return keep, block(7600)


def private_live():
    graph, x = torch.cuda.CUDAGraph(), block(64)
    with torch.cuda.graph(graph):
        y = [block(700) for _ in range(9)]
    return graph, x, y, block(2000)


def other_half():
    small = [torch.empty(MIB, dtype=torch.uint8, device="cuda") for _ in range(5000)]
    small = small[::2]
    return small, block(3500)


def attempt(f):
    """Goes on after the failure, as a loop with smaller batches does; the dump then shows the end, not the failure."""
    try:
        return f()
    except torch.OutOfMemoryError as e:
        INFO.setdefault("ooms", []).append(str(e))


def others_take(gib):
    """Another process on the card; a knob of the stub driver."""
    driver = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libcuda.so.1"))
    take = driver.fakecuda_set_other_bytes
    take.argtypes = [ctypes.c_int, ctypes.c_uint64]
    take(0, gib << 30)


def captured(f):
    """Runs `f` in a capture whose pool is its own; nothing is released before, as `torch.cuda.graph` would."""
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        graph.capture_begin(torch.cuda.graph_pool_handle())
        return graph, f()


def first_huge():
    return block(100 * 1024)


def in_pool():
    x = [block(1200) for _ in range(5)]
    del x
    return captured(lambda: (block(300), block(2800)))


def in_pool_expandable():
    x = [block(100) for _ in range(60)]
    kept = x[::2]
    del x
    return kept, captured(lambda: (block(30), block(4500)))


def pool_gone():
    graph, x = torch.cuda.CUDAGraph(), block(64)
    with torch.cuda.graph(graph):
        y = [block(600) for _ in range(6)]
        z = x + 1
        del y
    attempt(lambda: block(4200))
    del graph, z
    torch.cuda.empty_cache()
    return block(100)


def pending():
    side, w = torch.cuda.Stream(), block(100)

    def inside():
        for _ in range(10):
            t = block(500)
            t.record_stream(side)
        del t
        return block(4000)

    return w, captured(inside)


def retry_loop():
    k = [block(256) for _ in range(20)]
    for mib in (8000, 4000):
        attempt(lambda: block(mib))
    for _ in range(3):
        attempt(lambda: block(6000))
        k.append(block(100))
    return k


def others_move():
    k = [block(300) for _ in range(7)]
    others_take(5)
    attempt(lambda: block(900))
    others_take(0)
    k.append(block(900))
    attempt(lambda: block(6900))
    others_take(4)
    attempt(lambda: block(900))
    return k


def expandable_pieces():
    drop, kept = [], []
    for _ in range(230):
        drop.append(block(14))
        kept.append(block(15))
    drop.clear()
    return kept, block(2000)


def fraction_setting():
    return [block(256) for _ in range(100)]


def shared_segments():
    w = []
    while True:
        w.append(block(5))


def numbered_steps():
    w, losses = [block(24) for _ in range(12)], []
    for i in range(100):
        with torch.profiler.record_function(f"step_{i}"):
            a = [block(20 + 4 * (j % 3)) for j in range(4)]
            losses.append(block(90))
            del a


def overwritten():
    k = [block(64) for _ in range(100)]
    attempt(lambda: block(3000))
    for _ in range(40):
        x = block(20)
        del x
    return k[:50]


def no_segments():
    k = [block(64) for _ in range(100)]
    for _ in range(40):
        x = block(20)
        del x
    return k, block(3000)


keep = None


def observer(device, alloc, total, free):
    INFO["observer"] = {"device": device, "wanted": alloc, "device_total": total, "device_free": free}
    INFO["snapshot"] = torch.cuda.memory._snapshot()


entries = 60 if NAME in ("overwritten", "no_segments") else 10**6
torch.cuda.memory._record_memory_history(stacks="python", max_entries=entries)
torch._C._cuda_attach_out_of_memory_observer(observer)
try:
    keep = globals()[NAME]()
except torch.OutOfMemoryError as e:
    INFO["oom"] = str(e)
snapshot = INFO.pop("snapshot", None)
if snapshot is None or "ooms" in INFO:
    snapshot = torch.cuda.memory._snapshot()
    INFO["oom"] = INFO.get("ooms", [None])[-1]
if NAME == "no_segments":
    # As a tool writes it that keeps the events alone.
    del snapshot["segments"]
with open(OUT, "wb") as f:
    pickle.dump(snapshot, f)
INFO["devices"] = [{"stats": dict(torch.cuda.memory_stats(0)), "summary": torch.cuda.memory_summary(0)}]
with open(OUT.replace(".pickle", ".json"), "w") as f:
    json.dump(INFO, f, indent=1)
print(NAME, (INFO["oom"] or "no oom")[:300])
