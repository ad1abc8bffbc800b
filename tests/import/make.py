#!/usr/bin/env python3
"""Writes the files of this folder with the tools themselves, and `numbers.json` with what these tools count.

usage: make.py torch|jax|vllm|rmm [OUT]

torch  needs PyTorch with a CUDA device: torch.profiler's memory timeline (json and raw) and its Chrome trace
jax    needs jax on any device: jax.profiler.save_device_memory_profile
vllm   needs msgspec: the structs of vllm/distributed/kv_events.py in their field order, in all four encodings,
       driven by a small block pool with least-recently-used eviction
rmm    needs nothing: RMM's logging adaptor needs its GPU build, so the rows follow its documented header
"""
import gzip, json, os, sys

OUT = sys.argv[2] if len(sys.argv) > 2 else os.path.dirname(os.path.abspath(__file__))


def path(name):
    return os.path.join(OUT, name)


def numbers(key, value):
    known = {}
    if os.path.exists(path("numbers.json")):
        known = json.load(open(path("numbers.json")))
    known[key] = value
    with open(path("numbers.json"), "w") as f:
        json.dump(dict(sorted(known.items())), f, indent=1)
        f.write("\n")


def pack(name, data):
    with open(path(name), "wb") as f, gzip.GzipFile("", "wb", 9, f, mtime=0) as g:
        g.write(data)


def torch_files():
    import torch
    from torch.profiler import ProfilerActivity, profile

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Linear(256, 1024)
            self.second = torch.nn.Linear(1024, 256)

        def forward(self, x):
            return self.second(torch.relu(self.first(x)))

    net = Net().cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with profile(activities=activities, profile_memory=True, record_shapes=True, with_stack=True) as prof:
        for _ in range(2):
            x = torch.zeros(128, 256).to("cuda")
            loss = net(x).sum()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            del x, loss
    after, peak = torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()
    for name in ["timeline.json.gz", "timeline.raw.json.gz", "trace.json.gz"]:
        if os.path.exists(path(name)):
            os.remove(path(name))
    prof.export_memory_timeline(path("timeline.json"), device="cuda:0")
    prof.export_memory_timeline(path("timeline.raw.json.gz"), device="cuda:0")
    prof.export_chrome_trace(path("trace.json"))
    text = open(path("timeline.json"), "rb").read()
    pack("timeline.json.gz", text)
    os.remove(path("timeline.json"))
    times, sizes = json.loads(text)
    totals = [sum(row) for row in sizes]
    numbers("timeline", {"times": len(times), "peak": max(totals), "start": totals[0], "end": totals[-1],
                         "peak_by_category": [max(row[k + 1] for row in sizes) for k in range(8)]})
    raw = json.load(gzip.open(path("timeline.raw.json.gz")))
    pack("timeline.raw.json.gz", json.dumps(raw).encode())
    now, top = 0, 0
    for _, action, size, _ in raw:
        now += -size if action == 4 and size > 0 else size
        top = max(top, now)
    numbers("timeline_raw", {"items": len(raw), "peak": top, "end": now,
                             "by_action": {str(a): sum(1 for r in raw if r[1] == a) for a in (1, 2, 3, 4)}})
    trace = json.load(open(path("trace.json")))
    os.remove(path("trace.json"))
    keep = {"cpu_instant_event", "cpu_op", "python_function"}
    kept = []
    for event in trace["traceEvents"]:
        if event.get("cat") in keep:
            event["args"] = {k: v for k, v in event.get("args", {}).items()
                             if k in ("Addr", "Device Type", "Device Id", "Bytes", "Total Allocated", "Total Reserved")}
            kept.append(event)
        elif event.get("ph") == "M":
            kept.append(event)
    # The file is in order of threads in places.
    memory = [e for e in kept if e["name"] == "[memory]" and e["args"]["Device Type"] == 1]
    memory = [e["args"] for e in sorted(memory, key=lambda e: e["ts"])]
    trace["traceEvents"] = kept
    pack("trace.json.gz", json.dumps(trace).encode())
    numbers("trace", {"torch": torch.__version__, "events": len(memory), "allocs": sum(m["Bytes"] > 0 for m in memory),
                      "peak_total_allocated": max(m["Total Allocated"] for m in memory),
                      "last_total_allocated": memory[-1]["Total Allocated"],
                      "older_bytes": memory[0]["Total Allocated"] - memory[0]["Bytes"],
                      "allocator_before": before, "allocator_after": after, "allocator_peak": peak})


def jax_files():
    import jax, jax.numpy as jnp

    def table(n):
        return jnp.ones((n, 256), jnp.float32)

    def build():
        kept = [table(1024) for _ in range(3)]
        kept.append(jnp.zeros((4096, 128), jnp.bfloat16))
        return kept

    kept = build()
    jax.block_until_ready(kept)
    double = jax.jit(lambda x: x * 2).lower(kept[0]).compile()
    jax.profiler.save_device_memory_profile(path("jax.prof"))
    text = gzip.open(path("jax.prof")).read()
    os.remove(path("jax.prof"))
    pack("jax.prof.gz", text)
    live = [a.nbytes for a in jax.live_arrays()]
    numbers("jax", {"jax": jax.__version__, "arrays_kept": sum(a.nbytes for a in kept), "live_arrays": sum(live),
                    "devices": [str(d) for d in jax.devices()]})
    del double


def vllm_files():
    import random
    from collections import OrderedDict
    from typing import Any, Optional, Union
    import msgspec

    def structs(array_like):
        class Event(msgspec.Struct, array_like=array_like, omit_defaults=True, gc=False, tag=True):
            pass

        class BlockStored(Event):
            block_hashes: list[Union[bytes, int]]
            parent_block_hash: Optional[Union[bytes, int]]
            token_ids: list[int]
            block_size: int
            lora_id: Optional[int] = None
            medium: Optional[str] = None
            lora_name: Optional[str] = None
            extra_keys: Optional[list[Any]] = None
            group_idx: Optional[int] = None

        class BlockRemoved(Event):
            block_hashes: list[Union[bytes, int]]
            medium: Optional[str] = None
            group_idx: Optional[int] = None

        class AllBlocksCleared(Event):
            pass

        class Batch(msgspec.Struct, array_like=array_like, omit_defaults=True, gc=False):
            ts: float
            events: list[Union[BlockStored, BlockRemoved, AllBlocksCleared]]
            data_parallel_rank: Optional[int] = None

        return BlockStored, BlockRemoved, AllBlocksCleared, Batch

    def run(requests, blocks, seed, clear_at, kinds, hashes):
        """A block pool of `blocks` blocks of 16 tokens: prefix reuse by hash, the block longest unused goes first."""
        stored, removed, cleared, batch = kinds
        rng = random.Random(seed)
        cached, ts, batches = OrderedDict(), 1_700_000_000.0, []
        counts = {"stored": 0, "removed": 0, "cleared": 0, "peak": 0, "hits": 0}
        systems = [[rng.randrange(50_000) for _ in range(16 * rng.choice([4, 8, 12]))] for _ in range(4)]
        for request in range(requests):
            ts += rng.random() * 0.2
            tokens = list(rng.choice(systems)) + [rng.randrange(50_000) for _ in range(rng.randrange(16, 16 * 24))]
            parent, chain = None, []
            for at in range(0, len(tokens) // 16 * 16, 16):
                part = tuple(tokens[at:at + 16])
                key = hash((parent, part)) & ((1 << 64) - 1)
                parent = key
                chain.append((key, part))
            events, at = [], 0
            while at < len(chain) and chain[at][0] in cached:
                cached.move_to_end(chain[at][0])
                counts["hits"] += 1
                at += 1
            # Prefill in one step, the rest decoded a block at a time.
            steps = [chain[at:max(at, len(chain) - 3)]] + [[c] for c in chain[max(at, len(chain) - 3):]]
            for step in steps:
                if not step:
                    continue
                own = {key for key, _ in chain}
                while len(cached) + len(step) > blocks:
                    victim = next((k for k in cached if k not in own), None)
                    if victim is None:
                        break
                    del cached[victim]
                    counts["removed"] += 1
                    events.append(removed(block_hashes=[hashes(victim)], medium="GPU"))
                first = chain.index(step[0])
                before = chain[first - 1][0] if first else None
                for key, _ in step:
                    cached[key] = True
                counts["stored"] += len(step)
                counts["peak"] = max(counts["peak"], len(cached))
                events.append(stored(block_hashes=[hashes(k) for k, _ in step],
                                     parent_block_hash=None if before is None else hashes(before),
                                     token_ids=[t for _, part in step for t in part], block_size=16, medium="GPU"))
                ts += 0.01
                batches.append(batch(ts=ts, events=events, data_parallel_rank=0))
                events = []
            if request == clear_at:
                cached.clear()
                counts["cleared"] += 1
                batches.append(batch(ts=ts + 0.001, events=[cleared()], data_parallel_rank=0))
        counts["end"] = len(cached)
        counts["batches"] = len(batches)
        return batches, counts

    if len(sys.argv) > 3:
        # A log of any length, to look at: make.py vllm OUT REQUESTS BLOCKS
        batches, counts = run(int(sys.argv[3]), int(sys.argv[4]), 7, int(sys.argv[3]) * 2 // 3, structs(False), lambda k: k)
        with open(path("kv_long.jsonl"), "wb") as f:
            for item in batches:
                f.write(msgspec.json.encode(item) + b"\n")
        print(counts)
        return
    encode = msgspec.msgpack.Encoder().encode
    raw = lambda key: key
    as_bytes = lambda key: key.to_bytes(32, "big")
    for name, array_like, hashes, write in [
        ("kv_array.msgpack.gz", True, raw, lambda items: b"".join(encode(i) for i in items)),
        ("kv_map.msgpack.gz", False, as_bytes, lambda items: b"".join(len(d).to_bytes(4, "big") + d for d in map(encode, items))),
        ("kv_array.jsonl.gz", True, raw, lambda items: b"".join(msgspec.json.encode(i) + b"\n" for i in items)),
        ("kv_map.jsonl.gz", False, raw, lambda items: b"".join(msgspec.json.encode(i) + b"\n" for i in items)),
    ]:
        batches, counts = run(24, 160, 5, 17, structs(array_like), hashes)
        pack(name, write(batches))
        numbers("kv", counts)


def rmm_files():
    import random
    rng, live, rows, now, peak = random.Random(3), [], [], 0, 0
    micros, base = (23 * 3600 + 59 * 60 + 59) * 10**6 + 500_000, 0x7F1200000000
    for i in range(400):
        micros += rng.randrange(1, 5_000)
        at = micros % (86_400 * 10**6)
        time = f"{at // 3_600_000_000:02}:{at // 60_000_000 % 60:02}:{at // 1_000_000 % 60:02}.{at % 1_000_000:06}"
        if live and rng.random() < 0.45:
            pointer, size = live.pop(rng.randrange(len(live)))
            now -= size
            rows.append(f"140736,{time},free,0x{pointer:x},{size},0x2")
        else:
            size = rng.choice([256, 1_000, 4_096, 1 << 20, 5_000_000])
            live.append((base, size))
            now += size
            rows.append(f"140736,{time},allocate,0x{base:x},{size},0x2")
            base += (size + 255) // 256 * 256
        peak = max(peak, now)
    rows.append(f"140737,00:00:02.000001,allocate failure,(nil),{1 << 40},0x2")
    pack("rmm.dev0.csv.gz", ("Thread,Time,Action,Pointer,Size,Stream\n" + "\n".join(rows) + "\n").encode())
    numbers("rmm", {"rows": len(rows), "peak": peak, "end": now, "live": len(live)})


{"torch": torch_files, "jax": jax_files, "vllm": vllm_files, "rmm": rmm_files}[sys.argv[1]]()
