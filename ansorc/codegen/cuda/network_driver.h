/* What networks need of the driver besides: memory for weights and intermediate tensors. */
#ifndef ANSORC_CUDA_NETWORK
#define ANSORC_CUDA_NETWORK
#include <string.h>

#define ANSORC_CUDA_NO_WEIGHTS 40
#define ANSORC_CUDA_OTHER_WEIGHTS 41
#define ANSORC_CUDA_WEIGHTS_HEAD 64 /* bytes of a file of weights before them */

typedef struct ansorc_cuda_memory {
    void *weights, *workspace;
    int (*release)(unsigned long long place);
    int (*copy)(unsigned long long to, const void *from, size_t bytes);
    int (*synchronize)(void);
} ansorc_cuda_memory;

static inline const char *ansorc_cuda_network_status_text(int32_t status) {
    if (status == ANSORC_CUDA_NO_WEIGHTS) return "the file of the weights cannot be read";
    if (status == ANSORC_CUDA_OTHER_WEIGHTS)
        return "the weights are of another build than the header, or they are cut off";
    return ansorc_cuda_status_text(status);
}

static inline int32_t ansorc_cuda_failed(int error) {
    return error == 2 ? ANSORC_OUT_OF_MEMORY : error ? ANSORC_CUDA_ERROR + error : ANSORC_OK;
}

static inline void ansorc_cuda_release(ansorc_cuda_memory *memory) {
    if (memory->weights) memory->release((unsigned long long)(uintptr_t)memory->weights);
    if (memory->workspace) memory->release((unsigned long long)(uintptr_t)memory->workspace);
    memory->weights = memory->workspace = NULL;
}

/* Takes memory in the current context; 0 bytes are none. */
static inline int32_t ansorc_cuda_take(ansorc_cuda_memory *memory, size_t weights,
                                       size_t workspace) {
    int (*allocate)(unsigned long long *place, size_t bytes);
    unsigned long long place = 0;
    int error = 0;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    memory->weights = memory->workspace = NULL;
    if (!library) return ANSORC_CUDA_NO_DRIVER;
    *(void **)&allocate = dlsym(library, "cuMemAlloc_v2");
    *(void **)&memory->release = dlsym(library, "cuMemFree_v2");
    *(void **)&memory->copy = dlsym(library, "cuMemcpyHtoD_v2");
    *(void **)&memory->synchronize = dlsym(library, "cuCtxSynchronize");
    if (!allocate || !memory->release || !memory->copy || !memory->synchronize)
        return ANSORC_CUDA_OLD_DRIVER;
    if (weights && (error = allocate(&place, weights)) == 0)
        memory->weights = (void *)(uintptr_t)place;
    if (!error && workspace && (error = allocate(&place, workspace)) == 0)
        memory->workspace = (void *)(uintptr_t)place;
    if (error) ansorc_cuda_release(memory);
    return ansorc_cuda_failed(error);
}

/* Copies the weights in `content`, which is that of their file, and waits for it. */
static inline int32_t ansorc_cuda_weights_data(const ansorc_cuda_memory *memory,
                                               const void *content, const unsigned char *head,
                                               size_t head_bytes, size_t bytes) {
    const char *first = (const char *)content + ANSORC_CUDA_WEIGHTS_HEAD;
    int error;
    if (memcmp(content, head, head_bytes) != 0) return ANSORC_CUDA_OTHER_WEIGHTS;
    error = memory->copy((unsigned long long)(uintptr_t)memory->weights, first, bytes);
    return ansorc_cuda_failed(error ? error : memory->synchronize());
}

/* Copies the weights in a file, some MiB at a time, and waits for it. */
static inline int32_t ansorc_cuda_weights_file(const ansorc_cuda_memory *memory, const char *path,
                                               const unsigned char *head, size_t head_bytes,
                                               size_t bytes) {
    const size_t most = (size_t)16 << 20;
    unsigned long long to = (unsigned long long)(uintptr_t)memory->weights;
    int32_t status = ANSORC_OK;
    FILE *file = fopen(path, "rb");
    char *part = (char *)malloc(bytes < most ? bytes + ANSORC_CUDA_WEIGHTS_HEAD : most);
    if (!file || !part) status = file ? ANSORC_OUT_OF_MEMORY : ANSORC_CUDA_NO_WEIGHTS;
    if (!status && (fread(part, 1, ANSORC_CUDA_WEIGHTS_HEAD, file) != ANSORC_CUDA_WEIGHTS_HEAD ||
                    memcmp(part, head, head_bytes) != 0))
        status = ANSORC_CUDA_OTHER_WEIGHTS;
    while (!status && bytes) {
        size_t count = bytes < most ? bytes : most;
        if (fread(part, 1, count, file) != count)
            status = ANSORC_CUDA_OTHER_WEIGHTS;
        else
            status = ansorc_cuda_failed(memory->copy(to, part, count));
        to += count, bytes -= count;
    }
    if (!status) status = ansorc_cuda_failed(memory->synchronize());
    free(part);
    if (file) fclose(file);
    return status;
}
#endif
