// SPDX-License-Identifier: BSD-3-Clause
#pragma once
/* The content of a worker's heartbeat file, in C, for programs that write or watch it. The worker
 * maps the file into memory and writes into it at each step. A watcher reads it like any file, at
 * any time, and checks whether `beats` has grown. 264 bytes in this machine's byte order:
 *
 *   offset  bytes  what
 *        0      8  the text "CPPRUNHB"; written last
 *        8      4  version, 2
 *       12      4  rank
 *       16      4  process id
 *       20      4  CLOCK_MONOTONIC of the last complete checkpoint, in seconds; 0: none
 *       24      8  number of heartbeats
 *       32      8  CLOCK_MONOTONIC of the last heartbeat, in nanoseconds; 0: none
 *       40      8  the last completed step; 0: not reported
 *       48      8  samples so far; 0: not reported
 *       56      8  the step of the last checkpoint; 0: none
 *       64      8  how many steps this training has in all; 0: not reported
 *       72    192  8 metrics of 24 bytes: 16 bytes for the name, padded with NUL, and a double. An
 *                  entry without a name is unused. A new entry gets its value before its name
 *
 * All processes of the machine share that clock, so a watcher can compare the times with its own
 * reading. They may be coarse: accurate to a few milliseconds. The worker gets the file's name in
 * CPPRUN_HEARTBEAT_FILE. cpprun creates the file, and its size must not change. A file of 64 bytes
 * is valid too: its creator does not know the last two lines. A public header.
 */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define CPPRUN_HEARTBEAT_VARIABLE "CPPRUN_HEARTBEAT_FILE"
#define CPPRUN_HEARTBEAT_MAGIC "CPPRUNHB"
#define CPPRUN_HEARTBEAT_VERSION 2
#define CPPRUN_HEARTBEAT_METRICS 8
#define CPPRUN_HEARTBEAT_NAME_BYTES 16

struct cpprun_heartbeat_metric {
  char name[CPPRUN_HEARTBEAT_NAME_BYTES]; /* ends with a NUL unless it has all 16 bytes */
  double value;
};

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
  uint64_t total;
  struct cpprun_heartbeat_metric metrics[CPPRUN_HEARTBEAT_METRICS];
};

enum cpprun_heartbeat_outcome {
  cpprun_heartbeat_ok = 0,
  cpprun_heartbeat_bad_size,    /* neither 264 nor 64 bytes */
  cpprun_heartbeat_bad_magic,   /* not a heartbeat file */
  cpprun_heartbeat_bad_version, /* a version that this header does not know */
};

/* Reads the `size` bytes of a file. `*record` is written unless the size is wrong; what a file of
 * 64 bytes does not have is 0. */
static inline enum cpprun_heartbeat_outcome cpprun_heartbeat_parse(
    const void* bytes, size_t size, struct cpprun_heartbeat* record) {
  if (size != sizeof *record && size != offsetof(struct cpprun_heartbeat, total)) {
    return cpprun_heartbeat_bad_size;
  }
  memset(record, 0, sizeof *record);
  memcpy(record, bytes, size);
  if (memcmp(record->magic, CPPRUN_HEARTBEAT_MAGIC, 8) != 0) return cpprun_heartbeat_bad_magic;
  if (record->version != CPPRUN_HEARTBEAT_VERSION) return cpprun_heartbeat_bad_version;
  return cpprun_heartbeat_ok;
}
