#pragma once
// A handle as LibTorch's headers name it: README.md says why.

typedef struct cublasLtContext* cublasLtHandle_t;
