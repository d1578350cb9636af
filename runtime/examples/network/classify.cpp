// A C++ program with a network in it: reads digits.bin, says which digits it sees, and what that costs.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "ansorc/kernel.hpp"
#include "digits.h"

namespace {

constexpr std::size_t kPixels = DIGITS_IMAGE_ELEMENTS, kClasses = DIGITS_PROBABILITIES_DIM1;
constexpr double kEnough = 0.9;

struct Example {
  std::array<float, kPixels> image;
  float digit;
};

std::vector<Example> read_examples(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<Example> examples;
  Example one;
  while (file.read(reinterpret_cast<char*>(&one), sizeof one)) examples.push_back(one);
  if (examples.empty()) throw std::runtime_error("there are no images in " + path);
  return examples;
}

// The digits of `examples` that the network takes for what they are.
std::size_t count_right(const std::vector<Example>& examples, void* workspace) {
  std::size_t right = 0;
  for (const Example& one : examples) {
    std::array<float, kClasses> probabilities;
    ansorc::require(digits(one.image.data(), probabilities.data(), workspace, 0), "digits");
    const auto top = std::max_element(probabilities.begin(), probabilities.end());
    const auto seen = top - probabilities.begin();
    right += static_cast<float>(seen) == one.digit ? 1 : 0;
    if (&one - examples.data() < 3) {
      std::printf("this is a %d (%.0f %%); it is a %d\n", static_cast<int>(seen), 100.0 * *top,
                  static_cast<int>(one.digit));
    }
  }
  return right;
}

// Print the slowest kernels of a call, each the median of several runs.
void print_slowest(const Example& example, void* workspace) {
  constexpr std::size_t runs = 21;
  std::array<float, kClasses> probabilities;
  std::array<std::array<double, runs>, DIGITS_CALLS> seconds;
  for (std::size_t run = 0; run < runs; ++run) {
    std::array<double, DIGITS_CALLS> once;
    ansorc::require(
        digits_profile(example.image.data(), probabilities.data(), workspace, 0, once.data()), "digits");
    for (std::size_t call = 0; call < once.size(); ++call) seconds[call][run] = once[call];
  }
  for (auto& times : seconds) std::nth_element(times.begin(), times.begin() + runs / 2, times.end());
  std::array<std::int32_t, DIGITS_CALLS> order;
  std::iota(order.begin(), order.end(), 0);
  const auto median = [&](std::int32_t call) { return seconds[static_cast<std::size_t>(call)][runs / 2]; };
  std::sort(order.begin(), order.end(),
            [&](std::int32_t one, std::int32_t other) { return median(one) > median(other); });
  for (std::size_t place = 0; place < std::min<std::size_t>(3, order.size()); ++place) {
    std::printf("%8.1f us  %s\n", 1e6 * median(order[place]), digits_call_name(order[place]));
  }
}

}  // namespace

int main(int count, char** arguments) {
  try {
    const auto examples = read_examples(count > 1 ? arguments[1] : "digits.bin");
    const ansorc::Workspace workspace(digits_workspace_bytes());
    const std::size_t right = count_right(examples, workspace.get());
    std::printf("digits: %zu of %zu right\n", right, examples.size());
    print_slowest(examples.front(), workspace.get());
    return static_cast<double>(right) >= kEnough * static_cast<double>(examples.size()) ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
