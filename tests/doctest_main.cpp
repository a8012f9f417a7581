// SPDX-License-Identifier: BSD-3-Clause
// The only file with doctest's implementation, for all test programs.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
