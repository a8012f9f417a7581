// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A handle as LibTorch's headers name it: README.md says why.

typedef struct cusparseContext* cusparseHandle_t;
typedef int cusparseStatus_t;
