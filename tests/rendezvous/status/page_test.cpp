// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/status/page.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include "proto/time_use.h"

namespace page_test {

using namespace cpprun;

TEST_CASE("the page is its source file without indentation and script comments") {
  const char* const directory = std::getenv("CPPRUN_SOURCE_DIRECTORY");
  REQUIRE(directory != nullptr);
  std::ifstream file(std::string(directory) + "/rendezvous/status/page.html", std::ios::binary);
  std::string source;
  for (std::string line; std::getline(file, line);) {
    line.erase(0, std::min(line.find_first_not_of(' '), line.size()));
    if (!line.starts_with("//")) source += line + "\n";
  }
  // This build has no CPPRUN_DOCS_URL, so there is no link in this place.
  constexpr std::string_view place = "<!--docs-->";
  const auto at = source.find(place);
  REQUIRE(at != std::string::npos);
  CHECK(status_page().body == source.erase(at, place.size()));
  CHECK(source.size() > 4000);
}

TEST_CASE("a browser runs only the page's own script and style, which are named by their hashes") {
  const auto page = status_page();
  REQUIRE(page.fields[0].first == "Content-Security-Policy");
  const std::string& policy = page.fields[0].second;
  CHECK(policy.starts_with("default-src 'none'; script-src 'sha256-"));
  CHECK(policy.find("style-src 'sha256-") != std::string::npos);
  CHECK(policy.find("unsafe") == std::string::npos);
  // 32 bytes in base64, twice.
  const auto script = policy.find("'sha256-") + 8;
  CHECK(policy.substr(script + 43, 2) == "='");
}

TEST_CASE("the page contacts no other server, and inserts no untrusted text as markup") {
  const std::string page = status_page().body;
  for (const char* word : {"http://", "https://", "innerHTML", "outerHTML", "insertAdjacent",
                           "document.write", "eval(", "style=", "onclick=", "src="}) {
    CAPTURE(word);
    CHECK(page.find(word) == std::string::npos);
  }
  CHECK(page.find("prefers-color-scheme: dark") != std::string::npos);
  CHECK(page.find("width=device-width") != std::string::npos);
}

TEST_CASE("the page has a symbol for every time account") {
  const std::string page = status_page().body;
  for (std::size_t i = 0; i < account_count; ++i) {
    const std::string name{name_of(static_cast<Account>(i))};
    CAPTURE(name);
    CHECK(page.find(name + ": \"") != std::string::npos);
    CHECK(page.find("." + name) != std::string::npos);
  }
}

}  // namespace page_test
