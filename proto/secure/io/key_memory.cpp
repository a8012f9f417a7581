// SPDX-License-Identifier: BSD-3-Clause
#include "proto/secure/io/key_memory.h"

#include <string.h>
#include <sys/mman.h>

#include <new>

namespace cpprun {

std::shared_ptr<Key> make_key_memory() {
  // Whole pages, the unit in which the kernel excludes memory from core files.
  void* const page =
      ::mmap(nullptr, sizeof(Key), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) throw std::bad_alloc();
  // Additional protection only: these may fail on an old kernel or with a limit on locked memory,
  // and that must not prevent the use of a secret.
  (void)::madvise(page, sizeof(Key), MADV_DONTDUMP);
  (void)::madvise(page, sizeof(Key), MADV_WIPEONFORK);
  (void)::mlock(page, sizeof(Key));
  return {new (page) Key{}, [](Key* key) {
            ::explicit_bzero(key->data(), key->size());
            (void)::munmap(key, sizeof(Key));
          }};
}

}  // namespace cpprun
