// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A declaration of what ProcessGroupGloo.hpp uses: gloo_shim/README.md says why.

namespace gloo::transport {

class Device;
class UnboundBuffer;

}  // namespace gloo::transport
