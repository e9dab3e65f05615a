// SPDX-License-Identifier: Apache-2.0

#include "rpc/frontend/tenant_limits.h"

#include <arpa/inet.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/assert.h"

namespace quorate::rpc {
namespace {

// How often a limit of a tenant, and any limit, is logged.
constexpr int64_t kTenantLogPeriodNs = 10'000'000'000;
constexpr int64_t kLogPeriodNs = 1'000'000'000;
// How much of a name is logged.
constexpr size_t kNameBytesShown = 100;
constexpr size_t kPrefixBytes = 8;  // of an IPv6 address
// What the keys of the table begin with.
constexpr char kAddressKey[] = "a";
constexpr char kIdentityKey[] = "i";

int64_t Ns(TenantTable::Time time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

// Returns whether `*last` is at least `period_ns` before `now`, and then sets it to `now`.
bool IsDue(std::atomic<int64_t>* last, int64_t now, int64_t period_ns) {
  int64_t was = last->load(std::memory_order_relaxed);
  return (was == 0 || now - was >= period_ns) && last->compare_exchange_strong(was, now);
}

// Returns the identity for display: without the hash of a password.
std::string ShownName(const tree::Identity& identity) {
  std::string_view id = identity.id;
  if (identity.scheme == "digest") id = id.substr(0, id.find(':'));
  return absl::StrCat("identity ", ToAbsl(identity.scheme), ":",
                      absl::CHexEscape(ToAbsl(id.substr(0, kNameBytesShown))));
}

}  // namespace

std::string_view KeyOf(Limit limit) {
  constexpr std::array<std::string_view, kLimitCount> kKeys = {"limits.connectionsPerIdentity",
                                                               "limits.sessionsPerSecond",
                                                               "limits.requestsPerSecond",
                                                               "limits.outstandingRequests",
                                                               "limits.outstandingBytes",
                                                               "limits.watches",
                                                               "limits.ephemerals",
                                                               "limits.firstRequestTimeoutMs"};
  return kKeys[static_cast<size_t>(limit)];
}

TenantLimits::TenantLimits(const Config& config) {
  const auto set = [this](Limit limit, int value) { max[static_cast<size_t>(limit)] = value; };
  set(Limit::kConnections, config.connections_per_identity_max);
  set(Limit::kNewSessions, config.new_sessions_per_second_max);
  set(Limit::kRequests, config.requests_per_second_max);
  set(Limit::kOutstandingRequests, config.outstanding_requests_max);
  set(Limit::kOutstandingBytes, config.outstanding_bytes_max);
  set(Limit::kWatches, config.watches_max);
  set(Limit::kEphemerals, config.ephemerals_max);
  set(Limit::kFirstRequest, config.first_request_timeout_ms);
}

void TokenBucket::Take(int64_t per_second, Time now, int64_t count) {
  const int64_t now_ns = Ns(now);
  int64_t was = paid_until_.load(std::memory_order_relaxed);
  int64_t next = 0;
  do {
    next = std::min(std::max(was, now_ns - kNsKept) + count * NsPerToken(per_second),
                    now_ns + kNsKept);
    next = std::max(next, was);  // another thread may be ahead of `now`
  } while (!paid_until_.compare_exchange_weak(was, next, std::memory_order_relaxed));
}

std::string TenantOfAddress(std::string_view address) {
  const std::string text(address.substr(0, address.find('%')));  // without the interface
  in6_addr parsed{};
  if (inet_pton(AF_INET6, text.c_str(), &parsed) != 1) return std::string(address);
  std::memset(parsed.s6_addr + kPrefixBytes, 0, sizeof parsed.s6_addr - kPrefixBytes);
  char prefix[INET6_ADDRSTRLEN] = {};
  inet_ntop(AF_INET6, &parsed, prefix, sizeof prefix);
  return absl::StrCat(prefix, "/64");
}

// --- The table -----------------------------------------------------------------------------------

TenantPtr TenantTable::EnterAddress(std::string_view address, Time now) {
  return Enter(absl::StrCat(kAddressKey, TenantOfAddress(address)), nullptr, 0, now);
}

TenantPtr TenantTable::EnterIdentity(const tree::Identity& identity, bool is_connection, Time now) {
  return Enter(absl::StrCat(kIdentityKey, identity.scheme, ":", identity.id), &identity,
               is_connection ? limit(Limit::kConnections) : 0, now);
}

TenantPtr TenantTable::Enter(std::string key, const tree::Identity* identity, int64_t clients_max,
                             Time now) {
  TenantPtr tenant;
  {
    MutexLock lock(&mutex_);
    ForgetIdle(now);
    TenantPtr& found = tenants_[key];
    if (found == nullptr) {
      std::string name = identity != nullptr ? ShownName(*identity)
                                             : absl::StrCat("address ", ToAbsl(key).substr(1));
      found = std::make_shared<Tenant>(std::move(key), std::move(name));
    }
    tenant = found;
    if (clients_max == 0 || tenant->clients < static_cast<size_t>(clients_max)) {
      ++tenant->clients;
      return tenant;
    }
  }
  OnReached(Limit::kConnections, tenant.get(), now);
  return nullptr;
}

void TenantTable::Release(const TenantPtr& tenant) {
  MutexLock lock(&mutex_);
  ASSERT(tenant->clients > 0, "each client leaves once");
  if (--tenant->clients > 0 || std::exchange(tenant->is_idle, true)) return;
  idle_.push_back(tenant);
}

// Each call looks at two tenants at most, so that it takes a bounded time, and still forgets more
// than come.
void TenantTable::ForgetIdle(Time now) {
  for (int i = 0; i < 2 && !idle_.empty(); ++i) {
    const TenantPtr tenant = std::move(idle_.front());
    idle_.pop_front();
    if (tenant->clients > 0) {
      tenant->is_idle = false;
    } else if (idle_.size() >= kIdleMax ||
               (tenant->requests.IsFull(now) && tenant->sessions.IsFull(now) &&
                tenant->ephemerals.load() == 0)) {
      tenants_.erase(tenant->key);
    } else {
      idle_.push_back(tenant);
    }
  }
}

size_t TenantTable::size() const {
  MutexLock lock(&mutex_);
  return tenants_.size();
}

void TenantTable::OnReached(Limit limit, Tenant* tenant, Time now) {
  const auto number = static_cast<size_t>(limit);
  reached_[number].fetch_add(1, std::memory_order_relaxed);
  const int64_t now_ns = Ns(now);
  if ((tenant != nullptr && !IsDue(&tenant->logged[number], now_ns, kTenantLogPeriodNs)) ||
      !IsDue(&logged_, now_ns, kLogPeriodNs)) {
    not_logged_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  spdlog::warn("a client has reached a limit: key={} max={} tenant=\"{}\" not_logged_before={}",
               KeyOf(limit), limits_.of(limit), tenant == nullptr ? "all" : tenant->name,
               not_logged_.exchange(0));
}

void TenantTable::KeepEphemerals(tree::SessionId session, std::vector<TenantPtr> tenants,
                                 int64_t count) {
  for (const TenantPtr& tenant : tenants) tenant->ephemerals.fetch_add(count);
  MutexLock lock(&kept_mutex_);
  KeptSession& kept = kept_[session];
  for (const TenantPtr& tenant : kept.tenants) tenant->ephemerals.fetch_sub(kept.ephemerals);
  kept = {std::move(tenants), count};
  kept_count_.store(kept_.size());
}

void TenantTable::CorrectKept(tree::SessionId session, size_t count) {
  if (kept_count_.load() == 0) return;
  MutexLock lock(&kept_mutex_);
  const auto found = kept_.find(session);
  if (found == kept_.end()) return;
  const int64_t change = static_cast<int64_t>(count) - found->second.ephemerals;
  for (const TenantPtr& tenant : found->second.tenants) tenant->ephemerals.fetch_add(change);
  found->second.ephemerals += change;
}

void TenantTable::OnSessionTaken(tree::SessionId session) {
  if (kept_count_.load() == 0) return;
  MutexLock lock(&kept_mutex_);
  const auto found = kept_.find(session);
  if (found == kept_.end()) return;
  for (const TenantPtr& tenant : found->second.tenants) {
    tenant->ephemerals.fetch_sub(found->second.ephemerals);
  }
  kept_.erase(found);
  kept_count_.store(kept_.size());
}

void TenantTable::ForgetSessions() {
  MutexLock lock(&kept_mutex_);
  for (const auto& [session, kept] : kept_) {
    for (const TenantPtr& tenant : kept.tenants) tenant->ephemerals.fetch_sub(kept.ephemerals);
  }
  kept_.clear();
  kept_count_.store(0);
}

// --- Clients -------------------------------------------------------------------------------------

TenantShare::TenantShare(TenantTable* table, std::string_view address, bool is_connection, Time now)
    : table_(table),
      is_connection_(is_connection),
      address_(table->EnterAddress(address, now)),
      tenants_{address_.get(), nullptr},
      token_taken_(now) {}

TenantShare::~TenantShare() {
  if (owed_ > 0) Pay(owed_, token_taken_);
  SetOutstanding(0, 0);
  SetWatches(0);
  SetEphemerals(0);
  SetSlowed(false);
  table_->Release(address_);
  if (identity_ != nullptr) table_->Release(identity_);
}

bool TenantShare::SetIdentity(std::span<const tree::Identity> identities, Time now) {
  if (identity_ != nullptr) return true;
  const auto proved = std::ranges::find_if(identities, [](const tree::Identity& identity) {
    return identity.scheme != "ip" && identity.scheme != "super";
  });
  if (proved == identities.end()) return true;
  identity_ = table_->EnterIdentity(*proved, is_connection_, now);
  if (identity_ == nullptr) return false;
  tenants_[1] = identity_.get();
  identity_->outstanding_requests.fetch_add(requests_, std::memory_order_relaxed);
  identity_->outstanding_bytes.fetch_add(bytes_, std::memory_order_relaxed);
  identity_->watches.fetch_add(watches_, std::memory_order_relaxed);
  identity_->ephemerals.fetch_add(ephemerals_, std::memory_order_relaxed);
  if (was_slowed_) identity_->slowed.fetch_add(1, std::memory_order_relaxed);
  return true;
}

bool TenantShare::IsOpen(Limit limit, Bucket bucket, Time now) const {
  const int64_t per_second = table_->limit(limit);
  if (per_second == 0) return true;
  return std::ranges::all_of(tenants_, [&](const Tenant* tenant) {
    return tenant == nullptr || (tenant->*bucket).IsOpen(per_second, now);
  });
}

bool TenantShare::Take(Limit limit, Bucket bucket, Time now) {
  const int64_t per_second = table_->limit(limit);
  if (per_second == 0) return true;
  if (!IsOpen(limit, bucket, now)) return false;
  for (Tenant* tenant : tenants_) {
    if (tenant != nullptr) (tenant->*bucket).Take(per_second, now);
  }
  return true;
}

bool TenantShare::IsAlone() const {
  return std::ranges::all_of(tenants_, [this](const Tenant* tenant) {
    return tenant == nullptr ||
           tenant->slowed.load(std::memory_order_relaxed) <= (was_slowed_ ? 1 : 0);
  });
}

bool TenantShare::TakeRequestNow(Time now) {
  if (owed_ > 0) Pay(std::exchange(owed_, 0), now);
  paid_at_ = now;
  if (std::exchange(may_take_anyway_, false)) {
    TakeRequestAnyway(now);
    return true;
  }
  if (part_ == 0 && IsAlone()) part_ = kNoPart;
  if (part_ == 0 || !Take(Limit::kRequests, &Tenant::requests, now)) {
    SetSlowed(true);
    slowed_at_ = now;
    return false;
  }
  if (part_ != kNoPart) --part_;
  token_taken_ = now;
  return true;
}

bool TenantShare::EndSlowing(Time now, std::chrono::milliseconds wait_max) {
  may_take_anyway_ = now - token_taken_ >= wait_max;
  if (!IsOpen(Limit::kRequests, &Tenant::requests, now)) return may_take_anyway_;
  int64_t clients = 1;
  for (const Tenant* tenant : tenants_) {
    if (tenant != nullptr) clients = std::max(clients, tenant->slowed.load());
  }
  constexpr int64_t kTurnsPerSecond = std::chrono::seconds(1) / kTurn;
  // Rounded up: parts that are too small would leave tokens that nobody may take, and parts that are
  // too large only end the turn before the last clients, which are earlier in another turn.
  const int64_t parts = kTurnsPerSecond * clients;
  part_ = (table_->limit(Limit::kRequests) + parts - 1) / parts;
  return true;
}

void TenantShare::ForgetSlowing(Time now) {
  constexpr auto kRemembered = std::chrono::seconds(1);
  if (now - slowed_at_ >= kRemembered) SetSlowed(false);
}

void TenantShare::SetSlowed(bool was_slowed) {
  if (std::exchange(was_slowed_, was_slowed) == was_slowed) return;
  for (Tenant* tenant : tenants_) {
    if (tenant != nullptr) tenant->slowed.fetch_add(was_slowed ? 1 : -1, std::memory_order_relaxed);
  }
}

void TenantShare::TakeRequestAnyway(Time now) {
  token_taken_ = now;
  Pay(1, now);
}

void TenantShare::Pay(int64_t count, Time now) {
  const int64_t per_second = table_->limit(Limit::kRequests);
  for (Tenant* tenant : tenants_) {
    if (tenant != nullptr && per_second > 0) tenant->requests.Take(per_second, now, count);
  }
}

void TenantShare::Set(Count count, size_t value, int64_t* counted) {
  const int64_t change = static_cast<int64_t>(value) - *counted;
  if (change == 0) return;
  *counted += change;
  for (Tenant* tenant : tenants_) {
    if (tenant != nullptr) (tenant->*count).fetch_add(change, std::memory_order_relaxed);
  }
}

void TenantShare::SetOutstanding(size_t requests, size_t bytes) {
  Set(&Tenant::outstanding_requests, requests, &requests_);
  Set(&Tenant::outstanding_bytes, bytes, &bytes_);
}

void TenantShare::KeepEphemerals(tree::SessionId session, size_t count) {
  if (ephemerals_ == 0) return;
  if (count > 0) {
    std::vector<TenantPtr> tenants = {address_};
    if (identity_ != nullptr) tenants.push_back(identity_);
    table_->KeepEphemerals(session, std::move(tenants), static_cast<int64_t>(count));
  }
  SetEphemerals(0);
}

Tenant* TenantShare::Largest(Limit limit, Time now) const {
  const auto amount = [&](const Tenant& tenant) -> int64_t {
    switch (limit) {
      case Limit::kConnections:
      case Limit::kFirstRequest:
        return 0;
      case Limit::kNewSessions:
        return tenant.sessions.IsOpen(table_->limit(limit), now) ? 0 : 1;
      case Limit::kRequests:
        return tenant.requests.IsOpen(table_->limit(limit), now) ? 0 : 1;
      case Limit::kOutstandingRequests:
        return tenant.outstanding_requests.load();
      case Limit::kOutstandingBytes:
        return tenant.outstanding_bytes.load();
      case Limit::kWatches:
        return tenant.watches.load();
      case Limit::kEphemerals:
        return tenant.ephemerals.load();
    }
    return 0;
  };
  const bool is_identity = identity_ != nullptr && amount(*identity_) >= amount(*address_);
  return is_identity ? identity_.get() : address_.get();
}

void TenantShare::OnReached(Limit limit, Time now) {
  table_->OnReached(limit, Largest(limit, now), now);
}

}  // namespace quorate::rpc
