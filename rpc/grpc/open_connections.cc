// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/open_connections.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <tuple>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "rpc/frontend/authorization.h"
#include "rpc/frontend/tenant_limits.h"
#include "rpc/grpc/peer_address.h"
#include "rpc/poller/descriptor.h"

namespace quorate::rpc {
namespace {

using boost::asio::ip::tcp;

// The memory of a connection in a handshake of TLS, rounded up: as measured with gRPC 1.51.
constexpr uint64_t kBytesPerConnection = 64u << 10;
// The least number of newcomers that are let in, however little memory there is.
constexpr int64_t kNewcomersMin = 64;
constexpr char kThisMachine[] = "this machine";
// The number of connections that a sweep reads before it lets go of the mutex.
constexpr size_t kSweptAtOnce = 256;

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
  ConnectionShare& remote = limits.remote;
  remote.all = std::max<int64_t>(descriptors / 2, 2);
  remote.of_tenant = remote.all / 2;
  remote.newcomers = std::max<int64_t>(descriptors / 8, 2);
  if (bytes_max > 0) {
    const auto by_memory = static_cast<int64_t>(bytes_max / kBytesPerConnection);
    remote.newcomers = std::min(remote.newcomers, std::max(by_memory, kNewcomersMin));
  }
  // ZooKeeper's clients leave as many as those of other machines here.
  remote.descriptor =
      std::max<int64_t>(descriptors - std::max<int64_t>(descriptors / 16, 64), descriptors / 2 + 1);
  ConnectionShare& local = limits.local;
  local.all = remote.of_tenant;
  local.of_tenant = remote.of_tenant;
  local.newcomers = remote.newcomers / 2;
  local.descriptor =
      std::max<int64_t>(descriptors - std::max<int64_t>(descriptors / 32, 32), descriptors / 2 + 1);
  return limits;
}

OpenConnections::Added OpenConnections::Add(const ConnectionLimits& limits, int descriptor,
                                            const tcp::endpoint& remote, Time now) {
  const std::string address = AddressOf(remote.address());
  const bool is_local = OriginOfAddress(address) == Principal::Origin::kLoopback;
  const std::string name = is_local ? kThisMachine : TenantOfAddress(address);
  const ConnectionShare& max = is_local ? limits.local : limits.remote;
  Added added;
  MutexLock lock(&mutex_);
  Share& share = is_local ? local_ : remote_;
  Forget(descriptor);
  const auto found = share.tenants.find(name);
  const int64_t of_tenant = found == share.tenants.end() ? 0 : found->second.count;
  const size_t own = found == share.tenants.end() ? 0 : found->second.newcomers.size();
  if (descriptor >= max.descriptor) {
    // This connection is refused all the same: the room is for the client's next attempt.
    MakeRoom(share, own, now, &added.has_replaced);
    added.refused = "the process has few descriptors left";
    return added;
  }
  if (of_tenant >= max.of_tenant) {
    added.refused = "there are too many connections of this address";
    return added;
  }
  const bool is_full = share.count >= max.all;
  if ((is_full || share.newcomers >= max.newcomers) &&
      !MakeRoom(share, own, now, &added.has_replaced)) {
    added.refused = is_full ? "there are too many connections"
                            : "there are too many connections without an admitted call";
    return added;
  }
  Tenant& tenant = share.tenants.try_emplace(name, Tenant{&share, name, 0, {}}).first->second;
  ++tenant.count;
  ++share.count;
  const Id id = next_id_++;
  AddNewcomer(tenant, id, {descriptor, now});
  std::string peer = KeyOf(address, std::to_string(remote.port()));
  const auto [same, is_new] = by_peer_.try_emplace(peer, descriptor);
  if (!is_new) {
    ForgetAdmitted(connections_.at(same->second));
    same->second = descriptor;
  }
  connections_.emplace(
      descriptor,
      Connection{
          .id = id, .inode = InodeOf(descriptor), .tenant = &tenant, .peer = std::move(peer)});
  return added;
}

void OpenConnections::OnAdmitted(std::string_view peer) {
  const size_t hash = absl::Hash<std::string_view>()(peer);
  std::atomic<size_t>& admitted = admitted_[hash % admitted_.size()];
  if (admitted.load(std::memory_order_relaxed) == hash) return;
  const size_t colon = peer.rfind(':');
  if (colon == std::string_view::npos || peer.starts_with("unix")) return;
  const std::string key = KeyOf(AddressOf(peer), peer.substr(colon + 1));
  MutexLock lock(&mutex_);
  const auto found = by_peer_.find(key);
  if (found == by_peer_.end()) return;
  Connection& connection = connections_.at(found->second);
  ForgetNewcomer(connection);
  ForgetAdmitted(connection);
  connection.admitted = hash;
  admitted.store(hash, std::memory_order_relaxed);
}

void OpenConnections::Sweep() {
  struct Known {
    int descriptor;
    uint64_t inode;
    Id id;
  };
  std::vector<Known> slice;
  int last = -1;
  while (true) {
    slice.clear();
    {
      MutexLock lock(&mutex_);
      for (auto at = connections_.upper_bound(last);
           at != connections_.end() && slice.size() < kSweptAtOnce; ++at) {
        slice.push_back({at->first, at->second.inode, at->second.id});
      }
    }
    if (slice.empty()) return;
    last = slice.back().descriptor;
    std::erase_if(slice,
                  [](const Known& known) { return InodeOf(known.descriptor) == known.inode; });
    MutexLock lock(&mutex_);
    for (const Known& known : slice) {
      const auto found = connections_.find(known.descriptor);
      if (found != connections_.end() && found->second.id == known.id) Forget(known.descriptor);
    }
  }
}

int64_t OpenConnections::count() const {
  MutexLock lock(&mutex_);
  return static_cast<int64_t>(connections_.size());
}

int64_t OpenConnections::newcomers() const {
  MutexLock lock(&mutex_);
  return remote_.newcomers + local_.newcomers;
}

bool OpenConnections::HasFewerNewcomers::operator()(const Tenant* a, const Tenant* b) const {
  // Only tenants that have newcomers are compared.
  return std::tuple(a->newcomers.size(), b->newcomers.begin()->first) <
         std::tuple(b->newcomers.size(), a->newcomers.begin()->first);
}

bool OpenConnections::MakeRoom(Share& share, size_t own, Time now, bool* has_replaced) {
  if (share.by_newcomers.empty()) return false;
  const Tenant& most = **share.by_newcomers.rbegin();
  const Newcomer oldest = most.newcomers.begin()->second;
  Connection& connection = connections_.at(oldest.descriptor);
  // Its number may belong to another file by now, or at any time: this one is the same file until it
  // is closed. Until then, gRPC's epoll may report the end of a connection that gRPC has closed; gRPC
  // ignores that.
  const Descriptor held(fcntl(oldest.descriptor, F_DUPFD_CLOEXEC, 0));
  if (!held.is_open() && errno != EBADF) return false;
  if (!held.is_open() || InodeOf(held.number()) != connection.inode) {
    Forget(oldest.descriptor);
    return true;
  }
  if (most.newcomers.size() < own + 2 && now - oldest.since < kNewcomerTime) return false;
  // gRPC finds the end of the stream, and closes its descriptor.
  shutdown(held.number(), SHUT_RDWR);
  ForgetNewcomer(connection);
  connection.is_closing = true;
  --share.count;
  *has_replaced = true;
  return true;
}

void OpenConnections::AddNewcomer(Tenant& tenant, Id id, Newcomer newcomer) {
  Share& share = *tenant.share;
  if (!tenant.newcomers.empty()) share.by_newcomers.erase(&tenant);
  tenant.newcomers.emplace(id, newcomer);
  share.by_newcomers.insert(&tenant);
  ++share.newcomers;
}

void OpenConnections::ForgetNewcomer(const Connection& connection) {
  Tenant& tenant = *connection.tenant;
  const auto newcomer = tenant.newcomers.find(connection.id);
  if (newcomer == tenant.newcomers.end()) return;
  Share& share = *tenant.share;
  share.by_newcomers.erase(&tenant);
  tenant.newcomers.erase(newcomer);
  if (!tenant.newcomers.empty()) share.by_newcomers.insert(&tenant);
  --share.newcomers;
}

void OpenConnections::ForgetAdmitted(Connection& connection) {
  std::atomic<size_t>& admitted = admitted_[connection.admitted % admitted_.size()];
  if (admitted.load(std::memory_order_relaxed) == connection.admitted) {
    admitted.store(0, std::memory_order_relaxed);
  }
  connection.admitted = 0;
}

void OpenConnections::Forget(int descriptor) {
  const auto found = connections_.find(descriptor);
  if (found == connections_.end()) return;
  Connection& connection = found->second;
  ForgetNewcomer(connection);
  ForgetAdmitted(connection);
  const auto peer = by_peer_.find(connection.peer);
  if (peer != by_peer_.end() && peer->second == descriptor) by_peer_.erase(peer);
  Tenant& tenant = *connection.tenant;
  Share& share = *tenant.share;
  if (!connection.is_closing) --share.count;
  if (--tenant.count == 0) share.tenants.erase(share.tenants.find(tenant.name));
  connections_.erase(found);
}

}  // namespace quorate::rpc
