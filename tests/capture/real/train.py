"""A small training script; what it is asked for stands in its arguments: steps, expandable, oom, streams, graph."""
import sys
import torch

steps = int(sys.argv[1])
asked = sys.argv[2:]
layers = [torch.nn.TransformerEncoderLayer(64, 4, 256, batch_first=True) for _ in range(3)]
model = torch.nn.Sequential(*layers).cuda()
optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
for step in range(steps):
    batch = torch.zeros(4 + step % 3, 32, 64, device="cuda")
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
if "streams" in asked:
    other = torch.cuda.Stream()
    with torch.cuda.stream(other):
        for size in range(1, 40):
            torch.empty(size * 100_000, device="cuda")
if "devices" in asked:
    for device in range(torch.cuda.device_count()):
        for size in range(1, 40):
            torch.empty(size * 100_000, device="cuda:%d" % device)
if "oom" in asked:
    held = []
    try:
        while True:
            held.append(torch.empty(200_000_000, device="cuda"))
    except RuntimeError as error:
        print("caught", type(error).__name__)
    del held
torch.cuda.empty_cache()
print("done")
