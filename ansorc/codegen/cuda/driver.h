#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef ANSORC_OK
#define ANSORC_OK 0
#define ANSORC_OUT_OF_MEMORY 1
#define ANSORC_LACKS_FEATURES 2
#endif

/* The driver, for all kernels: opened when it is first needed, nothing is linked with it. */
#ifndef ANSORC_CUDA
#define ANSORC_CUDA
#define ANSORC_CUDA_NO_DRIVER 20
#define ANSORC_CUDA_OLD_DRIVER 21
#define ANSORC_CUDA_NO_CONTEXT 22
#define ANSORC_CUDA_NO_FILE 23
#define ANSORC_CUDA_WRONG_IMAGE 24
#define ANSORC_CUDA_NOT_OPEN 25
#define ANSORC_CUDA_MISALIGNED 26
#define ANSORC_CUDA_NO_WORKSPACE 27
#define ANSORC_CUDA_ERROR 1000 /* and above: this plus what the driver returned */

typedef struct ansorc_cuda_module {
    void *module;
    int (*get_context)(void **context);
    int (*load)(void **module, const void *image);
    int (*unload)(void *module);
    int (*get_function)(void **function, void *module, const char *name);
    int (*set_attribute)(void *function, int attribute, int value);
    int (*launch)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                  unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                  void *stream, void **parameters, void **extra);
} ansorc_cuda_module;

static inline const char *ansorc_cuda_status_text(int32_t status) {
    static const char *const words[] = {
        "there is no CUDA driver on this machine (libcuda.so.1)",
        "the CUDA driver is too old: it lacks functions of CUDA 11",
        "the calling thread has no current CUDA context; make one with cuCtxSetCurrent or, in the "
        "runtime, cudaSetDevice",
        "the file of the image cannot be read",
        "the image is not for this GPU or not for this driver, or it is of another build than the "
        "header",
        "the module is not open",
        "an array does not begin at a multiple of 16 bytes, or the workspace at one of 256",
        "the workspace is NULL, but it is needed",
    };
    int (*get_string)(int error, const char **text) = NULL;
    const char *text = NULL;
    void *library;
    if (status == ANSORC_OK) return "no error";
    if (status == ANSORC_OUT_OF_MEMORY) return "there is no memory left";
    if (status > ANSORC_OUT_OF_MEMORY && status < ANSORC_CUDA_NO_DRIVER)
        return ansorc_status_text(status);
    if (status >= ANSORC_CUDA_NO_DRIVER && status <= ANSORC_CUDA_NO_WORKSPACE)
        return words[status - ANSORC_CUDA_NO_DRIVER];
    if (status < ANSORC_CUDA_ERROR) return "an unknown status";
    library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library) *(void **)&get_string = dlsym(library, "cuGetErrorString");
    if (get_string && get_string(status - ANSORC_CUDA_ERROR, &text) == 0 && text) return text;
    return "an error of the CUDA driver";
}

static inline int32_t ansorc_cuda_read(const char *path, char **image) {
    long size;
    FILE *file = fopen(path, "rb");
    if (!file) return ANSORC_CUDA_NO_FILE;
    if (fseek(file, 0, SEEK_END) != 0 || (size = ftell(file)) < 0) {
        fclose(file);
        return ANSORC_CUDA_NO_FILE;
    }
    rewind(file);
    *image = (char *)malloc((size_t)size + 1);
    if (*image && fread(*image, 1, (size_t)size, file) == (size_t)size) {
        (*image)[size] = 0; /* as the text of a .ptx ends */
        fclose(file);
        return ANSORC_OK;
    }
    fclose(file);
    return *image ? ANSORC_CUDA_NO_FILE : ANSORC_OUT_OF_MEMORY;
}

static inline int32_t ansorc_cuda_load(ansorc_cuda_module *loaded, const void *image, int count,
                                       const char *const *names, const int *shared_bytes,
                                       void **kernels) {
    void *context = NULL;
    int number, error;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    loaded->module = NULL;
    if (!library) return ANSORC_CUDA_NO_DRIVER;
    *(void **)&loaded->get_context = dlsym(library, "cuCtxGetCurrent");
    *(void **)&loaded->load = dlsym(library, "cuModuleLoadData");
    *(void **)&loaded->unload = dlsym(library, "cuModuleUnload");
    *(void **)&loaded->get_function = dlsym(library, "cuModuleGetFunction");
    *(void **)&loaded->set_attribute = dlsym(library, "cuFuncSetAttribute");
    *(void **)&loaded->launch = dlsym(library, "cuLaunchKernel");
    if (!loaded->get_context || !loaded->load || !loaded->unload || !loaded->get_function ||
        !loaded->set_attribute || !loaded->launch)
        return ANSORC_CUDA_OLD_DRIVER;
    if (loaded->get_context(&context) != 0 || !context) return ANSORC_CUDA_NO_CONTEXT;
    error = loaded->load(&loaded->module, image);
    if (error) {
        loaded->module = NULL;
        if (error == 2) return ANSORC_OUT_OF_MEMORY;
        /* invalid image, no binary for this GPU, PTX that is wrong or too new */
        if (error == 200 || error == 209 || error == 218 || error == 222)
            return ANSORC_CUDA_WRONG_IMAGE;
        return ANSORC_CUDA_ERROR + error;
    }
    for (number = 0; number < count && !error; ++number) {
        error = loaded->get_function(&kernels[number], loaded->module, names[number]);
        if (!error && shared_bytes[number])
            error = loaded->set_attribute(kernels[number], 8, shared_bytes[number]);
    }
    if (!error) return ANSORC_OK;
    loaded->unload(loaded->module);
    loaded->module = NULL;
    return error == 500 ? ANSORC_CUDA_WRONG_IMAGE : ANSORC_CUDA_ERROR + error;
}

static inline void ansorc_cuda_unload(ansorc_cuda_module *loaded) {
    if (loaded->module) loaded->unload(loaded->module);
    loaded->module = NULL;
}

static inline int32_t ansorc_cuda_check(const ansorc_cuda_module *loaded, const void *const *arrays,
                                        int count, int needs_workspace) {
    int number;
    if (!loaded->module) return ANSORC_CUDA_NOT_OPEN;
    for (number = 0; number < count; ++number)
        if ((uintptr_t)arrays[number] % 16) return ANSORC_CUDA_MISALIGNED;
    if (needs_workspace && !arrays[count]) return ANSORC_CUDA_NO_WORKSPACE;
    if (needs_workspace && (uintptr_t)arrays[count] % 256) return ANSORC_CUDA_MISALIGNED;
    return ANSORC_OK;
}

/* Waits for `stream`, then returns the status of the check that failed, by what `record` in the
   memory of the GPU says: 0, or which it was, counted from 1. */
static inline int32_t ansorc_cuda_faults(const ansorc_cuda_module *loaded, const void *record,
                                         void *stream, const int *statuses, int count) {
    int (*wait)(void *stream) = NULL;
    int (*copy)(void *to, unsigned long long from, size_t bytes) = NULL;
    int64_t number = 0;
    int error;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!loaded->module) return ANSORC_CUDA_NOT_OPEN;
    if (!library) return ANSORC_CUDA_NO_DRIVER;
    *(void **)&wait = dlsym(library, "cuStreamSynchronize");
    *(void **)&copy = dlsym(library, "cuMemcpyDtoH_v2");
    if (!wait || !copy) return ANSORC_CUDA_OLD_DRIVER;
    error = wait(stream);
    if (!error) error = copy(&number, (unsigned long long)(uintptr_t)record, sizeof number);
    if (error) return ANSORC_CUDA_ERROR + error;
    return number >= 1 && number <= count ? statuses[number - 1] : ANSORC_OK;
}

/* The launches of a program: each has a kernel, the grid, the block and the bytes of shared memory,
   and so many of the places that follow those of the launch before. */
typedef struct ansorc_cuda_step {
    int kernel;
    unsigned shape[7];
    int arguments;
} ansorc_cuda_step;

typedef struct ansorc_cuda_place {
    int array;
    size_t offset; /* in bytes */
} ansorc_cuda_place;

static inline int32_t ansorc_cuda_run(const ansorc_cuda_module *loaded, void *const *kernels,
                                      const ansorc_cuda_step *steps, int count,
                                      const ansorc_cuda_place *places, const void *const *arrays,
                                      void *stream) {
    const void *addresses[512]; /* 4 KiB, the most that a kernel takes */
    int number, n;
    for (number = 0; number < count; ++number) {
        const ansorc_cuda_step *step = &steps[number];
        const unsigned *shape = step->shape;
        size_t bytes = (size_t)step->arguments * sizeof *addresses;
        void *extra[] = {(void *)1, (void *)addresses, (void *)2, &bytes, NULL};
        int error; /* extra is CU_LAUNCH_PARAM_… */
        for (n = 0; n < step->arguments; ++n, ++places)
            addresses[n] = (const char *)arrays[places->array] + places->offset;
        error = loaded->launch(kernels[step->kernel], shape[0], shape[1], shape[2], shape[3],
                               shape[4], shape[5], shape[6], stream, NULL, extra);
        if (error) return error == 2 ? ANSORC_OUT_OF_MEMORY : ANSORC_CUDA_ERROR + error;
    }
    return ANSORC_OK;
}
#endif
