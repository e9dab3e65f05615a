// SPDX-License-Identifier: Apache-2.0

// The common part of the loops of the front ends. A loop serves the clients of one thread. It has
// an inbox for results and events from the apply thread; iterations, each of which ends after all
// inputs that were ready together; one batch for the writes of all its clients; the tree's read
// lock; and the periodic report of the sessions that were heard from. The loop of each protocol
// derives from ClientLoop, reads what clients send, and answers them.
//
// Thread-safety: Push, Wake and last_iteration may be called from any thread. Everything else runs
// on the loop's thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "base/assert.h"
#include "base/clock.h"
#include "rpc/frontend/barriers.h"
#include "rpc/frontend/counted_bytes.h"
#include "rpc/frontend/inbox.h"
#include "rpc/frontend/listing.h"
#include "rpc/frontend/service.h"

namespace quorate::rpc {

// The part of a loop's client that is the same for every protocol. `Client` derives from it and
// has besides:
//   uint32_t tag() const;
//   const std::string& address() const;
//   tree::SessionId session() const;  // kNoSession: none
//   bool finished() const;            // is closed as soon as everything is sent
//   bool CanContinue() const;         // Loop::Continue has work to do
//   bool TakeTouched();               // whether its session was heard from since the last call
template <class Client>
struct LoopClient {
  explicit LoopClient(MemoryBudget* memory) : unsent(memory, MemoryUse::kUnsent) {}

  typename std::list<std::shared_ptr<Client>>::iterator in_order;
  bool open = true;
  bool receiving = true;  // the transport was asked for an input, and none came since
  bool blocked = false;   // waits until more can be sent
  bool dirty = false;     // in dirty_
  CountedBytes unsent;
};

// `Loop` derives from ClientLoop, which is its friend, and has:
//   void HandleItem(Item& item);       // delivers an item of the inbox
//   void Continue(Client& client);     // continues the client's work on the locked tree
//   void Finish(Client& client, const absl::Status& why);  // closes it once everything is sent
//   void AddTouched(std::vector<int64_t>* sessions);  // appends the sessions heard from
//   void OnBarrierDone(Client& client, uint64_t barrier);  // a barrier that it joined has ended
// `FrontendOfLoop` is a ClientFrontend<Loop>. `Transport` has Wake(), which schedules a call of
// Loop::OnWake and may be called from any thread, and EndIterationSoon(), which schedules one call
// of Loop::EndIteration. `OwnItems` are the items that only this protocol has.
template <class Loop, class FrontendOfLoop, class Transport, class Client, class... OwnItems>
class ClientLoop {
 public:
  // A loop that has begun no iteration for this long counts as stalled: while it has clients, its
  // timer begins iterations far more often.
  static constexpr auto kHeldUpAfter = std::chrono::milliseconds(600);

  ClientLoop(const ClientLoop&) = delete;
  ClientLoop& operator=(const ClientLoop&) = delete;

  size_t client_count() const { return clients_.size(); }

  // --- Any thread --------------------------------------------------------------------------------
  struct SessionClosed {
    uint32_t tag;
  };
  struct SessionAttached {
    uint32_t tag;
    tree::Zxid attach_zxid;
  };
  struct TreeReplaced {};
  // Everything up to `zxid` is applied, and so is everything that was committed when the loop began
  // the barrier.
  struct BarrierDone {
    uint64_t barrier;
    tree::Zxid zxid;
  };
  using Item = std::variant<tree::ApplyResult, SessionClosed, SessionAttached, TreeReplaced,
                            BarrierDone, OwnItems...>;
  // Queues `item` without waking the loop.
  void Push(Item item) { inbox_.Push(std::move(item)); }
  // Wakes the loop if items are queued and the loop was not woken for them.
  void Wake() {
    if (inbox_.WantsWake()) transport_->Wake();
  }
  // Returns the time at which the last iteration began.
  std::chrono::steady_clock::time_point last_iteration() const {
    return std::chrono::steady_clock::time_point(
        std::chrono::steady_clock::duration(last_iteration_.load(std::memory_order_relaxed)));
  }

  // --- For clients -------------------------------------------------------------------------------
  FrontendOfLoop& frontend() { return *frontend_; }
  // Returns the tree, locked for reading until the end of this call into the loop or until
  // UnlockTree. The results and events of everything that was applied before have been delivered to
  // their clients. If kNodesPerHold were spent since the tree was locked, it is first unlocked for
  // a moment, so that apply waits only for a bounded time.
  const tree::Tree& LockTree() {
    if (spent_ >= kNodesPerHold) UnlockTree();
    if (!tree_.has_value()) {
      tree_.emplace(frontend_->service().ReadTree());
      // Otherwise the wait would be in no latency of the requests that are answered from here on.
      if (tree_->has_waited()) now_ = frontend_->clock().Now();
      loop().DeliverApplied();
      seen_zxid_ = (*tree_)->last_zxid();
    }
    return **tree_;
  }
  // REQUIRES: the tree is locked.
  const tree::Tree& tree() const {
    ASSERT(tree_.has_value(), "whoever reads has locked the tree");
    return **tree_;
  }
  void UnlockTree() {
    tree_.reset();
    spent_ = 0;
  }
  // Counts work on the locked tree: the number of znodes visited, or work of the same cost.
  void Spend(size_t nodes) {
    spent_ += nodes;
    longest_hold_ = std::max(longest_hold_, spent_);
  }
  // Returns whether kNodesPerHold were spent since the tree was locked.
  bool has_spent_enough() const { return spent_ >= kNodesPerHold; }
  // Returns the most that was spent while the tree was locked once.
  size_t longest_hold() const { return longest_hold_; }
  // Returns the newest zxid that a reply may show: all events up to it were delivered to their
  // clients.
  tree::Zxid seen_zxid() const { return seen_zxid_; }
  // Returns the bytes of the batch that goes to the log in this iteration. Call AddedCommand after
  // each command that is appended to them.
  std::string& command_bytes() { return *batch_.bytes; }
  // Returns the bytes of the batch, for a client that keeps them until its command is applied. The router
  // of writes stamps sequence numbers into them after the batch is submitted, on another thread; they do
  // not change after the command is applied. REQUIRES: not read before.
  std::shared_ptr<const std::string> batch_bytes() const { return batch_.bytes; }
  // Adds the command that begins at `offset` of command_bytes() to the batch. Returns false if it
  // is too large for the log: it is then removed from the bytes.
  bool AddedCommand(size_t offset) {
    ASSERT(offset < batch_.bytes->size());
    const size_t size = batch_.bytes->size() - offset;
    if (size > kCommandBytesMax) {
      batch_.bytes->resize(offset);
      return false;
    }
    batch_.commands.push_back({offset, size});
    ScheduleIterationEnd();
    return true;
  }
  // Returns the number of a barrier that begins at the end of this iteration or later.
  // Loop::OnBarrierDone is called for the client when everything that was committed on any member
  // before this call is applied here.
  uint64_t JoinBarrier(uint32_t tag) {
    ScheduleIterationEnd();
    return barriers_.Join(tag);
  }
  // Returns whether that barrier has ended.
  bool IsBarrierDone(uint64_t barrier) const { return barrier <= barriers_.done(); }
  // Returns the time at which this iteration began, or at which it got the lock of the tree, if it had to
  // wait for that.
  std::chrono::steady_clock::time_point now() const { return now_; }

 protected:
  // Both must outlive the loop.
  ClientLoop(FrontendOfLoop* frontend, Transport* transport)
      : frontend_(frontend),
        transport_(transport),
        number_(frontend->AddLoop(static_cast<Loop*>(this))) {
    BeginIteration();
    touches_sent_ = now_;
  }
  ~ClientLoop() = default;

  // --- Clients -----------------------------------------------------------------------------------
  // Returns a tag that no client of this loop has. Tags repeat after very many clients, and a
  // client may stay connected for as long.
  uint32_t NewTag() {
    uint32_t tag = frontend_->NewTag(number_);
    while (clients_.contains(tag)) tag = frontend_->NewTag(number_);
    return tag;
  }
  Client& Add(std::shared_ptr<Client> client) {
    client->in_order = in_order_.insert(in_order_.end(), client);
    return *(clients_[client->tag()] = std::move(client));
  }
  // Returns nullptr if no client has the tag.
  Client* Find(uint32_t tag) {
    const auto found = clients_.find(tag);
    return found == clients_.end() ? nullptr : found->second.get();
  }
  // Returns the client of an input. REQUIRES: a client has the tag, because the transport gives the
  // loop no input of a closed client.
  Client& Get(uint32_t tag) {
    Client* client = Find(tag);
    ASSERT(client != nullptr, "the transport knows when a client is closed");
    return *client;
  }
  // Removes a client that is closed, and frees it if it is not dirty.
  void Remove(Client& client) {
    client.unsent.Set(0);
    if (client.session() != tree::kNoSession) {
      frontend_->ForgetSession(client.session(), client.tag());
    }
    frontend_->Release(client.address());
    in_order_.erase(client.in_order);
    clients_.erase(client.tag());
  }
  // Marks the client as dirty: the end of the iteration has to do something for it, such as send
  // what is ready.
  void MarkDirty(Client& client) {
    if (client.dirty || !client.open) return;
    client.dirty = true;
    dirty_.push_back(*client.in_order);
    ScheduleIterationEnd();
  }
  void FinishIfBad(Client& client, const absl::Status& status) {
    if (!status.ok()) loop().Finish(client, status);
  }
  // If memory is low because of clients, returns the client that takes the most bytes, by
  // `bytes_of(client)`, and sets `*bytes` to that number. Returns nullptr if no client takes more
  // than kHeavyBytes, and after the first call for each measurement of memory, because only the
  // next measurement shows the effect. The caller has to close the client, which is counted as
  // closed already.
  template <class BytesOf>
  std::shared_ptr<Client> TakeHeaviest(const BytesOf& bytes_of, size_t* bytes) {
    MemoryBudget& memory = frontend_->service().memory();
    if (!memory.clients_exceed()) return nullptr;
    const uint64_t measurements = memory.measurements();
    if (std::exchange(measurement_seen_, measurements) == measurements) return nullptr;
    std::shared_ptr<Client> heaviest;
    *bytes = kHeavyBytes;
    for (const std::shared_ptr<Client>& client : in_order_) {
      const size_t taken = bytes_of(*client);
      if (taken <= *bytes) continue;
      *bytes = taken;
      heaviest = client;
    }
    if (heaviest != nullptr) memory.CountClosed();
    return heaviest;
  }

  // --- Iterations --------------------------------------------------------------------------------
  // Called at the beginning of each input.
  void BeginIteration() {
    now_ = frontend_->clock().Now();
    last_iteration_.store(now_.time_since_epoch().count(), std::memory_order_relaxed);
  }
  void ScheduleIterationEnd() {
    if (!std::exchange(iteration_end_scheduled_, true)) transport_->EndIterationSoon();
  }
  // Continues the dirty clients that can continue, on the locked tree. They continue only here,
  // after the inbox was delivered, because a reply that was made elsewhere could overtake an event.
  // `has_items` says that the inbox has to be delivered even if no client can continue.
  void ContinueClients(bool has_items) {
    const auto can_continue = [](const std::shared_ptr<Client>& client) {
      return client->open && client->CanContinue();
    };
    if (!has_items && std::none_of(dirty_.begin(), dirty_.end(), can_continue)) return;
    LockTree();  // may add to dirty_
    for (size_t i = 0; i < dirty_.size(); ++i) {
      if (!can_continue(dirty_[i])) continue;
      LockTree();
      // LockTree may deliver that the tree was replaced, after which a client does not continue.
      if (can_continue(dirty_[i])) loop().Continue(*dirty_[i]);
    }
    UnlockTree();
  }
  // Marks all dirty clients as not dirty, and calls `finish(client)` for each of them that is open.
  template <class Finish>
  void TakeDirty(const Finish& finish) {
    const std::vector<std::shared_ptr<Client>> dirty = std::exchange(dirty_, {});
    // Reset all of them first: closing one of them drains the inbox, which may mark any other
    // dirty.
    for (const std::shared_ptr<Client>& client : dirty) client->dirty = false;
    for (const std::shared_ptr<Client>& client : dirty) {
      if (client->open) finish(*client);
    }
  }
  // Begins the barrier that the iteration's clients have joined, and submits its writes. The barrier
  // comes first: the writes may be applied before the service sees another call, and a sync must not
  // show a write that its client sent after it.
  void SubmitBatch() {
    if (const std::optional<uint64_t> barrier = barriers_.TakeNext()) {
      frontend_->service().Sync(frontend_->TagOf(number_, 0), *barrier);
    }
    if (!batch_.empty()) {
      const size_t bytes = batch_.bytes->size();
      frontend_->service().Submit(std::exchange(batch_, CommandBatch{}));
      batch_.bytes->reserve(bytes);
    }
  }

  // --- Inbox -------------------------------------------------------------------------------------
  void DrainInbox() {
    ASSERT(draining_.empty());
    if (!inbox_.Take(&draining_)) return;
    for (Item& item : draining_) loop().HandleItem(item);
    draining_.clear();
  }
  // Called when the tree was locked, before anything is read from it.
  void DeliverApplied() { DrainInbox(); }
  void DeliverBarrier(const BarrierDone& done) {
    seen_zxid_ = std::max(seen_zxid_, done.zxid);
    for (const uint32_t tag : barriers_.End(done.barrier)) {
      DeliverTo(tag, [&](Client& client) {
        loop().OnBarrierDone(client, done.barrier);
        return absl::OkStatus();
      });
    }
    if (barriers_.has_next()) ScheduleIterationEnd();  // one more may begin
  }
  // Calls `deliver(client)` for the client with the tag, if there is one, and finishes the client
  // if that returns an error. A client that is about to be closed gets no more items, because it
  // may have missed earlier ones.
  template <class Deliver>
  void DeliverTo(uint32_t tag, const Deliver& deliver) {
    Client* client = Find(tag);
    if (client == nullptr || !client->open || client->finished()) return;
    MarkDirty(*client);
    FinishIfBad(*client, deliver(*client));
  }

  // --- From time to time -------------------------------------------------------------------------
  // Keeps the touch of a client that is about to be closed, so that its session lives for its whole
  // timeout from the last input.
  void KeepTouch(Client& client) {
    if (client.TakeTouched()) touched_and_closed_.push_back(client.session().value());
  }
  bool has_kept_touches() const { return !touched_and_closed_.empty(); }
  // Reports the sessions that were heard from, once per touch period.
  void SendTouches() {
    const std::chrono::milliseconds period(frontend_->config().touch_period_ms());
    if (now_ - touches_sent_ >= period) SendTouchesNow();
  }
  void SendTouchesNow() {
    touches_sent_ = now_;
    std::vector<int64_t> touched = std::exchange(touched_and_closed_, {});
    loop().AddTouched(&touched);
    if (touched.empty()) return;
    std::sort(touched.begin(), touched.end());
    touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
    frontend_->service().Touch(std::move(touched));
  }

  FrontendOfLoop* const frontend_;
  Transport* const transport_;
  const size_t number_;
  // Only for lookups by tag; loops over clients use in_order_, which has the order in which they
  // were opened.
  absl::flat_hash_map<uint32_t, std::shared_ptr<Client>> clients_;
  std::list<std::shared_ptr<Client>> in_order_;
  std::vector<std::shared_ptr<Client>> dirty_;
  bool iteration_end_scheduled_ = false;
  Inbox<Item> inbox_;
  tree::Zxid seen_zxid_;
  std::chrono::steady_clock::time_point now_;

 private:
  // Only a client that takes more than this is closed when memory is low: more than a buffer that
  // has grown to the largest request.
  static constexpr size_t kHeavyBytes = 5u << 19;

  Loop& loop() { return static_cast<Loop&>(*this); }

  CommandBatch batch_;
  Barriers barriers_;
  std::optional<GuardedTree::ReadGuard> tree_;  // has a value while the tree is locked
  size_t spent_ = 0;                            // since the tree was locked; see Spend
  size_t longest_hold_ = 0;
  uint64_t measurement_seen_ = 0;  // the last measurement of memory that TakeHeaviest used
  std::atomic<std::chrono::steady_clock::rep> last_iteration_{0};  // of BeginIteration
  std::chrono::steady_clock::time_point touches_sent_;
  // Sessions that were touched since touches_sent_, by clients that are closed.
  std::vector<int64_t> touched_and_closed_;
  std::vector<Item> draining_;
};

}  // namespace quorate::rpc
