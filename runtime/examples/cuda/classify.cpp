// A C++ program with a network for a GPU in it: reads digits.bin and says which digits it sees.
// It is linked with nothing of CUDA, as embed.cpp. All kernels of a call run in one stream, between
// which nothing waits and nothing is allocated, so that the loop could be captured into a graph.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <vector>

#include <dlfcn.h>

#include "digits.h"

namespace {

using Pointer = unsigned long long;

constexpr std::size_t kPixels = DIGITS_IMAGE_ELEMENTS, kClasses = DIGITS_PROBABILITIES_DIM1;
constexpr double kEnough = 0.9;

struct Example {
  std::array<float, kPixels> image;
  float digit;
};

void require(std::int32_t status) {
  if (status == ANSORC_OK) return;
  std::fprintf(stderr, "digits: %s\n", digits_status_text(status));
  std::exit(1);
}

template <class... Arguments>
void call(const char* name, Arguments... arguments) {
  static void* library = dlopen("libcuda.so.1", RTLD_NOW);
  auto function = library ? reinterpret_cast<int (*)(Arguments...)>(dlsym(library, name)) : nullptr;
  if (!function) require(ANSORC_CUDA_NO_DRIVER);
  const int status = function(arguments...);
  if (status != 0) require(ANSORC_CUDA_ERROR + status);
}

Pointer taken(std::size_t bytes) {
  Pointer place = 0;
  call("cuMemAlloc_v2", &place, bytes);
  return place;
}

float* address(Pointer place) { return reinterpret_cast<float*>(place); }

std::vector<Example> read_examples(const char* path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<Example> examples;
  Example one;
  while (file.read(reinterpret_cast<char*>(&one), sizeof one)) examples.push_back(one);
  if (examples.empty()) {
    std::fprintf(stderr, "there are no images in %s\n", path);
    std::exit(1);
  }
  return examples;
}

}  // namespace

int main(int count, char** words) {
  const char* image = count > 1 ? words[1] : DIGITS_IMAGE;
  const char* weights = count > 2 ? words[2] : "digits.weights";
  const auto examples = read_examples(count > 3 ? words[3] : "digits.bin");
  int device = 0;
  void *context = nullptr, *stream = nullptr;
  call("cuInit", 0U);
  call("cuDeviceGet", &device, 0);
  call("cuDevicePrimaryCtxRetain", &context, device);
  call("cuCtxSetCurrent", context);
  call("cuStreamCreate", &stream, 1U);
  digits_module network = {};
  require(digits_open(&network, image, weights));

  std::vector<std::array<float, kClasses>> found(examples.size());
  const Pointer input = taken(kPixels * sizeof(float)), output = taken(kClasses * sizeof(float));
  const Pointer workspace = taken(DIGITS_WORKSPACE_BYTES);
  for (std::size_t n = 0; n < examples.size(); ++n) {
    const void* pixels = examples[n].image.data();
    call("cuMemcpyHtoDAsync_v2", input, pixels, kPixels * sizeof(float), stream);
    void* own = n % 2 ? address(workspace) : nullptr;  // NULL: that of the module
    require(digits(&network, address(input), address(output), own, stream));
    void* to = found[n].data();
    call("cuMemcpyDtoHAsync_v2", to, output, kClasses * sizeof(float), stream);
  }
  call("cuStreamSynchronize", stream);
  std::size_t right = 0;
  for (std::size_t n = 0; n < examples.size(); ++n) {
    const auto top = std::max_element(found[n].begin(), found[n].end()) - found[n].begin();
    right += static_cast<float>(top) == examples[n].digit ? 1 : 0;
  }
  for (const Pointer place : {input, output, workspace}) call("cuMemFree_v2", place);
  digits_close(&network);
  std::printf("digits %s: %zu of %zu right, %d launches\n", DIGITS_VERSION, right, examples.size(),
              DIGITS_LAUNCHES);
  return static_cast<double>(right) >= kEnough * static_cast<double>(examples.size()) ? 0 : 1;
}
