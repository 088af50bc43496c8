// CUDA C++ on the CPU, for tests: g++ includes this before a program made for NVRTC, and links it with
// cuda_on_cpu.cpp, which runs the threads. All of that is compiled once: here is what a program needs.
#pragma once
#define LAZYTEN_ON_CPU 1

#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ static __attribute__((section("cuda_shared")))

#pragma GCC visibility push(hidden)  // each program has its own

struct dim3 { unsigned x = 1, y = 1, z = 1; };
typedef dim3 uint3;
extern dim3 threadIdx, blockIdx, blockDim, gridDim;
static const int warpSize = 32;

extern unsigned char *lazyten_shared;  // what a launch asks for; a page that may not be touched is behind

namespace cuda_on_cpu {

enum State { NEW, READY, AT_BLOCK, AT_WARP, AT_FOUR_WARPS, DONE };

void wait_at(State state, int line, uint32_t mask);

template <class... T, size_t... I>
static void call_with(void (*kernel)(T...), void **given, std::index_sequence<I...>) {
  kernel(*(T *)given[I]...);
}
template <class... T>
static void call(void (*kernel)(T...), void **given) {
  call_with(kernel, given, std::index_sequence_for<T...>());
}
template <class... T>
constexpr unsigned count(void (*)(T...)) { return sizeof...(T); }

// ---- warps -----------------------------------------------------------------------------------------

const unsigned MOST_GIVEN = 64;  // bytes
unsigned lane();

// What the other lanes of `mask` gave to this warp operation.
struct Lanes {
  unsigned warp, turn;
  Lanes(int line, uint32_t mask, const void *value, unsigned size);
  const unsigned char *of(unsigned lane) const;
};
template <class T>
struct Exchange : Lanes {
  Exchange(int line, uint32_t mask, const T &value) : Lanes(line, mask, &value, sizeof value) {
    static_assert(sizeof(T) <= MOST_GIVEN, "too large to exchange");
  }
  T operator[](unsigned lane) const {
    T value;
    memcpy(&value, of(lane), sizeof value);
    return value;
  }
};

template <class T>
static T shuffle(int line, uint32_t mask, T value, int from, bool inside) {
  Exchange<T> lanes(line, mask, value);
  return inside ? lanes[from] : value;
}
template <class T>
static T shuffle_xor(int line, uint32_t mask, T value, int by, int width = 32) {
  int to = lane() ^ by;
  return shuffle(line, mask, value, to, to / width <= (int)lane() / width);
}
template <class T>
static T shuffle_down(int line, uint32_t mask, T value, unsigned by, int width = 32) {
  unsigned to = lane() + by;
  return shuffle(line, mask, value, to, lane() % width + by < (unsigned)width);
}
template <class T>
static T shuffle_up(int line, uint32_t mask, T value, unsigned by, int width = 32) {
  return shuffle(line, mask, value, lane() - by, lane() % width >= by);
}
template <class T>
static T shuffle_from(int line, uint32_t mask, T value, int from, int width = 32) {
  return shuffle(line, mask, value, (int)lane() / width * width + (from & (width - 1)), true);
}
unsigned ballot(int line, uint32_t mask, int predicate);

// ---- tensor cores ----------------------------------------------------------------------------------

float from_f16(uint32_t bits);
float from_bf16(uint32_t bits);
float from_tf32(uint32_t bits);

struct Fragments { uint32_t a[4], b[2]; };

// D = A B + D for 16 x 8 results. A register holds `packed` neighbours along k, which has 8 * packed:
// the fragments of mma.m16n8k16 with 16-bit floats, and of mma.m16n8k8 with tf32 (PTX ISA, 9.7.14.5).
void mma(int packed, int line, float (*decode)(uint32_t), float *const (&d)[4], const Fragments &given);

// Matrices of 8 rows of 16 bytes; the address of lane 8 * j + i is that of row i of matrix j (PTX ISA,
// ldmatrix). A lane gets a word of each: of 16-bit elements, two of row lane / 4 or, transposed, of
// that column.
void load_matrices(int count, bool transposed, int line, uint32_t *const *words, const void *from);

}  // namespace cuda_on_cpu

// (d0, d1, d2, d3, a0, a1, a2, a3, b0, b1): d += a b, by all lanes of a warp.
#define MMA(name, packed, kind) \
  static inline void lazyten_mma_##name##_##kind( \
      int line, float &d0, float &d1, float &d2, float &d3, uint32_t a0, uint32_t a1, uint32_t a2, \
      uint32_t a3, uint32_t b0, uint32_t b1) \
    { cuda_on_cpu::mma(packed, line, cuda_on_cpu::from_##kind, {&d0, &d1, &d2, &d3}, \
                       {{a0, a1, a2, a3}, {b0, b1}}); }
MMA(m16n8k16, 2, f16)
MMA(m16n8k16, 2, bf16)
MMA(m16n8k8, 1, tf32)
#define lazyten_mma_m16n8k16_f16(...) lazyten_mma_m16n8k16_f16(__LINE__, __VA_ARGS__)
#define lazyten_mma_m16n8k16_bf16(...) lazyten_mma_m16n8k16_bf16(__LINE__, __VA_ARGS__)
#define lazyten_mma_m16n8k8_tf32(...) lazyten_mma_m16n8k8_tf32(__LINE__, __VA_ARGS__)

// (a word of each matrix, place of a row), by all lanes of a warp.
#define LOAD(count, transposed, ...) \
    { uint32_t *words[] = {__VA_ARGS__}; \
      cuda_on_cpu::load_matrices(count, transposed, line, words, from); }
#define MATRICES(name, transposed) \
  static inline void lazyten_matrices_1##name(int line, uint32_t &a, const void *from) \
    LOAD(1, transposed, &a) \
  static inline void lazyten_matrices_2##name(int line, uint32_t &a, uint32_t &b, const void *from) \
    LOAD(2, transposed, &a, &b) \
  static inline void lazyten_matrices_4##name(int line, uint32_t &a, uint32_t &b, uint32_t &c, \
                                              uint32_t &d, const void *from) \
    LOAD(4, transposed, &a, &b, &c, &d)
MATRICES(, false)
MATRICES(_transposed, true)
#define lazyten_matrices_1(...) lazyten_matrices_1(__LINE__, __VA_ARGS__)
#define lazyten_matrices_2(...) lazyten_matrices_2(__LINE__, __VA_ARGS__)
#define lazyten_matrices_4(...) lazyten_matrices_4(__LINE__, __VA_ARGS__)
#define lazyten_matrices_1_transposed(...) lazyten_matrices_1_transposed(__LINE__, __VA_ARGS__)
#define lazyten_matrices_2_transposed(...) lazyten_matrices_2_transposed(__LINE__, __VA_ARGS__)
#define lazyten_matrices_4_transposed(...) lazyten_matrices_4_transposed(__LINE__, __VA_ARGS__)

// ---- tensor cores that read shared memory by themselves --------------------------------------------

namespace cuda_on_cpu {

// One runs when its threads wait for it. Until then its results are NaNs, and its operands may change.
void multiply(float (*decode)(uint32_t), bool transposed_a, bool transposed_b, uint64_t a, uint64_t b,
              float *const *results, size_t count);
void wait_for_products(int line);
void matrix_fence();
void proxy_fence();
unsigned place_of(const void *at);

}  // namespace cuda_on_cpu

static inline unsigned __cvta_generic_to_shared(const void *at) { return cuda_on_cpu::place_of(at); }
// (results, place of a, place of b), floats and then two ulong, by all lanes of four warps; see wgmma.py.
// Pointers to all of it: with tuples g++ would take half as long again for a program.
#define WGMMA(name, kind) \
  template <int transposed_a, int transposed_b, class... T> \
  static void lazyten_mma_##name##kind(T &&...given) { \
    void *all[] = {(void *)&given...}; \
    const size_t count = sizeof...(given) - 2; \
    cuda_on_cpu::multiply(cuda_on_cpu::from_##kind, transposed_a, transposed_b, \
                          *(const uint64_t *)all[count], *(const uint64_t *)all[count + 1], \
                          (float *const *)all, count); \
  }
WGMMA(m64n64k16_, f16) WGMMA(m64n128k16_, f16) WGMMA(m64n256k16_, f16)
WGMMA(m64n64k16_, bf16) WGMMA(m64n128k16_, bf16) WGMMA(m64n256k16_, bf16)
#define lazyten_matrix_fence() cuda_on_cpu::matrix_fence()
#define lazyten_matrix_wait() cuda_on_cpu::wait_for_products(__LINE__)
#define lazyten_proxy_fence() cuda_on_cpu::proxy_fence()

// ---- cp.async --------------------------------------------------------------------------------------

namespace cuda_on_cpu {

void copy_async(void *to, const void *from, unsigned size, unsigned bytes);
void commit_copies();
void wait_for_copies(unsigned pending);

}  // namespace cuda_on_cpu

#define lazyten_copy_4(to, from, bytes) cuda_on_cpu::copy_async(to, from, 4, bytes)
#define lazyten_copy_8(to, from, bytes) cuda_on_cpu::copy_async(to, from, 8, bytes)
#define lazyten_copy_16(to, from, bytes) cuda_on_cpu::copy_async(to, from, 16, bytes)
#define lazyten_commit() cuda_on_cpu::commit_copies()
#define lazyten_wait_0() cuda_on_cpu::wait_for_copies(0)
#define lazyten_wait_1() cuda_on_cpu::wait_for_copies(1)
#define lazyten_wait_2() cuda_on_cpu::wait_for_copies(2)
#define lazyten_wait_3() cuda_on_cpu::wait_for_copies(3)

// ---- half arithmetic -------------------------------------------------------------------------------

// 16-bit floats, rounded once: in doubles a sum or product of two is as good as exact.
namespace cuda_on_cpu {

unsigned short to_f16(double x);
unsigned short to_bf16(double x);

}  // namespace cuda_on_cpu

#define HALVES(name) \
  static inline unsigned short lazyten_to_##name(float x) { return cuda_on_cpu::to_##name(x); } \
  static inline unsigned short lazyten_add_##name(unsigned short x, unsigned short y) \
    { return cuda_on_cpu::to_##name((double)cuda_on_cpu::from_##name(x) + cuda_on_cpu::from_##name(y)); } \
  static inline unsigned short lazyten_sub_##name(unsigned short x, unsigned short y) \
    { return cuda_on_cpu::to_##name((double)cuda_on_cpu::from_##name(x) - cuda_on_cpu::from_##name(y)); } \
  static inline unsigned short lazyten_mul_##name(unsigned short x, unsigned short y) \
    { return cuda_on_cpu::to_##name((double)cuda_on_cpu::from_##name(x) * cuda_on_cpu::from_##name(y)); }
HALVES(f16)
HALVES(bf16)
static inline float lazyten_from_f16(unsigned short x) { return cuda_on_cpu::from_f16(x); }

#define __syncthreads() cuda_on_cpu::wait_at(cuda_on_cpu::AT_BLOCK, __LINE__, 0)
#define __syncwarp_of(mask, ...) cuda_on_cpu::wait_at(cuda_on_cpu::AT_WARP, __LINE__, mask)
#define __syncwarp(...) __syncwarp_of(__VA_ARGS__ __VA_OPT__(,) 0xffffffffu)
#define __shfl_sync(...) cuda_on_cpu::shuffle_from(__LINE__, __VA_ARGS__)
#define __shfl_xor_sync(...) cuda_on_cpu::shuffle_xor(__LINE__, __VA_ARGS__)
#define __shfl_up_sync(...) cuda_on_cpu::shuffle_up(__LINE__, __VA_ARGS__)
#define __shfl_down_sync(...) cuda_on_cpu::shuffle_down(__LINE__, __VA_ARGS__)
#define __ballot_sync(mask, predicate) cuda_on_cpu::ballot(__LINE__, mask, predicate)
#define __any_sync(mask, predicate) (__ballot_sync(mask, predicate) != 0)
#define __all_sync(mask, predicate) (__ballot_sync(mask, predicate) == (mask))
#define __activemask() 0xffffffffu

// ---- built-in functions and types ------------------------------------------------------------------

using std::copysign, std::exp2, std::fabs, std::floor, std::fma, std::fmod, std::max, std::min, std::sqrt;

template <class To, class From>
static inline To bits_as(From x) { To y; static_assert(sizeof x == sizeof y); memcpy(&y, &x, sizeof y); return y; }
static inline float __uint_as_float(unsigned x) { return bits_as<float>(x); }
static inline unsigned __float_as_uint(float x) { return bits_as<unsigned>(x); }
static inline float lazyten_near_exp2(float x) {  // a last place off, and no subnormal numbers
  float near = exp2(x);
  return near != near || near > FLT_MAX ? near : near < FLT_MIN ? 0 : __uint_as_float(__float_as_uint(near) & ~1u);
}
static inline float __int_as_float(int x) { return bits_as<float>(x); }
static inline int __float_as_int(float x) { return bits_as<int>(x); }
static inline double __longlong_as_double(long long x) { return bits_as<double>(x); }
static inline long long __double_as_longlong(double x) { return bits_as<long long>(x); }
template <class T> static inline T __ldg(const T *p) { return *p; }

#define CUDA_VECTORS(T, N) \
  struct alignas(2 * sizeof(T)) N##2 { T x, y; }; \
  struct alignas(sizeof(T) > 4 ? 16 : 4 * sizeof(T)) N##4 { T x, y, z, w; }; \
  static inline N##2 make_##N##2(T x, T y) { return {x, y}; } \
  static inline N##4 make_##N##4(T x, T y, T z, T w) { return {x, y, z, w}; }
CUDA_VECTORS(float, float)
CUDA_VECTORS(double, double)
CUDA_VECTORS(int, int)
CUDA_VECTORS(unsigned, uint)
CUDA_VECTORS(unsigned short, ushort)
CUDA_VECTORS(unsigned char, uchar)
CUDA_VECTORS(unsigned long, ulong)

#pragma GCC visibility pop

// What a program ends with, for each of its kernels.
#define CUDA_ON_CPU_KERNEL(name) \
  extern "C" void name##_call(void **given) { cuda_on_cpu::call(name, given); } \
  extern "C" const unsigned name##_count = cuda_on_cpu::count(name);
