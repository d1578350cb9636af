// An emulated CUDA driver for tests: what it keeps of devices, contexts, memory and streams.
//
// It is as strict as a real one: memory of a device cannot be touched by the host, that of another
// context or what is freed cannot be touched by a kernel, work of a stream is done when somebody
// waits for it (streams that nothing orders run in an unexpected order), and after an illegal access
// nothing works any more in the process. What it lacks is refused with a line on the error output.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace emulated {

enum Result : int {
    OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100,
    INVALID_DEVICE = 101, INVALID_IMAGE = 200, INVALID_CONTEXT = 201, NO_BINARY_FOR_GPU = 209,
    FILE_NOT_FOUND = 301, INVALID_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600,
    ILLEGAL_ADDRESS = 700, LAUNCH_OUT_OF_RESOURCES = 701, MISALIGNED_ADDRESS = 716,
    LAUNCH_FAILED = 719, NOT_SUPPORTED = 801, UNKNOWN = 999,
};

using Pointer = unsigned long long;

struct Context {
    int device = 0;
    bool is_primary = false;
    int references = 1;
};

// Device memory: pages of its own, closed to the host, the end of the array at the end of a page.
struct Allocation {
    Context *owner = nullptr;
    char *base = nullptr;
    size_t mapped = 0;
    Pointer begin = 0;
    size_t size = 0;
};

struct Stream;

// One recording of an event.
struct Mark {
    Stream *stream = nullptr;
    bool is_done = false;
    double seconds = 0;
};

struct Event {
    Context *owner = nullptr;
    unsigned flags = 0;
    std::shared_ptr<Mark> latest;
};

struct Graph {
    std::vector<std::function<void()>> work;
};

struct Stream {
    Context *owner = nullptr;
    bool is_blocking = true;
    std::deque<std::function<void()>> work;
    Graph *captured = nullptr;  // which gets the work meanwhile
};

struct Module {
    Context *owner = nullptr;
    void *library = nullptr;
    std::map<std::string, struct Function *> functions;
    std::vector<std::string> faults;  // of its first launch
};

struct Function {
    Module *module = nullptr;
    std::string name;
    int arguments = -1;  // pointers all of them
    int static_shared = 0, dynamic_shared = 48 << 10, max_threads = 1024;
};

struct Launch {
    Function *function = nullptr;
    unsigned grid[3] = {}, block[3] = {};
    size_t shared = 0;
    std::vector<void *> arguments;
};

// What a test sets by the environment.
struct Settings {
    int devices, major, minor, version;
    size_t memory;
    std::multimap<long, std::string> module_faults, allocation_faults;
    static Settings of_environment();
};

struct Driver {
    std::recursive_mutex lock;
    Settings settings = Settings::of_environment();
    bool is_initialized = false;
    int sticky = OK;
    std::map<int, Context *> primaries;
    std::set<void *> contexts, streams, events, modules, functions, graphs;
    std::map<Context *, Stream *> legacy;
    std::map<Pointer, Allocation> memory;
    std::set<void *> pinned;

    Context *current() const;
    bool is(const std::set<void *> &known, const void *handle) const {
        return known.count(const_cast<void *>(handle)) != 0;
    }
    Allocation *holding(Pointer begin, size_t bytes);
    size_t used(int device) const;
    int allocate(Pointer *found, size_t bytes);
    int release(Pointer begin);
    void open(Context *context, bool is_open);
    Stream *stream(void *handle);
    int enqueue(void *stream, std::function<void()> work);
    void drain(Stream *stream, const Mark *until = nullptr);
    void drain_all(Context *context, bool blocking_only = false);
    void destroy(Context *context);
    int load(Module **found, const void *image);
    int launch(const Launch &launch, void *stream);
    void execute(const Launch &launch, Context *context);
    void fault(int code, const std::string &words);
};

Driver &driver();
std::vector<Context *> &stack();
double now();
int refuse(const char *what);
void complain(const std::string &words);
// Count a module or an allocation in all processes of the test; return the faults that are due.
std::vector<std::string> due(bool is_module);

}  // namespace emulated
