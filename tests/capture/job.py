"""A job for tests of the recorder, over the stand-in for PyTorch beside it: `python job.py WHAT [NUMBER]`."""
import os
import sys
import time

what, number = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 100
if what == "plain":
    print("no torch here")
    sys.exit(0)
import torch


def hold(size):
    return torch.allocator.alloc(size)


def train(steps, pause=0.0):
    kept = [hold(1000 + 512 * i) for i in range(10)]
    for step in range(steps):
        blocks = [hold(512 * (1 + (step * 7 + i) % 50)) for i in range(10)]
        for block in blocks[::2] + blocks[1::2]:
            torch.allocator.give_back(block)
        if pause:
            time.sleep(pause)
    return kept


if what != "late":
    torch.cuda._lazy_init()
if what == "train":
    train(number)
elif what == "slow":
    train(number, 0.002)
elif what == "oom":
    kept = train(number)
    try:
        hold(2 << 30)
    except torch.OutOfMemoryError as error:
        print("caught", error)
    for block in kept:
        torch.allocator.give_back(block)
    sys.exit(3)
elif what == "kill":
    train(number, 0.002)
    time.sleep(0.5)
    os.kill(os.getpid(), 9)
elif what == "fork":
    train(number)
    child = os.fork()
    if child == 0:
        train(number)
        sys.exit(0)
    os.waitpid(child, 0)
    train(number)
elif what == "ranks":
    import subprocess
    ranks = [subprocess.Popen([sys.executable, __file__, "train", str(number + rank)],
                              env=dict(os.environ, RANK=str(rank), WORLD_SIZE="2")) for rank in range(2)]
    sys.exit(max(rank.wait() for rank in ranks))
elif what == "late":
    # The recorder comes when much is there already.
    torch.cuda._lazy_init()
    kept = train(number)
    torch.allocator.truth.clear()
    sys.path.insert(0, os.environ["RECORDER"])
    import record
    with record.recording(os.environ["LOG"], interval_ms=20):
        time.sleep(0.2)
        for block in kept[:5]:
            torch.allocator.give_back(block)
        train(number)
        time.sleep(0.2)
elif what == "history":
    train(number)
    torch.cuda.memory._record_memory_history(max_entries=50)
    train(number)
    torch.cuda.memory._record_memory_history(None)
    train(number)
elif what == "wait":
    # Runs what a helper puts down for it, as Python 3.14 does for `sys.remote_exec`.
    place = sys.argv[3]
    for _ in range(600):
        if os.path.exists(place):
            with open(place) as file:
                exec(compile(file.read(), place, "exec"), {})
            break
        time.sleep(0.05)
    time.sleep(0.3)
    train(number, 0.002)
print("done", what)
