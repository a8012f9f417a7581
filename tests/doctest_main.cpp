// SPDX-License-Identifier: BSD-3-Clause
// The one file that carries doctest's implementation into each test program.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
