// The tile registers of AMX in memory, one set for each thread, as Intel's manual defines them.
//
// What a processor would refuse (a fault), and what no kernel should do, is counted, and the first
// such event is kept in words.
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { kTiles = 8, kRows = 16, kRowBytes = 64 };

typedef struct {
  int is_configured;
  uint8_t rows[kTiles];
  uint16_t row_bytes[kTiles];
  uint8_t data[kTiles][kRows][kRowBytes];
  int is_defined[kTiles];
} Tiles;

static _Thread_local Tiles tiles;
static char fault[256];
static int64_t faults, configurations, releases, loads, stores, zeros, products;

static void refuse(const char* what, int tile) {
  if (__atomic_fetch_add(&faults, 1, __ATOMIC_RELAXED) == 0)
    snprintf(fault, sizeof fault, "%s (tile %d)", what, tile);
}

static void count(int64_t* counter) { __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED); }

const char* tiles_fault(void) { return faults ? fault : ""; }

int tiles_are_held(void) { return tiles.is_configured; }

void tiles_counts(int64_t* result) {
  int64_t* const all[] = {&configurations, &releases, &zeros, &loads, &products, &stores};
  for (int i = 0; i < 6; ++i) result[i] = *all[i];
}

void tiles_reset(void) {
  faults = configurations = releases = loads = stores = zeros = products = 0;
  fault[0] = 0;
  memset(&tiles, 0, sizeof tiles);
}

void tiles_ldtilecfg(const uint8_t* from) {
  count(&configurations);
  memset(&tiles, 0, sizeof tiles);
  if (from[0] != 1) return refuse("a palette that is not 1", 0);
  for (int i = 1; i < 64; ++i) {
    const int is_shape = (i >= 16 && i < 32) || (i >= 48 && i < 56);
    if (!is_shape && from[i]) return refuse("a reserved byte of the configuration", i);
  }
  for (int t = 0; t < kTiles; ++t) {
    tiles.row_bytes[t] = (uint16_t)(from[16 + 2 * t] | from[17 + 2 * t] << 8);
    tiles.rows[t] = from[48 + t];
    if (tiles.rows[t] > kRows || tiles.row_bytes[t] > kRowBytes) refuse("a tile too large", t);
    if (!tiles.rows[t] != !tiles.row_bytes[t]) refuse("a tile of nothing", t);
  }
  tiles.is_configured = 1;
}

void tiles_tilerelease(void) {
  count(&releases);
  memset(&tiles, 0, sizeof tiles);
}

static int is_there(int8_t t, const char* what) {
  if (!tiles.is_configured || t < 0 || t >= kTiles || !tiles.rows[t]) {
    refuse(what, t);
    return 0;
  }
  return 1;
}

void tiles_tilezero(int8_t t) {
  count(&zeros);
  if (!is_there(t, "zeros without a configuration")) return;
  memset(tiles.data[t], 0, sizeof tiles.data[t]);
  tiles.is_defined[t] = 1;
}

void tiles_tileloadd64(int8_t t, const uint8_t* from, int64_t stride) {
  count(&loads);
  if (!is_there(t, "a load without a configuration")) return;
  memset(tiles.data[t], 0, sizeof tiles.data[t]);
  for (int r = 0; r < tiles.rows[t]; ++r)
    memcpy(tiles.data[t][r], from + r * stride, tiles.row_bytes[t]);
  tiles.is_defined[t] = 1;
}

void tiles_tilestored64(int8_t t, uint8_t* to, int64_t stride) {
  count(&stores);
  if (!is_there(t, "a store without a configuration")) return;
  if (!tiles.is_defined[t]) refuse("a store of a tile that nothing was put in", t);
  for (int r = 0; r < tiles.rows[t]; ++r)
    memcpy(to + r * stride, tiles.data[t][r], tiles.row_bytes[t]);
}

static int fits(int8_t c, int8_t a, int8_t b) {
  count(&products);
  if (!is_there(c, "a product without a configuration") || !is_there(a, "a product without rows") ||
      !is_there(b, "a product without columns"))
    return 0;
  if (!tiles.is_defined[c] || !tiles.is_defined[a] || !tiles.is_defined[b])
    refuse("a product of a tile that nothing was put in", c);
  const int is_good = c != a && c != b && a != b && tiles.rows[a] == tiles.rows[c] &&
                      tiles.row_bytes[b] == tiles.row_bytes[c] &&
                      tiles.row_bytes[a] == 4 * tiles.rows[b] && !(tiles.row_bytes[c] % 4);
  if (!is_good) refuse("a product of shapes that do not fit", c);
  return is_good;
}

static float from_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, 4);
  return (bits & 0x7f800000) ? value : (bits >> 31 ? -0.0f : 0.0f);  // denormals are zero
}

static float flush(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  return from_bits(bits);
}

static float of_bf16(const uint8_t* at) {
  uint16_t bits;
  memcpy(&bits, at, 2);
  return from_bits((uint32_t)bits << 16);
}

static float of_f16(const uint8_t* at) {
  uint16_t bits;
  memcpy(&bits, at, 2);
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  float value = exponent == 31 ? (mantissa ? __builtin_nanf("") : __builtin_inff())
                : exponent ? __builtin_ldexpf(1024.0f + mantissa, exponent - 25)
                           : __builtin_ldexpf((float)mantissa, -24);
  return bits >> 15 ? -value : value;
}

// Even and odd terms are summed apart, and then added to the tile of sums.
static void multiply_floats(int8_t c, int8_t a, int8_t b, float (*of)(const uint8_t*)) {
  if (!fits(c, a, b)) return;
  for (int m = 0; m < tiles.rows[c]; ++m)
    for (int n = 0; n < tiles.row_bytes[c] / 4; ++n) {
      float sums[2] = {0, 0}, total;
      for (int k = 0; k < tiles.rows[b]; ++k)
        for (int h = 0; h < 2; ++h) {
          const float left = of(&tiles.data[a][m][4 * k + 2 * h]);
          const float right = of(&tiles.data[b][k][4 * n + 2 * h]);
          sums[h] = flush(__builtin_fmaf(left, right, sums[h]));
        }
      memcpy(&total, &tiles.data[c][m][4 * n], 4);
      total = flush(flush(total) + flush(sums[0] + sums[1]));
      memcpy(&tiles.data[c][m][4 * n], &total, 4);
    }
}

void tiles_tdpbf16ps(int8_t c, int8_t a, int8_t b) { multiply_floats(c, a, b, of_bf16); }

void tiles_tdpfp16ps(int8_t c, int8_t a, int8_t b) { multiply_floats(c, a, b, of_f16); }

static void multiply_bytes(int8_t c, int8_t a, int8_t b, int is_left_signed, int is_right_signed) {
  if (!fits(c, a, b)) return;
  for (int m = 0; m < tiles.rows[c]; ++m)
    for (int n = 0; n < tiles.row_bytes[c] / 4; ++n) {
      uint32_t total;
      memcpy(&total, &tiles.data[c][m][4 * n], 4);
      for (int k = 0; k < tiles.rows[b]; ++k)
        for (int h = 0; h < 4; ++h) {
          const uint8_t left = tiles.data[a][m][4 * k + h], right = tiles.data[b][k][4 * n + h];
          total += (uint32_t)((is_left_signed ? (int8_t)left : left) *
                              (is_right_signed ? (int8_t)right : right));
        }
      memcpy(&tiles.data[c][m][4 * n], &total, 4);
    }
}

void tiles_tdpbssd(int8_t c, int8_t a, int8_t b) { multiply_bytes(c, a, b, 1, 1); }
void tiles_tdpbsud(int8_t c, int8_t a, int8_t b) { multiply_bytes(c, a, b, 1, 0); }
void tiles_tdpbusd(int8_t c, int8_t a, int8_t b) { multiply_bytes(c, a, b, 0, 1); }
void tiles_tdpbuud(int8_t c, int8_t a, int8_t b) { multiply_bytes(c, a, b, 0, 0); }
