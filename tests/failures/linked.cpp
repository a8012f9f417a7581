// SPDX-License-Identifier: BSD-3-Clause
// A worker that needs a library of its own, which the tests remove or replace.

extern int needed_by_linked();

int main() {
  return needed_by_linked();
}
