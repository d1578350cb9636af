extern "C" __global__ void __launch_bounds__(4) matmul_0(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C) {
  __shared__ __align__(16) float A_shared[64];
  __shared__ __align__(16) float B_shared[128];
  const int i_0_j_0 = blockIdx.x;
  const int i_2_j_2 = threadIdx.x;
  float C_local_reg[4][2][4];
  #pragma unroll
  for (int i_1_j_1 = 0; i_1_j_1 < 4; ++i_1_j_1) {
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
      #pragma unroll
      for (int lane = 0; lane < 4; ++lane) {
        C_local_reg[i_1_j_1][i][lane] = 0.0f;
      }
    }
  }
  #pragma unroll 1
  for (int k_0 = 0; k_0 < 2; ++k_0) {
    __syncthreads();
    for (int ax0_ax1_0 = 0; ax0_ax1_0 < 4; ++ax0_ax1_0) {
      store<4>(&A_shared[ax0_ax1_0 * 16 + i_2_j_2 * 4], load<4>(&A[i_0_j_0 / 2 * 128 + ax0_ax1_0 * 32 + i_2_j_2 / 2 * 16 + k_0 * 8 + i_2_j_2 % 2 * 4]));
    }
    for (int ax0_ax1_0_1 = 0; ax0_ax1_0_1 < 8; ++ax0_ax1_0_1) {
      store<4>(&B_shared[ax0_ax1_0_1 * 16 + i_2_j_2 * 4], load<4>(&B[k_0 * 256 + ax0_ax1_0_1 * 32 + i_0_j_0 % 2 * 16 + i_2_j_2 * 4]));
    }
    __syncthreads();
    #pragma unroll
    for (int k_1_vector = 0; k_1_vector < 2; ++k_1_vector) {
      float A_shared_row1[4][2][4];
      #pragma unroll
      for (int i_1_j_1 = 0; i_1_j_1 < 4; ++i_1_j_1) {
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
          {
            const lanes<float, 4> A_shared_lanes = load<4>(&A_shared[i_1_j_1 / 2 * 32 + i_2_j_2 / 2 * 16 + i * 8 + k_1_vector * 4]);
            #pragma unroll
            for (int lane = 0; lane < 4; ++lane) {
              A_shared_row1[i_1_j_1][i][lane] = A_shared_lanes.at[lane];
            }
          }
        }
      }
      #pragma unroll
      for (int k_1_lane = 0; k_1_lane < 4; ++k_1_lane) {
        #pragma unroll
        for (int i_1_j_1 = 0; i_1_j_1 < 4; ++i_1_j_1) {
          #pragma unroll
          for (int i = 0; i < 2; ++i) {
            {
              const lanes<float, 4> B_shared_lanes = load<4>(&B_shared[k_1_vector * 64 + k_1_lane * 16 + i_1_j_1 % 2 * 8 + i_2_j_2 % 2 * 4]);
              #pragma unroll
              for (int lane = 0; lane < 4; ++lane) {
                C_local_reg[i_1_j_1][i][lane] = C_local_reg[i_1_j_1][i][lane] + A_shared_row1[i_1_j_1][i][k_1_lane] * B_shared_lanes.at[lane];
              }
            }
          }
        }
      }
    }
  }
  #pragma unroll
  for (int i_3 = 0; i_3 < 2; ++i_3) {
    #pragma unroll
    for (int i_1_j_1 = 0; i_1_j_1 < 4; ++i_1_j_1) {
      {
        lanes<float, 4> result;
        #pragma unroll
        for (int lane = 0; lane < 4; ++lane) {
          result.at[lane] = C_local_reg[i_1_j_1][i_3][lane];
        }
        store<4>(&C[i_0_j_0 / 2 * 256 + i_1_j_1 / 2 * 128 + i_2_j_2 / 2 * 64 + i_3 * 32 + i_0_j_0 % 2 * 16 + i_1_j_1 % 2 * 8 + i_2_j_2 % 2 * 4], result);
      }
    }
  }
}
