// SPDX-License-Identifier: Apache-2.0

// The common part of the front ends: their loops, the tags that identify each client and its loop,
// the session of each client, the limits of clients, and the delivery of results to the loops. It
// has no threads.
//
// A client belongs to one loop (client_loop.h) for its lifetime, and has a tag. The apply thread
// delivers results and events through the loop's inbox, with one wake-up per batch; the loop drains
// the inbox before it answers a read from a newer tree.
//
// Thread-safety: the functions of Frontend, as rpc/frontend/service.h says. AddLoop is called
// before all other functions, which may be called from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/clock.h"
#include "base/random.h"
#include "rpc/config/config.h"
#include "rpc/frontend/address_counts.h"
#include "rpc/frontend/frontends.h"
#include "rpc/frontend/listing.h"
#include "rpc/frontend/service.h"
#include "rpc/frontend/session_ids.h"
#include "rpc/frontend/session_tags.h"

namespace quorate::rpc {

// Whether a new client is served.
enum class Admission : uint8_t {
  kAdmitted,
  kTooMany,           // maxCnxns
  kTooManyOfAddress,  // maxClientCnxns
};

// `Loop` derives from ClientLoop. It may be incomplete where it is only named; a front end
// instantiates the template where it is complete.
template <class Loop>
class ClientFrontend : public Frontend {
 public:
  void OnSessionAttached(const tree::SessionInfo& session) override {
    service_->tenants().OnSessionTaken(session.id);
    const std::optional<uint32_t> tag = sessions_.Take(session.id);
    if (!tag.has_value()) return;
    LoopOf(*tag).Push(typename Loop::SessionAttached{*tag, session.attach_zxid});
  }
  void OnSessionClosed(tree::SessionId session, tree::Zxid /*zxid*/) override {
    service_->tenants().OnSessionTaken(session);
    const std::optional<uint32_t> tag = sessions_.Take(session);
    if (tag.has_value()) LoopOf(*tag).Push(typename Loop::SessionClosed{*tag});
  }
  void OnResult(tree::ApplyResult result) override {
    const uint32_t tag = result.header.proposer_tag;
    const tree::CommandKind kind = result.header.kind;
    if ((kind == tree::CommandKind::kCreateSession || kind == tree::CommandKind::kAttachSession) &&
        result.error == tree::ErrorCode::kOk) {
      sessions_.Set(result.header.session, tag);
    }
    LoopOf(tag).Push(std::move(result));
  }
  void OnTreeReplaced(const tree::Tree& /*tree*/) override {
    service_->tenants().ForgetSessions();
    for (Loop* loop : loops_) loop->Push(typename Loop::TreeReplaced{});
  }
  std::vector<int64_t> HeldUpSessions() override {
    return sessions_.OfStalledLoops(loops_, clock_->Now(),
                                    [this](uint32_t tag) { return &LoopOf(tag); });
  }
  void OnBatchApplied() override {
    for (Loop* loop : loops_) loop->Wake();
  }
  void OnSyncDone(uint32_t proposer_tag, uint64_t sync_id, tree::Zxid zxid) override {
    Loop& loop = LoopOf(proposer_tag);
    loop.Push(typename Loop::BarrierDone{sync_id, zxid});
    loop.Wake();
  }

  // Sets what records the requests of clients that are refused, and failed authentication. REQUIRES:
  // called before the first client connects; `audit` outlives the front end.
  void SetRequestAudit(RequestAudit* audit) { audit_ = audit; }
  RequestAudit* request_audit() const override { return audit_; }

  // --- For the loops -----------------------------------------------------------------------------
  // Adds a loop, and returns its number. The loop must outlive all other calls.
  size_t AddLoop(Loop* loop) {
    ASSERT(next_tag_.load() == 0, "tags tell the loops apart by their number");
    loops_.push_back(loop);
    return loops_.size() - 1;
  }
  // Returns a tag for a new client of `loop`; the tag determines the loop. Tags repeat after very
  // many clients. If a client with that tag is still open, the loop asks for another tag.
  uint32_t NewTag(size_t loop) {
    // Each loop has equally many tags, so that the numbering can wrap around.
    const uint32_t of_loop_max = tags_.count / static_cast<uint32_t>(loops_.size()) - 1;
    return TagOf(loop, 1 + next_tag_.fetch_add(1) % of_loop_max);
  }
  // Returns the tag of `loop` with this number. Number 0 is the loop itself, which begins barriers
  // for all its clients.
  uint32_t TagOf(size_t loop, uint32_t number) const {
    return tags_.first + number * static_cast<uint32_t>(loops_.size()) +
           static_cast<uint32_t>(loop);
  }
  // For tests: sets the number of tags that count as handed out.
  void SetTagsHandedOut(uint32_t count) { next_tag_.store(count); }
  // Returns a new session id: the server's number in the top byte, the rest random.
  tree::SessionId NewSessionId() { return DrawSessionId(service_->proposer().member, random_); }
  // Counts a new client of `address`, if the limits admit it; Release must follow when it is
  // closed.
  // `may_exceed`: up to twice the limits are allowed.
  Admission Admit(const std::string& address, bool may_exceed = false) {
    const int factor = may_exceed ? 2 : 1;
    const int max = config_.max_connections * factor;
    if (clients_.fetch_add(1) < max || max <= 0) {
      if (addresses_.Add(address, config_.max_client_connections * factor))
        return Admission::kAdmitted;
      clients_.fetch_sub(1);
      return Admission::kTooManyOfAddress;
    }
    clients_.fetch_sub(1);
    return Admission::kTooMany;
  }
  void Release(const std::string& address) {
    addresses_.Remove(address);
    clients_.fetch_sub(1);
  }
  // Returns whether the client with this tag has the session, so that nobody takes it when the client
  // is closed. REQUIRES: the caller holds the tree's lock.
  bool IsServedBy(tree::SessionId session, uint32_t tag) const {
    return sessions_.Find(session) == tag;
  }
  // Removes the mapping of `session` to `tag`, because the client is closed.
  void ForgetSession(tree::SessionId session, uint32_t tag) {
    sessions_.Forget(session, tag);
    service_->attached_sessions().Detach(session, tag);
  }
  // Shows administrators the client of a session, from when it has attached the session; and again,
  // when its identities have changed. The number of its watches is that of `tenants`.
  void ShowSession(tree::SessionId session, tree::Zxid attach_zxid, uint32_t tag,
                   ClientProtocol protocol, const std::string& address,
                   std::span<const tree::Identity> identities, TenantShare* tenants) {
    const bool is_new = tenants->shown() == nullptr;
    auto client = std::make_shared<AttachedSession>();
    client->tag = tag;
    client->attach_zxid = attach_zxid;
    client->protocol = protocol;
    client->address = address;
    client->identities = IdentityTexts(identities);
    client->since = is_new ? clock_->Now() : tenants->shown()->since;
    tenants->ShowAt(client);
    AttachedSessions& sessions = service_->attached_sessions();
    is_new ? sessions.Attach(session, std::move(client))
           : sessions.Update(session, std::move(client));
  }

  const Config& config() const { return config_; }
  // Returns the content of /zookeeper/config; empty if standalone.
  const std::string& members_text() const { return members_text_; }
  const Clock& clock() const { return *clock_; }
  RandomBytes& random() { return *random_; }
  Service& service() { return *service_; }
  Listings& listings() { return listings_; }

 protected:
  // All references and pointers must outlive the front end. `random` makes session ids. `tags` are
  // those of its loops and clients.
  ClientFrontend(const Config& config, Service* service, const Clock* clock, RandomBytes* random,
                 TagRange tags)
      : config_(config),
        clock_(clock),
        members_text_(config.MembersText()),
        service_(service),
        random_(random),
        tags_(tags) {
    service->tenants().SetLimits(TenantLimits(config));
    service->slow_requests().SetThreshold(config.slow_request_threshold_ms);
    service->BeginSuperFailures(clock);
  }

  // Returns the tag of the client that has the session; nullopt if it is none of this front end.
  std::optional<uint32_t> TagOfSession(tree::SessionId session) const {
    return sessions_.Find(session);
  }

  Loop& LoopOf(uint32_t tag) { return *loops_[(tag - tags_.first) % loops_.size()]; }

  const Config& config_;
  const Clock* const clock_;
  Listings listings_;

 private:
  const std::string members_text_;
  Service* const service_;
  RequestAudit* audit_ = nullptr;
  RandomBytes* const random_;
  const TagRange tags_;
  std::vector<Loop*> loops_;
  std::atomic<uint32_t> next_tag_{0};
  // The client of each session. The apply thread sets it, so it is always up to date with the tree.
  SessionTags sessions_;
  AddressCounts addresses_;
  std::atomic<int> clients_{0};
};

}  // namespace quorate::rpc
