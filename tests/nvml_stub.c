/* A small NVML: it answers what the file named by NVML_STUB says, a `name value` on each line, read at every call.
   What has no line is not supported. `use` holds `pid:percent`, `pids` holds `pid:bytes`, each separated by commas. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9 };
typedef unsigned long long u64;

static int text(const char *name, char *into, unsigned size) {
    char line[1024], key[64];
    int at, found = 0;
    FILE *file = fopen(getenv("NVML_STUB"), "r");
    while (file && !found && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%63s %n", key, &at) == 1 && !strcmp(key, name)) {
            line[strcspn(line, "\n")] = 0;
            snprintf(into, size, "%s", line + at);
            found = 1;
        }
    }
    if (file) fclose(file);
    return found ? SUCCESS : NOT_SUPPORTED;
}

static int number(const char *name, u64 *into) {
    char value[64];
    int result = text(name, value, sizeof value);
    if (result == SUCCESS) *into = strtoull(value, 0, 0);
    return result;
}

static int small(const char *name, unsigned *into) {
    u64 value = 0;
    int result = number(name, &value);
    if (result == SUCCESS) *into = (unsigned)value;
    return result;
}

static unsigned pairs(const char *name, unsigned *pids, u64 *values) {
    char list[1024], *each, *rest;
    unsigned count = 0;
    if (text(name, list, sizeof list) != SUCCESS) return 0;
    for (each = strtok_r(list, ",", &rest); each; each = strtok_r(0, ",", &rest), count++)
        sscanf(each, "%u:%llu", &pids[count], &values[count]);
    return count;
}

int nvmlInitWithFlags(unsigned flags) { (void)flags; return getenv("NVML_STUB") ? SUCCESS : DRIVER_NOT_LOADED; }
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int code) { return code == DRIVER_NOT_LOADED ? "Driver Not Loaded" : "Not Supported"; }
int nvmlSystemGetDriverVersion(char *into, unsigned size) { return text("driver", into, size); }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 1; small("count", count); return SUCCESS; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { *device = (void *)(u64)(index + 1); return SUCCESS; }
int nvmlDeviceGetName(void *device, char *into, unsigned size) {
    char name[16];
    snprintf(name, sizeof name, "name%u", (unsigned)(u64)device - 1);
    return text(name, into, size) == SUCCESS ? SUCCESS : text("name", into, size);
}
int nvmlDeviceGetUUID(void *device, char *into, unsigned size) {
    char name[16];
    snprintf(name, sizeof name, "uuid%u", (unsigned)(u64)device - 1);
    return text(name, into, size);
}
int nvmlDeviceGetMigMode(void *device, unsigned *current, unsigned *pending) {
    (void)device;
    *pending = 0;
    return small("mig", current);
}
int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *mw) { (void)device; return small("power_limit_mw", mw); }
int nvmlDeviceGetClockInfo(void *device, int kind, unsigned *mhz) { (void)device; (void)kind; return small("clock", mhz); }
int nvmlDeviceGetMaxClockInfo(void *device, int kind, unsigned *mhz) {
    (void)device; (void)kind;
    return small("max_clock", mhz);
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, u64 *reasons) { (void)device; return number("throttle", reasons); }
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *degrees) {
    (void)device; (void)sensor;
    return small("temperature", degrees);
}
int nvmlDeviceGetMemoryInfo(void *device, u64 *total_free_used) { (void)device; return number("memory", &total_free_used[2]); }
int nvmlDeviceGetUtilizationRates(void *device, unsigned *gpu_memory) { (void)device; return small("busy", &gpu_memory[0]); }

struct process { unsigned pid; u64 memory; unsigned instance, compute; };
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct process *into) {
    unsigned pids[32], index, found;
    u64 memory[32];
    (void)device;
    found = pairs("pids", pids, memory);
    if (found && (!into || *count < found)) { *count = found; return INSUFFICIENT_SIZE; }
    for (index = 0; into && index < found; index++) into[index] = (struct process){pids[index], memory[index], 0, 0};
    *count = found;
    return SUCCESS;
}

struct use { unsigned pid; u64 timestamp; unsigned sm, memory, encoder, decoder; };
int nvmlDeviceGetProcessUtilization(void *device, struct use *into, unsigned *count, u64 since) {
    static u64 now = 1000;
    unsigned pids[32], index, found;
    u64 percent[32], told = 0;
    (void)device; (void)since;
    if (number("tells_use", &told) != SUCCESS) return NOT_SUPPORTED;
    found = pairs("use", pids, percent);
    if (!found) return NOT_FOUND;
    if (!into || *count < found) { *count = found; return INSUFFICIENT_SIZE; }
    for (index = 0; index < found; index++) into[index] = (struct use){pids[index], now++, (unsigned)percent[index], 0, 0, 0};
    *count = found;
    return SUCCESS;
}
