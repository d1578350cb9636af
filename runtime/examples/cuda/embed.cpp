// A C++ program with a kernel for a GPU in it. It is linked with nothing of CUDA: the driver is
// opened when it runs, by the kernel's header and here. A program that has the CUDA toolkit calls
// cuMemAlloc and the like by <cuda.h>, or cudaMalloc; the kernel takes memory and streams of both.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include <dlfcn.h>

#include "matmul_relu.h"

namespace {

using Pointer = unsigned long long;

constexpr std::int64_t n = MATMUL_RELU_A_DIM0, k = MATMUL_RELU_A_DIM1, m = MATMUL_RELU_B_DIM1;

template <class... Arguments>
void call(const char* name, Arguments... arguments) {
  static void* library = dlopen("libcuda.so.1", RTLD_NOW);
  auto function = library ? reinterpret_cast<int (*)(Arguments...)>(dlsym(library, name)) : nullptr;
  const int status = function ? function(arguments...) : -1;
  if (status != 0) {
    std::fprintf(stderr, "%s: %s\n", name,
                 function ? matmul_relu_status_text(ANSORC_CUDA_ERROR + status)
                          : matmul_relu_status_text(ANSORC_CUDA_NO_DRIVER));
    std::exit(1);
  }
}

void require(std::int32_t status) {
  if (status == ANSORC_OK) return;
  std::fprintf(stderr, "matmul_relu: %s\n", matmul_relu_status_text(status));
  std::exit(1);
}

// Memory of the GPU with the numbers in it.
Pointer on_device(const std::vector<float>& numbers) {
  Pointer place = 0;
  const std::size_t bytes = numbers.size() * sizeof(float);
  call("cuMemAlloc_v2", &place, bytes);
  call("cuMemcpyHtoD_v2", place, static_cast<const void*>(numbers.data()), bytes);
  return place;
}

float* address(Pointer place) { return reinterpret_cast<float*>(place); }

std::vector<float> random_floats(std::int64_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = uniform(engine);
  return values;
}

}  // namespace

int main(int count, char** words) {
  const char* image = count > 1 ? words[1] : MATMUL_RELU_IMAGE;
  matmul_relu_module kernel = {};
  if (count > 2) {  // what is said without a context
    require(matmul_relu_open(&kernel, image));
  }
  int device = 0;
  void *context = nullptr, *stream = nullptr;
  call("cuInit", 0U);
  call("cuDeviceGet", &device, 0);
  call("cuDevicePrimaryCtxRetain", &context, device);
  call("cuCtxSetCurrent", context);
  call("cuStreamCreate", &stream, 1U);
  require(matmul_relu_open(&kernel, image));

  const std::vector<float> a = random_floats(n * k, 1), b = random_floats(k * m, 2);
  std::vector<float> d(static_cast<std::size_t>(n * m), NAN);
  const Pointer a_place = on_device(a), b_place = on_device(b), d_place = on_device(d);
  Pointer workspace = 0;
  const std::size_t workspace_bytes = MATMUL_RELU_WORKSPACE_BYTES;
  if (workspace_bytes) call("cuMemAlloc_v2", &workspace, workspace_bytes);

  require(matmul_relu(&kernel, address(a_place), address(b_place), address(d_place),
                      address(workspace), stream));
  call("cuStreamSynchronize", stream);
  call("cuMemcpyDtoH_v2", static_cast<void*>(d.data()), d_place, d.size() * sizeof(float));

  double worst = 0.0;
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < m; ++j) {
      double sum = 0.0;
      for (std::int64_t r = 0; r < k; ++r) sum += static_cast<double>(a[i * k + r]) * b[r * m + j];
      const double error = std::fabs(d[i * m + j] - std::fmax(sum, 0.0));
      if (!(error <= worst)) worst = error;  // keeps NaN
    }
  }
  matmul_relu_close(&kernel);
  std::printf("matmul_relu %s: largest error %.3g, %s\n", MATMUL_RELU_VERSION, worst,
              worst < 1e-3 ? "right" : "WRONG");
  return worst < 1e-3 ? 0 : 1;
}
