/* A stand-in for libnvidia-ml.so.1, for what is asked of it here: cards, their memory, the processes on them.
 *
 *   STUB_CUDA_MIB, STUB_CUDA_DEVICES   as the stand-in for the driver has them
 *   STUB_NVML_USED                     MiB in use (200)
 *   STUB_NVML_PROCESSES                `pid:MiB` separated by commas; `pid:?` where the memory is not told
 *   STUB_NVML_ANSWER                   what every call but the first answers (0): 15 is a lost card */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long u64;
static u64 number(const char *name, u64 otherwise) { const char *text = getenv(name); return text ? strtoull(text, 0, 10) : otherwise; }
#define ANSWER ((int)number("STUB_NVML_ANSWER", 0))

int nvmlInit_v2(void) { return number("STUB_NVML_ANSWER", 0) == 9 ? 9 : 0; }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int answer) { return answer == 15 ? "GPU is lost" : "an error of the stub"; }
int nvmlSystemGetDriverVersion(char *out, unsigned len) { snprintf(out, len, "550.54"); return ANSWER; }
int nvmlDeviceGetCount_v2(unsigned *out) { *out = number("STUB_CUDA_DEVICES", 1); return ANSWER; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **out) {
    *out = (void *)(uintptr_t)(index + 1);
    return ANSWER ? ANSWER : index < number("STUB_CUDA_DEVICES", 1) ? 0 : 2;
}
int nvmlDeviceGetName(void *device, char *out, unsigned len) { snprintf(out, len, "Stub Card %d", (int)(uintptr_t)device - 1); return ANSWER; }
int nvmlDeviceGetUUID(void *device, char *out, unsigned len) {
    char part[3];
    snprintf(part, 3, "%02x", 0xa0 + (int)(uintptr_t)device - 1);
    char *to = out;
    to += sprintf(to, "GPU-");
    for (int i = 0; i < 16; i++) to += sprintf(to, i == 4 || i == 6 || i == 8 || i == 10 ? "-%s" : "%s", part);
    return ANSWER;
}
int nvmlDeviceGetMemoryInfo_v2(void *device, struct { unsigned version; u64 total, reserved, free, used; } *out) {
    out->reserved = 0;
    out->total = number("STUB_CUDA_MIB", 256) << 20;
    out->used = number("STUB_NVML_USED", 200) << 20;
    out->free = out->total - out->used;
    return ANSWER;
}
typedef struct { unsigned pid; u64 used; unsigned gpu_instance, compute_instance; } process;
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, process *out) {
    char text[1024];
    unsigned found = 0, room = *count;
    const char *given = getenv("STUB_NVML_PROCESSES");
    if (ANSWER) return ANSWER;
    snprintf(text, sizeof text, "%s", given ? given : "");
    for (char *word = strtok(text, ","); word; word = strtok(0, ","), found++) {
        if (room <= found) continue;
        char *colon = strchr(word, ':');
        out[found] = (process){strtoul(word, 0, 10), colon && colon[1] != '?' ? strtoull(colon + 1, 0, 10) << 20 : ~0ull, ~0u, ~0u};
    }
    *count = found;
    return found <= room ? 0 : 7;
}
int nvmlDeviceGetComputeRunningProcesses_v2(void *device, unsigned *count, process *out) { return nvmlDeviceGetComputeRunningProcesses_v3(device, count, out); }
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *device, unsigned *count, process *out) { *count = 0; return ANSWER; }
int nvmlDeviceGetGraphicsRunningProcesses_v2(void *device, unsigned *count, process *out) { *count = 0; return ANSWER; }
