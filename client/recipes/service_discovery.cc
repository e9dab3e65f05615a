// SPDX-License-Identifier: Apache-2.0

#include "client/recipes/service_discovery.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/recipes/sequential_names.h"

namespace quorate {
namespace {

using Json = nlohmann::json;

int64_t NowMs() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

Json OrNull(const std::optional<int>& port) { return port.has_value() ? Json(*port) : Json(); }

std::optional<int> PortOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<int>();
}

std::string TextOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Returns the instances among `znodes`; skips znodes whose data is not an instance.
std::vector<ServiceInstance> InstancesOf(const std::map<std::string, TreeCache::Znode>& znodes) {
  std::vector<ServiceInstance> instances;
  for (const auto& [id, znode] : znodes) {
    absl::StatusOr<ServiceInstance> instance = ServiceInstanceFromJson(znode.data);
    if (instance.ok()) instances.push_back(*std::move(instance));
  }
  return instances;
}

}  // namespace

// --- Instances as text ---------------------------------------------------------------------------

std::string ToJson(const ServiceInstance& instance) {
  Json object = {{"name", instance.name},
                 {"id", instance.id},
                 {"address", instance.address},
                 {"port", OrNull(instance.port)},
                 {"sslPort", OrNull(instance.tls_port)},
                 {"payload", instance.payload.empty() ? Json() : Json(instance.payload)},
                 {"registrationTimeUTC", instance.registered_ms},
                 {"serviceType", instance.is_static ? "STATIC" : "DYNAMIC"},
                 {"uriSpec", nullptr},
                 {"enabled", instance.is_enabled}};
  // JSON cannot represent bytes that are not UTF-8.
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<ServiceInstance> ServiceInstanceFromJson(std::string_view json) {
  const Json object = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  ServiceInstance instance;
  if (object.is_object()) {
    instance.name = TextOf(object, "name");
    instance.id = TextOf(object, "id");
  }
  if (instance.name.empty() || instance.id.empty()) {
    return absl::InvalidArgumentError("not a JSON object with the name and the id of an instance");
  }
  instance.address = TextOf(object, "address");
  instance.port = PortOf(object, "port");
  instance.tls_port = PortOf(object, "sslPort");
  instance.payload = TextOf(object, "payload");
  const auto registered = object.find("registrationTimeUTC");
  if (registered != object.end() && registered->is_number_integer()) {
    instance.registered_ms = registered->get<int64_t>();
  }
  instance.is_static = TextOf(object, "serviceType") == "STATIC";
  const auto enabled = object.find("enabled");
  instance.is_enabled = enabled == object.end() || *enabled != false;
  return instance;
}

// --- Services ------------------------------------------------------------------------------------

absl::Status ServiceRegistration::Update(ServiceInstance instance) {
  // Checked before taking the lock: its holder may be waiting for the callback thread.
  if (absl::Status s = internal::CallbackThread::CheckMayBlock(); !s.ok()) return s;
  std::lock_guard<std::mutex> updating(updating_mutex_);
  std::string json = ToJson(instance);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (instance.name != instance_.name || instance.id != instance_.id) {
      return absl::InvalidArgumentError(absl::StrCat("this is the registration of ", instance_.name,
                                                     "/", instance_.id, ", not of ", instance.name,
                                                     "/", instance.id));
    }
    instance_ = std::move(instance);
  }
  return node_->SetData(std::move(json));
}

absl::StatusOr<std::unique_ptr<ServiceRegistration>> ServiceDiscovery::Register(
    ServiceInstance instance) {
  if (instance.id.empty()) instance.id = NewProtectionPrefix().substr(3, 36);
  if (instance.registered_ms == 0) instance.registered_ms = NowMs();
  if (instance.name.empty() || instance.name.find('/') != std::string::npos ||
      instance.id.find('/') != std::string::npos) {
    return absl::InvalidArgumentError(
        "a service needs a name, and names and ids must not contain \"/\"");
  }
  std::unique_ptr<ServiceRegistration> registration(new ServiceRegistration());
  auto node = PersistentNode::Start(
      client_, absl::StrCat(path_, "/", instance.name, "/", instance.id), ToJson(instance),
      {.mode = instance.is_static ? CreateMode::kPersistent : CreateMode::kEphemeral,
       .takes_over = true});
  if (!node.ok()) return node.status();
  registration->instance_ = std::move(instance);
  registration->node_ = *std::move(node);
  return registration;
}

absl::StatusOr<std::vector<std::string>> ServiceDiscovery::Names() {
  absl::StatusOr<ListResult> list = client_->List(path_, {.linearizable = true});
  if (ErrorOf(list.status()) == ErrorCode::kNoNode) return std::vector<std::string>();
  if (!list.ok()) return list.status();
  return std::move(list->children);
}

absl::StatusOr<std::vector<ServiceInstance>> ServiceDiscovery::Instances(std::string_view name) {
  const std::string service = path_ + "/" + std::string(name);
  const absl::StatusOr<ListResult> list = client_->List(service, {.linearizable = true});
  if (ErrorOf(list.status()) == ErrorCode::kNoNode) return std::vector<ServiceInstance>();
  if (!list.ok()) return list.status();
  std::vector<Call<GetResult>> reads;
  for (const std::string& id : list->children) {
    reads.push_back(client_->AsyncGet(absl::StrCat(service, "/", id)));
  }
  std::vector<ServiceInstance> instances;
  for (Call<GetResult>& each : reads) {
    const absl::StatusOr<GetResult> read = each.Wait();
    if (ErrorOf(read.status()) == ErrorCode::kNoNode) continue;
    if (!read.ok()) return read.status();
    absl::StatusOr<ServiceInstance> instance = ServiceInstanceFromJson(read->data);
    if (instance.ok()) instances.push_back(*std::move(instance));
  }
  return instances;
}

absl::StatusOr<std::unique_ptr<ServiceProvider>> ServiceDiscovery::Follow(
    std::string_view name, ServiceProvider::Strategy strategy, std::function<void()> listener,
    int deadline_ms) {
  const std::string service = path_ + "/" + std::string(name);
  std::unique_ptr<ServiceProvider> provider(new ServiceProvider(service, strategy));
  TreeCache::Listener on_change;
  if (listener != nullptr) {
    on_change = [listener = std::move(listener)](const TreeCache::Change&) { listener(); };
  }
  auto cache = TreeCache::Start(client_, service, std::move(on_change), WatchScope::kChildren);
  if (!cache.ok()) return cache.status();
  provider->cache_ = *std::move(cache);
  if (absl::Status s = provider->cache_->WaitUntilLoaded(deadline_ms); !s.ok()) return s;
  return provider;
}

std::vector<ServiceInstance> ServiceProvider::All() const {
  return InstancesOf(cache_->Children(path_));
}

absl::StatusOr<ServiceInstance> ServiceProvider::Next() {
  // The last known instances may be gone: do not return one.
  if (absl::Status s = status(); !s.ok()) return s;
  std::vector<ServiceInstance> instances = All();
  std::erase_if(instances, [](const ServiceInstance& each) { return !each.is_enabled; });
  if (instances.empty()) return absl::NotFoundError(path_ + " has no enabled instance now");
  std::lock_guard<std::mutex> lock(mutex_);
  size_t at = static_cast<size_t>(turn_++ % instances.size());
  if (strategy_ != Strategy::kRoundRobin) {
    thread_local std::minstd_rand random{std::random_device{}()};
    at = std::uniform_int_distribution<size_t>(0, instances.size() - 1)(random);
  }
  if (strategy_ == Strategy::kSticky) {
    const auto same = std::find_if(instances.begin(), instances.end(),
                                   [&](const ServiceInstance& i) { return i.id == chosen_; });
    if (same != instances.end()) at = static_cast<size_t>(same - instances.begin());
    chosen_ = instances[at].id;
  }
  return std::move(instances[at]);
}

}  // namespace quorate
