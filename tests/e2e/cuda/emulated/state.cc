// Contexts, memory, streams and launches of the emulated driver.

#include "driver.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

namespace emulated {

namespace {

constexpr size_t kPage = 4096, kAlignment = 256;
constexpr size_t kGuard = 64 << 20;  // of addresses before and behind each allocation

long number(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text && *text ? strtol(text, nullptr, 10) : otherwise;
}

size_t rounded(size_t bytes, size_t multiple) { return (bytes + multiple - 1) / multiple * multiple; }

struct Counters {
    std::atomic<long> modules, allocations;
};

Counters &counters() {
    static Counters own;
    static Counters *shared = [] {
        const char *path = getenv("EMULATED_CUDA_COUNTERS");
        if (!path) return &own;
        int file = open(path, O_RDWR | O_CREAT, 0600);
        if (file < 0 || ftruncate(file, sizeof(Counters)) != 0) abort();
        void *place =
            mmap(nullptr, sizeof(Counters), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        close(file);
        if (place == MAP_FAILED) abort();
        return static_cast<Counters *>(place);
    }();
    return *shared;
}

sigjmp_buf escape;
volatile sig_atomic_t fault_code;

void on_signal(int signal, siginfo_t *info, void *) {
    // A vector that is aligned to less than itself is a general protection fault: no address.
    const bool is_misaligned = signal == SIGILL || (signal == SIGSEGV && info->si_code == SI_KERNEL);
    fault_code = is_misaligned                             ? MISALIGNED_ADDRESS
                 : signal == SIGSEGV || signal == SIGBUS ? ILLEGAL_ADDRESS
                                                           : LAUNCH_FAILED;
    siglongjmp(escape, 1);
}

// NAME__launch of an image; returns 0 or why not, which ansorc_emulation_failure has the words for.
using Run = int (*)(void **arguments, const unsigned *grid, const unsigned *block);

}  // namespace

double now() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

void complain(const std::string &words) {
    fprintf(stderr, "emulated CUDA driver: %s\n", words.c_str());
    fflush(stderr);
}

int refuse(const char *what) {
    complain(std::string("there is no ") + what);
    return NOT_SUPPORTED;
}

std::vector<std::string> due(bool is_module) {
    std::atomic<long> &counter = is_module ? counters().modules : counters().allocations;
    const auto &faults = is_module ? driver().settings.module_faults
                                   : driver().settings.allocation_faults;
    std::vector<std::string> found;
    auto [begin, end] = faults.equal_range(counter.fetch_add(1) + 1);
    for (; begin != end; ++begin) found.push_back(begin->second);
    return found;
}

// EMULATED_CUDA_FAULTS=illegal@40,hang@80: at the first launch from the 40th module that is loaded,
// and from the 80th; out-of-memory counts allocations.
Settings Settings::of_environment() {
    Settings found{};
    found.devices = int(number("EMULATED_CUDA_DEVICES", 1));
    const long arch = number("EMULATED_CUDA_ARCH", 90);
    found.major = int(arch / 10), found.minor = int(arch % 10);
    found.version = int(number("EMULATED_CUDA_VERSION", 13000));
    found.memory = size_t(number("EMULATED_CUDA_MEMORY", 1L << 30));
    const char *text = getenv("EMULATED_CUDA_FAULTS");
    std::stringstream parts(text ? text : "");
    for (std::string part; std::getline(parts, part, ',');) {
        const size_t at = part.find('@');
        if (at == std::string::npos) complain("a fault is written KIND@NUMBER, not " + part), abort();
        const std::string kind = part.substr(0, at);
        auto &faults = kind == "out-of-memory" ? found.allocation_faults : found.module_faults;
        faults.emplace(strtol(part.c_str() + at + 1, nullptr, 10), kind);
    }
    return found;
}

Driver &driver() {
    static Driver *it = new Driver;  // outlives the destructors of whoever uses it
    return *it;
}

std::vector<Context *> &stack() {
    static thread_local std::vector<Context *> it;
    return it;
}

Context *Driver::current() const { return stack().empty() ? nullptr : stack().back(); }

Allocation *Driver::holding(Pointer begin, size_t bytes) {
    auto after = memory.upper_bound(begin);
    if (after == memory.begin()) return nullptr;
    Allocation &found = std::prev(after)->second;
    return begin + bytes <= found.begin + found.size ? &found : nullptr;
}

size_t Driver::used(int device) const {
    size_t sum = 0;
    for (auto &[_, each] : memory)
        if (each.owner->device == device) sum += each.size;
    return sum;
}

int Driver::allocate(Pointer *found, size_t bytes) {
    if (bytes == 0) return INVALID_VALUE;
    Context *context = current();
    for (const std::string &fault : due(false)) {
        complain("injected: " + fault);
        return OUT_OF_MEMORY;
    }
    if (used(context->device) + bytes > settings.memory) return OUT_OF_MEMORY;
    Allocation made;
    const size_t inner = rounded(rounded(bytes, kAlignment), kPage);
    made.mapped = inner + 2 * kGuard;
    void *base = mmap(nullptr, made.mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return OUT_OF_MEMORY;
    made.owner = context, made.base = static_cast<char *>(base), made.size = bytes;
    made.begin = reinterpret_cast<Pointer>(made.base) + kGuard + inner - rounded(bytes, kAlignment);
    mprotect(made.base + kGuard, inner, PROT_READ | PROT_WRITE);
    memset(reinterpret_cast<void *>(made.begin), 0xA7, bytes);  // contents of whoever had it before
    mprotect(made.base + kGuard, inner, PROT_NONE);
    memory[made.begin] = made;
    *found = made.begin;
    return OK;
}

int Driver::release(Pointer begin) {
    auto place = memory.find(begin);
    if (place == memory.end()) return INVALID_VALUE;
    drain_all(place->second.owner);  // as a real one waits for the device
    // Its addresses are not given away again, so that whoever still uses them is found out.
    madvise(place->second.base, place->second.mapped, MADV_DONTNEED);
    memory.erase(place);
    return sticky;
}

void Driver::open(Context *context, bool is_open) {
    const int mode = is_open ? PROT_READ | PROT_WRITE : PROT_NONE;
    for (auto &[_, each] : memory)
        if (each.owner == context) mprotect(each.base + kGuard, each.mapped - 2 * kGuard, mode);
}

Stream *Driver::stream(void *handle) {
    if (reinterpret_cast<uintptr_t>(handle) <= 2) {  // the default streams
        Stream *&found = legacy[current()];
        if (!found) found = new Stream{current(), true, {}};
        return found;
    }
    auto *found = static_cast<Stream *>(handle);
    return is(streams, handle) && found->owner == current() ? found : nullptr;
}

int Driver::enqueue(void *handle, std::function<void()> work) {
    Stream *where = stream(handle);
    if (!where) return INVALID_HANDLE;
    if (where->captured) return where->captured->work.push_back(std::move(work)), OK;
    Stream *first = stream(nullptr);
    if (where == first)
        drain_all(current(), true);
    else if (where->is_blocking)
        drain(first);
    if (!sticky) where->work.push_back(std::move(work));
    return sticky;
}

void Driver::drain(Stream *which, const Mark *until) {
    while (!which->work.empty() && !(until && until->is_done)) {
        auto next = std::move(which->work.front());
        which->work.pop_front();
        if (!sticky) next();
    }
}

void Driver::drain_all(Context *context, bool blocking_only) {
    std::vector<Stream *> all;
    for (void *each : streams) all.push_back(static_cast<Stream *>(each));
    if (!blocking_only && legacy.count(context)) all.push_back(legacy[context]);
    std::reverse(all.begin(), all.end());
    for (Stream *each : all)
        if (each->owner == context && (each->is_blocking || !blocking_only)) drain(each);
}

void Driver::destroy(Context *context) {
    drain_all(context);
    for (auto place = memory.begin(); place != memory.end();) {
        auto next = std::next(place);
        if (place->second.owner == context) release(place->first);
        place = next;
    }
    for (auto *known : {&streams, &events, &modules, &functions})
        for (auto place = known->begin(); place != known->end();) {
            Context *owner = known == &streams  ? static_cast<Stream *>(*place)->owner
                             : known == &events ? static_cast<Event *>(*place)->owner
                             : known == &modules
                                 ? static_cast<Module *>(*place)->owner
                                 : static_cast<Function *>(*place)->module->owner;
            place = owner == context ? known->erase(place) : std::next(place);
        }
    contexts.erase(context);
    auto &own = stack();
    own.erase(std::remove(own.begin(), own.end(), context), own.end());
}

void Driver::fault(int code, const std::string &words) {
    complain(words);
    sticky = code;
}

// An image is a shared library for this machine: what g++ made of the CUDA text.
int Driver::load(Module **found, const void *image) {
    const auto *head = static_cast<const Elf64_Ehdr *>(image);
    if (memcmp(image, ELFMAG, SELFMAG) != 0 || head->e_machine != EM_X86_64) {
        complain("this image is for a real GPU; it runs what g++ made of the same text");
        return NO_BINARY_FOR_GPU;
    }
    const size_t size = head->e_shoff + size_t(head->e_shnum) * head->e_shentsize;
    // Under a name of its own: of one that is open dlopen returns what was loaded from it before.
    const char *folder = getenv("TMPDIR");
    std::string path = std::string(folder ? folder : "/tmp") + "/emulated-cuda-XXXXXX";
    const int file = mkstemp(path.data());
    if (file < 0) return OUT_OF_MEMORY;
    const bool is_written = write(file, image, size) == ssize_t(size);
    close(file);
    void *library = is_written ? dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
    unlink(path.c_str());
    if (!is_written) return OUT_OF_MEMORY;
    if (!library) {
        complain(std::string("the image cannot be loaded: ") + dlerror());
        return INVALID_IMAGE;
    }
    modules.insert(*found = new Module{current(), library, {}, due(true)});
    return OK;
}

int Driver::launch(const Launch &launch, void *stream) {
    const unsigned *grid = launch.grid, *block = launch.block;
    const Function &function = *launch.function;
    const unsigned long threads = 1ul * block[0] * block[1] * block[2];
    if (!threads || !grid[0] || !grid[1] || !grid[2]) return INVALID_VALUE;
    if (threads > 1024 || block[0] > 1024 || block[1] > 1024 || block[2] > 64) return INVALID_VALUE;
    if (grid[0] > 0x7fffffff || grid[1] > 65535 || grid[2] > 65535) return INVALID_VALUE;
    if (launch.shared > size_t(function.dynamic_shared)) return INVALID_VALUE;
    if (launch.shared + size_t(function.static_shared) > (227u << 10)) return INVALID_VALUE;
    if (threads > unsigned(function.max_threads)) return LAUNCH_OUT_OF_RESOURCES;
    Context *context = current();
    return enqueue(stream, [this, launch, context] { execute(launch, context); });
}

void Driver::execute(const Launch &launch, Context *context) {
    std::vector<std::string> faults;
    faults.swap(launch.function->module->faults);
    for (const std::string &kind : faults) {
        complain("injected: " + kind);
        if (kind == "hang") for (;;) sleep(1000);
        sticky = kind == "illegal"      ? ILLEGAL_ADDRESS
                 : kind == "misaligned" ? MISALIGNED_ADDRESS
                 : kind == "lost"       ? UNKNOWN
                                        : LAUNCH_FAILED;
        return;
    }
    for (void *each : launch.arguments) {
        Allocation *found = holding(reinterpret_cast<Pointer>(each), 1);
        if (each && (!found || found->owner != context))
            return fault(ILLEGAL_ADDRESS, launch.function->name + ": an argument is no memory of "
                                          "this context");
    }
    void *library = launch.function->module->library;
    auto run = reinterpret_cast<Run>(dlsym(library, (launch.function->name + "__launch").c_str()));
    if (!run) return fault(LAUNCH_FAILED, "the image says not how to launch it");
    volatile int status = 0;
    std::vector<void *> arguments = launch.arguments;
    struct sigaction ours = {}, old[5];
    const int signals[5] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
    ours.sa_sigaction = on_signal;
    ours.sa_flags = SA_SIGINFO | SA_NODEFER;
    for (int n = 0; n < 5; ++n) sigaction(signals[n], &ours, &old[n]);
    open(context, true);
    if (sigsetjmp(escape, 1) == 0) {
        fault_code = 0;
        status = run(arguments.data(), launch.grid, launch.block);
    }
    open(context, false);
    for (int n = 0; n < 5; ++n) sigaction(signals[n], &old[n], nullptr);
    if (fault_code)
        return fault(fault_code, launch.function->name + " failed with " + std::to_string(fault_code));
    if (status) {
        auto words = reinterpret_cast<const char *(*)()>(dlsym(library, "ansorc_emulation_failure"));
        fault(LAUNCH_FAILED, launch.function->name + ": " + (words ? words() : "?"));
    }
}

}  // namespace emulated
