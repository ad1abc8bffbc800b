/* A program that asks the driver for memory, for the tests of the driver's logger: `job HOW WHAT`. HOW it finds the
 * driver's functions: linked, dlsym, default (dlsym in its own scope), proc1 or proc2 (cuGetProcAddress). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef uint64_t u64;
#define MIB (1ull << 20)

#ifdef LINKED
#define DECLARE(name, ...) extern int name(__VA_ARGS__);
#define REAL(name) name
#else
#define DECLARE(name, ...) static int (*name)(__VA_ARGS__);
#endif
#define ALL(each) \
    each(cuInit, unsigned) each(cuDeviceGet, int *, int) each(cuDevicePrimaryCtxRetain, void **, int) \
    each(cuDevicePrimaryCtxRelease_v2, int) each(cuCtxSetCurrent, void *) each(cuMemAlloc_v2, u64 *, size_t) \
    each(cuMemFree_v2, u64) each(cuMemAllocPitch_v2, u64 *, size_t *, size_t, size_t, unsigned) \
    each(cuMemHostAlloc, void **, size_t, unsigned) each(cuMemFreeHost, void *) \
    each(cuMemHostRegister_v2, void *, size_t, unsigned) each(cuMemHostUnregister, void *) \
    each(cuModuleLoadData, void **, const void *)
#define NEWER(each) \
    each(cuMemAllocAsync, u64 *, size_t, void *) each(cuMemFreeAsync, u64, void *) \
    each(cuMemAllocFromPoolAsync, u64 *, size_t, void *, void *) each(cuMemPoolCreate, void **, const void *) \
    each(cuMemPoolDestroy, void *) each(cuMemPoolTrimTo, void *, size_t) \
    each(cuMemAddressReserve, u64 *, size_t, size_t, u64, u64) each(cuMemAddressFree, u64, size_t) \
    each(cuMemCreate, u64 *, size_t, const void *, u64) each(cuMemRelease, u64) \
    each(cuMemMap, u64, size_t, size_t, u64, u64) each(cuMemUnmap, u64, size_t) \
    each(cuMemSetAccess, u64, size_t, const void *, size_t)
ALL(DECLARE)
NEWER(DECLARE)

static void fail(const char *what, int answer) { fprintf(stderr, "%s: %d\n", what, answer); exit(7); }
#define DO(call) do { int answer = call; if (answer) fail(#call, answer); } while (0)

#ifndef LINKED
static void load(const char *how) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | (strcmp(how, "default") ? RTLD_LOCAL : RTLD_GLOBAL));
    if (!driver) { fprintf(stderr, "no driver\n"); exit(8); }
    void *scope = strcmp(how, "default") ? driver : RTLD_DEFAULT;
    if (!strncmp(how, "proc", 4)) {
        int second = how[4] == '2';
        int (*get1)(const char *, void **, int, u64) = dlsym(driver, "cuGetProcAddress");
        int (*get2)(const char *, void **, int, u64, int *) = dlsym(driver, "cuGetProcAddress_v2");
        u64 flags = second ? 2 : 1; /* the thread's own default stream, or the old one */
#define GET(name, ...) { char base[64]; strcpy(base, #name); char *end = strstr(base, "_v2"); if (end) *end = 0; int status; \
            if (second) get2(base, (void **)&name, 12000, flags, &status); else get1(base, (void **)&name, 11030, flags); }
        ALL(GET) NEWER(GET)
    } else {
#define LOOK(name, ...) name = dlsym(scope, #name);
        ALL(LOOK) NEWER(LOOK)
    }
}
#endif

__attribute__((noinline)) u64 take_memory(size_t size) { u64 at = 0; DO(cuMemAlloc_v2(&at, size)); return at; }
__attribute__((noinline)) void give_memory(u64 at) { DO(cuMemFree_v2(at)); }

static void begin(void) {
    void *context;
    int device;
    DO(cuInit(0));
    DO(cuDeviceGet(&device, 0));
    DO(cuDevicePrimaryCtxRetain(&context, device));
    DO(cuCtxSetCurrent(context));
}
static void plain(void) {
    u64 a = take_memory(10 * MIB), b = take_memory(1000), pitched;
    size_t pitch;
    void *module;
    DO(cuModuleLoadData(&module, "code"));
    DO(cuMemAllocPitch_v2(&pitched, &pitch, 1000, 3000, 4));
    give_memory(a);
    u64 c = take_memory(4 * MIB);
    void *pinned, *own = aligned_alloc(4096, MIB);
    DO(cuMemHostAlloc(&pinned, 2 * MIB, 0));
    DO(cuMemHostRegister_v2(own, MIB, 0));
    DO(cuMemHostUnregister(own));
    DO(cuMemFreeHost(pinned));
    give_memory(b);
    give_memory(c);
    give_memory(pitched);
}
static void pools(void) {
    u64 a, b;
    void *pool;
    int properties[22] = {1, 0, 1, 0};
    DO(cuMemAllocAsync(&a, 8 * MIB, (void *)0x40));
    DO(cuMemPoolCreate(&pool, properties));
    DO(cuMemAllocFromPoolAsync(&b, 2 * MIB, pool, (void *)0x40));
    DO(cuMemFreeAsync(a, (void *)0x50));
    DO(cuMemFreeAsync(b, (void *)0x40));
    DO(cuMemPoolTrimTo(pool, 0));
    DO(cuMemPoolDestroy(pool));
}
static void mapped(void) {
    u64 base, one, two;
    int properties[8] = {1, 0, 1, 0};
    DO(cuMemAddressReserve(&base, 64 * MIB, 0, 0, 0));
    DO(cuMemCreate(&one, 4 * MIB, properties, 0));
    DO(cuMemCreate(&two, 2 * MIB, properties, 0));
    DO(cuMemMap(base, 4 * MIB, 0, one, 0));
    DO(cuMemMap(base + 4 * MIB, 2 * MIB, 0, two, 0));
    DO(cuMemSetAccess(base, 6 * MIB, properties, 1));
    DO(cuMemRelease(one));
    DO(cuMemUnmap(base, 6 * MIB));
    DO(cuMemRelease(two));
    DO(cuMemAddressFree(base, 64 * MIB));
}
static void *worker(void *_) {
    void *context = (void *)1;
    cuCtxSetCurrent(context);
    for (int i = 0; i < 200; i++) give_memory(take_memory(4096 + 512 * (i % 7)));
    return 0;
}

int main(int argc, char **argv) {
    const char *how = argv[1], *what = argv[2];
#ifndef LINKED
    load(how);
#endif
    if (!strcmp(what, "nothing")) return 0;
    if (!strcmp(what, "fork")) {
        pid_t child = fork();
        begin();
        give_memory(take_memory(child ? 3 * MIB : 5 * MIB));
        if (!child) exit(0);
        waitpid(child, 0, 0);
        /* Once there is a context a child cannot use it, but it may well go on as a program of its own. */
        if (!(child = fork())) { execl("/bin/sh", "sh", "-c", "exit 0", (char *)0); _exit(1); }
        waitpid(child, 0, 0);
        give_memory(take_memory(3 * MIB));
    } else {
        begin();
    }
    if (!strcmp(what, "all")) { plain(); pools(); mapped(); }
    if (!strcmp(what, "old")) { if (cuMemCreate || cuMemAllocAsync) fail("the driver is not old", 0); plain(); }
    if (!strcmp(what, "threads")) {
        pthread_t threads[4];
        for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, worker, 0);
        for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    }
    if (!strcmp(what, "killed")) { take_memory(10 * MIB); take_memory(6 * MIB); kill(getpid(), SIGKILL); }
    if (!strcmp(what, "leaves")) { take_memory(10 * MIB); _exit(3); }
    if (!strcmp(what, "context")) { take_memory(10 * MIB); DO(cuDevicePrimaryCtxRelease_v2(0)); }
    if (!strcmp(what, "slow")) { u64 at = take_memory(10 * MIB); usleep(900000); give_memory(at); }
    if (!strcmp(what, "oom")) {
        u64 at;
        int answer = 0;
        while (!(answer = cuMemAlloc_v2(&at, 20 * MIB)));
        printf("answered %d\n", answer);
        return answer == 2 ? 0 : 9;
    }
    if (!strcmp(what, "lost")) {
        u64 at;
        int answer = 0;
        while (!(answer = cuMemAlloc_v2(&at, MIB)));
        printf("answered %d\n", answer);
    }
    printf("done %s\n", what);
    return 0;
}
