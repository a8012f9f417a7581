// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/io/bare_child.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstddef>

namespace cpprun {

namespace {

constexpr std::size_t stack_bytes = 64 * 1024;  // a few system calls need a fraction of it

// A stack for the child, with an inaccessible guard page below it.
class Stack {
 public:
  Stack() {
    base_ = ::mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (base_ != MAP_FAILED) ::mprotect(base_, 4096, PROT_NONE);
  }
  ~Stack() {
    if (base_ != MAP_FAILED) ::munmap(base_, stack_bytes);
  }
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;
  bool good() const { return base_ != MAP_FAILED; }
  void* top() const { return static_cast<char*>(base_) + stack_bytes; }

 private:
  void* base_ = nullptr;
};

}  // namespace

BareChild start_bare_child(int (*body)(void*), void* argument) {
  const Stack stack;
  if (!stack.good()) return {.error = errno};
  // None of our handlers may run in the child, which shares our memory.
  sigset_t every, before;
  ::sigfillset(&every);
  ::pthread_sigmask(SIG_SETMASK, &every, &before);
  BareChild child;
  constexpr int borrowing = CLONE_VM | CLONE_VFORK | SIGCHLD;
  child.pid = ::clone(body, stack.top(), borrowing | CLONE_PIDFD, argument, &child.pidfd);
  // A kernel before 5.2 provides no pidfd, and some sandboxes reject the flag.
  if (child.pid < 0 && (errno == EINVAL || errno == EPERM || errno == ENOSYS)) {
    child.pid = ::clone(body, stack.top(), borrowing, argument);
  }
  if (child.pid < 0) child.error = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return child;
}

}  // namespace cpprun
