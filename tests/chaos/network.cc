// SPDX-License-Identifier: Apache-2.0

// Network namespaces with a switch between them that behaves like a real, faulty network.
//
//   network --node NAME=ADDRESS ... [--seed S]
//
// Each node is a network namespace of its own with one device: its address, in a /24 that contains
// all nodes. This process has the other ends of the devices, and each packet goes through it. A
// namespace has no name: it exists while this process or a process in it lives. So nothing is left
// when all have ended, for whatever reason.
//
// After setup the process prints a line "node NAME /proc/PID/fd/N" for each node (for nsenter
// --net=) and a line "ready". Then it reads commands from standard input, and answers each with
// "ok" or "error WHAT" once the command is in force:
//
//   set FROM TO [drop] [loss=P] [delay=MS] [jitter=MS] [duplicate=P] [reorder=P] [rate=KB]
//          what happens from now on to packets from one node to another. P: a probability. delay
//          keeps their order, whatever the jitter adds. reorder: this share is held back for a
//          while, and the packets behind overtake. rate: at most KB * 1000 bytes pass in a second;
//          a packet that would have to wait longer than a router's buffer lasts (kRateQueueMs) is
//          lost. Nothing behind TO: packets pass.
//   heal   packets pass everywhere; delayed packets still arrive
//   count FROM TO   "ok N": so many packets have been delivered
//
// The process ends at the end of its standard input.

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <queue>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace {

using Time = std::chrono::steady_clock::time_point;

constexpr char kDevice[] = "net0";
// Large packets, so that much data needs few of them: servers share two cores with this process.
constexpr int kMtuBytes = 9000;
constexpr size_t kPacketBytesMax = 1 << 16;
// How many packets of one device are handled before it is the turn of the others.
constexpr int kPacketsAtOnce = 64;
// How many delayed packets a pair of nodes holds; as with any router, the rest is lost.
constexpr int kDelayedMax = 10'000;
constexpr int kHeldBackMsMax = 30;
constexpr int kRateQueueMs = 50;
constexpr size_t kDestinationOffset = 16;  // of the destination address in the header of IPv4

absl::Status Failed(absl::string_view what) {
  return absl::ErrnoToStatus(errno, absl::StrCat("network: ", what));
}

struct Rule {
  bool drop = false;
  double loss = 0;
  int delay_ms = 0;
  int jitter_ms = 0;
  double duplicate = 0;
  double reorder = 0;
  int rate_kb = 0;  // KB of 1000 bytes per second; 0: no limit

  bool passes() const { return !drop && loss == 0 && !late() && duplicate == 0; }
  bool late() const { return delay_ms > 0 || jitter_ms > 0 || reorder > 0 || rate_kb > 0; }
};

absl::StatusOr<Rule> ParseRule(const std::vector<std::string>& words) {
  Rule rule;
  for (const std::string& word : words) {
    const std::pair<std::string, std::string> pair = absl::StrSplit(word, absl::MaxSplits('=', 1));
    const auto& [key, value] = pair;
    const auto probability = [&value = value](double* to) {
      return absl::SimpleAtod(value, to) && *to >= 0 && *to <= 1;
    };
    const auto milliseconds = [&value = value](int* to) {
      return absl::SimpleAtoi(value, to) && *to >= 0 && *to <= 60'000;
    };
    const auto kilobytes = [&value = value](int* to) {
      return absl::SimpleAtoi(value, to) && *to >= 1 && *to <= 10'000'000;
    };
    bool valid = false;
    if (key == "drop" && value.empty()) valid = rule.drop = true;
    if (key == "loss") valid = probability(&rule.loss);
    if (key == "delay") valid = milliseconds(&rule.delay_ms);
    if (key == "jitter") valid = milliseconds(&rule.jitter_ms);
    if (key == "duplicate") valid = probability(&rule.duplicate);
    if (key == "reorder") valid = probability(&rule.reorder);
    if (key == "rate") valid = kilobytes(&rule.rate_kb);
    if (!valid) return absl::InvalidArgumentError(absl::StrCat("the rule is not valid: ", word));
  }
  return rule;
}

// The path from one node to another.
struct Pair {
  Rule rule;
  int delayed = 0;
  uint64_t delivered = 0;
  Time last_due;    // of the packets that keep their order
  Time sent_until;  // at the rate of the rule, if it has one
};

struct Node {
  std::string name;
  in_addr address{};
  int device = -1;
  int space = -1;  // the namespace
};

struct Delayed {
  Time due;
  uint64_t number;  // in the order of arrival
  size_t from, to;
  std::vector<char> packet;

  bool operator>(const Delayed& other) const {
    return std::pair(due, number) > std::pair(other.due, other.number);
  }
};

// Gives the device its address and switches it on. REQUIRES: it is in this thread's namespace.
absl::Status Configure(const Node& node, int device) {
  ifreq request{};
  std::strncpy(request.ifr_name, kDevice, IFNAMSIZ - 1);
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  if (ioctl(device, TUNSETIFF, &request) != 0) return Failed("cannot create a device");
  const int control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (control < 0) return Failed("no socket");
  const auto set = [&](unsigned long what) { return ioctl(control, what, &request) == 0; };
  const auto set_address = [&](unsigned long what, in_addr address) {
    sockaddr_in value{};
    value.sin_family = AF_INET;
    value.sin_addr = address;
    std::memcpy(&request.ifr_addr, &value, sizeof(value));
    return set(what);
  };
  bool done =
      set_address(SIOCSIFADDR, node.address) && set_address(SIOCSIFNETMASK, {htonl(0xFFFFFF00)});
  request.ifr_mtu = kMtuBytes;
  done = done && set(SIOCSIFMTU);
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  done = done && set(SIOCSIFFLAGS);
  // Packets from a node to itself go over the loopback device, also under the node's own address.
  std::strncpy(request.ifr_name, "lo", IFNAMSIZ - 1);
  done = done && set(SIOCSIFFLAGS);
  absl::Status status = done ? absl::OkStatus() : Failed("cannot configure a device");
  close(control);
  return status;
}

// Creates the namespace of a node. Leaves this thread in it.
absl::Status MakeNode(Node* node) {
  if (unshare(CLONE_NEWNET) != 0) return Failed("cannot create a namespace (are you root?)");
  node->space = open("/proc/self/ns/net", O_RDONLY);
  if (node->space < 0) return Failed("cannot open /proc/self/ns/net");
  node->device = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (node->device < 0) return Failed("cannot open /dev/net/tun");
  return Configure(*node, node->device);
}

class Switch {
 public:
  Switch(std::vector<Node> nodes, uint64_t seed)
      : nodes_(std::move(nodes)), pairs_(nodes_.size() * nodes_.size()), random_(seed) {
    for (size_t i = 0; i < nodes_.size(); ++i) by_address_[nodes_[i].address.s_addr] = i;
  }

  absl::Status Run() {
    const int poll = epoll_create1(EPOLL_CLOEXEC);
    const auto add = [&](int fd, size_t id) {
      epoll_event event{.events = EPOLLIN, .data = {.u64 = id}};
      return epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event) == 0;
    };
    if (poll < 0 || !add(STDIN_FILENO, nodes_.size())) return Failed("epoll");
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (!add(nodes_[i].device, i)) return Failed("epoll");
    }
    std::array<epoll_event, 32> events;
    while (!ended_) {
      const int count = epoll_wait(poll, events.data(), events.size(), MsToNext());
      if (count < 0 && errno != EINTR) return Failed("epoll_wait");
      DeliverDue();
      for (int i = 0; i < count; ++i) {
        const size_t id = events[i].data.u64;
        if (id == nodes_.size()) {
          ReadCommands();
        } else {
          Receive(id);
        }
      }
    }
    return absl::OkStatus();
  }

 private:
  Pair& PairOf(size_t from, size_t to) { return pairs_[from * nodes_.size() + to]; }
  bool Happens(double probability) {
    return probability > 0 && std::uniform_real_distribution<>(0, 1)(random_) < probability;
  }
  int UpTo(int max) { return std::uniform_int_distribution<>(0, max)(random_); }

  int MsToNext() const {
    if (delayed_.empty()) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(
        delayed_.top().due - std::chrono::steady_clock::now());
    return std::max<int>(0, static_cast<int>(left.count()));
  }

  void Receive(size_t from) {
    for (int i = 0; i < kPacketsAtOnce; ++i) {
      const ssize_t size = read(nodes_[from].device, buffer_.data(), buffer_.size());
      if (size <= 0) return;
      Forward(from, std::string_view(buffer_.data(), size));
    }
  }

  void Forward(size_t from, std::string_view packet) {
    if (packet.size() < kDestinationOffset + sizeof(in_addr) || (packet[0] & 0xF0) != 0x40) return;
    in_addr_t destination;
    std::memcpy(&destination, packet.data() + kDestinationOffset, sizeof(destination));
    const auto to = by_address_.find(destination);
    if (to == by_address_.end()) return;
    Pair& pair = PairOf(from, to->second);
    const Rule& rule = pair.rule;
    if (rule.passes()) return Deliver(pair, to->second, packet);
    if (rule.drop || Happens(rule.loss)) return;
    const int copies = Happens(rule.duplicate) ? 2 : 1;
    for (int i = 0; i < copies; ++i) {
      if (rule.late()) {
        Delay(from, to->second, packet);
      } else {
        Deliver(pair, to->second, packet);
      }
    }
  }

  void Delay(size_t from, size_t to, std::string_view packet) {
    Pair& pair = PairOf(from, to);
    if (pair.delayed >= kDelayedMax) return;
    using Ms = std::chrono::milliseconds;
    const Time now = std::chrono::steady_clock::now();
    Time sent = now;
    if (pair.rule.rate_kb > 0) {
      pair.sent_until = std::max(pair.sent_until, now);
      if (pair.sent_until - now > Ms(kRateQueueMs)) return;
      sent = pair.sent_until +=
          std::chrono::microseconds(packet.size() * 1000 / static_cast<size_t>(pair.rule.rate_kb));
    }
    Time due =
        sent + Ms(pair.rule.delay_ms + (pair.rule.jitter_ms > 0 ? UpTo(pair.rule.jitter_ms) : 0));
    if (Happens(pair.rule.reorder)) {
      due += Ms(1 + UpTo(kHeldBackMsMax));
    } else {
      due = pair.last_due = std::max(due, pair.last_due);
    }
    ++pair.delayed;
    delayed_.push({due, ++last_number_, from, to, {packet.begin(), packet.end()}});
  }

  void DeliverDue() {
    if (delayed_.empty()) return;
    const Time now = std::chrono::steady_clock::now();
    while (!delayed_.empty() && delayed_.top().due <= now) {
      const Delayed& next = delayed_.top();
      Pair& pair = PairOf(next.from, next.to);
      --pair.delayed;
      // A path that drops packets now also drops those that were delayed on it.
      if (!pair.rule.drop) Deliver(pair, next.to, {next.packet.data(), next.packet.size()});
      delayed_.pop();
    }
  }

  void Deliver(Pair& pair, size_t to, std::string_view packet) {
    // A device accepts a packet or loses it.
    if (write(nodes_[to].device, packet.data(), packet.size()) > 0) ++pair.delivered;
  }

  void ReadCommands() {
    const ssize_t size = read(STDIN_FILENO, buffer_.data(), buffer_.size());
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (size <= 0) {
      ended_ = true;
      return;
    }
    input_.append(buffer_.data(), size);
    size_t begin = 0;
    for (size_t end; (end = input_.find('\n', begin)) != std::string::npos; begin = end + 1) {
      const absl::StatusOr<std::string> answer = Obey(input_.substr(begin, end - begin));
      std::cout << (answer.ok() ? *answer : absl::StrCat("error ", answer.status().message()))
                << std::endl;
    }
    input_.erase(0, begin);
  }

  absl::StatusOr<std::string> Obey(const std::string& line) {
    std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words.size() == 1 && words[0] == "heal") {
      for (Pair& pair : pairs_) pair.rule = {};
      return "ok";
    }
    if (words.size() < 3)
      return absl::InvalidArgumentError(absl::StrCat("the command is not valid: ", line));
    size_t ends[2];
    for (int i : {0, 1}) {
      ends[i] = nodes_.size();
      for (size_t n = 0; n < nodes_.size(); ++n) {
        if (nodes_[n].name == words[i + 1]) ends[i] = n;
      }
      if (ends[i] == nodes_.size()) {
        return absl::InvalidArgumentError(absl::StrCat("there is no node ", words[i + 1]));
      }
    }
    Pair& pair = PairOf(ends[0], ends[1]);
    if (words[0] == "count" && words.size() == 3) return absl::StrCat("ok ", pair.delivered);
    if (words[0] != "set")
      return absl::InvalidArgumentError(absl::StrCat("there is no such command: ", line));
    absl::StatusOr<Rule> rule = ParseRule({words.begin() + 3, words.end()});
    if (!rule.ok()) return rule.status();
    pair.rule = *rule;
    return "ok";
  }

  std::vector<Node> nodes_;
  std::vector<Pair> pairs_;
  std::unordered_map<in_addr_t, size_t> by_address_;
  std::mt19937_64 random_;
  std::priority_queue<Delayed, std::vector<Delayed>, std::greater<>> delayed_;
  uint64_t last_number_ = 0;
  std::array<char, kPacketBytesMax> buffer_;
  std::string input_;
  bool ended_ = false;
};

absl::StatusOr<std::vector<Node>> MakeNodes(const std::vector<std::string>& arguments) {
  std::vector<Node> nodes;
  for (const std::string& argument : arguments) {
    const std::pair<std::string, std::string> pair =
        absl::StrSplit(argument, absl::MaxSplits('=', 1));
    Node node;
    node.name = pair.first;
    if (inet_pton(AF_INET, pair.second.c_str(), &node.address) != 1) {
      return absl::InvalidArgumentError(absl::StrCat("--node ", argument, ": NAME=ADDRESS"));
    }
    if (absl::Status s = MakeNode(&node); !s.ok()) return s;
    std::cout << "node " << node.name << " /proc/" << getpid() << "/fd/" << node.space << std::endl;
    nodes.push_back(std::move(node));
  }
  return nodes;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> arguments;
  uint64_t seed = 1;
  CLI::App app("Network namespaces with a switch between them.");
  app.add_option("--node", arguments, "NAME=ADDRESS, for each")->required();
  app.add_option("--seed", seed, "seed of all random choices");
  CLI11_PARSE(app, argc, argv);
  // This process ends with its parent.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  absl::StatusOr<std::vector<Node>> nodes = MakeNodes(arguments);
  absl::Status status = nodes.status();
  if (status.ok()) {
    std::cout << "ready" << std::endl;
    status = Switch(*std::move(nodes), seed).Run();
  }
  if (status.ok()) return 0;
  std::cerr << status.message() << std::endl;
  return 1;
}
