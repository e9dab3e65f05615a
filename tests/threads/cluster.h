// SPDX-License-Identifier: Apache-2.0

// Three real members in one process: each with the node's threads, its log and checkpoints on the
// disk, and both front ends on sockets. Only the messages between members stay in memory, so that a
// test can cut a member off and let it fall behind.
//
// Sizes are small: checkpoints are taken, the log is cut and snapshots are sent all the time.
//
// Thread-safety: Cluster's functions may be called from any thread, but Start, Stop and Cut from
// one.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "rpc/member/replica.h"

namespace quorate::threads {

inline constexpr uint32_t kMembers = 3;

// Delivers the messages between members, on its own thread.
class Network {
 public:
  Network();
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  void Add(consensus::MemberId id, rpc::Replica* replica);
  // After it returns, the replica is not called any more.
  void Remove(consensus::MemberId id);
  // Drops all messages to and from this member from now on; kNoMember: connects all again.
  void Cut(consensus::MemberId id);
  bool IsCut(consensus::MemberId id) const { return cut_.load() == id.value(); }
  void Send(consensus::MemberId from, consensus::MemberId to, std::string bytes);

 private:
  struct Parcel {
    consensus::MemberId from;
    consensus::MemberId to;
    std::string bytes;
  };

  void Run();
  void Deliver(Parcel parcel);
  // Tells the replicas that the links of a member are connected, again or for the first time.
  void Reconnect(consensus::MemberId id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(replicas_mutex_);

  std::atomic<uint32_t> cut_{0};
  // Held during each call of a replica.
  Mutex replicas_mutex_;
  std::map<consensus::MemberId, rpc::Replica*> replicas_ ABSL_GUARDED_BY(replicas_mutex_);
  Mutex queue_mutex_;
  std::condition_variable changed_;
  std::deque<Parcel> queue_ ABSL_GUARDED_BY(queue_mutex_);
  bool ends_ ABSL_GUARDED_BY(queue_mutex_) = false;
  std::thread thread_;
};

class Member;

class Cluster {
 public:
  // Stores its files below `directory`. REQUIRES: it exists and is empty.
  explicit Cluster(std::string directory);
  ~Cluster();

  // Members are numbered from 1.
  void Start(uint32_t member);
  // Stops a member as a server stops at a SIGTERM.
  void Stop(uint32_t member);
  // Cuts the member off; 0: connects all.
  void Cut(uint32_t member);
  // Returns the leader; 0 if there is none.
  uint32_t Leader();
  // Asks the leader to transfer leadership to another member. Returns whether there was a leader.
  bool MoveLeadership();
  // Waits until all members run, serve and have the same tree. Returns false after a timeout.
  bool AwaitEqual();

  // Ports on 127.0.0.1; 0 while the member is stopped.
  uint16_t zookeeper_port(uint32_t member) const { return ports_[member].zookeeper.load(); }
  uint16_t grpc_port(uint32_t member) const { return ports_[member].grpc.load(); }

 private:
  struct Ports {
    std::atomic<uint16_t> zookeeper{0};
    std::atomic<uint16_t> grpc{0};
  };

  const std::string directory_;
  Network network_;
  std::array<Ports, kMembers + 1> ports_;
  Mutex mutex_;
  std::array<std::unique_ptr<Member>, kMembers + 1> members_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace quorate::threads
