// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A handle as LibTorch's headers name it: README.md says why.

#include <cusolver_common.h>

typedef struct cusolverDnContext* cusolverDnHandle_t;
