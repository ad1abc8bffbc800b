"""See the head of the package."""
import types

from . import memory

queued = []
running = False


def _lazy_call(call):
    call() if running else queued.append(call)


def _lazy_init():
    global running
    if running:
        return
    for call in queued:
        call()
    running = True


def is_initialized():
    return running


def device_count():
    return 1


def get_device_properties(device):
    return types.SimpleNamespace(name="a card of paper", total_memory=2 << 30)


def get_allocator_backend():
    return "native"
