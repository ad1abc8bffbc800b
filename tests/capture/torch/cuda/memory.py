"""See the head of the package."""
import sys


def _record_memory_history(enabled="all", context="all", stacks="all", max_entries=1 << 60, device=None, clear_history=False):
    allocator = sys.modules["torch"].allocator
    old = sys.modules["torch"].OLD
    with allocator.lock:
        allocator.recording, allocator.context, allocator.limit = enabled, context, max_entries
        if clear_history or old:
            del allocator.ring[:]


if sys.modules["torch"].OLD:
    import inspect

    known = inspect.signature(_record_memory_history)
    _record_memory_history.__signature__ = known.replace(
        parameters=[p for p in known.parameters.values() if p.name != "clear_history"])
