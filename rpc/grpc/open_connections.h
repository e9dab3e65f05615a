// SPDX-License-Identifier: Apache-2.0

// The connections that were given to gRPC, and how many there may be. gRPC closes them and tells
// nobody: a connection that was closed is recognised by its number, which is free, or belongs to
// another file.
//
// A connection is a newcomer until a call of it is admitted. Newcomers take a part of the memory at
// most; the oldest is closed for a newer one, that of the same tenant if the tenant has many. Other
// connections are limited by the descriptors alone. A tenant is an IPv4 address, the first 64 bits of
// an IPv6 address, or this machine.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"
#include "rpc/poller/descriptor.h"

namespace quorate::rpc {

// How many connections there may be. All are 1 or more.
struct ConnectionLimits {
  int64_t all = 1;
  int64_t of_tenant = 1;
  // Connections without an admitted call: of all tenants, and of one. Twice as many, if some are closed
  // that gRPC has not closed yet.
  int64_t newcomers = 1;
  int64_t newcomers_of_tenant = 1;
  // A connection with this number of a descriptor, or a higher one, is refused: of another machine,
  // and of this one. The kernel gives the lowest free number, so that at least as many descriptors
  // are open.
  int64_t descriptor = 1;
  int64_t local_descriptor = 1;
};

// The connections from this machine that `all`, `of_tenant` and the limits of newcomers do not count:
// an administrator gets in beside a flood from other machines.
inline constexpr int64_t kLocalReserve = 32;

// Returns the limits for a process that may have `descriptors` open. `bytes_max`: the memory that
// connections may take before a call of theirs is admitted; 0: any amount.
ConnectionLimits ConnectionLimitsFor(int64_t descriptors, uint64_t bytes_max);

// Thread-safety: all functions may be called from any thread.
class OpenConnections {
 public:
  // What Add has done.
  struct Added {
    const char* refused = nullptr;  // why the connection is refused; nullptr: it is not
    bool has_replaced = false;      // an older newcomer was closed for it
  };

  // Adds a connected socket, which the caller gives to gRPC, or closes if it is refused.
  Added Add(const ConnectionLimits& limits, int descriptor,
            const boost::asio::ip::tcp::endpoint& remote);
  // Records that a call of the connection from `peer` is admitted: it is no newcomer any longer. `peer`
  // has the form of grpc::ServerContext::peer(); one that is not known is ignored.
  void OnAdmitted(std::string_view peer);
  // Forgets the connections that were closed: all of them, or the newcomers among them.
  void Sweep();
  void SweepNewcomers();

  // These count connections that were closed since the last sweep, too.
  int64_t count() const;
  int64_t newcomers() const;
  // Returns whether there are newcomers, or some that were closed and gRPC still has.
  bool has_newcomers() const;

 private:
  using Id = uint64_t;  // in the order of their ages
  struct Connection {
    int descriptor;
    uint64_t inode;
    // A second descriptor of a newcomer, through which it can be closed: the number of the first one
    // may belong to another file meanwhile. Until it is closed, gRPC's epoll may report the end of a
    // connection that gRPC has closed; gRPC ignores that.
    Descriptor newcomer;
    std::string tenant;
    std::string peer;
  };
  struct Tenant {
    int64_t count = 0;
    std::set<Id> newcomers;
  };

  // Closes the oldest of the newcomers. Returns false if there is none.
  bool CloseOldest(const std::set<Id>& newcomers) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Counts a connection as a newcomer no longer.
  void ForgetNewcomer(Id id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(Id id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SweepAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SweepSome(std::set<Id> ids) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  const std::set<Id>& NewcomersOf(const std::string& tenant) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  Id next_id_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<Id, Connection> connections_ ABSL_GUARDED_BY(mutex_);
  std::set<Id> newcomers_ ABSL_GUARDED_BY(mutex_);
  std::set<Id> closing_ ABSL_GUARDED_BY(mutex_);  // closed for others; gRPC still has them
  absl::flat_hash_map<std::string, Tenant> tenants_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, Id> by_peer_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace quorate::rpc
