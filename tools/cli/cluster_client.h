// SPDX-License-Identifier: Apache-2.0

// Asks the members of a cluster on their gRPC ports.
//
// Thread-safety: objects may be used by one thread at a time, different ones by different threads.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/access.h"
#include "rpc/proto/quorate/v1/cluster.grpc.pb.h"

namespace quorate::tools {

using internal::Access;

// Parses "host:port,host:port"; a server may also be unix:/PATH. InvalidArgument if there is no
// server, or one has no port.
absl::StatusOr<std::vector<std::string>> ParseServers(const std::string& text);

// Returns the name of a role, as it is printed; "unknown" if only the leader knows the role.
std::string RoleName(v1::Role role);

// Returns how long the process of a member runs, in milliseconds.
int64_t UptimeMsOf(const v1::StatusResponse& status);

// A client of one member.
class ClusterClient {
 public:
  ClusterClient(std::string address, const Access& access);

  const std::string& address() const { return address_; }
  v1::ClusterService::Stub* stub() { return stub_.get(); }
  // Adds an administrator's credentials to a call of stub().
  void Authorize(grpc::ClientContext* context) const { access_.Authorize(context); }

  // Ask the member for its status, for the members of its cluster, and for its metrics in the text
  // format of Prometheus. Errors name the address.
  absl::StatusOr<v1::StatusResponse> Status();
  absl::StatusOr<v1::MembersResponse> Members();
  absl::StatusOr<std::string> Metrics();
  // Asks for the last `count_max` slow requests of the member's clients.
  absl::StatusOr<v1::SlowRequestsResponse> SlowRequests(uint32_t count_max);
  // Asks for the `count_max` clients, paths and so on with the most requests.
  absl::StatusOr<v1::TopRequestsResponse> TopRequests(uint32_t count_max);

 private:
  const std::string address_;
  const Access access_;
  std::unique_ptr<v1::ClusterService::Stub> stub_;
};

struct StatusAnswer {
  std::string address;
  absl::StatusOr<v1::StatusResponse> status;
};
// Asks all servers at the same time. Returns the answers in the order of `addresses`.
std::vector<StatusAnswer> AskAll(const std::vector<std::string>& addresses, const Access& access);

}  // namespace quorate::tools
