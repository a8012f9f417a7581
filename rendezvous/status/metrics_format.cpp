// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/status/metrics_format.h"

#include <algorithm>

#include "proto/text.h"

namespace cpprun {

namespace {

// Of "1", "0.5" or "0.125"; other forms are no weight.
int thousandths(std::string_view text) {
  const bool is_one = text.starts_with('1');
  if (!is_one && !text.starts_with('0')) return 0;
  int weight = is_one ? 1000 : 0;
  text.remove_prefix(1);
  if (text.empty()) return weight;
  if (!text.starts_with('.') || text.size() > 4) return 0;
  int unit = 100;
  for (const char digit : text.substr(1)) {
    if (digit < '0' || digit > '9') return 0;
    weight += (digit - '0') * unit;
    unit /= 10;
  }
  return std::min(weight, 1000);
}

// One of the types that a request accepts, taken apart.
struct Accepted {
  std::string_view type;
  std::string_view version;  // empty: any
  int weight = 1000;         // in thousandths
};

Accepted read(std::string_view range) {
  Accepted accepted{.type = trimmed(range.substr(0, range.find(';')))};
  for (auto semicolon = range.find(';'); semicolon != std::string_view::npos;
       semicolon = range.find(';')) {
    range.remove_prefix(semicolon + 1);
    const auto part = range.substr(0, range.find(';'));
    const auto equals = part.find('=');
    const auto value = equals == std::string_view::npos ? "" : trimmed(part.substr(equals + 1));
    const auto name = trimmed(part.substr(0, equals));
    if (is_alike(name, "q")) accepted.weight = thousandths(value);
    if (is_alike(name, "version")) accepted.version = value;
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
      return is_alike(each.type, type) && (each.version.empty() || each.version == version);
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
