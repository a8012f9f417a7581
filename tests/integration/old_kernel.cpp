// SPDX-License-Identifier: BSD-3-Clause
// Runs a program as on an older kernel, or in a sandbox: the system calls of Linux 5.1 to 5.9 that
// cpprun would like to use fail with the given error.
//
//   old_kernel ENOSYS|EPERM PROGRAM ARGUMENTS…

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <string_view>

#ifndef CLONE_PIDFD
#define CLONE_PIDFD 0x00001000
#endif

namespace {

constexpr unsigned number_at = offsetof(seccomp_data, nr);
constexpr unsigned flags_at = offsetof(seccomp_data, args);

bool refuse(unsigned short error) {
  const unsigned refusal = SECCOMP_RET_ERRNO | error;
  sock_filter steps[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, number_at),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 6, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_send_signal, 5, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 4, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 2),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, flags_at),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_PIDFD, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, refusal),
  };
  sock_fprog program{static_cast<unsigned short>(sizeof steps / sizeof steps[0]), steps};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

}  // namespace

int main(int count, char** words) {
  if (count < 3) return 64;
  const bool missing = std::string_view(words[1]) == "ENOSYS";
  if (!refuse(missing ? ENOSYS : EPERM)) {
    std::perror("old_kernel: seccomp");
    return 77;
  }
  ::execvp(words[2], words + 2);
  std::perror(words[2]);
  return 127;
}
