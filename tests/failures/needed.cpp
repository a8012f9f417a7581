// SPDX-License-Identifier: BSD-3-Clause
// The library that `linked` needs; built a second time without its only symbol.

#ifdef CPPRUN_EMPTY
extern const int nothing_of_use;
const int nothing_of_use = 0;
#else
extern int needed_by_linked();

int needed_by_linked() {
  return 0;
}
#endif
