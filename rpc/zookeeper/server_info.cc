// SPDX-License-Identifier: Apache-2.0

#include "rpc/zookeeper/server_info.h"

#include <pwd.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>

#include "rpc/zookeeper/frontend.h"

namespace quorate::rpc::zk {
namespace {

// ZooKeeper's initial trace mask.
constexpr int64_t kTraceMaskDefault = 306;

}  // namespace

ServerInfo::ServerInfo(ZkFrontend* frontend)
    : frontend_(*frontend), started_(frontend->clock().Now()), trace_mask_(kTraceMaskDefault) {}

std::string_view ServerInfo::ModeName(const ServerStatus& status) const {
  if (status.read_only) return "read-only";
  if (status.standalone) return "standalone";
  if (status.is_leader) return "leader";
  return status.observer ? "observer" : "follower";
}

int64_t ServerInfo::uptime_ms() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(frontend_.clock().Now() - started_)
      .count();
}

ServerInfo::Descriptors ServerInfo::CountDescriptors() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  int64_t open = 0;
  std::error_code error;
  std::filesystem::directory_iterator entries("/proc/self/fd", error);
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    ++open;
  }
  // The directory most likely cannot be read because no descriptor is free. An alert compares the two,
  // and must not see 0 then.
  if (error) open = static_cast<int64_t>(std::min<uint64_t>(limit.rlim_cur, INT64_MAX));
  return {open, limit.rlim_cur};
}

void ServerInfo::ReadMetrics(const ServerStatus& status, Descriptors descriptors,
                             const TreeTotals& tree,
                             const std::function<void(const MetricSources&)>& use) const {
  Service& service = frontend_.service();
  const ServerMetrics metrics = service.metrics();
  const Statistics::Totals totals = frontend_.statistics().Sum();
  const auto recent = [&](std::chrono::minutes window) {
    return service.requests().SumRecent(window, frontend_.clock().Now());
  };
  const MetricSources sources{.status = status,
                              .server = metrics,
                              .memory = service.memory(),
                              .tenants = service.tenants(),
                              .statistics = frontend_.statistics(),
                              .totals = totals,
                              .tree = tree,
                              .last_minute = recent(std::chrono::minutes(1)),
                              .last_five_minutes = recent(std::chrono::minutes(5)),
                              .failed_authentications = service.failed_authentications(),
                              .version = kReportedVersion,
                              .mode = ModeName(status),
                              .watches = frontend_.watch_totals().count,
                              .local_sessions = frontend_.local_session_count(),
                              .open_files = descriptors.open,
                              .open_files_max = descriptors.max,
                              .uptime_ms = uptime_ms()};
  use(sources);
}

std::vector<std::pair<std::string, std::string>> ServerInfo::Environment() {
  std::vector<std::pair<std::string, std::string>> values{
      {"zookeeper.version", std::string(kReportedVersion)}};
  utsname system{};
  if (uname(&system) == 0) {
    values.emplace_back("host.name", system.nodename);
    values.emplace_back("os.name", system.sysname);
    values.emplace_back("os.arch", system.machine);
    values.emplace_back("os.version", system.release);
  }
  passwd entry{};
  passwd* user = nullptr;
  char buffer[4096];
  if (getpwuid_r(geteuid(), &entry, buffer, sizeof(buffer), &user) == 0 && user != nullptr) {
    values.emplace_back("user.name", user->pw_name);
    values.emplace_back("user.home", user->pw_dir);
  }
  std::error_code removed;
  values.emplace_back("user.dir", std::filesystem::current_path(removed).string());
  return values;
}

int64_t ServerInfo::FileBytes(const std::string& directory) {
  int64_t bytes = 0;
  std::error_code error;
  std::filesystem::recursive_directory_iterator files(directory, error);
  for (; !error && files != std::filesystem::recursive_directory_iterator();
       files.increment(error)) {
    // A file may be removed before its size is read.
    std::error_code ignored;
    if (!files->is_regular_file(ignored)) continue;
    const uintmax_t size = files->file_size(ignored);
    if (!ignored) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

}  // namespace quorate::rpc::zk
