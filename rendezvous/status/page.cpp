// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/status/page.h"

namespace cpprun {

http::Response status_page() {
  return {.type = "text/html; charset=utf-8",
          .body = std::string(page_html),
          .fields = {{"Content-Security-Policy", std::string(page_policy)},
                     {"Referrer-Policy", "no-referrer"},
                     {"Cross-Origin-Resource-Policy", "same-origin"}}};
}

}  // namespace cpprun
