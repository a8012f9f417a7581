// SPDX-License-Identifier: BSD-3-Clause
#include "worker/env/io/heartbeat.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <ctime>

#include "proto/text.h"
#include "proto/worker_contract.h"
#include "worker/env/io/environment.h"

namespace cpprun {
namespace {

using Word [[gnu::may_alias]] = std::uint64_t;
static_assert(sizeof(cpprun_heartbeat_metric::name) == 2 * sizeof(Word));

constexpr off_t heartbeat_bytes_min = offsetof(HeartbeatRecord, total);

std::string path_in_environment() {
  const Environment environment = read_environment();
  const auto found = environment.find(std::string(heartbeat_variable));
  return found == environment.end() ? "" : found->second;
}

// Null if the file cannot be mapped; errno says why.
HeartbeatRecord* map_file(const std::string& path) {
  const int file = ::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644);
  if (file < 0) return nullptr;
  void* memory = MAP_FAILED;
  struct stat status {};
  static_cast<void>(::fstat(file, &status));
  // The size of a file that cpprun created stays. An older cpprun creates 64 bytes: what is written
  // behind the end of the file, in its last page, is lost, and no error.
  const off_t size =
      status.st_size >= heartbeat_bytes_min ? status.st_size : off_t{sizeof(HeartbeatRecord)};
  // Not ftruncate alone: on a full disk, writing to a hole would raise SIGBUS at some heartbeat.
  const int error = ::posix_fallocate(file, 0, size);
  if (error == 0 && (size == status.st_size || ::ftruncate(file, size) == 0)) {
    memory = ::mmap(nullptr, sizeof(HeartbeatRecord), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  const int why = error != 0 ? error : errno;
  ::close(file);
  errno = why;
  return memory == MAP_FAILED ? nullptr : static_cast<HeartbeatRecord*>(memory);
}

timespec coarse_now() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return now;
}

}  // namespace

Heartbeat::Heartbeat(const Context& context)
    : Heartbeat(path_in_environment(), context.rank.value) {}

Heartbeat::Heartbeat(const std::string& path, int rank) {
  if (path.empty()) return;
  record_ = map_file(path);
  if (record_ == nullptr) {
    const std::string line = fmt::format("rank {}: heartbeats are off: cannot write \"{}\": {}\n",
                                         rank, path, errno_text(errno));
    static_cast<void>(!::write(STDERR_FILENO, line.data(), line.size()));
    return;
  }
  *record_ = {.rank = rank, .pid = ::getpid()};
  // The magic is written last and in one piece: a reader that sees it sees the rest.
  static_assert(offsetof(HeartbeatRecord, magic) == 0 && sizeof(Word) == heartbeat_magic.size());
  Word magic = 0;
  std::memcpy(&magic, heartbeat_magic.data(), sizeof magic);
  __atomic_store_n(reinterpret_cast<Word*>(record_->magic), magic, __ATOMIC_RELEASE);
}

Heartbeat::~Heartbeat() {
  if (record_ != nullptr) ::munmap(record_, sizeof(HeartbeatRecord));
}

void Heartbeat::beat() noexcept {
  if (record_ == nullptr) return;
  // The coarse clock only reads memory that the kernel updates.
  const timespec now = coarse_now();
  const std::int64_t nanoseconds = now.tv_sec * 1'000'000'000LL + now.tv_nsec;
  std::atomic_ref(record_->last_nanoseconds).store(nanoseconds, std::memory_order_relaxed);
  // Only this thread writes, so a load and a store suffice; readers see whole numbers.
  const std::atomic_ref beats(record_->beats);
  beats.store(beats.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

void Heartbeat::beat(const Progress& progress) noexcept {
  if (record_ == nullptr) return;
  std::atomic_ref(record_->step).store(progress.step, std::memory_order_relaxed);
  std::atomic_ref(record_->samples).store(progress.samples, std::memory_order_relaxed);
  if (progress.total != 0) {
    std::atomic_ref(record_->total).store(progress.total, std::memory_order_relaxed);
  }
  beat();
}

bool Heartbeat::metric(std::string_view name, double value) noexcept {
  if (record_ == nullptr || !is_metric_name(name)) return false;
  char wanted[CPPRUN_HEARTBEAT_NAME_BYTES] = {};
  std::ranges::copy(name, wanted);
  for (auto& entry : record_->metrics) {
    const bool is_new = entry.name[0] == '\0';
    if (!is_new && std::memcmp(entry.name, wanted, sizeof wanted) != 0) continue;
    std::atomic_ref(entry.value).store(value, std::memory_order_relaxed);
    if (is_new) {
      // The first half of the name last, in one piece: a reader that sees it sees the rest.
      std::memcpy(entry.name + sizeof(Word), wanted + sizeof(Word), sizeof(Word));
      Word half = 0;
      std::memcpy(&half, wanted, sizeof half);
      __atomic_store_n(reinterpret_cast<Word*>(entry.name), half, __ATOMIC_RELEASE);
    }
    return true;
  }
  return false;
}

void Heartbeat::saved(std::uint64_t step) noexcept {
  if (record_ == nullptr) return;
  const auto seconds = static_cast<std::uint32_t>(coarse_now().tv_sec);
  std::atomic_ref(record_->checkpoint_step).store(step, std::memory_order_relaxed);
  std::atomic_ref(record_->checkpoint_seconds).store(seconds, std::memory_order_release);
}

}  // namespace cpprun
