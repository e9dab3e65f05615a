// SPDX-License-Identifier: Apache-2.0

#include "client/recipes/tree_cache.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/recipes/retry.h"
#include "client/recipes/waiting.h"
#include "client/session_loss.h"

namespace quorate {
namespace {

// The most reads that are pending at a time.
constexpr size_t kReadsMax = 256;
constexpr int kNoDeadline = -1;

// Returns the common prefix of the paths of all znodes below `path`.
std::string PrefixBelow(std::string_view path) {
  return path == "/" ? "/" : std::string(path) + "/";
}

}  // namespace

// All changes are made, and reported, on the callback thread, one at a time.
class TreeCache::State : public std::enable_shared_from_this<State> {
 public:
  State(Client* client, std::string path, Listener listener, WatchScope scope)
      : client_(client), path_(std::move(path)), scope_(scope), listener_(std::move(listener)) {}

  absl::Status Begin() {
    const std::weak_ptr<State> weak = weak_from_this();
    session_ = client_->ListenToSession([weak](const SessionEvent& event) {
      const std::shared_ptr<State> state = weak.lock();
      // If the session is replaced, a WatchReset follows.
      if (state == nullptr || event.type != SessionEvent::Type::kLost || !event.is_final) return;
      state->OnCallback([&] { state->Fail(event.reason); });
    });
    absl::StatusOr<WatchHandle> watch =
        client_->Watch(path_, scope_,
                       [weak](const WatchNotification& notification) {
                         const std::shared_ptr<State> state = weak.lock();
                         if (state == nullptr) return;
                         state->OnCallback([&] { state->OnNotification(notification); });
                       },
                       {.deadline_ms = kNoDeadline});
    if (!watch.ok()) return watch.status();
    watch_ = *std::move(watch);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      Schedule({.path = path_, .is_load = true});
    }
    SendReads();
    return absl::OkStatus();
  }

  void End() {
    watch_.End();
    session_.End();
    std::lock_guard<std::mutex> telling(telling_mutex_);
    is_ended_ = true;
  }

  absl::Status WaitUntilLoaded(const internal::WaitDeadline& deadline) {
    return WaitFor(deadline, [this] { return is_loaded_; });
  }
  absl::Status WaitUntilCurrent(const internal::WaitDeadline& deadline) {
    // All events up to the state that this call reads are delivered before its answer.
    const absl::Status read =
        client_->Exists(path_, {.linearizable = true, .deadline_ms = deadline.ReadDeadlineMs()})
            .status();
    if (!read.ok()) return read;
    uint64_t scheduled = 0;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      scheduled = scheduled_;
    }
    // Wait for all reads that were scheduled until then, and for those that result from them.
    return WaitFor(deadline, [this, scheduled] {
      return is_loaded_ && loading_ == 0 &&
             (outstanding_.empty() || *outstanding_.begin() > scheduled);
    });
  }

  std::optional<Znode> Find(std::string_view path) const {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = znodes_.find(path);
    if (found == znodes_.end()) return std::nullopt;
    return found->second.znode;
  }
  std::map<std::string, Znode> Children(std::string_view path) const {
    const std::string prefix = PrefixBelow(path);
    std::map<std::string, Znode> children;
    std::lock_guard<std::mutex> lock(mutex_);
    auto at = znodes_.upper_bound(prefix);
    while (at != znodes_.end() && at->first.starts_with(prefix)) {
      children.emplace(at->first.substr(prefix.size()), at->second.znode);
      ++at;
      while (at != znodes_.end() && at->first.starts_with(prefix)) {
        const size_t slash = at->first.find('/', prefix.size());
        if (slash == std::string::npos) break;
        // Skip all znodes below the child: '0' is the character after '/'.
        at = znodes_.lower_bound(at->first.substr(0, slash) + "0");
      }
    }
    return children;
  }
  std::vector<Znode> All() const {
    std::lock_guard<std::mutex> lock(mutex_);
    std::vector<Znode> all;
    for (const auto& [path, entry] : znodes_) all.push_back(entry.znode);
    return all;
  }
  bool is_settled() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return is_loaded_ && outstanding_.empty();
  }
  int64_t zxid() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return zxid_;
  }
  absl::Status status() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return status_;
  }

 private:
  struct Entry {
    Znode znode;
    uint64_t generation = 0;
  };
  // A read of a znode, or of the names of its children.
  struct Read {
    std::string path;
    bool is_list = false;
    bool is_load = false;  // part of a load of everything
    uint64_t generation = 0;
    uint64_t since = 0;  // the number of the read from which this one results; 0: its own number
  };

  template <class Function>
  void OnCallback(Function function) {
    {
      std::lock_guard<std::mutex> telling(telling_mutex_);
      if (is_ended_ || !status().ok()) return;
      function();
    }
    SendReads();
  }

  bool Follows() {
    std::lock_guard<std::mutex> telling(telling_mutex_);
    return !is_ended_ && status().ok();
  }

  template <class Predicate>
  absl::Status WaitFor(const internal::WaitDeadline& deadline, Predicate predicate) {
    if (absl::Status s = internal::CallbackThread::CheckMayBlock(); !s.ok()) return s;
    std::unique_lock<std::mutex> lock(mutex_);
    const auto is_over = [&] { return !status_.ok() || predicate(); };
    if (!deadline.end().has_value()) {
      changed_.wait(lock, is_over);
    } else if (!changed_.wait_until(lock, *deadline.end(), is_over)) {
      return absl::DeadlineExceededError(absl::StrCat(
          "waited ", deadline.deadline_ms(), " ms for the cache of what is below ", path_));
    }
    return status_;
  }

  // --- Guarded by mutex_ -------------------------------------------------------------------------

  void Schedule(Read read) {
    read.generation = generation_;
    if (read.is_load) ++loading_;
    ++scheduled_;
    if (read.since == 0) read.since = scheduled_;
    if (!read.is_load && !read.is_list) {
      const auto [queued, is_new] = queued_.try_emplace(read.path, read.since);
      if (!is_new) {
        // The queued read has not been sent yet, so it will see this change, too.
        if (read.since < queued->second) {
          outstanding_.erase(outstanding_.find(queued->second));
          outstanding_.insert(read.since);
          queued->second = read.since;
        }
        return;
      }
    }
    outstanding_.insert(read.since);
    reads_.push_back(std::move(read));
  }

  // --- Without a lock ----------------------------------------------------------------------------

  void SendReads() {
    for (;;) {
      Read read;
      {
        std::lock_guard<std::mutex> lock(mutex_);
        if (reads_.empty() || under_way_ >= kReadsMax || !status_.ok()) return;
        read = std::move(reads_.front());
        reads_.pop_front();
        if (!read.is_load && !read.is_list) {
          const auto queued = queued_.find(read.path);
          read.since = queued->second;
          queued_.erase(queued);
        }
        ++under_way_;
      }
      const std::shared_ptr<State> self = shared_from_this();
      const auto is_wanted = [self] { return self->Follows(); };
      if (read.is_list) {
        internal::CallUntilTaken(
            client_,
            [self, read] {
              return self->client_->AsyncList(read.path, {.deadline_ms = kNoDeadline});
            },
            [self, read](absl::StatusOr<ListResult> list) {
              self->OnCallback([&] { self->OnListed(read, std::move(list)); });
            },
            is_wanted);
      } else {
        internal::CallUntilTaken(
            client_,
            [self, read] {
              return self->client_->AsyncGet(read.path, {.deadline_ms = kNoDeadline});
            },
            [self, read](absl::StatusOr<GetResult> got) {
              self->OnCallback([&] { self->OnRead(read, std::move(got)); });
            },
            is_wanted);
      }
    }
  }

  // --- On the callback thread --------------------------------------------------------------------

  void Tell(Change::Type type, Znode znode = {}) {
    if (listener_ != nullptr) listener_({type, std::move(znode)});
  }

  void OnNotification(const WatchNotification& notification) {
    if (const auto* reset = std::get_if<WatchReset>(&notification)) {
      std::lock_guard<std::mutex> lock(mutex_);
      zxid_ = std::max(zxid_, reset->zxid);
      ++generation_;
      Schedule({.path = path_, .is_load = true});
      return;
    }
    const Event& event = std::get<Event>(notification);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      zxid_ = std::max(zxid_, event.zxid);
      if (event.type != EventType::kNodeDeleted) Schedule({.path = event.path});
    }
    if (event.type == EventType::kNodeDeleted) Remove(event.path);
  }

  void OnRead(const Read& read, absl::StatusOr<GetResult> got) {
    if (internal::IsSessionReplaced(*client_, got.status())) return ReadAgain(read);
    if (!got.ok()) {
      const std::optional<ErrorCode> error = ErrorOf(got.status());
      if (error != ErrorCode::kNoNode && error != ErrorCode::kNoAuth) return Fail(got.status());
      Remove(read.path);
      return FinishRead(read);
    }
    std::optional<Change::Type> change;
    Znode znode{read.path, std::move(got->data), got->stat};
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (got->zxid < zxid_) {
        // The answer is older than an event that was received: read again.
        Schedule({.path = read.path, .is_load = read.is_load, .since = read.since});
      } else {
        zxid_ = got->zxid;
        change = Put(read, znode);
      }
    }
    if (change.has_value()) Tell(*change, std::move(znode));
    FinishRead(read);
  }

  // Puts `znode` into the copy. Returns the change that is to be reported, if any. REQUIRES: mutex_
  // is held.
  std::optional<Change::Type> Put(const Read& read, const Znode& znode) {
    // If the parent is not in the copy, it will be read and listed later: skip the znode till then.
    const std::optional<std::string> parent = internal::ParentOf(read.path);
    if (read.path != path_ && parent.has_value() && !znodes_.contains(*parent)) {
      return std::nullopt;
    }
    const auto [at, is_new] = znodes_.try_emplace(read.path);
    const Stat& old = at->second.znode.stat;
    const bool is_changed = !is_new && (old.modified_zxid != znode.stat.modified_zxid ||
                                        old.created_zxid != znode.stat.created_zxid);
    at->second = {znode, read.generation};
    const bool has_children_here =
        scope_ == WatchScope::kSubtree || (scope_ == WatchScope::kChildren && read.path == path_);
    if ((is_new || read.is_load) && has_children_here && znode.stat.children > 0) {
      Schedule({.path = read.path, .is_list = true, .is_load = read.is_load, .since = read.since});
    }
    if (is_new) return Change::Type::kAdded;
    return is_changed ? std::optional(Change::Type::kChanged) : std::nullopt;
  }

  void OnListed(const Read& read, absl::StatusOr<ListResult> list) {
    if (internal::IsSessionReplaced(*client_, list.status())) return ReadAgain(read);
    if (!list.ok()) {
      const std::optional<ErrorCode> error = ErrorOf(list.status());
      if (error != ErrorCode::kNoNode && error != ErrorCode::kNoAuth) return Fail(list.status());
    } else {
      std::lock_guard<std::mutex> lock(mutex_);
      const std::string prefix = PrefixBelow(read.path);
      for (const std::string& name : list->children) {
        Schedule({.path = prefix + name, .is_load = read.is_load, .since = read.since});
      }
    }
    FinishRead(read);
  }

  // Repeats a read whose session was lost in the next one.
  void ReadAgain(const Read& read) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      Schedule({.path = read.path,
                .is_list = read.is_list,
                .is_load = read.is_load,
                .since = read.since});
    }
    FinishRead(read);
  }

  void FinishRead(const Read& read) {
    std::vector<std::string> vanished;
    bool is_first_load = false;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (read.is_load && --loading_ == 0) {
        is_first_load = !std::exchange(is_loaded_, true);
        for (const auto& [path, entry] : znodes_) {
          if (entry.generation < generation_) vanished.push_back(path);
        }
      }
    }
    for (const std::string& path : vanished) Remove(path);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      --under_way_;
      outstanding_.erase(outstanding_.find(read.since));
      changed_.notify_all();
    }
    if (is_first_load) Tell(Change::Type::kLoaded);
  }

  // Removes the znode and all znodes below it, and reports them.
  void Remove(const std::string& path) {
    std::vector<Znode> removed;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      const std::string prefix = PrefixBelow(path);
      auto at = znodes_.lower_bound(prefix);
      while (at != znodes_.end() && at->first.starts_with(prefix)) {
        removed.push_back(std::move(at->second.znode));
        at = znodes_.erase(at);
      }
      const auto own = znodes_.find(path);
      if (own != znodes_.end()) {
        removed.insert(removed.begin(), std::move(own->second.znode));
        znodes_.erase(own);
      }
    }
    for (auto znode = removed.rbegin(); znode != removed.rend(); ++znode) {
      Tell(Change::Type::kRemoved, std::move(*znode));
    }
  }

  void Fail(const absl::Status& status) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!status_.ok()) return;
      status_ = status.ok() ? absl::CancelledError("the client was closed") : status;
      changed_.notify_all();
    }
    Tell(Change::Type::kLost);
  }

  Client* const client_;
  const std::string path_;
  const WatchScope scope_;
  const Listener listener_;
  WatchHandle watch_, session_;

  // Held while a callback of the client runs, and so while the listener is called.
  std::mutex telling_mutex_;
  bool is_ended_ = false;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Entry, std::less<>> znodes_;
  std::deque<Read> reads_;  // not sent yet
  // Those in reads_ that read a znode and are not part of a load: path to `since`.
  std::map<std::string, uint64_t> queued_;
  size_t under_way_ = 0;
  uint64_t scheduled_ = 0;               // the number of reads ever scheduled
  std::multiset<uint64_t> outstanding_;  // `since` of the reads that are not done
  uint64_t generation_ = 0;              // the number of the current load of everything
  size_t loading_ = 0;                   // reads of loads that are not done
  bool is_loaded_ = false;
  int64_t zxid_ = 0;
  absl::Status status_;
};

TreeCache::TreeCache(std::shared_ptr<State> state) : state_(std::move(state)) {}
TreeCache::~TreeCache() { state_->End(); }

absl::StatusOr<std::unique_ptr<TreeCache>> TreeCache::Start(Client* client, std::string path,
                                                            Listener listener, WatchScope scope) {
  auto state = std::make_shared<State>(client, std::move(path), std::move(listener), scope);
  std::unique_ptr<TreeCache> cache(new TreeCache(state));
  if (absl::Status s = state->Begin(); !s.ok()) return s;
  return cache;
}

absl::Status TreeCache::WaitUntilLoaded(int deadline_ms) {
  return state_->WaitUntilLoaded(internal::WaitDeadline(deadline_ms));
}
absl::Status TreeCache::WaitUntilCurrent(int deadline_ms) {
  return state_->WaitUntilCurrent(internal::WaitDeadline(deadline_ms));
}
std::optional<TreeCache::Znode> TreeCache::Find(std::string_view path) const {
  return state_->Find(path);
}
std::map<std::string, TreeCache::Znode> TreeCache::Children(std::string_view path) const {
  return state_->Children(path);
}
std::vector<TreeCache::Znode> TreeCache::All() const { return state_->All(); }
bool TreeCache::is_settled() const { return state_->is_settled(); }
int64_t TreeCache::zxid() const { return state_->zxid(); }
absl::Status TreeCache::status() const { return state_->status(); }

}  // namespace quorate
