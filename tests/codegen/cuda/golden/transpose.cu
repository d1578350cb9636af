extern "C" __global__ void __launch_bounds__(8) transpose_0(const float *__restrict__ A, float *__restrict__ T) {
  __shared__ __align__(16) float A_shared[72];
  const int j_0 = blockIdx.x;
  const int i_0 = blockIdx.y;
  const int ax1 = threadIdx.x;
  for (int ax0 = 0; ax0 < 8; ++ax0) {
    A_shared[ax0 * 9 + ax1] = A[j_0 * 128 + ax0 * 16 + i_0 * 8 + ax1];
  }
  __syncthreads();
  for (int i_1 = 0; i_1 < 8; ++i_1) {
    T[i_0 * 192 + i_1 * 24 + j_0 * 8 + ax1] = A_shared[ax1 * 9 + i_1];
  }
}
