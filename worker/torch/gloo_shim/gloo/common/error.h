#pragma once
// Empty on purpose: gloo_shim/README.md says why.
