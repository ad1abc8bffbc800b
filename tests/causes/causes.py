"""One cause of an out-of-memory error -> one small snapshot: causes.py NAME OUT.pickle"""
import json, pickle, sys
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


keep = None


def observer(device, alloc, total, free):
    INFO["observer"] = {"device": device, "wanted": alloc, "device_total": total, "device_free": free}
    INFO["snapshot"] = torch.cuda.memory._snapshot()


torch.cuda.memory._record_memory_history(stacks="python", max_entries=10**6)
torch._C._cuda_attach_out_of_memory_observer(observer)
try:
    keep = globals()[NAME]()
except torch.OutOfMemoryError as e:
    INFO["oom"] = str(e)
snapshot = INFO.pop("snapshot", None) or torch.cuda.memory._snapshot()
with open(OUT, "wb") as f:
    pickle.dump(snapshot, f)
INFO["devices"] = [{"stats": dict(torch.cuda.memory_stats(0)), "summary": torch.cuda.memory_summary(0)}]
with open(OUT.replace(".pickle", ".json"), "w") as f:
    json.dump(INFO, f, indent=1)
print(NAME, INFO.get("oom", "no oom")[:300])
