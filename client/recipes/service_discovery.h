// Services say where they are, and clients find them.
//
//   quorate::ServiceDiscovery services(client.get(), "/services");
//   auto registration = services.Register({.name = "orders", .address = "10.0.0.1", .port = 8080});
//
//   auto provider = services.Follow("orders");
//   absl::StatusOr<quorate::ServiceInstance> instance = (*provider)->Next();
//
// Layout: `path`/NAME/ID for each instance, with JSON as its data. Interoperates with the
// ServiceDiscovery of Curator (curator-x-discovery), with payloads that are strings. As Curator
// writes them unless told otherwise, instances do not say whether they are enabled: then they are.
//
// An instance is there as long as its registration and its session live; if somebody deletes its
// znode, it is there again at once. Data of others that is no instance is left out.
//
// Thread-safety: all functions from any thread, but the destructors and those that wait not from
// that of callbacks.
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

struct ServiceInstance {
  std::string name;
  // Unique among those of the same name; empty at Register: a UUID.
  std::string id{};
  std::string address{};
  std::optional<int> port{};
  std::optional<int> tls_port{};
  // Whatever the service wants to say.
  std::string payload{};
  // Milliseconds since the epoch; 0 at Register: now.
  int64_t registered_ms = 0;
  bool is_enabled = true;
  // Whether it stays when its session ends.
  bool is_static = false;

  bool operator==(const ServiceInstance&) const = default;
};

// As JSON, and from it: INVALID_ARGUMENT, it is no instance.
std::string ToJson(const ServiceInstance& instance);
absl::StatusOr<ServiceInstance> ServiceInstanceFromJson(std::string_view json);

// Keeps an instance there. Its destructor takes it away, if it is not static.
class ServiceRegistration {
 public:
  ServiceInstance instance() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return instance_;
  }
  // Waits until it is there. Deadline as for PersistentNode::WaitUntilThere.
  absl::Status WaitUntilThere(int deadline_ms = 0) { return node_->WaitUntilThere(deadline_ms); }
  // Says something else. The name and the id must be the same (INVALID_ARGUMENT).
  absl::Status Update(ServiceInstance instance);

 private:
  friend class ServiceDiscovery;
  ServiceRegistration() = default;

  std::mutex updating_mutex_;  // held by Update, so that the last instance is set last
  mutable std::mutex mutex_;
  ServiceInstance instance_;  // guarded by mutex_
  std::unique_ptr<PersistentNode> node_;
};

// Follows the instances of one service, in memory.
class ServiceProvider {
 public:
  enum class Strategy { kRoundRobin, kRandom, kSticky };

  // One that is enabled. NOT_FOUND: there is none now. Otherwise as status(). kSticky: the same as
  // before as long as that is there.
  absl::StatusOr<ServiceInstance> Next();
  // All, by id; as they were last, if it follows them no more.
  std::vector<ServiceInstance> All() const;
  // OK while it follows them; otherwise why it does not any more, mostly that the session is over.
  absl::Status status() const { return cache_->status(); }
  // Waits until all that was registered before the call is seen. Deadline as for TreeCache.
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

class ServiceDiscovery {
 public:
  // REQUIRES: `client` lives longer than this object and all that it gives.
  ServiceDiscovery(Client* client, std::string path) : client_(client), path_(std::move(path)) {}

  // Begins to keep it there; an instance of the same name and id of an earlier session is replaced.
  // INVALID_ARGUMENT: a name or an id that cannot be that of a znode.
  absl::StatusOr<std::unique_ptr<ServiceRegistration>> Register(ServiceInstance instance);

  // The names of all services that were ever registered, and the instances of one that are there,
  // by id. None, if there is no such service.
  absl::StatusOr<std::vector<std::string>> Names();
  absl::StatusOr<std::vector<ServiceInstance>> Instances(std::string_view name);

  // Follows a service, which need not be there yet, and waits until its instances are known. The
  // listener is called on the thread of callbacks after something has changed, and must not block.
  absl::StatusOr<std::unique_ptr<ServiceProvider>> Follow(
      std::string_view name,
      ServiceProvider::Strategy strategy = ServiceProvider::Strategy::kRoundRobin,
      std::function<void()> listener = nullptr, int deadline_ms = 0);

 private:
  Client* const client_;
  const std::string path_;
};

}  // namespace quorate
