// SPDX-License-Identifier: BSD-3-Clause
// Included before every file of a portable build. Its C library, the glibc of 2012 (2.17) or musl,
// lacks functions that we call; the kernel has had their system calls since 4.18 at the latest,
// which is the oldest that the programs run on.
#pragma once
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static inline int cpprun_renameat2(int from_directory, const char* from, int to_directory,
                                   const char* to, unsigned flags) {
  return (int)syscall(SYS_renameat2, from_directory, from, to_directory, to, flags);
}
#define renameat2 cpprun_renameat2

#ifdef __GLIBC__
#include <linux/memfd.h>
#if __GLIBC__ != 2 || __GLIBC_MINOR__ >= 25
#error "this C library has these functions"
#endif

static inline ssize_t cpprun_getrandom(void* bytes, size_t size, unsigned flags) {
  return syscall(SYS_getrandom, bytes, size, flags);
}
#define getrandom cpprun_getrandom

static inline int cpprun_memfd_create(const char* name, unsigned flags) {
  return (int)syscall(SYS_memfd_create, name, flags);
}
#define memfd_create cpprun_memfd_create

// Keeps the compiler from removing the memset.
static inline void cpprun_explicit_bzero(void* bytes, size_t size) {
  memset(bytes, 0, size);
  __asm__ __volatile__("" : : "r"(bytes) : "memory");
}
#define explicit_bzero cpprun_explicit_bzero
#endif
