// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/preview/preview_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "launcher/endpoint.h"
#include "launcher/table.h"
#include "proto/text.h"

namespace cpprun {

namespace {

constexpr std::string_view unknown = "?";

std::string or_unknown(const std::optional<int>& number) {
  return number ? std::to_string(*number) : std::string(unknown);
}

std::string or_dash(const std::string& text) {
  return text.empty() ? "-" : text;
}

// As somebody would type it.
std::string typed(const std::vector<std::string>& words) {
  std::string line;
  for (const auto& word : words) {
    const bool is_plain = !word.empty() && std::ranges::all_of(word, [](char byte) {
      return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
             (byte >= '0' && byte <= '9') ||
             std::string_view("_-./=:,@%+").find(byte) != std::string_view::npos;
    });
    line += (line.empty() ? "" : " ") + (is_plain ? word : shell_word(word));
  }
  return plain_line(line);
}

std::string counted(std::size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::size_t workers_of(const Preview& preview) {
  std::size_t count = 0;
  for (const auto& node : preview.nodes) count += node.workers.size();
  return count;
}

std::string nodes_text(const Preview& preview) {
  if (preview.nodes_min == preview.nodes_max) {
    return counted(static_cast<std::size_t>(preview.nodes_max), "node");
  }
  return fmt::format("{} to {} nodes", preview.nodes_min, preview.nodes_max);
}

std::string head(const Preview& preview) {
  const bool is_whole = preview.nodes.size() == static_cast<std::size_t>(preview.nodes_max);
  return fmt::format(
      "cpprun {} would start {} here{}; nothing is started\n", preview.version,
      counted(workers_of(preview), "worker"),
      is_whole && preview.nodes_max == 1 ? "" : ", of a job of " + nodes_text(preview));
}

std::string of_hosts(const Preview& preview) {
  return fmt::format("cpprun {} would start {} on {}; nothing is started\n", preview.version,
                     counted(workers_of(preview), "worker"), counted(preview.nodes.size(), "host"));
}

std::string master_text(const Preview& preview) {
  if (preview.meeting == "standalone") return "a free port of this machine";
  if (!preview.places.empty()) {
    return fmt::format("at the one that leads of {}", fmt::join(preview.places, ", "));
  }
  if (!preview.etcd.empty()) {
    return fmt::format("which says at {} which node hosts the job", fmt::join(preview.etcd, ", "));
  }
  if (preview.master_port) return to_string(Endpoint{preview.master_host, *preview.master_port});
  return preview.master_host + ", at a free port";
}

std::string job_lines(const Preview& preview) {
  std::string text;
  const auto add = [&](std::string_view name, std::string_view value) {
    text += fmt::format("  {:<9} {}\n", name, plain_line(value));
  };
  add("job", preview.job.empty() ? "an id of its own, made up at the start" : preview.job);
  add("meeting", fmt::format("{}, {}", preview.meeting, master_text(preview)));
  add("store", fmt::format("{}, {}", preview.store,
                           preview.has_secret ? "with a secret" : "without a secret"));
  if (!preview.log_folder.empty()) add("logs", preview.log_folder);
  return text;
}

std::string gpus_text(const PreviewNode& node) {
  if (node.gpus == node.gpus_there) return std::to_string(node.gpus);
  return fmt::format("{} of {}", node.gpus, node.gpus_there);
}

std::string table_text(const Table& table) {
  std::string text;
  for (const auto& line : lines_of(table, {})) text += line + "\n";
  return text;
}

std::string node_table(const Preview& preview) {
  Table table{.columns = {{"HOST"},
                          {"NODE", true},
                          {"ADDRESS"},
                          {"INTERFACE"},
                          {"GPUS", true},
                          {"MASTER"},
                          {"PYTHON"},
                          {"FOLDER"}},
              .rows = {}};
  for (const auto& node : preview.nodes) {
    table.rows.push_back({{node.name.empty() ? node.host : node.name},
                          {or_unknown(node.group_rank)},
                          {node.address.empty() ? std::string(unknown) : node.address},
                          {node.interface.empty() ? std::string(unknown) : node.interface},
                          {gpus_text(node)},
                          {node.hosting},
                          {or_dash(node.interpreter)},
                          {node.folder}});
  }
  return table_text(table);
}

std::string worker_table(const Preview& preview) {
  Table table{
      .columns = {{"HOST"}, {"LOCAL", true}, {"RANK", true}, {"GPU"}, {"CPUS"}, {"COMMAND"}},
      .rows = {}};
  for (const auto& node : preview.nodes) {
    for (const auto& worker : node.workers) {
      table.rows.push_back({{node.name.empty() ? node.host : node.name},
                            {std::to_string(worker.local_rank)},
                            {or_unknown(worker.rank)},
                            {or_dash(worker.gpu)},
                            {worker.cpus.empty() ? "all" : worker.cpus},
                            {typed(worker.command)}});
    }
  }
  return table_text(table);
}

std::string setting(std::string_view name, const std::optional<std::string>& value) {
  return fmt::format("{}={}", name, value ? plain_line(*value) : std::string(unknown));
}

// Whether all workers have it, and the same.
bool is_common(const Preview& preview, std::string_view name,
               const std::optional<std::string>& value) {
  for (const auto& node : preview.nodes) {
    for (const auto& worker : node.workers) {
      const auto at = worker.variables.find(name);
      if (at == worker.variables.end() || at->second != value) return false;
    }
  }
  return true;
}

std::string variable_lines(const Preview& preview) {
  std::string common;
  std::string own;
  bool is_first = true;
  for (const auto& node : preview.nodes) {
    for (const auto& worker : node.workers) {
      std::string line;
      for (const auto& [name, value] : worker.variables) {
        if (!is_common(preview, name, value)) {
          line += " " + setting(name, value);
        } else if (is_first) {
          common += fmt::format("  {}\n", setting(name, value));
        }
      }
      is_first = false;
      if (line.empty()) continue;
      own += fmt::format("  {} {}:{}\n", node.name.empty() ? node.host : node.name,
                         worker.local_rank, line);
    }
  }
  std::string text = "\nvariables of every worker:\n" + common;
  if (!own.empty()) text += "of each, by its host and its local rank:\n" + own;
  return text;
}

std::string node_lines(const Preview& preview) {
  std::string text;
  for (const auto& node : preview.nodes) {
    const std::string& name = node.name.empty() ? node.host : node.name;
    if (!node.inherited.empty()) text += fmt::format("inherited on {}:\n", name);
    for (const auto& [variable, value] : node.inherited) {
      text += fmt::format("  {}\n", setting(variable, value));
    }
    for (const auto& note : node.notes) {
      text += fmt::format("note of {}: {}\n", name, plain_line(note));
    }
  }
  return text;
}

std::string unknown_lines(const Preview& preview) {
  std::string text;
  for (const auto& each : unknowns_of(preview)) {
    text += fmt::format("  {}: {}\n", each.what, each.why);
  }
  return text.empty() ? text
                      : "not known before the start (" + std::string(unknown) + "):\n" + text;
}

}  // namespace

std::string preview_text(const Preview& preview) {
  const bool has_hosts = !preview.nodes.empty() && !preview.nodes.front().name.empty();
  return (has_hosts ? of_hosts(preview) : head(preview)) + job_lines(preview) + "\n" +
         node_table(preview) + "\n" + worker_table(preview) + variable_lines(preview) +
         node_lines(preview) + unknown_lines(preview);
}

}  // namespace cpprun
