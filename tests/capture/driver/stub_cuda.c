/* A stand-in for libcuda.so.1: one card whose memory is only counted. What it hands out are addresses with nothing behind
 * them; what it is asked to touch must have been handed out. Built by the tests: with -DOLD it lacks what drivers before
 * CUDA 10.2 lack.
 *
 *   STUB_CUDA_MIB      memory of the card in MiB (256)
 *   STUB_CUDA_OTHERS   MiB that another process holds of it (0)
 *   STUB_CUDA_LOST     after so many calls for memory the card is gone: all answer 999
 *   STUB_CUDA_DEVICES  number of cards (1)
 *   STUB_CUDA_TRUTH    a file to which it appends what it gives and takes */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef uint64_t u64;
typedef struct { u64 at, size, charged; int kind; } range; /* kind: 0 memory, 1 reserved, 2 mapped, 3 host */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static range ranges[1 << 16];
static int count;
static u64 used, calls;
static int contexts, begun;
static __thread void *current;
static struct { u64 size; int maps, released, there; } physical[1 << 12];

enum { OK = 0, INVALID = 1, NOMEM = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_CONTEXT = 201, NOT_FOUND = 500, LOST = 999 };
static const u64 CONTEXT = 64ull << 20, PAGE = 2ull << 20;

static u64 number(const char *name, u64 otherwise) { const char *text = getenv(name); return text ? strtoull(text, 0, 10) : otherwise; }
static u64 total(void) { return number("STUB_CUDA_MIB", 256) << 20; }
static u64 left(void) { u64 gone = used + (number("STUB_CUDA_OTHERS", 0) << 20); return gone < total() ? total() - gone : 0; }
static int lost(void) { u64 after = number("STUB_CUDA_LOST", ~0ull); return after <= calls; }

static void truth(const char *what, u64 at, u64 size) {
    const char *path = getenv("STUB_CUDA_TRUTH");
    FILE *file = path ? fopen(path, "a") : 0;
    if (!file) return;
    fprintf(file, "%d %s %llu %llu\n", getpid(), what, (unsigned long long)at, (unsigned long long)size);
    fclose(file);
}
static int find(u64 at, int kind) {
    for (int i = 0; i < count; i++) if (ranges[i].at == at && ranges[i].kind == kind) return i;
    return -1;
}
static void drop(int i) { ranges[i] = ranges[--count]; }
/* The lowest address from a place on at which so many bytes fit. */
static u64 place(u64 from, u64 size) {
    for (u64 at = from;;) {
        int hit = -1;
        for (int i = 0; i < count; i++) if (ranges[i].kind < 2 && ranges[i].at < at + size && at < ranges[i].at + ranges[i].size) hit = i;
        if (hit < 0) return at;
        at = (ranges[hit].at + ranges[hit].size + 511) & ~511ull;
    }
}
static int give(u64 *out, u64 size, const char *what) {
    int answer = OK;
    pthread_mutex_lock(&lock);
    u64 charged = size < PAGE / 2 ? (size + 511) & ~511ull : (size + PAGE - 1) & ~(PAGE - 1);
    if (!current) answer = INVALID_CONTEXT;
    else if (lost()) answer = LOST;
    else if (!size || count == 1 << 16) answer = INVALID;
    else if (left() < charged) answer = NOMEM;
    else {
        *out = place(0x700000000000ull, charged);
        ranges[count++] = (range){*out, size, charged, 0};
        used += charged;
    }
    calls++;
    truth(answer == OK ? what : "refused", answer == OK ? *out : 0, size);
    pthread_mutex_unlock(&lock);
    return answer;
}
static int take(u64 at, const char *what) {
    pthread_mutex_lock(&lock);
    int i = find(at, 0), answer = at == 0 ? OK : lost() ? LOST : i < 0 ? INVALID : OK;
    if (answer == OK && at) { truth(what, at, ranges[i].size); used -= ranges[i].charged; drop(i); }
    pthread_mutex_unlock(&lock);
    return answer;
}

int cuInit(unsigned flags) { begun = 1; return number("STUB_CUDA_DEVICES", 1) ? OK : NO_DEVICE; }
int cuDriverGetVersion(int *out) {
#ifdef OLD
    *out = 10010;
#else
    *out = 12040;
#endif
    return OK;
}
int cuDeviceGetCount(int *out) { *out = number("STUB_CUDA_DEVICES", 1); return begun ? OK : NOT_INITIALIZED; }
int cuDeviceGet(int *out, int ordinal) { *out = ordinal; return !begun ? NOT_INITIALIZED : ordinal < (int)number("STUB_CUDA_DEVICES", 1) ? OK : 101; }
int cuDeviceGetName(char *out, int len, int device) { snprintf(out, len, "Stub Card %d", device); return OK; }
int cuDeviceTotalMem_v2(size_t *out, int device) { *out = total(); return OK; }
int cuDeviceGetUuid(unsigned char *out, int device) { memset(out, 0xa0 + device, 16); return OK; }
int cuDeviceGetUuid_v2(unsigned char *out, int device) { return cuDeviceGetUuid(out, device); }
int cuDeviceGetAttribute(int *out, int attribute, int device) {
#ifdef OLD
    *out = 0;
#else
    *out = attribute == 115 || attribute == 102;
#endif
    return OK;
}
int cuCtxGetCurrent(void **out) { *out = current; return OK; }
int cuCtxSetCurrent(void *context) { current = context; return OK; }
int cuCtxPushCurrent_v2(void *context) { current = context; return OK; }
int cuCtxPopCurrent_v2(void **out) { *out = current; current = 0; return OK; }
int cuCtxGetDevice(int *out) { *out = (int)(intptr_t)current - 1; return current ? OK : INVALID_CONTEXT; }
int cuCtxSynchronize(void) { return lost() ? LOST : OK; }
static int begin_context(void **out, int device) {
    pthread_mutex_lock(&lock);
    if (!contexts++) used += CONTEXT;
    pthread_mutex_unlock(&lock);
    *out = (void *)(intptr_t)(device + 1);
    return OK;
}
static void end_context(void) {
    pthread_mutex_lock(&lock);
    if (contexts && !--contexts) {
        used -= CONTEXT;
        for (int i = count - 1; 0 <= i; i--) if (ranges[i].kind == 0) { used -= ranges[i].charged; drop(i); }
    }
    pthread_mutex_unlock(&lock);
}
int cuDevicePrimaryCtxRetain(void **out, int device) { return begin_context(out, device); }
int cuDevicePrimaryCtxRelease_v2(int device) { end_context(); return OK; }
int cuDevicePrimaryCtxReset_v2(int device) { contexts = contexts ? 1 : 0; end_context(); return OK; }
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) { *flags = 0; *active = contexts != 0; return OK; }
int cuCtxCreate_v2(void **out, unsigned flags, int device) { int answer = begin_context(out, device); current = *out; return answer; }
int cuCtxDestroy_v2(void *context) { end_context(); if (current == context) current = 0; return OK; }
int cuMemGetInfo_v2(size_t *free, size_t *all) {
    if (!current) return INVALID_CONTEXT;
    if (lost()) return LOST;
    *free = left(); *all = total();
    return OK;
}
int cuGetErrorName(int error, const char **out) {
    *out = error == NOMEM ? "CUDA_ERROR_OUT_OF_MEMORY" : error == LOST ? "CUDA_ERROR_UNKNOWN" : error == NO_DEVICE ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_OTHER";
    return OK;
}
int cuGetErrorString(int error, const char **out) { *out = error == NOMEM ? "out of memory" : "an error of the stub"; return OK; }

int cuMemAlloc_v2(u64 *out, size_t size) { return give(out, size, "alloc"); }
int cuMemFree_v2(u64 at) { return take(at, "free"); }
int cuMemAllocPitch_v2(u64 *out, size_t *pitch, size_t width, size_t height, unsigned element) { *pitch = (width + 511) & ~511ull; return give(out, *pitch * height, "alloc"); }
int cuMemAllocManaged(u64 *out, size_t size, unsigned flags) { return give(out, size, "alloc"); }
static int touched(u64 at, u64 size) {
    u64 end = at + size;
    int found = 1;
    pthread_mutex_lock(&lock);
    while (at < end && found) {
        found = 0;
        for (int i = 0; i < count; i++)
            if (ranges[i].kind % 2 == 0 && ranges[i].at <= at && at < ranges[i].at + ranges[i].charged) { at = ranges[i].at + ranges[i].charged; found = 1; break; }
    }
    pthread_mutex_unlock(&lock);
    return lost() ? LOST : found ? OK : INVALID;
}
int cuMemsetD8_v2(u64 at, unsigned char value, size_t size) { return touched(at, size); }
int cuMemsetD8Async(u64 at, unsigned char value, size_t size, void *stream) { return touched(at, size); }
int cuMemHostAlloc(void **out, size_t size, unsigned flags) { *out = aligned_alloc(4096, (size + 4095) & ~4095ull); truth("pin", (u64)*out, size); return *out ? OK : NOMEM; }
int cuMemAllocHost_v2(void **out, size_t size) { return cuMemHostAlloc(out, size, 0); }
int cuMemFreeHost(void *at) { truth("unpin", (u64)at, 0); free(at); return OK; }
int cuMemHostRegister_v2(void *at, size_t size, unsigned flags) { truth("pin", (u64)at, size); return OK; }
int cuMemHostUnregister(void *at) { truth("unpin", (u64)at, 0); return OK; }
int cuModuleLoadData(void **out, const void *image) { pthread_mutex_lock(&lock); used += 3 << 20; pthread_mutex_unlock(&lock); *out = (void *)1; return OK; }

#ifndef OLD
int cuMemAllocAsync(u64 *out, size_t size, void *stream) { return give(out, size, "alloc"); }
int cuMemAllocFromPoolAsync(u64 *out, size_t size, void *pool, void *stream) { return give(out, size, "alloc"); }
int cuMemFreeAsync(u64 at, void *stream) { return take(at, "free"); }
int cuMemAllocAsync_ptsz(u64 *out, size_t size, void *stream) { return give(out, size, "alloc"); }
int cuMemAllocFromPoolAsync_ptsz(u64 *out, size_t size, void *pool, void *stream) { return give(out, size, "alloc"); }
int cuMemFreeAsync_ptsz(u64 at, void *stream) { return take(at, "free"); }
int cuDeviceGetMemPool(void **out, int device) { *out = (void *)0x99; return OK; }
int cuMemPoolCreate(void **out, const void *properties) { static u64 next = 0x1000; *out = (void *)(next += 16); return OK; }
int cuMemPoolDestroy(void *pool) { return OK; }
int cuMemPoolTrimTo(void *pool, size_t keep) { return OK; }
int cuMemGetAllocationGranularity(size_t *out, const void *properties, int which) { *out = PAGE; return OK; }
int cuMemAddressReserve(u64 *out, size_t size, size_t alignment, u64 at, u64 flags) {
    pthread_mutex_lock(&lock);
    *out = place(0x600000000000ull, size);
    ranges[count++] = (range){*out, size, size, 1};
    pthread_mutex_unlock(&lock);
    return OK;
}
int cuMemAddressFree(u64 at, size_t size) {
    pthread_mutex_lock(&lock);
    int i = find(at, 1);
    if (0 <= i) drop(i);
    pthread_mutex_unlock(&lock);
    return i < 0 ? INVALID : OK;
}
static void settle(u64 handle) {
    if (physical[handle].there && physical[handle].released && !physical[handle].maps) { used -= physical[handle].size; physical[handle].there = 0; }
}
int cuMemCreate(u64 *out, size_t size, const void *properties, u64 flags) {
    int answer = OK;
    pthread_mutex_lock(&lock);
    if (lost()) answer = LOST;
    else if (size % PAGE) answer = INVALID;
    else if (left() < size) { answer = NOMEM; truth("refused", 0, size); }
    else {
        u64 i = 1;
        while (physical[i].there) i++;
        physical[i].size = size, physical[i].maps = 0, physical[i].released = 0, physical[i].there = 1;
        used += size;
        *out = i;
    }
    calls++;
    pthread_mutex_unlock(&lock);
    return answer;
}
int cuMemRelease(u64 handle) { pthread_mutex_lock(&lock); physical[handle].released = 1; settle(handle); pthread_mutex_unlock(&lock); return OK; }
int cuMemMap(u64 at, size_t size, size_t offset, u64 handle, u64 flags) {
    pthread_mutex_lock(&lock);
    int inside = 0;
    for (int i = 0; i < count; i++) inside |= ranges[i].kind == 1 && ranges[i].at <= at && at + size <= ranges[i].at + ranges[i].size;
    if (inside) {
        physical[handle].maps++;
        /* What is behind a mapped range stands in `charged`'s place among the handles. */
        ranges[count++] = (range){at, handle, size, 2};
        truth("map", at, size);
    }
    pthread_mutex_unlock(&lock);
    return inside ? OK : INVALID;
}
int cuMemUnmap(u64 at, size_t size) {
    int found = 0;
    pthread_mutex_lock(&lock);
    for (int i = count - 1; 0 <= i; i--)
        if (ranges[i].kind == 2 && at <= ranges[i].at && ranges[i].at + ranges[i].charged <= at + size) {
            u64 handle = ranges[i].size;
            truth("unmap", ranges[i].at, ranges[i].charged);
            physical[handle].maps--;
            drop(i);
            settle(handle);
            found = 1;
        }
    pthread_mutex_unlock(&lock);
    return found ? OK : INVALID;
}
int cuMemSetAccess(u64 at, size_t size, const void *who, size_t n) { return OK; }

#include <dlfcn.h>
static int symbol(const char *base, void **out, u64 flags) {
    static const char *const forms[] = {"%s_ptsz", "%s_v2", "%s"};
    static void *self;
    if (!self) { Dl_info info; dladdr((void *)cuInit, &info); self = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD); }
    char name[128];
    for (int i = flags & 2 ? 0 : 1; i < 3; i++) {
        snprintf(name, sizeof name, forms[i], base);
        if ((*out = dlsym(self, name))) return OK;
    }
    return NOT_FOUND;
}
int cuGetProcAddress_v2(const char *base, void **out, int version, u64 flags, int *status) {
    int answer = symbol(base, out, flags);
    if (status) *status = answer == OK ? 0 : 1;
    return answer;
}
int cuGetProcAddress(const char *base, void **out, int version, u64 flags) {
    if (!strcmp(base, "cuGetProcAddress") && version < 12000) { *out = (void *)cuGetProcAddress; return OK; }
    return symbol(base, out, flags);
}
#endif
