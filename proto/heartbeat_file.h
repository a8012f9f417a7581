// SPDX-License-Identifier: BSD-3-Clause
#pragma once
/* What a worker's heartbeat file holds, in C, for whoever writes or watches it. The worker maps the
 * file into memory and writes one line of cache per step; a watcher reads it like any file,
 * whenever it likes, and looks whether `beats` has grown. 64 bytes in this machine's byte order:
 *
 *   offset  bytes  what
 *        0      8  the text "CPPRUNHB"; it is written last
 *        8      4  version, 2
 *       12      4  rank
 *       16      4  process id
 *       20      4  CLOCK_MONOTONIC when the last checkpoint was complete, in seconds; 0: never
 *       24      8  beats so far
 *       32      8  CLOCK_MONOTONIC of the last one, in nanoseconds; 0 before the first
 *       40      8  the step that was completed last; 0: not told
 *       48      8  samples so far; 0: not told
 *       56      8  the step of the last checkpoint; 0: none
 *
 * The clock is the machine's, so a watcher compares it with its own reading. It may be read
 * coarsely: to a few milliseconds. The worker gets the file's name by CPPRUN_HEARTBEAT_FILE. The
 * file is cpprun's, has its 64 bytes already and must keep them. A public header.
 */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define CPPRUN_HEARTBEAT_VARIABLE "CPPRUN_HEARTBEAT_FILE"
#define CPPRUN_HEARTBEAT_MAGIC "CPPRUNHB"
#define CPPRUN_HEARTBEAT_VERSION 2

struct cpprun_heartbeat {
  char magic[8];
  uint32_t version;
  int32_t rank;
  int32_t pid;
  uint32_t checkpoint_seconds;
  uint64_t beats;
  int64_t last_nanoseconds;
  uint64_t step;
  uint64_t samples;
  uint64_t checkpoint_step;
};

enum cpprun_heartbeat_outcome {
  cpprun_heartbeat_ok = 0,
  cpprun_heartbeat_bad_size,    /* not 64 bytes */
  cpprun_heartbeat_bad_magic,   /* no heartbeat */
  cpprun_heartbeat_bad_version, /* one of a version that this header does not know */
};

/* Reads the `size` bytes of a file. `*record` is written unless the size is wrong. */
static inline enum cpprun_heartbeat_outcome cpprun_heartbeat_parse(
    const void* bytes, size_t size, struct cpprun_heartbeat* record) {
  if (size != sizeof(struct cpprun_heartbeat)) return cpprun_heartbeat_bad_size;
  memcpy(record, bytes, size);
  if (memcmp(record->magic, CPPRUN_HEARTBEAT_MAGIC, 8) != 0) return cpprun_heartbeat_bad_magic;
  if (record->version != CPPRUN_HEARTBEAT_VERSION) return cpprun_heartbeat_bad_version;
  return cpprun_heartbeat_ok;
}
