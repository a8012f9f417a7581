#include "tests/integration/hosts.h"

#include <unistd.h>

#include <sstream>

namespace cpprun::integration {

TwoHosts::TwoHosts() : id_(std::to_string(::getpid())) {
  ip("netns add " + name(0));
  ip("netns add " + name(1));
  ip("link add fabric0 netns " + name(0) + " type veth peer name fabric0 netns " + name(1));
  for (const int host : {0, 1}) set_up(host);
}

TwoHosts::~TwoHosts() {
  // The cables go with the namespaces.
  for (const int host : {0, 1}) run({"ip", "netns", "del", name(host)});
}

Words TwoHosts::on(int host, const Words& words) const {
  Words all = {"ip", "netns", "exec", name(host)};
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

void TwoHosts::ip(const std::string& arguments) {
  if (!why_not_.empty()) return;
  Words words = {"ip"};
  std::istringstream stream(arguments);
  for (std::string word; stream >> word;) words.push_back(word);
  const auto ended = run(words);
  if (ended.code == 0) return;
  why_not_ = "cannot make network namespaces: ip " + arguments + ": " +
             ended.err.substr(0, ended.err.find('\n'));
}

void TwoHosts::set_up(int host) {
  const std::string inside = "-n " + name(host) + " ";
  ip(inside + "link set lo up");
  ip(inside + "addr add " + address(host) + "/24 dev fabric0");
  // Without `nodad` the address could not be used for the first second or two.
  ip(inside + "addr add " + address_v6(host) + "/64 dev fabric0 nodad");
  ip(inside + "link set fabric0 up");
  ip(inside + "link add blind0 type veth peer name blind1");
  ip(inside + "addr add 10.78." + std::to_string(host) + ".1/24 dev blind0");
  ip(inside + "link set blind0 up");
  ip(inside + "link set blind1 up");
}

std::string TwoHosts::name(int host) const {
  return "cpprun-" + id_ + (host == 0 ? "-a" : "-b");
}

}  // namespace cpprun::integration
