// SPDX-License-Identifier: Apache-2.0

// The connections that were given to gRPC, and how many there may be. gRPC closes them and tells
// nobody: a connection that was closed is recognised by its number, which is free, or belongs to
// another file.
//
// A connection is a newcomer until a call of it is admitted. If there are too many, the oldest newcomer
// of the tenant with the most is closed for a new one: if that tenant has at least two more than the
// new one's, or the newcomer has had its time; otherwise, the new one is refused. A tenant is an IPv4
// address, the first 64 bits of an IPv6 address, or this machine, which has a share of its own.
#pragma once

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"

namespace quorate::rpc {

// How many connections there may be of other machines, or of this one. All are 1 or more.
struct ConnectionShare {
  int64_t all = 1;
  int64_t of_tenant = 1;  // with those that are closed for others, until gRPC has closed them
  int64_t newcomers = 1;
  // A connection with this number of a descriptor, or a higher one, is refused. The kernel gives the
  // lowest free number, so that at least as many descriptors are open.
  int64_t descriptor = 1;
};

struct ConnectionLimits {
  ConnectionShare remote;
  ConnectionShare local;
};

// A newcomer has this time before one of a tenant with as many may take its place.
inline constexpr auto kNewcomerTime = std::chrono::seconds(1);

// Returns the limits for a process that may have `descriptors` open. `bytes_max`: the memory that
// newcomers of other machines may take; 0: any amount.
ConnectionLimits ConnectionLimitsFor(int64_t descriptors, uint64_t bytes_max);

// Thread-safety: all functions may be called from any thread.
class OpenConnections {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // What Add has done.
  struct Added {
    const char* refused = nullptr;  // why the connection is refused; nullptr: it is not
    bool has_replaced = false;      // an older newcomer was closed for it
  };

  // Adds a connected socket, which the caller gives to gRPC, or closes if it is refused. A connection
  // that had its number was closed.
  Added Add(const ConnectionLimits& limits, int descriptor,
            const boost::asio::ip::tcp::endpoint& remote, Time now);
  // Records that a call of the connection from `peer` is admitted: it is no newcomer any longer. `peer`
  // has the form of grpc::ServerContext::peer(); one that is not known is ignored. Takes no lock if it
  // is recorded already.
  void OnAdmitted(std::string_view peer);
  // Forgets the connections that were closed. Other functions need not wait for it.
  void Sweep();

  // The numbers of connections and of newcomers, with those that were closed since the last sweep.
  int64_t count() const;
  int64_t newcomers() const;

 private:
  using Id = uint64_t;  // in the order of their ages
  struct Newcomer {
    int descriptor;
    Time since;
  };
  struct Share;
  struct Tenant {
    Share* share;
    std::string name;
    int64_t count = 0;
    std::map<Id, Newcomer> newcomers;
  };
  struct Connection {
    Id id;
    uint64_t inode;
    Tenant* tenant;
    std::string peer;
    size_t admitted = 0;      // what was stored in admitted_
    bool is_closing = false;  // closed for another; gRPC still has it
  };
  // Orders tenants by the numbers of their newcomers; of as many, that with the oldest comes last.
  struct HasFewerNewcomers {
    bool operator()(const Tenant* a, const Tenant* b) const;
  };
  struct Share {
    int64_t count = 0;  // without those that are closed for others
    int64_t newcomers = 0;
    std::map<std::string, Tenant> tenants;
    std::set<Tenant*, HasFewerNewcomers> by_newcomers;  // tenants that have some
  };

  // Makes room for a connection of a tenant with `own` newcomers: closes a newcomer, or finds one that
  // was closed. Returns false if no newcomer may be closed for it.
  bool MakeRoom(Share& share, size_t own, Time now, bool* has_replaced)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddNewcomer(Tenant& tenant, Id id, Newcomer newcomer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Counts a connection as a newcomer no longer.
  void ForgetNewcomer(const Connection& connection) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetAdmitted(Connection& connection) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(int descriptor) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  Id next_id_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<int, Connection> connections_ ABSL_GUARDED_BY(mutex_);  // by descriptor
  absl::flat_hash_map<std::string, int> by_peer_ ABSL_GUARDED_BY(mutex_);
  Share remote_ ABSL_GUARDED_BY(mutex_);
  Share local_ ABSL_GUARDED_BY(mutex_);
  // The hashes of peers whose calls were admitted, each at the place that it gives; written with the
  // mutex.
  std::vector<std::atomic<size_t>> admitted_ = std::vector<std::atomic<size_t>>(1 << 14);
};

}  // namespace quorate::rpc
