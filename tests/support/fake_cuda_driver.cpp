// A stand-in for NVIDIA's driver library, for tests: kernels run on this processor.
//
// It has the functions of the driver API that runtimes/cuda_driver.py calls, under their names
// without version suffix, which cuda-bindings looks up by cuGetProcAddress. A module is a shared
// library made by g++ with cuda_on_cpu.h. Nothing that is asynchronous is done before something
// waits for it, so whoever forgets to wait reads what was there before; a stream goes on when it is
// waited for, or when another one waits for an event of it, and by no means otherwise. Device memory begins as NaNs
// and ends before a page that may not be touched; a stray access breaks the context, as on a GPU.
// The functions fake_... set what a test wants to meet.
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#define API extern "C" __attribute__((visibility("default")))
typedef int Result;
enum : Result { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, INVALID_DEVICE = 101,
                INVALID_IMAGE = 200, INVALID_CONTEXT = 201, INVALID_HANDLE = 400, NOT_FOUND = 500,
                NOT_READY = 600, ILLEGAL_ADDRESS = 700, OUT_OF_RESOURCES = 701, LAUNCH_FAILED = 719 };

namespace {

typedef void (*Call)(void **);
typedef const char *(*Run)(Call, void **, const unsigned *, const unsigned *, unsigned, unsigned);
struct Function { Call call; Run run; unsigned params, most_shared = 48 << 10; };
struct Module { void *library; int file; std::vector<Function *> functions; };
// What is queued says whether it is done; if not, it is asked again.
struct Stream { std::deque<std::function<bool()>> queued; };
// When an event comes: each record makes a new one.
struct Record { Stream *stream; double seconds = -1; };
struct Event { std::shared_ptr<Record> record; };
struct Launch {
  Function *function;
  unsigned grid[3], block[3], shared;
  std::vector<uint64_t> values;
};
struct Node { Launch launch; std::vector<Node *> after; };
struct Graph { std::vector<Node *> nodes; };
struct NodeParams {  // CUDA_KERNEL_NODE_PARAMS_v2
  Function *function;
  unsigned grid[3], block[3], shared;
  void **params, **extra;
};

std::recursive_mutex lock;
std::vector<Stream *> streams;
std::map<uint64_t, size_t> allocated;
std::string message;
Result broken = SUCCESS;
uint64_t memory = 4ull << 30, used = 0;
unsigned seed = 0, counts[4];
int version = 13020, devices = 2;
bool shares_gpu = false;
thread_local int context = -1;
sigjmp_buf outside;

void strayed(int) { siglongjmp(outside, 1); }

void run(const Launch &launch) {
  if (broken) return;
  ++counts[0];
  struct sigaction ours = {}, segv, bus;
  ours.sa_handler = strayed;
  ours.sa_flags = SA_NODEFER;
  sigaction(SIGSEGV, &ours, &segv);
  sigaction(SIGBUS, &ours, &bus);
  if (sigsetjmp(outside, 1)) {
    broken = ILLEGAL_ADDRESS;
  } else {
    std::vector<uint64_t> values = launch.values;
    std::vector<void *> arguments;
    for (uint64_t &value : values) arguments.push_back(&value);
    message = launch.function->run(launch.function->call, arguments.data(), launch.grid,
                                   launch.block, launch.shared, seed);
    if (!message.empty()) broken = LAUNCH_FAILED;
  }
  sigaction(SIGSEGV, &segv, nullptr);
  sigaction(SIGBUS, &bus, nullptr);
}

void push(void *stream, std::function<void()> what) {
  ((Stream *)stream)->queued.push_back([=] { what(); return true; });
}

// Does what is next on a stream; whether that is done.
bool advance(Stream *stream) {
  auto next = stream->queued.front();
  if (!next()) return false;
  stream->queued.pop_front();
  return true;
}

Result finish(Stream *stream) {
  while (!stream->queued.empty())
    if (!advance(stream)) usleep(100);
  return broken;
}

// Goes on with a stream as far as an event, as long as nothing on it has to be asked again.
bool reach(Record *record) {
  while (record->seconds < 0 && !record->stream->queued.empty())
    if (!advance(record->stream)) return false;
  return record->seconds >= 0;
}

Result finish() {
  for (Stream *stream : streams) finish(stream);
  return broken;
}

Launch launch_of(Function *function, const unsigned *grid, const unsigned *block, unsigned shared,
                 void **params) {
  Launch launch = {function, {grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]}, shared, {}};
  for (unsigned i = 0; i < function->params; ++i) launch.values.push_back(*(uint64_t *)params[i]);
  return launch;
}

}  // namespace

#define ENTER std::lock_guard<std::recursive_mutex> guard(lock); if (broken) return broken; \
  if (context < 0) return INVALID_CONTEXT

// ---- what tests set and ask ------------------------------------------------------------------------

API void fake_set_order(unsigned to) { std::lock_guard<std::recursive_mutex> g(lock); seed = to; }
API void fake_set_memory(uint64_t to) { memory = to; }
API void fake_set_version(int to) { version = to; }
API void fake_set_devices(int to) { devices = to; }
API void fake_repair() { std::lock_guard<std::recursive_mutex> g(lock); broken = SUCCESS; for (Stream *s : streams) s->queued.clear(); }
// What another library queues: a function that says whether it is done.
API void fake_queue(void *stream, int (*call)()) {
  std::lock_guard<std::recursive_mutex> g(lock);
  ((Stream *)stream)->queued.push_back([=] { return call() != 0; });
}
// All processes have one GPU between them.
API void fake_share_gpu() { shares_gpu = true; }
API const char *fake_message() { return message.c_str(); }
// Of kernels that ran, graphs made, graphs launched, modules that are loaded.
API unsigned fake_count(int which) { return counts[which]; }
API uint64_t fake_used() { return used; }

// ---- devices ---------------------------------------------------------------------------------------

API Result cuInit(unsigned) { return SUCCESS; }
API Result cuDriverGetVersion(int *to) { *to = version; return SUCCESS; }
API Result cuDeviceGetCount(int *count) { *count = devices; return SUCCESS; }
API Result cuDeviceGet(int *device, int number) {
  *device = number;
  return number < devices ? SUCCESS : INVALID_DEVICE;
}
API Result cuDeviceGetName(char *name, int length, int device) {
  snprintf(name, length, "Processor %d", device);
  return SUCCESS;
}
API Result cuDeviceGetUuid(char *to, int device) {
  memset(to, 0, 16);
  const int mine[2] = {device, shares_gpu ? 0 : (int)getpid()};
  memcpy(to, mine, sizeof mine);
  return SUCCESS;
}
API Result cuDeviceTotalMem(size_t *bytes, int) { *bytes = memory; return SUCCESS; }
API Result cuDeviceGetAttribute(int *value, int attribute, int) {
  static const std::map<int, int> known = {
      {1, 1024}, {8, 48 << 10}, {10, 32}, {12, 65536}, {16, 8}, {38, 4 << 20}, {39, 2048}, {75, 9},
      {76, 0}, {81, 228 << 10}, {97, 227 << 10}};
  auto found = known.find(attribute);
  *value = found == known.end() ? 0 : found->second;
  return SUCCESS;
}
API Result cuDevicePrimaryCtxRetain(void **to, int device) {
  *to = (void *)(uintptr_t)(device + 1);
  return SUCCESS;
}
API Result cuCtxSetCurrent(void *to) { context = (int)(uintptr_t)to - 1; return SUCCESS; }
API Result cuGetErrorName(Result error, const char **name) {
  static const std::map<int, const char *> names = {
      {SUCCESS, "CUDA_SUCCESS"}, {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
      {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"}, {INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE"},
      {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"}, {NOT_FOUND, "CUDA_ERROR_NOT_FOUND"},
      {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"}, {LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED"},
      {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE"}, {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE"}};
  auto found = names.find(error);
  *name = found == names.end() ? "CUDA_ERROR_UNKNOWN" : found->second;
  return SUCCESS;
}
API Result cuGetErrorString(Result error, const char **text) {
  *text = error == ILLEGAL_ADDRESS ? "an illegal memory access was encountered" : message.c_str();
  return SUCCESS;
}

// ---- memory ----------------------------------------------------------------------------------------

API Result cuMemAlloc(uint64_t *address, size_t size) {
  ENTER;
  if (!size) return INVALID_VALUE;
  if (size > memory || used + size > memory) return OUT_OF_MEMORY;
  const size_t page = 4096, room = (size + page - 1) / page * page;
  char *start = (char *)mmap(nullptr, room + 2 * page, PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) return OUT_OF_MEMORY;
  mprotect(start + page, room, PROT_READ | PROT_WRITE);
  memset(start + page, 0xff, std::min<size_t>(room, 1 << 22));
  *address = (uint64_t)(start + page);
  allocated[*address] = size;
  used += size;
  return SUCCESS;
}
API Result cuMemFree(uint64_t address) {
  ENTER;
  finish();
  auto found = allocated.find(address);
  if (found == allocated.end()) return INVALID_VALUE;
  const size_t page = 4096, room = (found->second + page - 1) / page * page;
  munmap((char *)address - page, room + 2 * page);
  used -= found->second;
  allocated.erase(found);
  return broken;
}
API Result cuMemHostAlloc(void **address, size_t size, unsigned) {
  ENTER;
  return posix_memalign(address, 4096, size) ? OUT_OF_MEMORY : SUCCESS;
}
API Result cuMemFreeHost(void *address) { free(address); return SUCCESS; }
API Result cuMemcpyHtoDAsync(uint64_t to, const void *from, size_t size, void *stream) {
  ENTER;
  push(stream, [=] { if (!broken) memcpy((void *)to, from, size); });
  return SUCCESS;
}
API Result cuMemcpyDtoHAsync(void *to, uint64_t from, size_t size, void *stream) {
  ENTER;
  push(stream, [=] { if (!broken) memcpy(to, (void *)from, size); });
  return SUCCESS;
}
API Result cuMemsetD8Async(uint64_t to, unsigned char value, size_t size, void *stream) {
  ENTER;
  push(stream, [=] { if (!broken) memset((void *)to, value, size); });
  return SUCCESS;
}

// ---- streams and events ----------------------------------------------------------------------------

API Result cuStreamCreate(Stream **stream, unsigned) {
  ENTER;
  streams.push_back(*stream = new Stream);
  return SUCCESS;
}
API Result cuStreamSynchronize(Stream *stream) { ENTER; return finish(stream); }
API Result cuStreamQuery(Stream *stream) {
  ENTER;
  while (!stream->queued.empty())
    if (!advance(stream)) return NOT_READY;
  return broken;
}
API Result cuStreamWaitEvent(Stream *stream, Event *event, unsigned) {
  ENTER;
  if (event->record) stream->queued.push_back([record = event->record] { return reach(record.get()); });
  return SUCCESS;
}
API Result cuEventCreate(Event **event, unsigned) { ENTER; *event = new Event; return SUCCESS; }
API Result cuEventDestroy(Event *event) { ENTER; delete event; return SUCCESS; }
API Result cuEventRecord(Event *event, Stream *stream) {
  ENTER;
  auto record = event->record = std::make_shared<Record>(Record{stream});
  push(stream, [=] {
    record->seconds = std::chrono::duration<double>(
        std::chrono::steady_clock::now().time_since_epoch()).count();
  });
  return SUCCESS;
}
API Result cuEventQuery(Event *event) {
  ENTER;
  return !event->record || reach(event->record.get()) ? broken : NOT_READY;
}
API Result cuEventSynchronize(Event *event) {
  ENTER;
  while (event->record && !reach(event->record.get()) && !event->record->stream->queued.empty())
    usleep(100);
  return broken;
}
API Result cuEventElapsedTime(float *milliseconds, Event *start, Event *end) {
  ENTER;
  if (!start->record || !end->record) return INVALID_HANDLE;
  const double from = start->record->seconds, to = end->record->seconds;
  if (from < 0 || to < 0) return NOT_READY;
  *milliseconds = (float)((to - from) * 1e3);
  return SUCCESS;
}

// ---- code ------------------------------------------------------------------------------------------

API Result cuModuleLoadData(Module **module, const void *image) {
  ENTER;
  const unsigned char *data = (const unsigned char *)image;
  if (memcmp(data, "\177ELF", 4)) return INVALID_IMAGE;
  uint64_t sections;  // the section headers are the end of the file
  uint16_t size, count;
  memcpy(&sections, data + 40, 8), memcpy(&size, data + 58, 2), memcpy(&count, data + 60, 2);
  int file = memfd_create("module", 0);
  uint64_t length = sections + (uint64_t)size * count, done = 0;
  while (done < length) {
    ssize_t written = write(file, data + done, length - done);
    if (written <= 0) return OUT_OF_MEMORY;
    done += written;
  }
  std::string path = "/proc/self/fd/" + std::to_string(file);
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) message = dlerror();
  if (!library) {
    close(file);
    return INVALID_IMAGE;
  }
  *module = new Module{library, file, {}};  // the file stays open, so that no other has its name
  ++counts[3];
  return SUCCESS;
}
API Result cuModuleUnload(Module *module) {
  ENTER;
  finish();
  dlclose(module->library);
  close(module->file);
  for (Function *function : module->functions) delete function;
  delete module;
  --counts[3];
  return SUCCESS;
}
API Result cuModuleGetFunction(Function **function, Module *module, const char *name) {
  ENTER;
  void *call = dlsym(module->library, (std::string(name) + "_call").c_str());
  if (!call) return NOT_FOUND;
  unsigned *params = (unsigned *)dlsym(module->library, (std::string(name) + "_count").c_str());
  *function = new Function{(Call)call, (Run)dlsym(module->library, "cuda_on_cpu_run"), *params};
  module->functions.push_back(*function);
  return SUCCESS;
}
API Result cuFuncSetAttribute(Function *function, int attribute, int value) {
  ENTER;
  if (attribute != 8 || value < 0 || value > 227 << 10) return INVALID_VALUE;
  function->most_shared = value;
  return SUCCESS;
}
API Result cuLaunchKernel(Function *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                          unsigned by, unsigned bz, unsigned shared, void *stream, void **params, void **) {
  ENTER;
  if (!gx || gy > 65535 || gz > 65535 || bx * by * bz > 1024) return INVALID_VALUE;
  if (shared > function->most_shared) return INVALID_VALUE;
  unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
  push(stream, [launch = launch_of(function, grid, block, shared, params)] { run(launch); });
  return SUCCESS;
}

// ---- graphs ----------------------------------------------------------------------------------------

API Result cuGraphCreate(Graph **graph, unsigned) { ENTER; *graph = new Graph; return SUCCESS; }
API Result cuGraphAddKernelNode(Node **node, Graph *graph, Node *const *after, size_t count,
                                const NodeParams *params) {
  ENTER;
  if (params->shared > params->function->most_shared) return INVALID_VALUE;
  *node = new Node{launch_of(params->function, params->grid, params->block, params->shared,
                             params->params),
                   std::vector<Node *>(after, after + count)};
  graph->nodes.push_back(*node);
  return SUCCESS;
}
API Result cuGraphAddEmptyNode(Node **node, Graph *graph, Node *const *after, size_t count) {
  ENTER;
  *node = new Node{{nullptr, {}, {}, 0, {}}, std::vector<Node *>(after, after + count)};
  graph->nodes.push_back(*node);
  return SUCCESS;
}
API Result cuGraphInstantiateWithFlags(Graph **made, Graph *graph, unsigned long long) {
  ENTER;
  *made = new Graph(*graph);
  ++counts[1];
  return SUCCESS;
}
API Result cuGraphDestroy(Graph *graph) { ENTER; delete graph; return SUCCESS; }
API Result cuGraphExecDestroy(Graph *graph) {
  ENTER;
  finish();
  for (Node *node : graph->nodes) delete node;
  delete graph;
  --counts[1];
  return SUCCESS;
}
API Result cuGraphLaunch(Graph *graph, void *stream) {
  ENTER;
  ++counts[2];
  std::vector<Node *> left = graph->nodes, done;
  if (seed % 2) std::reverse(left.begin(), left.end());
  while (!left.empty()) {
    auto next = std::find_if(left.begin(), left.end(), [&](Node *node) {
      return std::all_of(node->after.begin(), node->after.end(), [&](Node *before) {
        return std::find(done.begin(), done.end(), before) != done.end();
      });
    });
    if (next == left.end()) return INVALID_VALUE;
    Node *node = *next;
    if (node->launch.function) push(stream, [launch = node->launch] { run(launch); });
    done.push_back(node);
    left.erase(next);
  }
  return SUCCESS;
}

// ---- the table of functions ------------------------------------------------------------------------

API Result cuGetProcAddress_v2(const char *name, void **function, int, uint64_t, int *status) {
  static void *self = [] {
    Dl_info info;
    dladdr((void *)fake_repair, &info);
    return dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  }();
  std::string wanted = name;
  if (wanted == "cuGetProcAddress") wanted += "_v2";
  *function = dlsym(self, wanted.c_str());
  if (status) *status = *function ? 0 : 1;
  return *function ? SUCCESS : NOT_FOUND;
}
API Result cuGetProcAddress(const char *name, void **function, int v, uint64_t flags) {
  return cuGetProcAddress_v2(name, function, v, flags, nullptr);
}
