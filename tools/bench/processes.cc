// SPDX-License-Identifier: Apache-2.0

#include "tools/bench/processes.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace quorate::tools::bench {
namespace {

constexpr char kListening[] = "0A";  // the state of a listening socket in /proc/net/tcp

uint16_t PortOf(const Endpoint& endpoint) {
  // The port has the same offset in both structures.
  static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
  return ntohs(reinterpret_cast<const sockaddr_in*>(&endpoint.address)->sin_port);
}

bool SameAddress(const sockaddr* a, const sockaddr* b) {
  if (a->sa_family != b->sa_family) return false;
  if (a->sa_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(a)->sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in*>(b)->sin_addr.s_addr;
  }
  return a->sa_family == AF_INET6 &&
         std::memcmp(&reinterpret_cast<const sockaddr_in6*>(a)->sin6_addr,
                     &reinterpret_cast<const sockaddr_in6*>(b)->sin6_addr, sizeof(in6_addr)) == 0;
}

// Returns whether the endpoint is an address of this machine.
bool IsLocal(const Endpoint& endpoint) {
  const auto* address = reinterpret_cast<const sockaddr*>(&endpoint.address);
  if (address->sa_family == AF_INET) {
    constexpr uint32_t kLoopback = 127;
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
    if (ntohl(v4->sin_addr.s_addr) >> 24 == kLoopback) return true;
  }
  ifaddrs* interfaces = nullptr;
  if (getifaddrs(&interfaces) != 0) return false;
  bool found = false;
  for (const ifaddrs* at = interfaces; at != nullptr; at = at->ifa_next) {
    found = found || (at->ifa_addr != nullptr && SameAddress(at->ifa_addr, address));
  }
  freeifaddrs(interfaces);
  return found;
}

// Reads the inodes of listening sockets, with their ports, from a file like /proc/net/tcp.
void AddListening(const char* path, std::map<uint64_t, uint16_t>* ports) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);  // the heading
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string number, local, remote, state, skipped;
    uint64_t inode = 0;
    words >> number >> local >> remote >> state;
    for (int i = 0; i < 5; ++i) words >> skipped;  // queues, timers, retransmits, user, timeout
    if (!(words >> inode) || state != kListening) continue;
    const size_t colon = local.rfind(':');
    if (colon == std::string::npos) continue;
    uint16_t port = 0;
    std::from_chars(local.data() + colon + 1, local.data() + local.size(), port, 16);
    (*ports)[inode] = port;
  }
}

// Returns the inode in "socket:[1234]"; 0 if the link is something else.
uint64_t SocketInode(const std::string& link) {
  constexpr char kPrefix[] = "socket:[";
  if (link.rfind(kPrefix, 0) != 0) return 0;
  uint64_t inode = 0;
  std::from_chars(link.data() + sizeof(kPrefix) - 1, link.data() + link.size(), inode);
  return inode;
}

}  // namespace

std::optional<std::vector<int>> ListenersOf(const std::vector<Endpoint>& servers) {
  std::set<uint16_t> wanted;
  for (const Endpoint& server : servers) {
    if (!IsLocal(server)) return std::nullopt;
    wanted.insert(PortOf(server));
  }
  std::map<uint64_t, uint16_t> ports;
  AddListening("/proc/net/tcp", &ports);
  AddListening("/proc/net/tcp6", &ports);
  std::set<uint16_t> found;
  std::set<int> pids;
  std::error_code error;
  for (const auto& process : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = process.path().filename();
    int pid = 0;
    const auto [end, failure] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (failure != std::errc() || end != name.data() + name.size()) continue;
    std::error_code hidden;
    std::filesystem::directory_iterator files(process.path() / "fd", hidden);
    for (; !hidden && files != std::filesystem::directory_iterator(); files.increment(hidden)) {
      std::error_code gone;
      const std::string link = std::filesystem::read_symlink(files->path(), gone);
      const auto port = ports.find(SocketInode(link));
      if (gone || port == ports.end() || !wanted.contains(port->second)) continue;
      found.insert(port->second);
      pids.insert(pid);
    }
  }
  if (found != wanted) return std::nullopt;
  return std::vector<int>(pids.begin(), pids.end());
}

std::optional<double> CpuSecondsOf(const std::vector<int>& pids) {
  double seconds = 0;
  for (const int pid : pids) {
    clockid_t clock{};
    timespec used{};
    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0) {
      return std::nullopt;
    }
    seconds += static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
  }
  return seconds;
}

double OwnCpuSeconds() { return CpuSecondsOf({getpid()}).value_or(0); }

std::string DescribeMachine() {
  std::string model = "processor";
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) {
      model = line.substr(colon + 2);
      break;
    }
  }
  utsname system{};
  uname(&system);
  return absl::StrCat(sysconf(_SC_NPROCESSORS_ONLN), " x ", model, ", ", system.sysname, " ",
                      system.release);
}

}  // namespace quorate::tools::bench
