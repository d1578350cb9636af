// A C++ program with two tuned kernels in it: calls them as a service would, and checks the results.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <future>
#include <random>
#include <vector>

#include "ansorc/kernel.hpp"
#include "ansorc/runtime.h"
#include "conv2d_bn_relu.h"
#include "matmul_relu.h"

namespace {

using Floats = std::vector<float>;
using Weight = ansorc::PackedWeight<float>;
using Kernel = std::function<void(float* output, void* workspace, std::int32_t threads)>;

constexpr double kTolerance = 1e-3;

Floats random_floats(std::int64_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  Floats values(static_cast<std::size_t>(count));
  for (float& value : values) value = uniform(engine);
  return values;
}

double max_error(const Floats& found, const std::vector<double>& wanted) {
  double worst = 0.0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double error = std::fabs(found[i] - wanted[i]);
    if (!(error <= worst)) worst = error;  // keeps NaN
  }
  return worst;
}

// D = max(A · B, 0)
std::vector<double> reference_matmul(const Floats& a, const Floats& b) {
  constexpr std::int64_t n = MATMUL_RELU_A_DIM0, k = MATMUL_RELU_A_DIM1, m = MATMUL_RELU_B_DIM1;
  std::vector<double> d(n * m, 0.0);
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t r = 0; r < k; ++r) {
      for (std::int64_t j = 0; j < m; ++j) {
        d[i * m + j] += static_cast<double>(a[i * k + r]) * b[r * m + j];
      }
    }
  }
  for (double& value : d) value = std::max(value, 0.0);
  return d;
}

// Y = max(conv(X, W) * scale + shift, 0), one image, padding 1
std::vector<double> reference_conv2d(const Floats& x, const Floats& w, const Floats& scale,
                                     const Floats& shift) {
  constexpr std::int64_t height = CONV2D_BN_RELU_X_DIM1, width = CONV2D_BN_RELU_X_DIM2,
                         channels = CONV2D_BN_RELU_X_DIM3, filters = CONV2D_BN_RELU_W_DIM3,
                         kernel = CONV2D_BN_RELU_W_DIM0, rows = CONV2D_BN_RELU_Y_DIM1,
                         columns = CONV2D_BN_RELU_Y_DIM2, padding = 1,
                         stride = rows > 1 ? (height + 2 * padding - kernel) / (rows - 1) : 1;
  std::vector<double> y(rows * columns * filters);
  std::vector<double> sums(filters);
  for (std::int64_t place = 0; place < rows * columns; ++place) {
    std::fill(sums.begin(), sums.end(), 0.0);
    for (std::int64_t tap = 0; tap < kernel * kernel; ++tap) {
      const std::int64_t row = place / columns * stride + tap / kernel - padding;
      const std::int64_t column = place % columns * stride + tap % kernel - padding;
      if (row < 0 || row >= height || column < 0 || column >= width) continue;
      for (std::int64_t c = 0; c < channels; ++c) {
        const double value = x[(row * width + column) * channels + c];
        const float* weights = &w[(tap * channels + c) * filters];
        for (std::int64_t f = 0; f < filters; ++f) sums[f] += value * weights[f];
      }
    }
    for (std::int64_t f = 0; f < filters; ++f) {
      y[place * filters + f] = std::max(sums[f] * scale[f] + shift[f], 0.0);
    }
  }
  return y;
}

// Call `kernel` in all ways that the header allows; return whether each result was right.
bool check(const char* name, const Kernel& kernel, std::size_t workspace_bytes,
           const std::vector<double>& wanted) {
  const auto call = [&](bool brings_workspace, std::int32_t threads) {
    ansorc::Workspace workspace(brings_workspace ? workspace_bytes : 0);
    Floats output(wanted.size(), -1.0F);
    kernel(output.data(), workspace.get(), threads);
    return max_error(output, wanted);
  };
  double worst = std::max({call(false, 0), call(true, 0), call(true, 1)});
  auto other = std::async(std::launch::async, call, true, 0);  // two threads at once
  worst = std::max(worst, call(true, 0));
  worst = std::max(worst, other.get());
  const bool good = worst <= kTolerance;
  std::printf("%s: max error %.2e %s\n", name, worst, good ? "OK" : "WRONG");
  return good;
}

bool check_matmul() {
  const Floats a = random_floats(MATMUL_RELU_A_ELEMENTS, 1);
  const Floats b = random_floats(MATMUL_RELU_B_ELEMENTS, 2);
  const Weight packed_b(matmul_relu_pack_B, b.data(), MATMUL_RELU_B_PACKED_ELEMENTS);
  const Kernel kernel = [&](float* d, void* workspace, std::int32_t threads) {
    ansorc::require(matmul_relu(a.data(), packed_b.get(), d, workspace, threads), "matmul_relu");
  };
  return check("matmul_relu", kernel, matmul_relu_workspace_bytes(), reference_matmul(a, b));
}

bool check_conv2d() {
  const Floats x = random_floats(CONV2D_BN_RELU_X_ELEMENTS, 3);
  const Floats w = random_floats(CONV2D_BN_RELU_W_ELEMENTS, 4);
  const Floats scale = random_floats(CONV2D_BN_RELU_SCALE_ELEMENTS, 5);
  const Floats shift = random_floats(CONV2D_BN_RELU_SHIFT_ELEMENTS, 6);
  const Weight packed_w(conv2d_bn_relu_pack_W, w.data(), CONV2D_BN_RELU_W_PACKED_ELEMENTS);
  const Weight packed_scale(conv2d_bn_relu_pack_scale, scale.data(),
                            CONV2D_BN_RELU_SCALE_PACKED_ELEMENTS);
  const Weight packed_shift(conv2d_bn_relu_pack_shift, shift.data(),
                            CONV2D_BN_RELU_SHIFT_PACKED_ELEMENTS);
  const Kernel kernel = [&](float* y, void* workspace, std::int32_t threads) {
    ansorc::require(conv2d_bn_relu(x.data(), packed_w.get(), packed_scale.get(), packed_shift.get(),
                                   y, workspace, threads),
                    "conv2d_bn_relu");
  };
  return check("conv2d_bn_relu", kernel, conv2d_bn_relu_workspace_bytes(),
               reference_conv2d(x, w, scale, shift));
}

}  // namespace

int main() {
  try {
    const bool matmul = check_matmul(), conv2d = check_conv2d();
    return matmul && conv2d ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
