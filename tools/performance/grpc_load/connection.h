// SPDX-License-Identifier: Apache-2.0

// A connection to a server of Quorate or etcd over gRPC, with the operations that both have: each is one call,
// made and received by the same library in the same way, so that a difference is one of the servers.
//
// Thread-safety: an operation may begin on any thread, also in the `done` of another one. `done` runs on a
// thread of gRPC, once. A connection must outlive its operations.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>

namespace quorate::grpc_load {

using Done = std::function<void(const grpc::Status&)>;

class Connection {
 public:
  virtual ~Connection() = default;

  // Makes what the operations need, such as the session of the locks, and waits for it.
  virtual grpc::Status Open() = 0;
  // Creates a key, if it does not exist, and waits for it.
  virtual grpc::Status Create(const std::string& key, const std::string& value) = 0;

  // Replaces the value of a key.
  virtual void Put(const std::string& key, const std::string& value, Done done) = 0;
  // Reads a key. Not linearizable: from what the server has applied.
  virtual void Get(const std::string& key, bool is_linearizable, Done done) = 0;
  // Watches a key by a stream of its own, until the connection is closed. `on_events` is called when
  // events come, with their number, and with 0 when the watch has begun.
  virtual void Watch(const std::string& key, std::function<void(int events)> on_events) = 0;
  // Takes a lock, which the connection must not hold; `done` when it is held.
  virtual void Lock(const std::string& name, Done done) = 0;
  // Gives up the lock that it holds.
  virtual void Unlock(Done done) = 0;
  // Ends all streams, and waits for their ends. No operation may be under way.
  virtual void Close() = 0;
};

// Returns a connection of its own, as a client in a process of its own has. `number` tells it from the others of
// the run.
std::unique_ptr<Connection> ConnectToQuorate(const std::string& server, int number);
std::unique_ptr<Connection> ConnectToEtcd(const std::string& server, int number);

}  // namespace quorate::grpc_load
