// SPDX-License-Identifier: BSD-3-Clause
// A worker that fails in a real way: victim RANK WAY [FIFO]. The worker of that rank fails, the
// others wait to be stopped; with a fifo, through which two of them meet, both ignore TERM. Nothing
// is simulated: a segmentation fault is one.

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr std::size_t page = 4096;

void limit(int what, rlim_t to) {
  const rlimit both{to, to};
  ::setrlimit(static_cast<__rlimit_resource_t>(what), &both);
}

[[noreturn]] void report_error(const char* what) {
  std::perror(what);
  std::exit(1);
}

// A value that the compiler cannot see through.
template <class T>
T opaque(T value) {
  volatile T hidden = value;
  return hidden;
}

void segfault() {
  *opaque<int*>(nullptr) = 1;
}

void illegal_instruction() {
#if defined(__x86_64__)
  __asm__ volatile("ud2");
#else
  ::raise(SIGILL);
#endif
}

void divide() {
#if defined(__x86_64__)
  std::printf("%d\n", opaque(10) / opaque(0));
#else
  ::raise(SIGFPE);
#endif
}

void too_much_memory() {
  limit(RLIMIT_AS, 256UL << 20U);
  std::vector<std::unique_ptr<char[]>> all;
  for (;;) all.push_back(std::make_unique<char[]>(16UL << 20U));
}

void free_twice() {
  char* const memory = opaque(static_cast<char*>(std::malloc(64)));
  char* const again = opaque(memory);
  std::free(memory);
  std::free(again);
}

__attribute__((noinline)) void fill(char* where, std::size_t bytes) {
  std::memset(where, 'x', bytes);
}

void smash_stack() {
  char small[16];
  fill(small, opaque<std::size_t>(128));
  std::puts(small);
}

// Mapped memory without a file behind it.
void touch_mapped(const std::string& path, off_t promised, off_t there) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ::ftruncate(file, promised) != 0) report_error(path.c_str());
  auto* const memory = static_cast<char*>(::mmap(nullptr, static_cast<std::size_t>(promised),
                                                 PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  if (path.ends_with("unlinked")) ::unlink(path.c_str());
  if (there < promised && ::ftruncate(file, there) != 0) report_error("ftruncate");
  for (off_t at = 0; at < promised; at += static_cast<off_t>(page)) memory[at] = 'x';
}

void shrink_mapped() {
  touch_mapped("/tmp/victim_" + std::to_string(::getpid()) + "_unlinked", 1 << 20, 0);
}

void fill_shared_memory() {
  touch_mapped("/dev/shm/victim", 64 << 20, 64 << 20);
}

// As torch does it: afterwards there is no trace that it was full.
void fill_unlinked_memory() {
  touch_mapped("/dev/shm/victim_unlinked", 64 << 20, 64 << 20);
}

void write_to_closed_pipe() {
  int ends[2];
  if (::pipe(ends) != 0) report_error("pipe");
  ::close(ends[0]);
  if (::write(ends[1], "x", 1) < 0) report_error("write");
}

void burn() {
  // The soft limit sends SIGXCPU, the hard one would kill without a message.
  const rlimit seconds{1, 10};
  ::setrlimit(RLIMIT_CPU, &seconds);
  for (;;) opaque(1);
}

void large_file() {
  limit(RLIMIT_FSIZE, 1024);
  const int file = ::open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  const std::string block(1 << 20, 'x');
  while (::write(file, block.data(), block.size()) > 0) {
  }
  report_error("write");
}

void forbidden_call() {
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{4, rules};
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) report_error("seccomp");
  ::syscall(SYS_getppid);
}

void bind_twice() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  const int first = ::socket(AF_INET, SOCK_STREAM, 0);
  const int second = ::socket(AF_INET, SOCK_STREAM, 0);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (::bind(first, any, length) != 0 || ::getsockname(first, any, &length) != 0)
    report_error("first");
  if (::bind(second, any, length) != 0) report_error("cannot listen on the port");
}

void full_disk() {
  const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  if (::write(full, "x", 1) < 0) report_error("cannot write the checkpoint");
}

void many_files() {
  limit(RLIMIT_NOFILE, 32);
  while (::open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0) {
  }
  report_error("cannot open the next shard");
}

void many_threads() {
  errno = EAGAIN;
  limit(RLIMIT_AS, 64UL << 20U);
  pthread_t thread{};
  const auto wait = [](void*) -> void* {
    for (;;) ::pause();
  };
  while ((errno = ::pthread_create(&thread, nullptr, wait, nullptr)) == 0) {
  }
  report_error("cannot make another thread");
}

void read_only_disk() {
  if (::open("/mnt/checkpoint", O_WRONLY | O_CREAT | O_CLOEXEC, 0600) < 0) {
    report_error("cannot write /mnt/checkpoint");
  }
}

void record_error() {
  const char* const path = std::getenv("TORCHELASTIC_ERROR_FILE");
  std::ofstream(path == nullptr ? "" : path)
      << R"({"message": {"message": "RuntimeError: CUDA out of memory. Tried to allocate 2 GiB",)"
      << R"( "extraInfo": {"py_callstack": "Traceback (most recent call last):\n  f()\n",)"
      << R"( "timestamp": "1"}}})";
  std::exit(1);
}

void kill_self(int signal) {
  ::kill(::getpid(), signal);
  for (;;) ::pause();
}

const std::map<std::string, std::function<void()>>& ways() {
  static const std::map<std::string, std::function<void()>> all = {
      {"segfault", segfault},
      {"illegal_instruction", illegal_instruction},
      {"divide", divide},
      {"abort", [] { std::abort(); }},
      {"throw", [] { throw std::runtime_error("the weights are wrong"); }},
      {"too_much_memory", too_much_memory},
      {"free_twice", free_twice},
      {"smash_stack", smash_stack},
      {"shrink_mapped", shrink_mapped},
      {"fill_shared_memory", fill_shared_memory},
      {"fill_unlinked_memory", fill_unlinked_memory},
      {"write_to_closed_pipe", write_to_closed_pipe},
      {"burn", burn},
      {"large_file", large_file},
      {"forbidden_call", forbidden_call},
      {"killed", [] { kill_self(SIGKILL); }},
      {"terminated", [] { kill_self(SIGTERM); }},
      {"alarm", [] { kill_self(SIGALRM); }},
      {"bind_twice", bind_twice},
      {"full_disk", full_disk},
      {"many_files", many_files},
      {"many_threads", many_threads},
      {"read_only_disk", read_only_disk},
      {"record_error", record_error},
      {"assert", [] { assert(opaque(1) == 2); }},
      {"silent", [] { std::exit(7); }},
      {"eat_memory", [] {
         for (;;) fill(new char[16 << 20], 16 << 20);
       }}};
  return all;
}

}  // namespace

int main(int count, char** words) {
  const char* const rank = std::getenv("RANK");
  // No core dumps: this worker crashes on purpose.
  limit(RLIMIT_CORE, 0);
  const bool mine = count > 2 && rank != nullptr && std::string(rank) == words[1];
  if (count > 3) {
    // The worker that fails waits until the other one ignores TERM.
    ::signal(SIGTERM, SIG_IGN);
    ::close(::open(words[3], (mine ? O_RDONLY : O_WRONLY) | O_CLOEXEC));
  }
  if (!mine) {
    for (;;) ::pause();
  }
  const auto way = ways().find(words[2]);
  if (way == ways().end()) return 64;
  way->second();
  return 65;  // it did not fail, and the test has to notice
}
