// SPDX-License-Identifier: Apache-2.0

// The limits of one tenant: of a client address, and of an identity that clients have proved. They
// keep one tenant from taking what the others need. docs/guides/limits.md describes them.
//
// A client (a connection or a stream) counts for the tenant of its address in any case: an IPv4
// address, or the first 64 bits of an IPv6 address, because one IPv6 client commonly has that many
// addresses. It counts for the tenant of its identity besides: the first one that it has proved. A
// limit is reached if it is reached for one of the two. The counts are those of this server; other
// servers have their own.
//
// A client looks its tenants up once, when it connects and when it proves its identity, and then
// changes their counts without a lock. Clients of several threads change them at the same time, so
// a count may exceed its limit by what each thread has under way.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"
#include "base/strings.h"
#include "rpc/config/config.h"
#include "rpc/frontend/attached_sessions.h"
#include "tree/types.h"

namespace quorate::rpc {

// The limits, each with a key of the configuration.
enum class Limit : uint8_t {
  kConnections,          // of an identity; another one is refused
  kNewSessions,          // per second; the handshake waits
  kRequests,             // per second; the client is read from more slowly
  kOutstandingRequests,  // received and not answered; the client is read from later
  kOutstandingBytes,     // of requests that are not begun; as above
  kWatches,              // another one is refused
  kEphemerals,           // another one is refused
  kFirstRequest,         // connections without a session; the oldest is closed
};
inline constexpr size_t kLimitCount = 8;

// Returns the key that sets the limit.
std::string_view KeyOf(Limit limit);

// The values of the limits of counts and rates; 0: no limit. Plain values.
struct TenantLimits {
  std::array<int64_t, kLimitCount> max = {};  // by Limit

  explicit TenantLimits() = default;
  explicit TenantLimits(const Config& config);
  int64_t of(Limit limit) const { return max[static_cast<size_t>(limit)]; }
};

// Tokens that come at a constant rate. At most those of one second are kept. Thread-safety: all
// functions may be called from any thread.
class TokenBucket {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Returns whether a token is there at `now`. REQUIRES, here and below: per_second > 0.
  bool IsOpen(int64_t per_second, Time now) const {
    return paid_until_.load(std::memory_order_relaxed) + NsPerToken(per_second) <= Ns(now);
  }
  // Takes `count` tokens. If so many are not there, takes some that come later: the bucket is then not
  // open for longer, but for no more than a second.
  void Take(int64_t per_second, Time now, int64_t count = 1);
  // Returns whether the bucket has all tokens that it keeps.
  bool IsFull(Time now) const {
    return paid_until_.load(std::memory_order_relaxed) <= Ns(now) - kNsKept;
  }

 private:
  static constexpr int64_t kNsKept = 1'000'000'000;
  static int64_t Ns(Time time) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
  }
  static int64_t NsPerToken(int64_t per_second) {
    return std::max<int64_t>(kNsKept / per_second, 1);
  }

  // The tokens that came until this time, in nanoseconds, are taken.
  std::atomic<int64_t> paid_until_{-(int64_t{1} << 62)};
};

// The counts of one tenant. Thread-safety: the atomic fields, from any thread; the others belong to
// TenantTable.
struct Tenant {
  Tenant(std::string the_key, std::string the_name)
      : key(std::move(the_key)), name(std::move(the_name)) {}

  const std::string key;   // in the table
  const std::string name;  // for the log; without the hash of a password

  std::atomic<int64_t> outstanding_requests{0};
  std::atomic<int64_t> outstanding_bytes{0};
  std::atomic<int64_t> watches{0};
  std::atomic<int64_t> ephemerals{0};
  std::atomic<int64_t> slowed{0};  // clients that have lately waited for a token of `requests`
  TokenBucket requests;
  TokenBucket sessions;

  // When each limit was logged last, in nanoseconds of the clock.
  std::array<std::atomic<int64_t>, kLimitCount> logged = {};
  size_t clients = 0;    // that refer to it
  bool is_idle = false;  // is in TenantTable::idle_
};

using TenantPtr = std::shared_ptr<Tenant>;

// The tenants of a server. Thread-safety: all functions may be called from any thread, except for
// SetLimits.
class TenantTable {
 public:
  using Time = TokenBucket::Time;

  TenantTable() = default;
  TenantTable(const TenantTable&) = delete;
  TenantTable& operator=(const TenantTable&) = delete;

  // REQUIRES: called before any client connects.
  void SetLimits(const TenantLimits& limits) { limits_ = limits; }
  int64_t limit(Limit limit) const { return limits_.of(limit); }

  // Returns the tenant of an address, or of an identity, and counts a client of it. Release must
  // follow. EnterIdentity returns null if the identity has its limit of connections and
  // `is_connection`.
  TenantPtr EnterAddress(std::string_view address, Time now);
  TenantPtr EnterIdentity(const tree::Identity& identity, bool is_connection, Time now);
  void Release(const TenantPtr& tenant);

  // Counts that a tenant, or a client without one (null), has reached a limit, and logs it at a
  // limited rate.
  void OnReached(Limit limit, Tenant* tenant, Time now);
  // Returns how often a limit was reached.
  int64_t reached(Limit limit) const {
    return reached_[static_cast<size_t>(limit)].load(std::memory_order_relaxed);
  }
  // Returns the number of tenants in the table.
  size_t size() const;

  // Keeps the count of the ephemerals of a session that lives on without a client, until
  // OnSessionTaken, in place of an earlier count. REQUIRES: the caller holds the tree's lock, and the session is in the tree.
  void KeepEphemerals(tree::SessionId session, std::vector<TenantPtr> tenants, int64_t count);
  // Corrects what KeepEphemerals keeps for the session, if it keeps something.
  void CorrectKept(tree::SessionId session, size_t count);
  // Called when the session has ended, or has another client.
  void OnSessionTaken(tree::SessionId session);
  // Called when sessions may have ended without a call of OnSessionTaken.
  void ForgetSessions();

 private:
  // Tenants without clients are kept while their buckets are not full, so that a client does not
  // get tokens by connecting again; at most so many.
  static constexpr size_t kIdleMax = 4096;

  struct KeptSession {
    std::vector<TenantPtr> tenants;
    int64_t ephemerals = 0;
  };

  // `identity` is null for an address.
  TenantPtr Enter(std::string key, const tree::Identity* identity, int64_t clients_max, Time now);
  void ForgetIdle(Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  TenantLimits limits_;
  std::array<std::atomic<int64_t>, kLimitCount> reached_ = {};
  std::atomic<int64_t> logged_{0};      // when a limit was logged last, in ns of the clock
  std::atomic<int64_t> not_logged_{0};  // since then

  mutable Mutex mutex_;
  StringMap<TenantPtr> tenants_ ABSL_GUARDED_BY(mutex_);
  std::deque<TenantPtr> idle_ ABSL_GUARDED_BY(mutex_);

  std::atomic<size_t> kept_count_{0};  // size of kept_, so that few need the lock
  Mutex kept_mutex_;
  absl::flat_hash_map<tree::SessionId, KeptSession> kept_ ABSL_GUARDED_BY(kept_mutex_);
};

// What one client counts for its tenants. The destructor takes it off. Thread-safety: none.
class TenantShare {
 public:
  using Time = TokenBucket::Time;

  // `table` must outlive the object. `is_connection`: the client counts for
  // limits.connectionsPerIdentity.
  TenantShare(TenantTable* table, std::string_view address, bool is_connection, Time now);
  ~TenantShare();
  TenantShare(const TenantShare&) = delete;
  TenantShare& operator=(const TenantShare&) = delete;

  // Makes the client count for the tenant of the first of `identities` that was proved, unless it
  // counts for an identity already. Returns false if that has its limit of connections.
  bool SetIdentity(std::span<const tree::Identity> identities, Time now);

  // --- Rates -------------------------------------------------------------------------------------
  bool limits_requests() const { return table_->limit(Limit::kRequests) > 0; }
  // Takes a token of each tenant for a request. If one has none, or if other clients wait and this
  // one has had its part, takes none and returns false: the client is slowed then, until EndSlowing
  // returns true.
  //
  // A client takes the tokens of up to kOwedFor later than it has used them, all at once: most requests
  // then change no count that other threads change too. A client owes at most the tokens that its tenant gets
  // in that time. A tenant can exceed its rate by this number for each of its clients.
  bool TakeRequest(Time now) {
    if (now - paid_at_ < kOwedFor && owed_ < MayOwe() && part_ == kNoPart && !may_take_anyway_) {
      ++owed_;
      token_taken_ = now;
      return true;
    }
    return TakeRequestNow(now);
  }
  // Called about every kTurn while the client is slowed. Returns true if it may take tokens again: its
  // part of those that come in one turn; or one that is not there yet (TakeRequestAnyway), if it has
  // got none for `wait_max`.
  bool EndSlowing(Time now, std::chrono::milliseconds wait_max);
  // Called from time to time: a client that has not waited lately takes no part from the others.
  void ForgetSlowing(Time now);
  bool was_slowed() const { return was_slowed_; }
  static constexpr auto kTurn = std::chrono::milliseconds(100);
  // Takes a token even if there is none.
  void TakeRequestAnyway(Time now);
  // Takes a token for a new session. Returns false, and takes none, if a tenant has none.
  bool TakeSession(Time now) { return Take(Limit::kNewSessions, &Tenant::sessions, now); }

  // --- Counts ------------------------------------------------------------------------------------
  // Sets what the client has outstanding now.
  void SetOutstanding(size_t requests, size_t bytes);
  // Returns whether one more request would exceed a limit, if the client has `requests` outstanding
  // now.
  bool IsAtOutstanding(size_t requests) const {
    return HasReached(Limit::kOutstandingRequests, &Tenant::outstanding_requests,
                      static_cast<int64_t>(requests) - requests_) ||
           HasReached(Limit::kOutstandingBytes, &Tenant::outstanding_bytes, 0);
  }
  bool IsAtBytes() const {
    return HasReached(Limit::kOutstandingBytes, &Tenant::outstanding_bytes, 0);
  }
  // Returns whether the tenant has twice its limit of bytes.
  bool IsFarAboveBytes() const {
    return HasReached(Limit::kOutstandingBytes, &Tenant::outstanding_bytes, 0, 2);
  }
  void SetWatches(size_t count) {
    Set(&Tenant::watches, count, &watches_);
    if (shown_ != nullptr) shown_->watches.store(watches_, std::memory_order_relaxed);
  }
  // Shows the number of watches at `session`, too, from now on.
  void ShowAt(std::shared_ptr<AttachedSession> session) {
    shown_ = std::move(session);
    shown_->watches.store(watches_, std::memory_order_relaxed);
  }
  const std::shared_ptr<AttachedSession>& shown() const { return shown_; }
  bool MayWatch() const { return !HasReached(Limit::kWatches, &Tenant::watches, 0); }
  // Returns whether the tenant has twice its limit of watches.
  bool IsFarAboveWatches() const { return HasReached(Limit::kWatches, &Tenant::watches, 0, 2); }
  size_t watches() const { return static_cast<size_t>(watches_); }
  // Sets the number of ephemerals of the client's session, with those that are being created.
  void SetEphemerals(size_t count) { Set(&Tenant::ephemerals, count, &ephemerals_); }
  size_t ephemerals() const { return static_cast<size_t>(ephemerals_); }
  // Returns whether `count` more of them are allowed.
  bool MayCreateEphemerals(size_t count) const {
    return !HasReached(Limit::kEphemerals, &Tenant::ephemerals, static_cast<int64_t>(count) - 1);
  }
  // Leaves `count` ephemerals counted in place of those of the client, for a session that lives on
  // without this client. `count`: the number that the session has in the tree, 0 if it has ended.
  // REQUIRES: the caller holds the tree's lock.
  void KeepEphemerals(tree::SessionId session, size_t count);

  // Counts that a limit was reached, and logs it at a limited rate.
  void OnReached(Limit limit, Time now);

 private:
  static constexpr int64_t kNoPart = INT64_MAX;
  static constexpr auto kOwedFor = std::chrono::milliseconds(1);
  using Count = std::atomic<int64_t> Tenant::*;
  using Bucket = TokenBucket Tenant::*;

  void Join(TenantPtr tenant);
  bool TakeRequestNow(Time now);
  // Returns how many tokens the client may owe: none at low rates.
  int64_t MayOwe() const {
    constexpr int64_t kPartsOfSecond = std::chrono::seconds(1) / kOwedFor;
    return table_->limit(Limit::kRequests) / kPartsOfSecond - 1;
  }
  // Takes `count` tokens of each tenant, whether they are there or not.
  void Pay(int64_t count, Time now);
  void SetSlowed(bool was_slowed);
  // Returns whether no other client of the tenants has waited lately.
  bool IsAlone() const;
  bool Take(Limit limit, Bucket bucket, Time now);
  bool IsOpen(Limit limit, Bucket bucket, Time now) const;
  void Set(Count count, size_t value, int64_t* counted);
  // Returns the tenant that has most of what the limit counts.
  Tenant* Largest(Limit limit, Time now) const;
  // Returns whether a tenant has `factor` times its limit, if `more` are added.
  bool HasReached(Limit limit, Count count, int64_t more, int64_t factor = 1) const {
    const int64_t max = table_->limit(limit);
    if (max == 0) return false;
    for (const Tenant* tenant : tenants_) {
      if (tenant != nullptr &&
          (tenant->*count).load(std::memory_order_relaxed) + more >= max * factor) {
        return true;
      }
    }
    return false;
  }

  TenantTable* const table_;
  const bool is_connection_;
  std::shared_ptr<AttachedSession> shown_;  // null: has no session, or not yet
  TenantPtr address_;
  TenantPtr identity_;                   // null: none is proved
  std::array<Tenant*, 2> tenants_ = {};  // the same two
  int64_t requests_ = 0;
  int64_t bytes_ = 0;
  int64_t watches_ = 0;
  int64_t ephemerals_ = 0;
  bool was_slowed_ = false;       // counts in Tenant::slowed
  int64_t part_ = kNoPart;        // the tokens that it may still take
  bool may_take_anyway_ = false;  // the next request needs no token
  Time slowed_at_;
  Time token_taken_;  // when it used the last token; at first, when it connected
  int64_t owed_ = 0;  // tokens that it has used and not taken
  Time paid_at_;      // when it owed none; at first, long ago
};

// Returns the tenant of an address: the address, or the first 64 bits of an IPv6 address.
std::string TenantOfAddress(std::string_view address);

}  // namespace quorate::rpc
