// SPDX-License-Identifier: Apache-2.0

#include "rpc/quorated/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace quorate::rpc {
namespace {

using std::chrono::milliseconds;

// The time between two reports without a watchdog. With one, at least three reports fit into its time, so
// that a late one does no harm.
constexpr milliseconds kInterval{1000};
constexpr int kReportsPerWatchdog = 3;

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Returns the name of the manager's socket: a path, or "@NAME" for an abstract one. Returns an empty string
// if there is none, or if it is of another kind (a virtual machine's).
std::string ManagerAddress() {
  const std::string name = Variable("NOTIFY_SOCKET");
  const bool is_known = name.size() > 1 && (name[0] == '/' || name[0] == '@');
  return is_known && name.size() < sizeof(sockaddr_un::sun_path) ? name : "";
}

// Returns the time within which the manager expects a sign of life; 0: it expects none.
milliseconds WatchdogTime() {
  int64_t time_us = 0;
  const std::string pid = Variable("WATCHDOG_PID");
  const bool is_for_this_process = pid.empty() || pid == absl::StrCat(getpid());
  if (!is_for_this_process || !absl::SimpleAtoi(Variable("WATCHDOG_USEC"), &time_us)) {
    return milliseconds{0};
  }
  return milliseconds{std::max<int64_t>(time_us / 1000, 0)};
}

milliseconds IntervalFor(milliseconds watchdog) {
  if (watchdog.count() == 0) return kInterval;
  return std::clamp(watchdog / kReportsPerWatchdog, milliseconds{1}, kInterval);
}

}  // namespace

std::string StatusLine(const ServerStatus& status) {
  if (status.standalone && status.serving()) return "serving alone";
  if (status.serving() && status.is_leader) {
    return absl::StrCat("serving as leader of ", status.voters, " voters, ",
                        status.followers_in_sync, " of the others up to date");
  }
  if (status.serving()) return "serving as follower";
  if (status.read_only) return "serving reads only: there is no leader";
  if (status.leader_known) return "not serving: catching up with the leader";
  return "not serving: there is no leader; the end of the log says what this server waits for";
}

ServiceManager::ServiceManager()
    : address_(ManagerAddress()),
      watchdog_(WatchdogTime()),
      interval_(IntervalFor(watchdog_)),
      socket_(address_.empty() ? -1
                               : socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)),
      reports_("service-manager", interval_, [this] { Report(); }) {}

ServiceManager::~ServiceManager() {
  reports_.Stop();
  if (socket_ >= 0) close(socket_);
}

void ServiceManager::Start() {
  if (socket_ >= 0) reports_.Start();
}

void ServiceManager::Serve(const Service* service) {
  {
    MutexLock lock(&mutex_);
    service_ = service;
    // The server may have been asked to stop while it loaded its data.
    if (phase_ != Phase::kStopping) phase_ = Phase::kServing;
  }
  Report();
}

void ServiceManager::Stop() {
  {
    MutexLock lock(&mutex_);
    phase_ = Phase::kStopping;
  }
  Report();
}

void ServiceManager::Detach() {
  MutexLock lock(&mutex_);
  if (phase_ != Phase::kStopping) phase_ = Phase::kLoading;
  service_ = nullptr;
}

std::string ServiceManager::Message(const std::string& line) {
  std::string message;
  if (phase_ != phase_reported_) {
    if (phase_ == Phase::kServing) absl::StrAppend(&message, "READY=1\n");
    if (phase_ == Phase::kStopping) absl::StrAppend(&message, "STOPPING=1\n");
  }
  const bool is_alive = phase_ != Phase::kServing ||
                        node_rounds_.load(std::memory_order_relaxed) != node_rounds_reported_;
  if (watchdog_.count() > 0 && is_alive) absl::StrAppend(&message, "WATCHDOG=1\n");
  if (line != line_reported_) absl::StrAppend(&message, "STATUS=", line, "\n");
  return message;
}

void ServiceManager::Report() {
  if (socket_ < 0) return;
  MutexLock lock(&mutex_);
  const std::string line = phase_ == Phase::kLoading    ? "loading the data"
                           : phase_ == Phase::kStopping ? "stopping"
                                                        : StatusLine(service_->status());
  const uint64_t node_rounds = node_rounds_.load(std::memory_order_relaxed);
  const std::string message = Message(line);
  if (message.empty() || !Send(message)) return;
  phase_reported_ = phase_;
  line_reported_ = line;
  node_rounds_reported_ = node_rounds;
}

bool ServiceManager::Send(const std::string& message) const {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, address_.data(), address_.size());
  if (address_[0] == '@') address.sun_path[0] = '\0';
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address_.size());
  return sendto(socket_, message.data(), message.size(), MSG_NOSIGNAL,
                reinterpret_cast<const sockaddr*>(&address), size) >= 0;
}

}  // namespace quorate::rpc
