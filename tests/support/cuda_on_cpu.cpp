// How threads of CUDA programs run on the CPU, and what their warps and tensor cores do together: each
// program is linked with this (cuda_on_cpu.h).
//
// The threads of a block are fibers of one thread. One runs until it waits at a barrier, a shuffle or
// an mma, or ends; then comes the next, in the order that the launch asks for. What waits goes on
// once all whom it waits for have come. So the results of a program with a data race, or without a
// barrier that it needs, depend on the order. Shared memory holds NaNs when a block begins.
#include "cuda_on_cpu.h"

#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#pragma GCC visibility push(hidden)

dim3 threadIdx, blockIdx, blockDim, gridDim;
unsigned char *lazyten_shared;

extern "C" __attribute__((weak, visibility("hidden"))) char __start_cuda_shared[];
extern "C" __attribute__((weak, visibility("hidden"))) char __stop_cuda_shared[];

namespace cuda_on_cpu {

struct Fiber;
struct Copy { void *to; const void *from; unsigned size, bytes, batch; };
struct Product {
  float (*decode)(uint32_t);
  uint64_t a, b;
  bool transposed_a, transposed_b;
  std::vector<float *> results;
};
struct Thread {
  dim3 index;
  unsigned number = 0;
  State state = NEW;
  int line = 0;          // of the barrier or warp operation that it waits at
  uint32_t mask = 0;     // the lanes that it waits for
  unsigned turn = 0;     // warp operations so far: what lanes give is kept for two
  unsigned char given[2][MOST_GIVEN];
  std::vector<Copy> copies;  // that are under way
  unsigned batches = 0;      // so many were begun
  std::vector<Product> products;       // of tensor cores, that are under way
  std::map<float *, float> in_flight;  // what their results were before
  bool fenced = false;                 // whether those see what the thread has in them
  bool shows = false;                  // whether tensor cores see what it stored
  Fiber *fiber = nullptr;
};
struct Fiber {
  ucontext_t start;
  jmp_buf at;
  Thread *thread = nullptr;
  bool begun = false;
};
struct Failure { char text[256] = ""; };
static bool misaligned;
static const char *mistake;
static bool shown;  // whether all threads showed what they stored before the last barrier
static const unsigned char *places[1 << 14];  // in shared memory, by what a descriptor has of them

static std::vector<Thread> threads;
static std::vector<std::unique_ptr<Fiber>> fibers;
static std::vector<Fiber *> idle;
static Thread *current;
static jmp_buf scheduler;
static void (*body)(void **);
static void **arguments;

static void run_threads(unsigned low, unsigned high) {
  Fiber *self = (Fiber *)(((uintptr_t)high << 32) | low);
  for (;;) {
    body(arguments);
    current->state = DONE;
    current->fiber = nullptr;
    idle.push_back(self);
    if (!_setjmp(self->at)) _longjmp(scheduler, 1);
  }
}

static Fiber *new_fiber() {
  const size_t size = 256 << 10;
  void *stack = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  fibers.emplace_back(new Fiber);
  Fiber *fiber = fibers.back().get();
  getcontext(&fiber->start);
  fiber->start.uc_stack.ss_sp = stack;
  fiber->start.uc_stack.ss_size = size;
  fiber->start.uc_link = nullptr;
  uintptr_t address = (uintptr_t)fiber;
  makecontext(&fiber->start, (void (*)())run_threads, 2, (unsigned)address,
              (unsigned)(address >> 32));
  return fiber;
}

// Run a thread until it waits or ends.
__attribute__((noinline)) static void resume(Thread *thread) {
  current = thread;
  threadIdx = thread->index;
  if (!thread->fiber) {
    if (idle.empty()) idle.push_back(new_fiber());
    thread->fiber = idle.back();
    idle.pop_back();
  }
  Fiber *fiber = thread->fiber;
  if (!_setjmp(scheduler)) {
    if (fiber->begun) _longjmp(fiber->at, 1);
    fiber->begun = true;
    setcontext(&fiber->start);
  }
}

void wait_at(State state, int line, uint32_t mask) {
  Thread *self = current;
  self->state = state, self->line = line, self->mask = mask;
  if (!_setjmp(self->fiber->at)) _longjmp(scheduler, 1);
}

static bool release_block(Failure &failure) {
  int line = 0;
  for (Thread &t : threads) {
    if (t.state == DONE) continue;
    if (t.state != AT_BLOCK) return false;
    if (line && t.line != line)
      snprintf(failure.text, sizeof failure.text,
               "threads of a block wait at different barriers: lines %d and %d",
               std::min(line, t.line), std::max(line, t.line));
    line = t.line;
  }
  shown = line != 0;
  for (Thread &t : threads) {
    if (t.state == AT_BLOCK) t.state = READY;
    shown &= t.shows;
    t.shows = false;
  }
  return line != 0;
}

// Four warps that follow each other, the first of a number that is a multiple of four.
static bool release_four_warps(Failure &failure) {
  bool any = false;
  for (size_t first = 0; first < threads.size(); first += 128) {
    unsigned waiting = 0;
    for (size_t i = first; i < std::min(first + 128, threads.size()); ++i)
      waiting += threads[i].state == AT_FOUR_WARPS && threads[i].line == threads[first].line;
    if (waiting < 128) continue;
    const Thread &one = threads[first];
    for (size_t i = first; i < first + 128; ++i) {
      const Thread &t = threads[i];
      bool same = t.products.size() == one.products.size();
      for (size_t n = 0; same && n < t.products.size(); ++n)
        same = t.products[n].a == one.products[n].a && t.products[n].b == one.products[n].b;
      if (!same)
        snprintf(failure.text, sizeof failure.text,
                 "line %d: threads of four warps gave other matrices to a tensor core", one.line);
      threads[i].state = READY;
    }
    any = true;
  }
  return any;
}

static bool release_warps(Failure &failure) {
  bool any = false;
  for (Thread &first : threads) {
    if (first.state != AT_WARP) continue;
    unsigned warp = first.number / 32 * 32;
    bool all = true;
    for (unsigned lane = 0; lane < 32; ++lane) {
      if (!(first.mask >> lane & 1)) continue;
      if (warp + lane >= threads.size() || threads[warp + lane].state == DONE) {
        snprintf(failure.text, sizeof failure.text,
                 "line %d waits for lane %u of its warp, which has ended or is none", first.line,
                 lane);
        return true;
      }
      Thread &t = threads[warp + lane];
      all &= t.state == AT_WARP && t.line == first.line && t.mask == first.mask;
    }
    if (!(first.mask >> first.number % 32 & 1)) {
      snprintf(failure.text, sizeof failure.text, "line %d: a lane is not in its own mask",
               first.line);
      return true;
    }
    if (!all) continue;
    uint32_t mask = first.mask;
    for (unsigned lane = 0; lane < 32; ++lane)
      if (mask >> lane & 1) threads[warp + lane].state = READY;
    any = true;
  }
  return any;
}

// 0, 1, 2, ...; the same backwards; or, from 2 on, a permutation that is the seed's own.
static std::vector<unsigned> in_order(unsigned count, unsigned seed) {
  std::vector<unsigned> order(count);
  std::iota(order.begin(), order.end(), 0u);
  if (seed == 1) std::reverse(order.begin(), order.end());
  if (seed > 1) std::shuffle(order.begin(), order.end(), std::mt19937(seed));
  return order;
}

static unsigned asked;  // bytes at lazyten_shared

static void run_block(unsigned seed, Failure &failure) {
  if (__start_cuda_shared)
    memset(__start_cuda_shared, 0xff, __stop_cuda_shared - __start_cuda_shared);
  memset(lazyten_shared, 0xff, asked);
  shown = false;
  unsigned count = blockDim.x * blockDim.y * blockDim.z;
  threads.assign(count, Thread());
  for (unsigned i = 0; i < count; ++i) {
    threads[i].number = i;
    threads[i].index = {i % blockDim.x, i / blockDim.x % blockDim.y,
                        i / (blockDim.x * blockDim.y)};
  }
  std::vector<unsigned> order = in_order(count, seed);
  for (unsigned round = 1;; ++round) {
    bool ended = true, ran = false;
    for (unsigned i : order) {
      if (threads[i].state == NEW || threads[i].state == READY) resume(&threads[i]), ran = true;
      ended &= threads[i].state == DONE;
    }
    if (ended && !misaligned && !mistake) return;
    if (seed > 1) order = in_order(count, seed + round);
    if (misaligned) {
      snprintf(failure.text, sizeof failure.text, "an access that is not aligned to its size");
      misaligned = false;
    }
    if (mistake) snprintf(failure.text, sizeof failure.text, "%s", mistake), mistake = nullptr;
    bool freed = release_warps(failure) || release_four_warps(failure) || release_block(failure);
    if (failure.text[0]) return;
    if (!ran && !freed) {
      snprintf(failure.text, sizeof failure.text,
               "a barrier that only some threads of a block reach, at line %d or elsewhere",
               current->line);
      return;
    }
  }
}

// All blocks of a launch; the message if the program does what CUDA does not allow, or "".
static const char *run_grid(void (*call)(void **), void **given, dim3 grid, dim3 block,
                            unsigned shared, unsigned seed) {
  static Failure failure;
  failure = Failure();
  body = call, arguments = given, gridDim = grid, blockDim = block, asked = shared;
  const unsigned page = 1 << 16, size = (shared + page - 1) / page * page;
  unsigned char *space = (unsigned char *)mmap(nullptr, size + page, PROT_READ | PROT_WRITE,
                                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mprotect(space + size, page, PROT_NONE);
  lazyten_shared = space + size - shared;
  unsigned count = grid.x * grid.y * grid.z;
  for (unsigned i : in_order(count, seed)) {
    blockIdx = {i % grid.x, i / grid.x % grid.y, i / (grid.x * grid.y)};
    run_block(seed, failure);
    if (failure.text[0]) {
      threads.clear(), idle.clear(), fibers.clear();  // what waits is given up
      break;
    }
  }
  munmap(space, size + page);
  return failure.text;
}

// ---- warps -----------------------------------------------------------------------------------------

Lanes::Lanes(int line, uint32_t mask, const void *value, unsigned size) {
  Thread *self = current;
  turn = self->turn++ % 2;
  warp = self->number / 32 * 32;
  memcpy(self->given[turn], value, size);
  wait_at(AT_WARP, line, mask);
}
const unsigned char *Lanes::of(unsigned lane) const {
  return threads[std::min<size_t>(warp + lane, threads.size() - 1)].given[turn];
}

unsigned lane() { return current->number % 32; }

unsigned ballot(int line, uint32_t mask, int predicate) {
  Exchange<int> lanes(line, mask, predicate != 0);
  unsigned found = 0;
  for (unsigned i = 0; i < 32; ++i)
    if (mask >> i & 1 && lanes[i]) found |= 1u << i;
  return found;
}

// ---- tensor cores ----------------------------------------------------------------------------------

float from_f16(uint32_t bits) {
  int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  float size = exponent == 31 ? (mantissa ? NAN : INFINITY)
             : exponent ? std::ldexp(1024.0f + mantissa, exponent - 25)
             : std::ldexp((float)mantissa, -24);
  return bits >> 15 & 1 ? -size : size;
}
static float from_bits(uint32_t bits) { float x; memcpy(&x, &bits, 4); return x; }
float from_bf16(uint32_t bits) { return from_bits(bits << 16); }
// A float, which the instruction's function rounds to 10 bits of mantissa, halves away from zero.
float from_tf32(uint32_t bits) { return from_bits((bits + 0x1000u) & ~0x1fffu); }

void mma(int packed, int line, float (*decode)(uint32_t), float *const (&d)[4],
         const Fragments &given) {
  Exchange<Fragments> lanes(line, ~0u, given);
  const int bits = 32 / packed;
  auto part = [&](uint32_t bundle, int i) {
    return decode(packed == 1 ? bundle : bundle >> bits * i & ((1u << bits % 32) - 1));
  };
  for (int i = 0; i < 4; ++i) {
    int row = lane() / 4 + i / 2 * 8, column = lane() % 4 * 2 + i % 2;
    double sum = 0;
    for (int k = 0; k < 8 * packed; ++k) {
      int group = k % (4 * packed) / packed, half = k / (4 * packed);
      float x = part(lanes[row % 8 * 4 + group].a[row / 8 + 2 * half], k % packed);
      float y = part(lanes[column * 4 + group].b[half], k % packed);
      sum += (double)x * y;
    }
    *d[i] = (float)(*d[i] + sum);
  }
}

void load_matrices(int count, bool transposed, int line, uint32_t *const *words, const void *from) {
  if (lane() < 8 * count) misaligned |= (uintptr_t)from % 16 != 0;
  Exchange<const unsigned short *> lanes(line, ~0u, (const unsigned short *)from);
  for (int j = 0; j < count; ++j) {
    unsigned short pair[2];
    for (int i = 0; i < 2; ++i) {
      int row = lane() / 4, column = lane() % 4 * 2 + i;
      pair[i] = transposed ? lanes[8 * j + column][row] : lanes[8 * j + row][column];
    }
    *words[j] = pair[0] | (uint32_t)pair[1] << 16;
  }
}

// ---- tensor cores that read shared memory by themselves --------------------------------------------

// A matrix in shared memory, of 16-bit elements in swizzled rows: what a descriptor says (PTX ISA,
// "Matrix Descriptor Format" and "Canonical Layouts").
struct Matrix {
  const unsigned char *start;
  unsigned apart, eight;  // bytes from rows to their next parts, and from eight rows to the next
  unsigned mode;          // rows of 128, 64 or 32 bytes: 1, 2 or 3
  bool transposed;        // whether rows go along rows or columns of the matrix
  Matrix(uint64_t at, bool transposed)
      : start(places[at & 0x3fff]), apart((at >> 16 & 0x3fff) << 4), eight((at >> 32 & 0x3fff) << 4),
        mode(at >> 62), transposed(transposed) {
    if (mode == 0) mistake = "a matrix whose rows are not swizzled";
  }
  uint32_t operator()(unsigned row, unsigned k) const {
    unsigned line = transposed ? k : row, element = transposed ? row : k, width = 256 >> mode;
    uintptr_t at = (uintptr_t)start + line / 8 * eight + line % 8 * width
                   + element * 2 / width * apart + element * 2 % width;
    at ^= (at >> 7 & (width / 16 - 1)) << 4;
    unsigned short bits;
    memcpy(&bits, (const void *)at, 2);
    return bits;
  }
};

void multiply(float (*decode)(uint32_t), bool transposed_a, bool transposed_b, uint64_t a, uint64_t b,
              float *const *results, size_t count) {
  Thread *self = current;
  if (!self->fenced) mistake = "a tensor core is used without a fence in front";
  if (!shown) mistake = "a tensor core reads what the last barrier has not shown it";
  Product product = {decode, a, b, transposed_a, transposed_b, {results, results + count}};
  for (float *d : product.results)
    if (self->in_flight.emplace(d, *d).second) *d = NAN;
  self->products.push_back(product);
}

// D += A B of 64 rows and 16 steps: what one thread holds of D (PTX ISA, wgmma's fragment layouts).
static void run(const Product &product, std::map<float *, float> &values) {
  const Matrix a(product.a, product.transposed_a), b(product.b, product.transposed_b);
  unsigned first = current->number % 128 / 32 * 16 + lane() / 4, count = product.results.size() / 4;
  float rows[2][16], column[16];
  for (int k = 0; k < 32; ++k) rows[k / 16][k % 16] = product.decode(a(first + k / 16 * 8, k % 16));
  for (unsigned i = 0; i < 2 * count; ++i) {
    for (int k = 0; k < 16; ++k) column[k] = product.decode(b(i / 2 * 8 + lane() % 4 * 2 + i % 2, k));
    for (int half = 0; half < 2; ++half) {
      double sum = 0;
      for (int k = 0; k < 16; ++k) sum += (double)rows[half][k] * column[k];
      float &d = values[product.results[i / 2 * 4 + half * 2 + i % 2]];
      d = (float)(d + sum);
    }
  }
}

void wait_for_products(int line) {
  Thread *self = current;
  wait_at(AT_FOUR_WARPS, line, 0);
  for (const Product &product : self->products) run(product, self->in_flight);
  self->products.clear();
  self->fenced = false;
  for (auto [d, value] : self->in_flight) *d = value;
  self->in_flight.clear();
}

void matrix_fence() { current->fenced = true; }
void proxy_fence() { current->shows = true; }

unsigned place_of(const void *at) {
  misaligned |= (uintptr_t)at % 16 != 0;
  places[(uintptr_t)at >> 4 & 0x3fff] = (const unsigned char *)at;
  return (unsigned)(uintptr_t)at;
}

// ---- cp.async --------------------------------------------------------------------------------------

// A copy may be done at once, or as late as a wait: there are NaNs until it is.
void copy_async(void *to, const void *from, unsigned size, unsigned bytes) {
  misaligned |= ((uintptr_t)to | (uintptr_t)from) % size != 0;
  memset(to, 0xff, size);
  current->copies.push_back({to, from, size, bytes, current->batches});
}
void commit_copies() { ++current->batches; }
void wait_for_copies(unsigned pending) {
  std::vector<Copy> later;
  for (const Copy &c : current->copies) {
    if (c.batch + pending >= current->batches) { later.push_back(c); continue; }
    memset(c.to, 0, c.size);
    memcpy(c.to, c.from, c.bytes);
  }
  current->copies = later;
}

// ---- half arithmetic -------------------------------------------------------------------------------

// Rounded to `bits` of significand, halves to even; the last place is never below 2 ** least.
static double rounded(double x, int bits, int least) {
  int exponent;
  std::frexp(x, &exponent);
  int unit = std::max(exponent - bits, least);
  return std::ldexp(std::nearbyint(std::ldexp(x, -unit)), unit);
}
unsigned short to_f16(double x) {
  unsigned short sign = std::signbit(x) << 15;
  if (std::isnan(x)) return 0x7fff;
  double size = std::isinf(x) ? x : rounded(std::fabs(x), 11, -24);
  if (std::fabs(size) >= 65536) return sign | 0x7c00;
  if (size < 0x1p-14) return sign | (unsigned short)std::ldexp(size, 24);
  int exponent;
  double mantissa = std::frexp(size, &exponent);
  return sign | (exponent + 14) << 10 | ((unsigned short)std::ldexp(mantissa, 11) & 1023);
}
unsigned short to_bf16(double x) {
  if (std::isnan(x)) return 0x7fff;
  float size = std::isinf(x) ? x : rounded(x, 8, -133);  // past the greatest: infinity
  uint32_t bits;
  memcpy(&bits, &size, 4);
  return bits >> 16;
}

}  // namespace cuda_on_cpu

// What g++ has the program call with -fsanitize=alignment.
extern "C" void __ubsan_handle_type_mismatch_v1(void *, void *) { cuda_on_cpu::misaligned = true; }

#pragma GCC visibility pop

extern "C" const char *cuda_on_cpu_run(void (*call)(void **), void **arguments,
                                       const unsigned *grid, const unsigned *block,
                                       unsigned shared, unsigned seed) {
  return cuda_on_cpu::run_grid(call, arguments, {grid[0], grid[1], grid[2]},
                               {block[0], block[1], block[2]}, shared, seed);
}
