"""What recording costs a job: its speed recorded against unrecorded, run by run in turn, and its stalls.

    python benches/recorder.py PYTHON_WITH_TORCH RECORD_PY [SECONDS] [ROUNDS]

Two jobs of transformer training steps of about 2 000 events: "cpu", whose main thread is always busy, and "gpu", which
waits until 40 ms have passed, about 45 000 events a second. RECORD_PY is what `fragscope capture --write-recorder` wrote.
"""
import os
import subprocess
import sys
import tempfile

JOB = """
import sys, time, torch
kind, seconds = sys.argv[1], float(sys.argv[2])
layers = [torch.nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True) for _ in range(7)]
model = torch.nn.Sequential(*layers).cuda()
optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
batch = torch.zeros(8, 128, 256, device="cuda")
def deep(n, function):
    return function() if n == 0 else deep(n - 1, function)
def step():
    optimizer.zero_grad(); model(batch).sum().backward(); optimizer.step()
def events():
    stats = torch.cuda.memory_stats()
    return stats["allocation.all.allocated"] + 2 * stats["allocation.all.freed"]
for _ in range(20): deep(15, step)
time.sleep(0.5)
for _ in range(20): deep(15, step)
first, begin, times = events(), time.perf_counter(), []
while time.perf_counter() - begin < seconds:
    start = time.perf_counter()
    deep(15, step)
    if kind == "gpu":
        while time.perf_counter() - start < 0.04: time.sleep(0.0005)
    times.append(time.perf_counter() - start)
total = time.perf_counter() - begin
times.sort()
print("%f %f %f %f" % (len(times) / total, (events() - first) / total, times[len(times) * 99 // 100] * 1e3, times[-1] * 1e3))
"""

WAYS = {
    "nothing": None,
    "tracker": [],
    "tracker, no stacks": ["--stacks", "none"],
    "ring": ["--way", "ring"],
}


def main():
    python, record = sys.argv[1:3]
    seconds = sys.argv[3] if len(sys.argv) > 3 else "5"
    rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 3
    with tempfile.TemporaryDirectory() as folder:
        job = os.path.join(folder, "job.py")
        with open(job, "w") as file:
            file.write(JOB)
        for kind in ("gpu", "cpu"):
            results = {name: [] for name in WAYS}
            for number in range(rounds):
                for name, options in WAYS.items():
                    out = os.path.join(folder, "%s-%d-%s.fsl" % (kind, number, name.replace(" ", "")))
                    front = [] if options is None else [record, "--out", out, "--exit-snapshot", ""] + options
                    line = subprocess.run([python] + front + [job, kind, seconds], capture_output=True, text=True)
                    if line.returncode:
                        sys.exit(line.stderr)
                    results[name].append([float(word) for word in line.stdout.split()])
            for name, runs in results.items():
                middle = [sorted(column)[len(column) // 2] for column in zip(*runs)]
                ratios = sorted(run[0] / plain[0] for run, plain in zip(runs, results["nothing"]))
                print("%-4s %-20s speed %.3f (%.3f to %.3f)  %7.0f events/s  99%% step %.1f ms  longest %.1f ms" % (
                    kind, name, ratios[len(ratios) // 2], ratios[0], ratios[-1], middle[1], middle[2], middle[3]), flush=True)


main()
