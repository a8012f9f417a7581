// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Empty on purpose: gloo_shim/README.md says why.
