// SPDX-License-Identifier: Apache-2.0

// setWatches and setWatches2: the watches of a client that has connected again.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "rpc/zookeeper/connection_loop.h"
#include "rpc/zookeeper/long_reads.h"
#include "rpc/zookeeper/missed_events.h"

namespace quorate::rpc::zk {

using tree::ErrorCode;

// Sets the watches first. Then sends the persistent ones what they missed, from the history of
// events, up to a moment at which the history is read to its end. Up to that moment the events that
// arrive for them are discarded, because the history has them too; so they come in order, and
// before the replies to later requests. An event counts as missed if its zxid is greater than the
// one in the request, which a client takes from its last reply, and not from the events that it
// got. So it may get events a second time, but no gap.
//
// Some clients take that zxid from events and from replies to pings, too. Until the reply, these
// show no newer zxid than the client named, so that a client whose connection breaks meanwhile names
// that again. Missed events show theirs, because they come in order.
class Connection::WatchesSetting final : public LongRead {
 public:
  WatchesSetting(int32_t xid, std::unique_ptr<const std::string> body, SetWatchesRequest request)
      : LongRead(xid), body_(std::move(body)), request_(std::move(request)) {}

  bool Continue(Connection* connection) override {
    const tree::Tree& tree = connection->loop_->LockTree();
    if (!has_begun_) Begin(connection);
    if (!SetAll(connection, tree) || !SendMissed(connection)) return false;
    const bool may_be_last = body_->size() < kBytesOfManyWatches;
    ReplyWriter reply(&connection->out_, xid(),
                      may_be_last ? connection->SeenZxid() : connection->NamedZxid(),
                      ErrorCode::kOk);
    ++connection->packets_sent_;
    return true;
  }
  bool TakesEvent(tree::EventType type, std::string_view path) override {
    const bool takes = missed_.has_value() && missed_->Has(type, path);
    has_taken_ |= takes;
    return takes;
  }
  absl::Status problem() const override { return problem_; }
  size_t bytes() const override { return body_->size(); }
  // This reply is small, and after an error the client would not know which of its watches are set.
  bool may_be_refused() const override { return false; }

 private:
  // Each path is looked up in the tree and in the table of watches.
  static constexpr size_t kPathsPerHold = kNodesPerHold / 4;
  // The number of events of the history that are read at a time.
  static constexpr size_t kEventsPerHold = kNodesPerHold;
  // Java's library divides its watches into requests whose paths have this many characters or a few
  // more, and the last one fewer. The reply to the others shows no newer zxid, so that the client
  // does not name it if the connection breaks before the rest is sent.
  static constexpr size_t kBytesOfManyWatches = 128u << 10;

  void Begin(Connection* connection) {
    has_begun_ = true;
    const EventHistory* const history = connection->loop_->frontend().history();
    const bool has_watches =
        !request_.persistent_watches.empty() || !request_.persistent_recursive_watches.empty();
    if (!has_watches || history == nullptr || request_.relative_zxid <= 0 ||
        !connection->loop_->frontend().config().send_missed_events) {
      return;
    }
    const tree::Zxid since(request_.relative_zxid);
    if (since < history->oldest()) {
      connection->loop_->CountLostEvents(*connection, since, history->oldest());
      return;
    }
    missed_.emplace(*history, since, request_.persistent_watches,
                    request_.persistent_recursive_watches);
    first_new_ = history->next_number();
  }

  // Sets the next watches. Returns false if there are more.
  bool SetAll(Connection* connection, const tree::Tree& tree) {
    size_t spent = 0;
    for (; list_ < lists_.size(); ++list_, next_ = 0) {
      const std::vector<std::string_view>& paths = *lists_[list_];
      for (; next_ < paths.size(); ++next_) {
        if (spent++ == kPathsPerHold || connection->HasMuchToSend()) {
          connection->loop_->Spend(kNodesPerHold);
          return false;
        }
        if (problem_ = connection->CheckRestoredWatches(); !problem_.ok()) return false;
        Set(connection, tree, paths[next_]);
      }
    }
    connection->loop_->Spend(1 + spent * kNodesPerHold / kPathsPerHold);
    return true;
  }

  void Set(Connection* connection, const tree::Tree& tree, std::string_view path) {
    if (connection->IsVirtual(path)) return;  // a virtual znode never changes
    constexpr tree::Zxid kNone{-1};
    const tree::Zxid since(request_.relative_zxid);
    const auto send = [&](tree::EventType type) { connection->AppendEvent(type, path, kNone); };
    tree::Stat stat;
    const std::vector<std::string_view>* list = lists_[list_];
    if (list == &request_.persistent_watches) {
      connection->Watch(path, tree::WatchKind::kPersistent);
    } else if (list == &request_.persistent_recursive_watches) {
      connection->Watch(path, tree::WatchKind::kPersistentRecursive);
    } else if (const bool exists = tree.FindStat(path, &stat); list == &request_.exist_watches) {
      if (exists) return send(tree::EventType::kNodeCreated);
      connection->Watch(path, tree::WatchKind::kData);
    } else if (!exists) {
      send(tree::EventType::kNodeDeleted);
    } else if (list == &request_.data_watches) {
      if (stat.mzxid > since) return send(tree::EventType::kNodeDataChanged);
      connection->Watch(path, tree::WatchKind::kData);
    } else {
      if (stat.pzxid > since) return send(tree::EventType::kNodeChildrenChanged);
      connection->Watch(path, tree::WatchKind::kChild);
    }
  }

  // Sends the next missed events. Returns false if there are more. REQUIRES: all watches are set.
  bool SendMissed(Connection* connection) {
    if (!missed_.has_value()) return true;
    const EventHistory& history = *connection->loop_->frontend().history();
    if (missed_->is_overtaken() && has_taken_ && history.IsLost(first_new_)) {
      // No client loses events of a watch while it stays connected.
      connection->loop_->CountLostEvents(*connection, tree::Zxid(request_.relative_zxid),
                                         history.oldest());
      problem_ = absl::DataLossError(
          "the history of events (eventHistoryBytes) has dropped events before they were sent");
      return false;
    }
    int64_t sent = 0;
    const size_t read = missed_->Read(
        kEventsPerHold, [connection] { return connection->HasMuchToSend(); },
        [&](tree::EventType type, std::string_view path, tree::Zxid zxid, const Readers& readers) {
          if (!connection->identities_.MayRead(readers)) return;
          connection->AppendEvent(type, path, zxid);
          connection->event_zxid_ = std::max(connection->event_zxid_, zxid);
          ++sent;
        });
    connection->loop_->Spend(read);
    connection->loop_->statistics().missed_events_sent.Add(sent);
    if (!missed_->at_end()) return false;
    if (missed_->has_gap()) {
      connection->loop_->CountLostEvents(*connection, tree::Zxid(request_.relative_zxid),
                                         history.oldest());
    }
    missed_.reset();
    return true;
  }

  const std::unique_ptr<const std::string> body_;
  SetWatchesRequest request_;
  const SetWatchesRequest::Lists lists_ = request_.lists();
  size_t list_ = 0;
  size_t next_ = 0;
  bool has_begun_ = false;
  std::optional<MissedEvents> missed_;  // until they are sent
  uint64_t first_new_ = 0;              // the number of the first event after Begin
  bool has_taken_ = false;              // TakesEvent has returned true
  absl::Status problem_;
};

Connection::Progress Connection::SetWatches(int32_t xid, OpCode op, std::string_view body) {
  loop_->LockTree();
  auto kept = std::make_unique<const std::string>(body);
  SetWatchesRequest request;
  if (!DecodeSetWatches(op, *kept, &request)) {
    ReplyError(xid, ErrorCode::kMarshallingError);
    return Progress::kAnswered;
  }
  for (std::vector<std::string_view>* paths : request.lists()) {
    if (paths_.ToTree(paths)) continue;
    ReplyError(xid, ErrorCode::kBadArguments);
    return Progress::kAnswered;
  }
  return Begin(std::make_unique<WatchesSetting>(xid, std::move(kept), std::move(request)));
}

}  // namespace quorate::rpc::zk
