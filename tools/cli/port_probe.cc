// SPDX-License-Identifier: Apache-2.0

#include "tools/cli/port_probe.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace quorate::tools {
namespace {

constexpr int kAnswerMs = 1000;

// Waits until `descriptor` is ready for `events`, for `ms` at most.
bool WaitFor(int descriptor, short events, int ms) {
  pollfd wait{descriptor, events, 0};
  return poll(&wait, 1, ms) == 1;
}

int ConnectTo(const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return -1;
  int descriptor = -1;
  for (const addrinfo* one = found; one != nullptr && descriptor < 0; one = one->ai_next) {
    descriptor = socket(one->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (descriptor < 0) continue;
    int error = 0;
    socklen_t size = sizeof(error);
    const bool connected =
        connect(descriptor, one->ai_addr, one->ai_addrlen) == 0 ||
        (WaitFor(descriptor, POLLOUT, kAnswerMs) &&
         getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0);
    if (connected) continue;
    close(descriptor);
    descriptor = -1;
  }
  freeaddrinfo(found);
  return descriptor;
}

// Returns whether a ZooKeeper front end answers the four-letter word `srvr`, which every server
// allows. A gRPC port sends a SETTINGS frame first instead.
bool SpeaksZooKeeper(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || address.starts_with("unix:")) return false;
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  const int descriptor = ConnectTo(host, address.substr(colon + 1));
  if (descriptor < 0) return false;
  std::string answer;
  if (send(descriptor, "srvr", 4, MSG_NOSIGNAL) == 4 && WaitFor(descriptor, POLLIN, kAnswerMs)) {
    char buffer[64];
    const ssize_t size = recv(descriptor, buffer, sizeof(buffer), 0);
    if (size > 0) answer.assign(buffer, static_cast<size_t>(size));
  }
  close(descriptor);
  return answer.starts_with("Zookeeper version") || answer.starts_with("This ZooKeeper");
}

}  // namespace

std::string WrongPortHint(const std::string& text) {
  const std::string servers = text.substr(0, text.find('/'));
  std::vector<std::string> addresses;
  std::vector<std::future<bool>> probes;
  for (absl::string_view part : absl::StrSplit(servers, ',', absl::SkipWhitespace())) {
    addresses.emplace_back(absl::StripAsciiWhitespace(part));
    probes.push_back(std::async(std::launch::async, SpeaksZooKeeper, addresses.back()));
  }
  std::vector<std::string> wrong;
  for (size_t i = 0; i < addresses.size(); ++i) {
    if (probes[i].get()) wrong.push_back(addresses[i]);
  }
  if (wrong.empty()) return "";
  return absl::StrCat(absl::StrJoin(wrong, ", "), wrong.size() == 1 ? " is a port" : " are ports",
                      " for ZooKeeper clients (clientPort); --server takes gRPC ports (grpcPort in "
                      "zoo.cfg, 2281 if it is the usual one)");
}

}  // namespace quorate::tools
