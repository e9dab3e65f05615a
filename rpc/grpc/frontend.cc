// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/frontend.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/thread.h"

namespace quorate::rpc {
namespace {

constexpr auto kDiskUseInterval = std::chrono::seconds(5);
// Connections without an admitted call may take this part of the server's memory.
constexpr uint64_t kConnectionsPart = 8;

// Returns the disk use of the directories. Does not count files that disappear in the meantime.
DiskUse LookAtDisk(const std::set<std::string>& directories) {
  namespace fs = std::filesystem;
  DiskUse use;
  use.free = UINT64_MAX;
  std::error_code error;
  for (const std::string& directory : directories) {
    const fs::space_info space = fs::space(directory, error);
    if (!error) use.free = std::min<uint64_t>(use.free, space.available);
    fs::recursive_directory_iterator at(directory, error);
    for (const fs::recursive_directory_iterator end; !error && at != end; at.increment(error)) {
      std::error_code vanished;
      const uint64_t size = at->is_regular_file(vanished) ? at->file_size(vanished) : 0;
      if (!vanished) use.used += size;
    }
  }
  if (use.free == UINT64_MAX) use.free = 0;
  return use;
}

std::string ListenAddress(const Config& config) {
  const std::string& host = config.grpc_address;
  return absl::StrContains(host, ':') ? absl::StrCat("[", host, "]:", config.grpc_port)
                                      : absl::StrCat(host, ":", config.grpc_port);
}

}  // namespace

GrpcFrontend::GrpcFrontend(const Config& config, Service* service, Administration* administration,
                           Administrators* administrators, const Clock* clock)
    : config_(config),
      service_(service),
      administrators_(administrators),
      backups_(administration, clock, BackupSender::Options()),
      cluster_(config, service, administration, administrators, &backups_, clock) {}

GrpcFrontend::~GrpcFrontend() { Close(); }

absl::Status GrpcFrontend::Open(std::vector<std::pair<std::string, grpc::Service*>> services) {
  GrpcEndpoints endpoints{.unix_socket = config_.grpc_unix_socket,
                          .memory_bytes_max = service_->memory().limit() / kConnectionsPart,
                          .counters = counters_};
  // Tests let the system choose the port 0.
  if (config_.grpc_port != 0 || endpoints.unix_socket.empty()) {
    endpoints.address = ListenAddress(config_);
  }
  if (config_.grpc_tls) {
    auto certificates =
        ServerCertificates::Create(GrpcTlsOptions(config_), config_.client_cert_reload);
    if (!certificates.ok()) return certificates.status();
    certificates_ = *std::move(certificates);
    endpoints.certificates = certificates_.get();
  }
  administrators_->SetAdmissions([this](std::string_view peer) { server_.OnAdmitted(peer); });
  services.emplace_back(v1::ClusterService::service_full_name(), &cluster_);
  if (absl::Status s = server_.Start(endpoints, services); !s.ok()) return s;
  backups_.Start();
  watcher_ = StartThread("grpc-health", [this] { Watch(); });
  LogAccess();
  return absl::OkStatus();
}

void GrpcFrontend::LogAccess() const {
  if (config_.grpc_port != 0) {
    spdlog::info("listening for gRPC clients address={} tls={}", ListenAddress(config_),
                 config_.grpc_tls);
  }
  if (!config_.grpc_unix_socket.empty()) {
    spdlog::info("listening for gRPC clients socket={}", config_.grpc_unix_socket);
  }
  const bool is_local = config_.grpc_port == 0 || config_.grpc_address == "localhost" ||
                        OriginOfAddress(config_.grpc_address) == Principal::Origin::kLoopback;
  if (is_local || config_.grpc_tls) return;
  if (administrators_->is_configured()) {
    spdlog::warn(
        "gRPC clients of other machines send data, passwords and tokens unencrypted; set "
        "grpcTls=true");
  } else {
    spdlog::warn(
        "gRPC clients of other machines send data and passwords unencrypted, and no administrator "
        "is configured; set grpcTls=true, and administratorTokenFile or administrator.subjects");
  }
}

void GrpcFrontend::Close() {
  if (!watcher_.joinable()) return;
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    changed_.NotifyOne();
  }
  watcher_.join();
  server_.Stop();
  backups_.Stop();
}

void GrpcFrontend::Watch() {
  std::set<std::string> directories = {config_.data_dir, config_.log_dir};
  // A directory inside another one is counted with the outer directory.
  std::erase_if(directories, [&](const std::string& directory) {
    return std::any_of(directories.begin(), directories.end(), [&](const std::string& other) {
      return absl::StartsWith(directory, other + "/");
    });
  });
  bool told = false;
  auto look_at = std::chrono::steady_clock::now();
  for (;;) {
    bool serving = false;
    {
      MutexLock lock(&mutex_);
      while (!closing_ && serving_ == told) {
        if (!changed_.WaitUntil(&mutex_, look_at)) break;
      }
      if (closing_) return;
      serving = serving_;
    }
    if (serving != told) server_.SetServing(serving);
    told = serving;
    const auto now = std::chrono::steady_clock::now();
    if (now >= look_at) {
      cluster_.SetDiskUse(LookAtDisk(directories));
      look_at = now + kDiskUseInterval;
    }
  }
}

void GrpcFrontend::OnStatusPublished() {
  const bool serving = service_->status().serving();
  MutexLock lock(&mutex_);
  if (std::exchange(serving_, serving) != serving) changed_.NotifyOne();
}

}  // namespace quorate::rpc
