// The names of libcuda.so.1: those that are kept honestly, then those that are refused in words.

#include "driver.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

using namespace emulated;

namespace {

Driver &d() { return driver(); }

// A call of the API: alone, after cuInit, in a context if it needs one, and not after a fault.
class Call {
  public:
    explicit Call(bool needs_context = true) : guard_(d().lock) {
        if (!d().is_initialized)
            result_ = NOT_INITIALIZED;
        else if (d().sticky)
            result_ = d().sticky;
        else if (needs_context && !d().current())
            result_ = INVALID_CONTEXT;
    }
    explicit operator bool() const { return result_ == OK; }
    int result() const { return result_; }

  private:
    std::lock_guard<std::recursive_mutex> guard_;
    int result_ = OK;
};

#define ENTER(...)     \
    Call call{__VA_ARGS__}; \
    if (!call) return call.result()

bool is_device(int device) { return device >= 0 && device < d().settings.devices; }

struct Opened {  // the memory of the current context, for the time of a copy
    explicit Opened(Context *context) : context_(context) { d().open(context_, true); }
    ~Opened() { d().open(context_, false); }
    Context *context_;
};

void *host(Pointer place) { return reinterpret_cast<void *>(place); }

bool holds(Pointer place, size_t bytes) {
    Allocation *found = d().holding(place, bytes);
    return found && found->owner->device == d().current()->device;
}

void move(void *to, const void *from, size_t bytes, Context *context) {
    Opened opened(context);
    memmove(to, from, bytes);
}

int to_device(Pointer to, const void *from, size_t bytes, void *stream) {
    if (!holds(to, bytes)) return INVALID_VALUE;
    auto staged = std::make_shared<std::string>(static_cast<const char *>(from), bytes);
    Context *context = d().holding(to, bytes)->owner;
    return d().enqueue(stream, [=] { move(host(to), staged->data(), bytes, context); });
}

int to_host(void *to, Pointer from, size_t bytes, void *stream) {
    if (!holds(from, bytes)) return INVALID_VALUE;
    Context *context = d().holding(from, bytes)->owner;
    return d().enqueue(stream, [=] { move(to, host(from), bytes, context); });
}

int on_device(Pointer to, Pointer from, size_t bytes, void *stream) {
    if (!holds(to, bytes) || !holds(from, bytes)) return INVALID_VALUE;
    Context *context = d().holding(to, bytes)->owner;
    return d().enqueue(stream, [=] { move(host(to), host(from), bytes, context); });
}

template <class T>
int fill(Pointer to, T value, size_t count, void *stream) {
    if (to % sizeof(T) || !holds(to, count * sizeof(T))) return INVALID_VALUE;
    Context *context = d().holding(to, 1)->owner;
    return d().enqueue(stream, [=] {
        Opened opened(context);
        for (size_t n = 0; n < count; ++n) static_cast<T *>(host(to))[n] = value;
    });
}

int drained(void *stream) {
    Stream *found = d().stream(stream);
    if (!found) return INVALID_HANDLE;
    if (found == d().stream(nullptr)) d().drain_all(d().current(), true);
    d().drain(found);
    return d().sticky;
}

int blocking(int result, void *stream = nullptr) { return result ? result : drained(stream); }

const std::map<int, int> &attributes() {
    static const std::map<int, int> known = {
        {1, 1024}, {2, 1024}, {3, 1024}, {4, 64}, {5, 0x7fffffff}, {6, 65535}, {7, 65535},
        {8, 48 << 10}, {9, 64 << 10}, {10, 32}, {12, 64 << 10}, {13, 1000000}, {16, 4}, {31, 1},
        {33, 0}, {34, 0}, {36, 1000000}, {37, 64}, {38, 1 << 20}, {39, 2048}, {41, 1}, {50, 0},
        {81, 228 << 10}, {82, 64 << 10}, {97, 227 << 10}, {106, 32}, {111, 1 << 10},
    };
    return known;
}

struct Named {
    int code;
    const char *name, *words;
};

const Named kErrors[] = {
    {OK, "CUDA_SUCCESS", "no error"},
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "no kernel image is available for execution on the device"},
    {FILE_NOT_FOUND, "CUDA_ERROR_FILE_NOT_FOUND", "file not found"},
    {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {LAUNCH_OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
     "too many resources requested for launch"},
    {MISALIGNED_ADDRESS, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

const Named *error(int code) {
    for (const Named &each : kErrors)
        if (each.code == code) return &each;
    return nullptr;
}

}  // namespace

extern "C" {

int cuInit(unsigned) {
    std::lock_guard<std::recursive_mutex> guard(d().lock);
    if (d().settings.devices == 0) return NO_DEVICE;
    d().is_initialized = true;
    return d().sticky;
}

int cuDriverGetVersion(int *version) { return *version = d().settings.version, OK; }

int cuGetErrorString(int code, const char **found) {
    const Named *known = error(code);
    *found = known ? known->words : nullptr;
    return known ? OK : INVALID_VALUE;
}

int cuGetErrorName(int code, const char **found) {
    const Named *known = error(code);
    *found = known ? known->name : nullptr;
    return known ? OK : INVALID_VALUE;
}

int cuDeviceGetCount(int *count) {
    ENTER(false);
    return *count = d().settings.devices, OK;
}

int cuDeviceGet(int *device, int ordinal) {
    ENTER(false);
    return is_device(ordinal) ? *device = ordinal, OK : INVALID_DEVICE;
}

int cuDeviceGetName(char *name, int size, int device) {
    ENTER(false);
    if (!is_device(device)) return INVALID_DEVICE;
    return snprintf(name, size_t(size), "Emulated GPU %d", device), OK;
}

int cuDeviceGetPCIBusId(char *name, int size, int device) {
    ENTER(false);
    if (!is_device(device)) return INVALID_DEVICE;
    return snprintf(name, size_t(size), "0000:%02x:00.0", device + 1), OK;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    ENTER(false);
    return is_device(device) ? *bytes = d().settings.memory, OK : INVALID_DEVICE;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    ENTER(false);
    if (!is_device(device)) return INVALID_DEVICE;
    if (attribute == 75) return *value = d().settings.major, OK;
    if (attribute == 76) return *value = d().settings.minor, OK;
    auto found = attributes().find(attribute);
    return found == attributes().end() ? INVALID_VALUE : (*value = found->second, OK);
}

int cuDeviceComputeCapability(int *major, int *minor, int device) {
    ENTER(false);
    if (!is_device(device)) return INVALID_DEVICE;
    return *major = d().settings.major, *minor = d().settings.minor, OK;
}

// Contexts

int cuCtxCreate_v4(Context **found, void *, unsigned, int device) {
    ENTER(false);
    if (!is_device(device)) return INVALID_DEVICE;
    d().contexts.insert(*found = new Context{device, false, 1});
    stack().push_back(*found);
    return OK;
}

int cuCtxCreate_v2(Context **found, unsigned flags, int device) {
    return cuCtxCreate_v4(found, nullptr, flags, device);
}

int cuCtxDestroy_v2(Context *context) {
    ENTER(false);
    if (!d().is(d().contexts, context) || context->is_primary) return INVALID_CONTEXT;
    return d().destroy(context), OK;
}

int cuDevicePrimaryCtxRetain(Context **found, int device) {
    ENTER(false);
    if (!is_device(device)) return INVALID_DEVICE;
    Context *&own = d().primaries[device];
    if (!own)
        d().contexts.insert(own = new Context{device, true, 0});
    own->references++;
    return *found = own, OK;
}

int cuDevicePrimaryCtxRelease_v2(int device) {
    ENTER(false);
    auto own = d().primaries.find(device);
    if (own == d().primaries.end()) return INVALID_CONTEXT;
    if (--own->second->references == 0) {
        d().destroy(own->second);
        d().primaries.erase(own);
    }
    return OK;
}

int cuCtxDetach(Context *context) {  // pycuda calls it for the primary context as well, at the end
    ENTER(false);
    if (!d().is(d().contexts, context)) return INVALID_CONTEXT;
    if (!context->is_primary) return cuCtxDestroy_v2(context);
    if (d().current() == context) stack().pop_back();
    return cuDevicePrimaryCtxRelease_v2(context->device);
}

int cuCtxPushCurrent_v2(Context *context) {
    std::lock_guard<std::recursive_mutex> guard(d().lock);  // also after a fault
    if (!d().is(d().contexts, context)) return INVALID_CONTEXT;
    return stack().push_back(context), OK;
}

int cuCtxPopCurrent_v2(Context **popped) {
    std::lock_guard<std::recursive_mutex> guard(d().lock);
    if (stack().empty()) return INVALID_CONTEXT;
    if (popped) *popped = stack().back();
    return stack().pop_back(), OK;
}

int cuCtxSetCurrent(Context *context) {
    ENTER(false);
    if (context && !d().is(d().contexts, context)) return INVALID_CONTEXT;
    if (!stack().empty()) stack().pop_back();
    if (context) stack().push_back(context);
    return OK;
}

int cuCtxGetCurrent(Context **found) {
    std::lock_guard<std::recursive_mutex> guard(d().lock);
    return *found = d().current(), OK;
}

int cuCtxGetDevice(int *device) {
    ENTER();
    return *device = d().current()->device, OK;
}

int cuCtxGetApiVersion(Context *, unsigned *version) {
    ENTER();
    return *version = 3020, OK;
}

int cuCtxSynchronize() {
    ENTER();
    return d().drain_all(d().current()), d().sticky;
}

// Memory

int cuMemAlloc_v2(Pointer *found, size_t bytes) {
    ENTER();
    return d().allocate(found, bytes);
}

int cuMemFree_v2(Pointer place) {
    ENTER();
    return place ? d().release(place) : OK;
}

int cuMemGetInfo_v2(size_t *free, size_t *total) {
    ENTER();
    *total = d().settings.memory;
    return *free = *total - d().used(d().current()->device), OK;
}

int cuMemGetAddressRange_v2(Pointer *begin, size_t *size, Pointer place) {
    ENTER();
    Allocation *found = d().holding(place, 1);
    if (!found) return NOT_FOUND;
    if (begin) *begin = found->begin;
    if (size) *size = found->size;
    return OK;
}

int cuPointerGetAttribute(void *value, int attribute, Pointer place) {
    ENTER(false);
    Allocation *found = d().holding(place, 1);
    if (!found) return INVALID_VALUE;
    switch (attribute) {
        case 1: return *static_cast<Context **>(value) = found->owner, OK;
        case 2: return *static_cast<unsigned *>(value) = 2, OK;  // device memory
        case 9: return *static_cast<int *>(value) = found->owner->device, OK;
    }
    return refuse("this attribute of pointers");
}

int cuMemHostAlloc(void **found, size_t bytes, unsigned) {
    ENTER();
    d().pinned.insert(*found = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096));
    return OK;
}

int cuMemAllocHost_v2(void **found, size_t bytes) { return cuMemHostAlloc(found, bytes, 0); }

int cuMemFreeHost(void *place) {
    ENTER();
    if (!d().pinned.erase(place)) return INVALID_VALUE;
    return d().drain_all(d().current()), free(place), d().sticky;
}

int cuMemHostRegister_v2(void *place, size_t, unsigned) {
    ENTER();
    return d().pinned.insert(place).second ? OK : INVALID_VALUE;
}

int cuMemHostUnregister(void *place) {
    ENTER();
    return d().pinned.erase(place) ? OK : INVALID_VALUE;
}

int cuMemcpyHtoD_v2(Pointer to, const void *from, size_t bytes) {
    ENTER();
    return blocking(to_device(to, from, bytes, nullptr));
}

int cuMemcpyDtoH_v2(void *to, Pointer from, size_t bytes) {
    ENTER();
    return blocking(to_host(to, from, bytes, nullptr));
}

int cuMemcpyDtoD_v2(Pointer to, Pointer from, size_t bytes) {
    ENTER();
    return on_device(to, from, bytes, nullptr);
}

int cuMemcpyHtoDAsync_v2(Pointer to, const void *from, size_t bytes, void *stream) {
    ENTER();
    return to_device(to, from, bytes, stream);
}

int cuMemcpyDtoHAsync_v2(void *to, Pointer from, size_t bytes, void *stream) {
    ENTER();
    return to_host(to, from, bytes, stream);
}

int cuMemcpyDtoDAsync_v2(Pointer to, Pointer from, size_t bytes, void *stream) {
    ENTER();
    return on_device(to, from, bytes, stream);
}

#define FILL(BITS, TYPE)                                                       \
    int cuMemsetD##BITS##_v2(Pointer to, TYPE value, size_t count) {           \
        ENTER();                                                               \
        return fill<TYPE>(to, value, count, nullptr);                          \
    }                                                                          \
    int cuMemsetD##BITS##Async(Pointer to, TYPE value, size_t count, void *s) { \
        ENTER();                                                               \
        return fill<TYPE>(to, value, count, s);                                \
    }
FILL(8, unsigned char)
FILL(16, unsigned short)
FILL(32, unsigned)

// Streams and events

int cuStreamCreate(Stream **found, unsigned flags) {
    ENTER();
    d().streams.insert(*found = new Stream{d().current(), !(flags & 1), {}, nullptr});
    return OK;
}

int cuStreamDestroy_v2(Stream *stream) {
    ENTER(false);
    if (!d().is(d().streams, stream)) return INVALID_HANDLE;
    d().drain(stream);
    return d().streams.erase(stream), OK;
}

int cuStreamSynchronize(void *stream) {
    ENTER();
    return drained(stream);
}

int cuStreamQuery(void *stream) {
    ENTER();
    Stream *found = d().stream(stream);
    return !found ? INVALID_HANDLE : found->work.empty() ? OK : NOT_READY;
}

int cuStreamBeginCapture_v2(Stream *stream, int mode) {
    ENTER();
    if (!d().is(d().streams, stream) || stream->captured) return INVALID_HANDLE;
    if (mode < 0 || mode > 2) return INVALID_VALUE;
    d().graphs.insert(stream->captured = new Graph);
    return OK;
}

int cuStreamEndCapture(Stream *stream, Graph **found) {
    ENTER();
    if (!d().is(d().streams, stream) || !stream->captured) return INVALID_HANDLE;
    *found = stream->captured;
    return stream->captured = nullptr, OK;
}

int cuStreamIsCapturing(Stream *stream, int *status) {
    ENTER();
    if (!d().is(d().streams, stream)) return INVALID_HANDLE;
    *status = stream->captured != nullptr;
    return OK;
}

int cuGraphInstantiateWithFlags(Graph **found, Graph *graph, unsigned long long flags) {
    ENTER();
    if (!d().is(d().graphs, graph)) return INVALID_HANDLE;
    if (flags) return refuse("a graph with flags");
    d().graphs.insert(*found = new Graph(*graph));
    return OK;
}

int cuGraphLaunch(Graph *graph, void *stream) {
    ENTER();
    if (!d().is(d().graphs, graph)) return INVALID_HANDLE;
    for (const auto &work : graph->work)
        if (int status = d().enqueue(stream, work)) return status;
    return OK;
}

int cuGraphDestroy(Graph *graph) {
    ENTER(false);
    return d().graphs.erase(graph) ? OK : INVALID_HANDLE;
}

int cuGraphExecDestroy(Graph *graph) { return cuGraphDestroy(graph); }

int cuEventCreate(Event **found, unsigned flags) {
    ENTER();
    d().events.insert(*found = new Event{d().current(), flags, nullptr});
    return OK;
}

int cuEventDestroy_v2(Event *event) {
    ENTER(false);
    return d().events.erase(event) ? OK : INVALID_HANDLE;
}

int cuEventRecord(Event *event, void *stream) {
    ENTER();
    if (!d().is(d().events, event) || event->owner != d().current()) return INVALID_HANDLE;
    Stream *where = d().stream(stream);
    if (!where) return INVALID_HANDLE;
    auto mark = event->latest = std::make_shared<Mark>(Mark{where, false, 0});
    return d().enqueue(stream, [mark] { mark->seconds = now(), mark->is_done = true; });
}

int cuStreamWaitEvent(void *stream, Event *event, unsigned) {
    ENTER();
    if (!d().is(d().events, event)) return INVALID_HANDLE;
    auto mark = event->latest;
    if (!mark) return d().stream(stream) ? OK : INVALID_HANDLE;
    return d().enqueue(stream, [mark] { d().drain(mark->stream, mark.get()); });
}

int cuEventQuery(Event *event) {
    ENTER(false);
    if (!d().is(d().events, event)) return INVALID_HANDLE;
    return !event->latest || event->latest->is_done ? OK : NOT_READY;
}

int cuEventSynchronize(Event *event) {
    ENTER(false);
    if (!d().is(d().events, event)) return INVALID_HANDLE;
    if (event->latest) d().drain(event->latest->stream, event->latest.get());
    return d().sticky;
}

int cuEventElapsedTime_v2(float *milliseconds, Event *begin, Event *end) {
    ENTER(false);
    for (Event *each : {begin, end}) {
        if (!d().is(d().events, each) || (each->flags & 2) || !each->latest) return INVALID_HANDLE;
        if (!each->latest->is_done) return NOT_READY;
    }
    return *milliseconds = float(1e3 * (end->latest->seconds - begin->latest->seconds)), OK;
}

int cuEventElapsedTime(float *milliseconds, Event *begin, Event *end) {
    return cuEventElapsedTime_v2(milliseconds, begin, end);
}

// Modules and launches

int cuModuleLoadData(Module **found, const void *image) {
    ENTER();
    return d().load(found, image);
}

int cuModuleLoadDataEx(Module **found, const void *image, unsigned, int *, void **) {
    return cuModuleLoadData(found, image);
}

int cuModuleUnload(Module *module) {
    ENTER();
    if (!d().is(d().modules, module) || module->owner != d().current()) return INVALID_HANDLE;
    d().drain_all(module->owner);
    for (auto &[_, each] : module->functions) d().functions.erase(each);
    dlclose(module->library);
    return d().modules.erase(module), d().sticky;
}

int cuModuleGetFunction(Function **found, Module *module, const char *name) {
    ENTER();
    if (!d().is(d().modules, module)) return INVALID_HANDLE;
    Function *&known = module->functions[name];
    if (!known) {
        void *code = dlsym(module->library, (std::string(name) + "__launch").c_str());
        if (!code) return module->functions.erase(name), NOT_FOUND;
        known = new Function;
        auto *count = dlsym(module->library, (std::string(name) + "__arguments").c_str());
        known->module = module, known->name = name;
        known->arguments = count ? *static_cast<int *>(count) : -1;
        d().functions.insert(known);
    }
    return *found = known, OK;
}

int cuFuncGetAttribute(int *value, int attribute, Function *function) {
    ENTER();
    if (!d().is(d().functions, function)) return INVALID_HANDLE;
    const int arch = d().settings.major * 10 + d().settings.minor;
    const int known[] = {function->max_threads, function->static_shared, 0, 0, 32, arch, arch, 0,
                         function->dynamic_shared, -1};
    return attribute < 0 || attribute > 9 ? INVALID_VALUE : (*value = known[attribute], OK);
}

int cuFuncSetAttribute(Function *function, int attribute, int value) {
    ENTER();
    if (!d().is(d().functions, function)) return INVALID_HANDLE;
    if (attribute == 9) return OK;
    if (attribute != 8 || value < 0 || value > (227 << 10)) return INVALID_VALUE;
    return function->dynamic_shared = value, OK;
}

int cuFuncSetCacheConfig(Function *, int) {
    ENTER();
    return OK;
}

int cuFuncSetBlockShape(Function *, int, int, int) {  // pycuda calls it, but launches with a shape
    ENTER();
    return OK;
}

int cuLaunchKernel(Function *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                   unsigned by, unsigned bz, unsigned shared, void *stream, void **parameters,
                   void **extra) {
    ENTER();
    if (!d().is(d().functions, function)) return INVALID_HANDLE;
    if (function->module->owner != d().current()) return INVALID_CONTEXT;
    if (function->arguments < 0) return refuse("launch of what is no kernel of ansorc");
    Launch launch{function, {gx, gy, gz}, {bx, by, bz}, shared, {}};
    void *const *words = nullptr;
    size_t bytes = 0;
    for (; extra && extra[0]; extra += 2) {
        if (extra[0] == reinterpret_cast<void *>(1)) words = static_cast<void **>(extra[1]);
        if (extra[0] == reinterpret_cast<void *>(2)) bytes = *static_cast<size_t *>(extra[1]);
    }
    const size_t count = size_t(function->arguments);
    if (parameters)
        for (size_t n = 0; n < count; ++n)
            launch.arguments.push_back(*static_cast<void **>(parameters[n]));
    else if (bytes != count * sizeof(void *))
        return INVALID_VALUE;
    else
        launch.arguments.assign(words, words + count);
    return d().launch(launch, stream);
}

// What is refused

#define REFUSED(NAME) \
    int NAME() { return refuse(#NAME); }
#include "refused.inc"
}
