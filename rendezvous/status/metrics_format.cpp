// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/status/metrics_format.h"

#include <algorithm>
#include <cctype>
#include <string>

#include "proto/text.h"

namespace cpprun {

namespace {

// One of the types that a request accepts, taken apart.
struct Accepted {
  std::string type;
  std::string version;  // empty: any
  int weight = 1000;    // in thousandths
};

std::string lower(std::string_view text) {
  std::string lowered(text);
  std::ranges::transform(lowered, lowered.begin(), [](unsigned char letter) {
    return static_cast<char>(std::tolower(letter));
  });
  return lowered;
}

// "1", "0.5" or "0.125"; other forms are no weight.
int thousandths(std::string_view text) {
  const auto point = text.find('.');
  const auto whole = exact_number<unsigned>(text.substr(0, point));
  if (!whole || *whole > 1) return 0;
  std::string digits(point == std::string_view::npos ? "" : text.substr(point + 1));
  if (digits.size() > 3) return 0;
  digits.resize(3, '0');
  const auto fraction = exact_number<unsigned>(digits);
  return fraction ? static_cast<int>(std::min(1000U, *whole * 1000 + *fraction)) : 0;
}

Accepted read(std::string_view range) {
  const auto parts = split(range, ';');
  Accepted accepted{.type = lower(trimmed(parts[0]))};
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const auto part = trimmed(parts[i]);
    const auto equals = std::min(part.find('='), part.size());
    const auto name = lower(trimmed(part.substr(0, equals)));
    const auto value = trimmed(part.substr(std::min(equals + 1, part.size())));
    if (name == "q") accepted.weight = thousandths(value);
    if (name == "version") accepted.version = value;
  }
  return accepted;
}

}  // namespace

MetricsFormat metrics_format(std::string_view accept) {
  int open_metrics = 0;
  int plain = 0;
  for (const auto range : split(accept, ',')) {
    const Accepted each = read(range);
    const auto is = [&](std::string_view type, std::string_view version) {
      return each.type == type && (each.version.empty() || each.version == version);
    };
    if (is("application/openmetrics-text", "1.0.0")) {
      open_metrics = std::max(open_metrics, each.weight);
    } else if (is("text/plain", "0.0.4") || each.type == "text/*" || each.type == "*/*") {
      plain = std::max(plain, each.weight);
    }
  }
  const bool is_wanted = open_metrics > 0 && open_metrics >= plain;
  return is_wanted ? MetricsFormat::open_metrics : MetricsFormat::plain;
}

std::string_view content_type(MetricsFormat format) {
  switch (format) {
    case MetricsFormat::open_metrics:
      return "application/openmetrics-text; version=1.0.0; charset=utf-8";
    case MetricsFormat::plain:
      break;
  }
  return "text/plain; version=0.0.4; charset=utf-8";
}

}  // namespace cpprun
