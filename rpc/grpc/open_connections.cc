// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/open_connections.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/frontend/authorization.h"
#include "rpc/frontend/tenant_limits.h"
#include "rpc/grpc/peer_address.h"

namespace quorate::rpc {
namespace {

using boost::asio::ip::tcp;

// The memory of a connection in a handshake of TLS, rounded up: as measured with gRPC 1.51.
constexpr uint64_t kBytesPerConnection = 64u << 10;
// However little memory there is, so many newcomers may be there.
constexpr int64_t kNewcomersMin = 64;
constexpr char kThisMachine[] = "this machine";

// Returns the inode of an open socket; 0 if there is none with this number.
uint64_t InodeOf(int descriptor) {
  struct stat facts {};
  return fstat(descriptor, &facts) == 0 && S_ISSOCK(facts.st_mode) ? facts.st_ino : 0;
}

// Returns the key of a connection: the address without the interface, and the port.
std::string KeyOf(std::string_view address, std::string_view port) {
  return absl::StrCat(ToAbsl(address.substr(0, address.find('%'))), " ", ToAbsl(port));
}

// Returns the address. An IPv4 client has the same one through an IPv6 socket.
std::string AddressOf(const boost::asio::ip::address& address) {
  if (!address.is_v6() || !address.to_v6().is_v4_mapped()) return address.to_string();
  return boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, address.to_v6()).to_string();
}

}  // namespace

ConnectionLimits ConnectionLimitsFor(int64_t descriptors, uint64_t bytes_max) {
  ConnectionLimits limits;
  limits.all = std::max<int64_t>(descriptors / 2, 2);
  limits.of_tenant = limits.all / 2;
  // Each takes two descriptors.
  limits.newcomers = std::max<int64_t>(descriptors / 8, 2);
  if (bytes_max > 0) {
    const auto by_memory = static_cast<int64_t>(bytes_max / kBytesPerConnection);
    limits.newcomers = std::min(limits.newcomers, std::max(by_memory, kNewcomersMin));
  }
  limits.newcomers_of_tenant = limits.newcomers / 2;
  // ZooKeeper's clients leave as many as those of other machines here.
  limits.descriptor =
      std::max<int64_t>(descriptors - std::max<int64_t>(descriptors / 16, 64), descriptors / 2 + 1);
  limits.local_descriptor =
      std::max<int64_t>(descriptors - std::max<int64_t>(descriptors / 32, 32), descriptors / 2 + 1);
  return limits;
}

OpenConnections::Added OpenConnections::Add(const ConnectionLimits& limits, int descriptor,
                                            const tcp::endpoint& remote) {
  const std::string address = AddressOf(remote.address());
  const bool is_local = OriginOfAddress(address) == Principal::Origin::kLoopback;
  const std::string tenant = is_local ? kThisMachine : TenantOfAddress(address);
  Added added;
  MutexLock lock(&mutex_);
  if (descriptor >= (is_local ? limits.local_descriptor : limits.descriptor)) {
    // The client comes in when it tries again.
    added.has_replaced = CloseOldest(newcomers_);
    added.refused = "the process has few descriptors left";
    return added;
  }
  const auto found = tenants_.find(tenant);
  const int64_t of_tenant = found == tenants_.end() ? 0 : found->second.count;
  if (!is_local || of_tenant >= kLocalReserve) {
    const auto count = static_cast<int64_t>(connections_.size());
    if (count >= limits.all) {
      added.refused = "there are too many connections";
      return added;
    }
    if (of_tenant >= limits.of_tenant) {
      added.refused = "there are too many connections of this address";
      return added;
    }
    if (static_cast<int64_t>(closing_.size()) >= limits.newcomers) {
      added.refused = "connections are closed more slowly than others come";
      return added;
    }
    const std::set<Id>& own = NewcomersOf(tenant);
    if (static_cast<int64_t>(own.size()) >= limits.newcomers_of_tenant) {
      added.has_replaced = CloseOldest(own);
    } else if (static_cast<int64_t>(newcomers_.size()) >= limits.newcomers) {
      added.has_replaced = CloseOldest(newcomers_);
    }
  }
  Descriptor second(fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
  if (!second.is_open()) {
    added.refused = "the process has no descriptor left";
    return added;
  }
  const Id id = next_id_++;
  std::string peer = KeyOf(address, std::to_string(remote.port()));
  Tenant& counted = tenants_[tenant];
  ++counted.count;
  counted.newcomers.insert(id);
  newcomers_.insert(id);
  by_peer_[peer] = id;
  connections_.emplace(
      id, Connection{descriptor, InodeOf(descriptor), std::move(second), tenant, std::move(peer)});
  return added;
}

void OpenConnections::OnAdmitted(std::string_view peer) {
  const size_t colon = peer.rfind(':');
  if (colon == std::string_view::npos || peer.starts_with("unix")) return;
  const std::string key = KeyOf(AddressOf(peer), peer.substr(colon + 1));
  MutexLock lock(&mutex_);
  const auto found = by_peer_.find(key);
  if (found != by_peer_.end()) ForgetNewcomer(found->second);
}

void OpenConnections::Sweep() {
  MutexLock lock(&mutex_);
  SweepAll();
}

void OpenConnections::SweepNewcomers() {
  MutexLock lock(&mutex_);
  SweepSome(newcomers_);
  SweepSome(closing_);
}

int64_t OpenConnections::count() const {
  MutexLock lock(&mutex_);
  return static_cast<int64_t>(connections_.size());
}

int64_t OpenConnections::newcomers() const {
  MutexLock lock(&mutex_);
  return static_cast<int64_t>(newcomers_.size());
}

bool OpenConnections::has_newcomers() const {
  MutexLock lock(&mutex_);
  return !newcomers_.empty() || !closing_.empty();
}

bool OpenConnections::CloseOldest(const std::set<Id>& newcomers) {
  if (newcomers.empty()) return false;
  const Id id = *newcomers.begin();
  // gRPC finds the end of the stream, and closes its descriptor.
  shutdown(connections_.at(id).newcomer.number(), SHUT_RDWR);
  ForgetNewcomer(id);
  closing_.insert(id);
  return true;
}

void OpenConnections::ForgetNewcomer(Id id) {
  if (newcomers_.erase(id) == 0) return;
  Connection& connection = connections_.at(id);
  connection.newcomer.Close();
  tenants_.at(connection.tenant).newcomers.erase(id);
}

void OpenConnections::Forget(Id id) {
  ForgetNewcomer(id);
  closing_.erase(id);
  const auto connection = connections_.find(id);
  const auto peer = by_peer_.find(connection->second.peer);
  if (peer != by_peer_.end() && peer->second == id) by_peer_.erase(peer);
  const auto tenant = tenants_.find(connection->second.tenant);
  if (--tenant->second.count == 0) tenants_.erase(tenant);
  connections_.erase(connection);
}

void OpenConnections::SweepSome(std::set<Id> ids) {
  for (const Id id : ids) {
    const Connection& connection = connections_.at(id);
    if (InodeOf(connection.descriptor) != connection.inode) Forget(id);
  }
}

void OpenConnections::SweepAll() {
  for (auto next = connections_.begin(); next != connections_.end();) {
    const auto at = next++;
    if (InodeOf(at->second.descriptor) != at->second.inode) Forget(at->first);
  }
}

const std::set<OpenConnections::Id>& OpenConnections::NewcomersOf(const std::string& tenant) const {
  static const std::set<Id>& none = *new std::set<Id>;
  const auto found = tenants_.find(tenant);
  return found == tenants_.end() ? none : found->second.newcomers;
}

}  // namespace quorate::rpc
