// SPDX-License-Identifier: Apache-2.0

// Service discovery: services register their addresses, and clients find them.
//
//   quorate::ServiceDiscovery services(client.get(), "/services");
//   auto registration = services.Register({.name = "orders", .address = "10.0.0.1", .port = 8080});
//
//   auto provider = services.Follow("orders");
//   absl::StatusOr<quorate::ServiceInstance> instance = (*provider)->Next();
//
// Layout: `path`/NAME/ID for each instance, with JSON as its data. Interoperates with the
// ServiceDiscovery of Curator (curator-x-discovery), with payloads that are strings. An instance
// without the field "enabled", which Curator by default does not write, counts as enabled.
//
// An instance exists while its registration and its session live; if another client deletes its
// znode, it is created again at once, and if its session is lost, in the next session of its client.
// Providers follow on in the next session, too; until then they return the last known instances.
// Znodes whose data is not an instance are ignored.
//
// Thread-safety: all functions may be called from any thread; destructors and functions that block
// must not be called on the callback thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"
#include "client/recipes/persistent_node.h"
#include "client/recipes/tree_cache.h"

namespace quorate {

// One address of a service.
struct ServiceInstance {
  std::string name;
  // Unique among the instances of the same name. If empty, Register sets a UUID.
  std::string id{};
  std::string address{};
  std::optional<int> port{};
  std::optional<int> tls_port{};
  // Any text; its meaning is up to the service.
  std::string payload{};
  // Milliseconds since the Unix epoch. If 0, Register sets the current time.
  int64_t registered_ms = 0;
  bool is_enabled = true;
  // Whether the instance stays registered when its client ends.
  bool is_static = false;

  bool operator==(const ServiceInstance&) const = default;
};

// Convert an instance to JSON, and back. INVALID_ARGUMENT: `json` is not an instance.
std::string ToJson(const ServiceInstance& instance);
absl::StatusOr<ServiceInstance> ServiceInstanceFromJson(std::string_view json);

// Keeps an instance registered. Its destructor unregisters the instance, unless it is static.
class ServiceRegistration {
 public:
  // Returns the instance as it is registered.
  ServiceInstance instance() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return instance_;
  }
  // Blocks until the instance is registered. Deadline and errors are those of
  // PersistentNode::WaitUntilThere.
  absl::Status WaitUntilThere(int deadline_ms = 0) { return node_->WaitUntilThere(deadline_ms); }
  // Replaces the instance's data. INVALID_ARGUMENT: another name or id.
  absl::Status Update(ServiceInstance instance);

 private:
  friend class ServiceDiscovery;
  ServiceRegistration() = default;

  std::mutex updating_mutex_;  // held by Update, to keep the order of concurrent calls
  mutable std::mutex mutex_;
  ServiceInstance instance_;  // guarded by mutex_
  std::unique_ptr<PersistentNode> node_;
};

// A copy of the instances of one service in memory, which follows all changes.
class ServiceProvider {
 public:
  // Which instance Next returns: each in turn, any, or always the same one.
  enum class Strategy { kRoundRobin, kRandom, kSticky };

  // Returns an enabled instance, according to the strategy; kSticky: the same one as before while
  // that exists. NOT_FOUND: there is none now. Fails with status() if that is not OK.
  absl::StatusOr<ServiceInstance> Next();
  // Returns all instances, by id; the last known ones if status() is not OK.
  std::vector<ServiceInstance> All() const;
  // Returns OK while this object receives the changes of the service; otherwise the reason why it
  // no longer does, in most cases the end of the client's last session.
  absl::Status status() const { return cache_->status(); }
  // Blocks until all changes that were acknowledged before the call are seen. The deadline is that
  // of TreeCache::WaitUntilCurrent.
  absl::Status WaitUntilCurrent(int deadline_ms = 0) {
    return cache_->WaitUntilCurrent(deadline_ms);
  }

 private:
  friend class ServiceDiscovery;
  ServiceProvider(std::string path, Strategy strategy)
      : path_(std::move(path)), strategy_(strategy) {}

  const std::string path_;
  const Strategy strategy_;
  std::unique_ptr<TreeCache> cache_;
  std::mutex mutex_;
  // Guarded by mutex_.
  uint64_t turn_ = 0;
  std::string chosen_;
};

// Services by name, and their instances.
class ServiceDiscovery {
 public:
  // REQUIRES: `client` outlives this object and all objects that it returns.
  ServiceDiscovery(Client* client, std::string path) : client_(client), path_(std::move(path)) {}

  // Begins to register the instance, and replaces one with the same name and id of an earlier
  // session. INVALID_ARGUMENT: a name or an id that cannot be that of a znode.
  absl::StatusOr<std::unique_ptr<ServiceRegistration>> Register(ServiceInstance instance);

  // Names returns the names of all services that were ever registered, Instances the current
  // instances of a service, by id. Both return an empty list if there is none.
  absl::StatusOr<std::vector<std::string>> Names();
  absl::StatusOr<std::vector<ServiceInstance>> Instances(std::string_view name);

  // Begins to follow a service, which need not exist yet, and blocks until its instances are known.
  // The listener is called on the callback thread after each change, and must not block.
  absl::StatusOr<std::unique_ptr<ServiceProvider>> Follow(
      std::string_view name,
      ServiceProvider::Strategy strategy = ServiceProvider::Strategy::kRoundRobin,
      std::function<void()> listener = nullptr, int deadline_ms = 0);

 private:
  Client* const client_;
  const std::string path_;
};

}  // namespace quorate
