// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/hang/io/native_stack.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "proto/bounds.h"
#include "proto/text.h"

namespace cpprun::io {

namespace {

// Stops one thread while it exists. Unlike PTRACE_ATTACH, this leaves no signal behind if we are
// killed meanwhile.
class StoppedThread {
 public:
  explicit StoppedThread(int tid) : tid_(tid) {
    if (::ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) != 0) {
      reason_ = fmt::format("ptrace: {}", errno_text(errno));
      return;
    }
    if (::ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr) == 0 && has_stopped()) {
      is_stopped_ = true;
    } else {
      reason_ = "it did not stop for ptrace";
    }
  }
  // A thread that is not stopped is released when this process ends.
  ~StoppedThread() {
    if (is_stopped_) static_cast<void>(::ptrace(PTRACE_DETACH, tid_, nullptr, signal_));
  }
  StoppedThread(const StoppedThread&) = delete;
  StoppedThread& operator=(const StoppedThread&) = delete;

  const std::string& reason() const { return reason_; }  // empty: it is stopped

 private:
  bool has_stopped() {
    constexpr int attempts_max = 200;
    for (int attempt = 0; attempt < attempts_max; ++attempt) {
      int status = 0;
      if (::waitpid(tid_, &status, __WALL | WNOHANG) == tid_) {
        if (WIFSTOPPED(status) && status >> 16 != PTRACE_EVENT_STOP) signal_ = WSTOPSIG(status);
        return WIFSTOPPED(status);
      }
      const std::timespec pause{0, 500'000};
      ::nanosleep(&pause, nullptr);
    }
    return false;
  }

  int tid_;
  std::intptr_t signal_ = 0;  // stopped it first, and is delivered when it runs again
  bool is_stopped_ = false;
  std::string reason_ = {};
};

}  // namespace

std::string ptrace_refusal() {
  const pid_t child = ::fork();
  if (child < 0) return fmt::format("fork: {}", errno_text(errno));
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) ::pause();
  }
  std::string refusal;
  {
    const StoppedThread thread(child);
    refusal = thread.reason();
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return refusal;
}

#ifdef CPPRUN_STATIC

std::string libdw_refusal() {
  return "this build of cpprun reads no native stacks: it is static";
}

Result<std::string> native_stack_of(int, TimePoint) {
  return failure(libdw_refusal());
}

#else

namespace {

// Of elfutils/libdwfl.h, whose names and arguments have not changed since 0.158.
using Address = std::uint64_t;
using Dwfl = void;
using Module = void;
using Line = void;
using DwflFrame = void;

struct DwflCallbacks {
  void* find_elf = nullptr;
  void* find_debuginfo = nullptr;
  void* section_address = nullptr;
  char** debuginfo_path = nullptr;
};
constexpr int walk_on = 0;
constexpr int walk_ends = 1;

struct Libdw {
  Dwfl* (*begin)(const DwflCallbacks*) = nullptr;
  void (*end)(Dwfl*) = nullptr;
  int (*report)(Dwfl*, pid_t) = nullptr;
  int (*report_end)(Dwfl*, void*, void*) = nullptr;
  int (*attach)(Dwfl*, pid_t, bool) = nullptr;
  const char* (*message)(int) = nullptr;
  int (*frames)(Dwfl*, pid_t, int (*)(DwflFrame*, void*), void*) = nullptr;
  bool (*frame_pc)(DwflFrame*, Address*, bool*) = nullptr;
  Module* (*module)(Dwfl*, Address) = nullptr;
  const char* (*name)(Module*, Address) = nullptr;
  const char* (*module_info)(Module*, void***, Address*, Address*, Address*, Address*, const char**,
                             const char**) = nullptr;
  Line* (*line)(Module*, Address) = nullptr;
  const char* (*line_info)(Line*, Address*, int*, int*, Address*, Address*) = nullptr;
  DwflCallbacks callbacks = {};
};

std::optional<Libdw> open_libdw() {
  void* const library = ::dlopen("libdw.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::nullopt;
  Libdw dw;
  bool is_whole = true;
  const auto find = [&]<class Function>(Function& function, const char* name) {
    function = reinterpret_cast<Function>(::dlsym(library, name));
    is_whole = is_whole && function != nullptr;
  };
  find(dw.begin, "dwfl_begin");
  find(dw.end, "dwfl_end");
  find(dw.report, "dwfl_linux_proc_report");
  find(dw.report_end, "dwfl_report_end");
  find(dw.attach, "dwfl_linux_proc_attach");
  find(dw.message, "dwfl_errmsg");
  find(dw.frames, "dwfl_getthread_frames");
  find(dw.frame_pc, "dwfl_frame_pc");
  find(dw.module, "dwfl_addrmodule");
  find(dw.name, "dwfl_module_addrname");
  find(dw.module_info, "dwfl_module_info");
  find(dw.line, "dwfl_module_getsrc");
  find(dw.line_info, "dwfl_lineinfo");
  find(dw.callbacks.find_elf, "dwfl_linux_proc_find_elf");
  // Not the standard one, which may ask a server of debug information on the network.
  find(dw.callbacks.find_debuginfo, "dwfl_build_id_find_debuginfo");
  if (!is_whole) return std::nullopt;
  return dw;
}

struct Walk {
  const Libdw* dw = nullptr;
  std::vector<Address> calls = {};  // innermost first
};

int take_frame(DwflFrame* frame, void* argument) {
  auto& walk = *static_cast<Walk*>(argument);
  Address pc = 0;
  bool is_activation = false;
  if (!walk.dw->frame_pc(frame, &pc, &is_activation)) return walk_ends;
  // A return address may already belong to the next line.
  walk.calls.push_back(is_activation ? pc : pc - 1);
  constexpr std::size_t frames_max = bounds::worker_backtrace_frames_max;
  return walk.calls.size() < frames_max ? walk_on : walk_ends;
}

std::string_view base_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

std::string line_of(const Libdw& dw, Dwfl* dwfl, Address call) {
  Module* const module = dw.module(dwfl, call);
  if (module == nullptr) return "?\n";
  const char* const mangled = dw.name(module, call);
  int status = -1;
  const std::unique_ptr<char, decltype(&std::free)> readable(
      mangled != nullptr ? abi::__cxa_demangle(mangled, nullptr, nullptr, &status) : nullptr,
      &std::free);
  const std::string_view name = readable ? readable.get() : mangled != nullptr ? mangled : "?";
  // Without the version of a symbol: "pthread_cond_wait@@GLIBC_2.3.2".
  const std::string_view function = readable ? name : name.substr(0, name.find('@'));
  int number = 0;
  Line* const line = dw.line(module, call);
  const char* const file =
      line != nullptr ? dw.line_info(line, nullptr, &number, nullptr, nullptr, nullptr) : nullptr;
  if (file != nullptr) return fmt::format("{} {}:{}\n", function, file, number);
  const char* const library =
      dw.module_info(module, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
  return fmt::format("{} {}\n", function, base_name(library != nullptr ? library : "?"));
}

Result<std::vector<Address> > walk_stack(const Libdw& dw, Dwfl* dwfl, int pid) {
  const StoppedThread thread(pid);
  if (!thread.reason().empty()) return failure(thread.reason());
  const int attached = dw.attach(dwfl, pid, /*assume_ptrace_stopped=*/true);
  if (attached > 0) return failure(errno_text(attached));
  if (attached < 0) return failure(dw.message(-1));
  Walk walk{.dw = &dw};
  // Its result is an error where the outermost frame is not marked as such: the frames are good.
  static_cast<void>(dw.frames(dwfl, pid, &take_frame, &walk));
  if (walk.calls.empty()) return failure(fmt::format("cannot walk the stack: {}", dw.message(-1)));
  return walk.calls;
}

}  // namespace

std::string libdw_refusal() {
  return open_libdw() ? "" : "libdw.so.1 (elfutils) is not installed";
}

Result<std::string> native_stack_of(int pid, TimePoint deadline) {
  static const auto dw = open_libdw();
  if (!dw) return failure(libdw_refusal());
  const std::unique_ptr<Dwfl, void (*)(Dwfl*)> dwfl(dw->begin(&dw->callbacks), dw->end);
  if (!dwfl) return failure(dw->message(-1));
  // An error of one mapping does not matter for the others.
  static_cast<void>(dw->report(dwfl.get(), pid));
  static_cast<void>(dw->report_end(dwfl.get(), nullptr, nullptr));
  const auto calls = walk_stack(*dw, dwfl.get(), pid);
  if (!calls) return failure(calls.error().reason);
  std::string text;
  for (const Address call : *calls) {
    if (std::chrono::steady_clock::now() >= deadline) break;
    text += line_of(*dw, dwfl.get(), call);
  }
  return text;
}

#endif

}  // namespace cpprun::io
