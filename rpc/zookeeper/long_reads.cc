// SPDX-License-Identifier: Apache-2.0

#include "rpc/zookeeper/long_reads.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "rpc/frontend/config_node.h"
#include "rpc/frontend/detailed_listing.h"
#include "rpc/frontend/listing.h"
#include "rpc/frontend/recursive_listing.h"
#include "rpc/zookeeper/connection_loop.h"
#include "rpc/zookeeper/keeper_nodes.h"
#include "tree/path.h"

namespace quorate::rpc::zk {
namespace {

using tree::ErrorCode;

// How often getEphemerals starts over because the ephemeral at which it stopped was deleted.
constexpr int kRestartsMax = 10;

// Up to this size, encoding names takes only as long as reading a few znodes.
constexpr size_t kNamesBytesQuick = 64u << 10;

// Above this size, the buffer of a reply is reserved once, at its maximum size.
constexpr size_t kGrowsOnceBytes = 1u << 20;

// A read that takes at most this much memory goes on even if replies take too much memory together.
constexpr size_t kSmallReadBytes = 1u << 20;

// Returns whether a prefix of getEphemerals selects all paths. ZooKeeper trims the prefix only for
// this check.
bool IsEverything(std::string_view prefix) {
  const auto is_blank = [](char c) { return static_cast<unsigned char>(c) <= ' '; };
  while (!prefix.empty() && is_blank(prefix.front())) prefix.remove_prefix(1);
  while (!prefix.empty() && is_blank(prefix.back())) prefix.remove_suffix(1);
  return prefix.empty() || prefix == "/";
}

// Writes a list that is done, as it is in the reply to `op`.
void WriteDetailedList(OpCode op, const ListDetails& details, const DetailedListing& listing,
                       BigEndianWriter& to) {
  using Entry = DetailedListing::Entry;
  const std::vector<Entry> entries = listing.Finish();
  const auto count = static_cast<int32_t>(entries.size());
  to.Int(count);
  for (const Entry& entry : entries) to.String(entry.name);
  WriteStat(listing.stat(), to);
  if (op != OpCode::kFilteredListDetailed) return;
  to.Int(details.has_stats ? count : 0);
  if (details.has_stats) {
    for (const Entry& entry : entries) WriteStat(*entry.child->stat, to);
  }
  to.Int(details.has_data ? count : 0);
  if (details.has_data) {
    for (const Entry& entry : entries) WriteData(entry.child->has_data, entry.child->data, to);
  }
}

// Returns the error code that clients get for the tree's `error`.
ErrorCode ToReply(ErrorCode error) {
  return error == ErrorCode::kTooLarge ? kReplyTooLarge : error;
}

}  // namespace

// --- Children ------------------------------------------------------------------------------------

// Lists children in more than one piece.
class Connection::ChildrenRead final : public LongRead {
 public:
  ChildrenRead(int32_t xid, OpCode op, bool watch, std::unique_ptr<Listing> listing)
      : LongRead(xid), op_(op), watch_(watch), listing_(std::move(listing)) {}

  bool Continue(Connection* connection) override {
    tree::Stat stat;
    const ErrorCode error =
        listing_->ReadNext(connection->loop_->LockTree(), connection->identities_.all(), &stat);
    connection->loop_->Spend(kNodesPerHold);
    if (error != ErrorCode::kOk) {
      connection->ReplyError(xid(), ToReply(error));
      connection->loop_->UnlockTree();  // unlocked because destroying the listing may take long
      return true;
    }
    if (!listing_->done()) return false;
    connection->ReplyChildren(xid(), op_, watch_, listing_->path(), &stat,
                              [this] { return listing_->Finish(); });
    return true;
  }
  size_t bytes() const override { return listing_->bytes(); }

 private:
  const OpCode op_;
  const bool watch_;
  const std::unique_ptr<Listing> listing_;
};

Connection::Progress Connection::ReadChildren(int32_t xid, OpCode op, const ReadRequest& request) {
  tree::Stat stat;
  Listing::Names names;
  const ErrorCode error = Listing::Read(loop_->LockTree(), request.path, identities_.all(),
                                        ReplyBytesMax(), &names, &stat);
  loop_->Spend(1 + names.count);
  if (error != ErrorCode::kOk) {
    ReplyError(xid, ToReply(error));
  } else if (!names.place.at_end) {
    long_read_ = std::make_unique<ChildrenRead>(
        xid, op, request.watch,
        std::make_unique<Listing>(&loop_->frontend().listings(), std::string(request.path),
                                  ReplyBytesMax(), std::move(names)));
    CountMemory();
    return Progress::kReading;
  } else {
    ReplyChildren(xid, op, request.watch, request.path, &stat,
                  [&names] { return std::move(names); });
  }
  return Progress::kAnswered;
}

template <class Finish>
void Connection::ReplyChildren(int32_t xid, OpCode op, bool watch, std::string_view path,
                               tree::Stat* stat, Finish finish) {
  CompleteConfigNode(loop_->frontend().members_text(), path, stat);
  if (watch) Watch(path, tree::WatchKind::kChild);
  const tree::Zxid zxid = SeenZxid();
  // What follows needs no tree. It may be unlocked, because no later event is sent before the
  // reply.
  if (long_read_ != nullptr) loop_->UnlockTree();
  const Listing::Names names = finish();
  ReplyWriter reply(&out_, xid, zxid, ErrorCode::kOk);
  ++packets_sent_;
  reply.body().Int(static_cast<int32_t>(names.count));
  reply.body().Raw(names.bytes);
  if (op == OpCode::kGetChildren) return;
  WriteStat(*stat, reply.body());
  if (op != OpCode::kFilteredListDetailed) return;
  reply.body().Int<int32_t>(0);  // neither stats nor data were asked for
  reply.body().Int<int32_t>(0);
}

// --- Children with what they contain -------------------------------------------------------------

class Connection::DetailedChildrenRead final : public LongRead {
 public:
  DetailedChildrenRead(int32_t xid, OpCode op, const FilteredListRequest& request,
                       std::unique_ptr<DetailedListing> listing)
      : LongRead(xid),
        op_(op),
        watch_(request.watch),
        details_(request.details),
        listing_(std::move(listing)) {}

  bool Continue(Connection* connection) override {
    size_t spent = 0;
    const ErrorCode error =
        listing_->ReadNext(connection->loop_->LockTree(), connection->identities_.all(), &spent);
    connection->loop_->Spend(spent);
    if (error != ErrorCode::kOk) {
      connection->ReplyError(xid(), ToReply(error));
      if (connection->long_read_ != nullptr) connection->loop_->UnlockTree();
      return true;
    }
    if (!listing_->done()) return false;
    if (watch_) connection->Watch(listing_->path(), tree::WatchKind::kChild);
    const tree::Zxid zxid = connection->SeenZxid();
    // The rest needs no tree. It may be unlocked, because no later event is sent before the reply.
    if (connection->long_read_ != nullptr) connection->loop_->UnlockTree();
    ReplyWriter reply(&connection->out_, xid(), zxid, ErrorCode::kOk);
    ++connection->packets_sent_;
    WriteDetailedList(op_, details_, *listing_, reply.body());
    return true;
  }
  void OnEvent(tree::EventType /*type*/, std::string_view path) override {
    listing_->OnEvent(path);
  }
  size_t bytes() const override { return listing_->bytes(); }

 private:
  const OpCode op_;
  const bool watch_;
  const ListDetails details_;
  const std::unique_ptr<DetailedListing> listing_;
};

Connection::Progress Connection::ReadFilteredList(int32_t xid, OpCode op, std::string_view body) {
  loop_->LockTree();
  FilteredListRequest request;
  if (!DecodeFilteredList(op, body, &request)) {
    ReplyError(xid, ErrorCode::kMarshallingError);
  } else if (!paths_.ToTree(&request.path)) {
    ReplyError(xid, ErrorCode::kBadArguments);
  } else if (IsVirtual(request.path)) {
    ReplyVirtual(xid, op, request.path, request.details);
  } else if (request.watch && !MayWatch(xid)) {
    return Progress::kAnswered;
  } else if (!request.details.reads_children()) {
    return ReadChildren(xid, op, {true, request.path, request.watch});
  } else {
    return Begin(std::make_unique<DetailedChildrenRead>(
        xid, op, request,
        std::make_unique<DetailedListing>(
            &loop_->frontend().listings(), loop_->frontend().members_text(),
            std::string(request.path), request.details, kStatBytes, ReplyBytesMax())));
  }
  return Progress::kAnswered;
}

// --- Recursive lists -----------------------------------------------------------------------------

// Lists the paths below a znode, breadth first (rpc/frontend/recursive_listing.h).
class Connection::RecursiveListRead final : public LongRead {
 public:
  RecursiveListRead(int32_t xid, std::string top, size_t max, size_t bytes_max)
      : LongRead(xid), listing_(std::move(top), max, bytes_max) {}

  bool Continue(Connection* connection) override {
    size_t spent = 0;
    const ErrorCode error =
        listing_.ReadNext(connection->loop_->LockTree(), connection->identities_.all(), &spent);
    connection->loop_->Spend(spent);
    if (error != ErrorCode::kOk) {
      connection->ReplyError(xid(), ToReply(error));
      return true;
    }
    if (!listing_.done()) return false;
    const tree::Zxid zxid = connection->SeenZxid();
    // The rest needs no tree. It may be unlocked, because no later event is sent before the reply.
    if (connection->long_read_ != nullptr) connection->loop_->UnlockTree();
    const RecursiveListing::Result result = listing_.Finish();
    ReplyWriter reply(&connection->out_, xid(), zxid, ErrorCode::kOk);
    ++connection->packets_sent_;
    reply.body().Int(static_cast<int32_t>(result.count));
    if (!connection->paths_.uses_chroot()) {
      reply.body().Raw(result.paths);
      return true;
    }
    std::string client_path;
    BigEndianReader reader(result.paths);
    while (!reader.empty()) {
      reply.body().String(connection->paths_.ToClient(reader.String(), &client_path));
    }
    return true;
  }
  void OnEvent(tree::EventType type, std::string_view path) override {
    listing_.OnEvent(type, path);
  }
  size_t bytes() const override { return listing_.bytes(); }

 private:
  RecursiveListing listing_;
};

Connection::Progress Connection::ListRecursive(int32_t xid, std::string_view body) {
  loop_->LockTree();
  ListRecursiveRequest request;
  if (!DecodeListRecursive(body, &request)) {
    ReplyError(xid, ErrorCode::kMarshallingError);
  } else if (!paths_.ToTree(&request.path)) {
    ReplyError(xid, ErrorCode::kBadArguments);
  } else {
    return Begin(std::make_unique<RecursiveListRead>(xid, std::string(request.path), request.max,
                                                     ReplyBytesMax()));
  }
  return Progress::kAnswered;
}

// --- multiRead -----------------------------------------------------------------------------------

// Each result is a consistent read. If the reads take only one piece, all results show one state of
// the tree. No result is older than an event that the client is sent before the reply: if such an
// event changes an item, the item is read again.
class Connection::MultiRead final : public LongRead {
 public:
  // The items refer to bytes of `body`.
  MultiRead(int32_t xid, std::unique_ptr<const std::string> body, std::vector<MultiReadItem> items)
      : LongRead(xid),
        body_(std::move(body)),
        items_(std::move(items)),
        reads_children_(std::any_of(items_.begin(), items_.end(), [](const MultiReadItem& item) {
          return item.details.reads_children();
        })) {}

  bool Continue(Connection* connection) override {
    const tree::Tree& tree = connection->loop_->LockTree();
    for (size_t spent = 0;;) {
      const Step step = FindItem(connection, &spent);
      if (step == Step::kWait) return false;
      if (step == Step::kReply) break;
      const bool goes_on = is_listing();
      const std::optional<size_t> cost = Read(connection, tree);
      if (!cost.has_value()) {
        connection->ReplyError(xid(), kReplyTooLarge);
        return true;
      }
      const bool is_read = !is_listing();
      if (is_read && !Keep(connection->ReplyBytesMax())) {
        connection->ReplyError(xid(), kReplyTooLarge);
        return true;
      }
      if (goes_on && is_read) {  // the tree was unlocked
        if (HasMore()) return false;
        break;
      }
      connection->loop_->Spend(*cost);
      if (!is_read) return false;
      spent += *cost;
    }
    Reply(connection);
    return true;
  }
  void OnEvent(tree::EventType type, std::string_view path) override {
    if (detailed_ != nullptr) detailed_->OnEvent(path);
    AddChange(path);
    if ((type == tree::EventType::kNodeDataChanged && !reads_children_) || path == "/") return;
    AddChange(tree::ParentPath(path));
  }
  size_t bytes() const override {
    return body_->size() + results_.size() + corrections_bytes_ + changes_bytes_ +
           (listing_ == nullptr ? 0 : listing_->bytes()) +
           (detailed_ == nullptr ? 0 : detailed_->bytes());
  }

 private:
  static void WriteError(const Connection& connection, OpCode op, ErrorCode error,
                         BigEndianWriter& to) {
    if (connection.expects_keeper_) return WriteMultiReadErrorOfKeeper(op, error, to);
    WriteMultiError(error, to);
  }
  // Returns the cost of a permission check of one znode, in znodes read.
  static size_t CheckCost(const Connection& connection) {
    return 1 + connection.identities_.all().size() / kIdentitiesPerNode;
  }

  // How many results may be read again, in addition to one for each item. A multiRead whose znodes
  // change faster than they are read exceeds this number, and is rejected.
  static constexpr size_t kCorrectionsMax = 1000;
  static constexpr size_t kNone = SIZE_MAX;

  enum class Step { kRead, kWait, kReply };
  struct Change {
    std::string path;
    size_t being_read;  // the item whose result will show the change anyway; kNone: no item
  };

  // Returns whether item_ is a list of which more pieces have to be read.
  bool is_listing() const { return listing_ != nullptr || detailed_ != nullptr; }
  bool HasMore() const {
    return is_listing() || next_ < items_.size() || !changes_.empty() || !stale_.empty();
  }
  void AddChange(std::string_view path) {
    changes_.push_back({std::string(path), is_listing() ? item_ : kNone});
    changes_bytes_ += path.size();
  }
  // kRead: item_ is to be read now. kWait: the read continues in the next piece, and the tree may
  // be unlocked. kReply: everything is read.
  Step FindItem(Connection* connection, size_t* spent) {
    if (!HasMore()) return Step::kReply;
    if (*spent >= kNodesPerHold) return Step::kWait;
    if (is_listing()) return Step::kRead;
    item_ = next_;
    if (next_ < items_.size()) return Step::kRead;
    if (!changes_.empty() && by_path_.empty()) {
      connection->loop_->UnlockTree();
      SortByPath();
      return Step::kWait;
    }
    for (; !changes_.empty(); changes_.pop_back()) {
      if (*spent >= kNodesPerHold) return Step::kWait;
      *spent += 1 + MarkStale(changes_.back());
    }
    changes_bytes_ = 0;
    if (stale_.empty()) return Step::kReply;
    item_ = *stale_.begin();
    return Step::kRead;
  }
  void SortByPath() {
    by_path_.resize(items_.size());
    for (size_t i = 0; i < items_.size(); ++i) by_path_[i] = static_cast<uint32_t>(i);
    std::sort(by_path_.begin(), by_path_.end(),
              [this](uint32_t a, uint32_t b) { return items_[a].path < items_[b].path; });
  }
  // Marks the items with the path of `change` as stale, except change.being_read. Returns the
  // number of items with that path.
  size_t MarkStale(const Change& change) {
    const std::string_view path = change.path;
    const auto begin = std::lower_bound(
        by_path_.begin(), by_path_.end(), path,
        [this](uint32_t item, std::string_view wanted) { return items_[item].path < wanted; });
    auto at = begin;
    for (; at != by_path_.end() && items_[*at].path == path; ++at) {
      if (*at != change.being_read) stale_.insert(*at);
    }
    return static_cast<size_t>(at - begin);
  }

  size_t SizeOf(size_t item) const {
    const auto corrected = corrections_.find(item);
    if (corrected != corrections_.end()) return corrected->second.size();
    return items_[item].result_end - BeginOf(item);
  }
  size_t BeginOf(size_t item) const { return item == 0 ? 0 : items_[item - 1].result_end; }

  // Reads item_, or the next piece of it: into results_ in the first pass, and into correction_
  // later. Returns the cost in znodes, or no value if the result is too large.
  std::optional<size_t> Read(Connection* connection, const tree::Tree& tree) {
    const bool is_first = next_ < items_.size();
    const size_t others = is_first ? results_.size() : total_bytes_ - SizeOf(item_);
    const size_t bytes_max = connection->ReplyBytesMax() - others;
    std::string* to = is_first ? &results_ : &correction_;
    const MultiReadItem& item = items_[item_];
    if (connection->IsVirtual(item.path)) return ReadVirtual(connection, item, to);
    if (item.op == OpCode::kGetData) return ReadData(connection, tree, item, bytes_max, to);
    if (item.op == OpCode::kExists) return ReadStat(connection, tree, item, to);
    return item.details.reads_children() ? ReadDetails(connection, tree, item, bytes_max, to)
                                         : ReadChildren(connection, tree, item, bytes_max, to);
  }
  static size_t ReadVirtual(const Connection* connection, const MultiReadItem& item,
                            std::string* result) {
    std::string body;
    BigEndianWriter of_body(&body);
    const ErrorCode error = WriteKeeperNode(item.op, item.path, item.details, of_body);
    BigEndianWriter to(result);
    if (error != ErrorCode::kOk) {
      WriteError(*connection, item.op, error, to);
    } else {
      WriteMultiResultHeader(item.op, to);
      to.Raw(body);
    }
    return CheckCost(*connection);
  }
  static size_t ReadStat(Connection* connection, const tree::Tree& tree, const MultiReadItem& item,
                         std::string* result) {
    BigEndianWriter to(result);
    tree::Stat stat;
    const ErrorCode error = tree.Exists(item.path, &stat);
    if (error != ErrorCode::kOk) {
      WriteError(*connection, item.op, error, to);
      return CheckCost(*connection);
    }
    CompleteConfigNode(connection->loop_->frontend().members_text(), item.path, &stat);
    WriteMultiResultHeader(item.op, to);
    WriteStat(stat, to);
    return CheckCost(*connection);
  }
  std::optional<size_t> ReadDetails(Connection* connection, const tree::Tree& tree,
                                    const MultiReadItem& item, size_t bytes_max,
                                    std::string* result) {
    const bool goes_on = detailed_ != nullptr;
    if (!goes_on) {
      detailed_ = std::make_unique<DetailedListing>(
          &connection->loop_->frontend().listings(), connection->loop_->frontend().members_text(),
          std::string(item.path), item.details, kStatBytes, bytes_max);
    }
    size_t spent = 0;
    const ErrorCode error = detailed_->ReadNext(tree, connection->identities_.all(), &spent);
    if (error == ErrorCode::kOk && !detailed_->done()) return spent;
    const std::unique_ptr<DetailedListing> listing = std::move(detailed_);
    if (goes_on) connection->loop_->UnlockTree();  // the rest needs no tree
    if (error == ErrorCode::kTooLarge) return std::nullopt;
    BigEndianWriter to(result);
    if (error != ErrorCode::kOk) {
      WriteError(*connection, item.op, error, to);
    } else {
      WriteMultiResultHeader(item.op, to);
      WriteDetailedList(item.op, item.details, *listing, to);
    }
    return spent;
  }
  // Takes the complete result of item_ into the reply. Returns false if the reply is too large, or
  // if items change too often.
  bool Keep(size_t bytes_max) {
    if (next_ < items_.size()) {
      items_[next_++].result_end = total_bytes_ = results_.size();
      return total_bytes_ <= bytes_max;
    }
    stale_.erase(item_);
    total_bytes_ = total_bytes_ - SizeOf(item_) + correction_.size();
    std::string& kept = corrections_[item_];
    corrections_bytes_ = corrections_bytes_ - kept.size() + correction_.size();
    kept = std::exchange(correction_, {});
    return total_bytes_ <= bytes_max && ++corrected_ <= kCorrectionsMax + items_.size();
  }

  std::optional<size_t> ReadData(Connection* connection, const tree::Tree& tree,
                                 const MultiReadItem& item, size_t bytes_max, std::string* result) {
    BigEndianWriter to(result);
    tree::Stat stat;
    std::string_view data;
    bool has_data = false;
    const ErrorCode error =
        tree.GetData(item.path, connection->identities_.all(), &data, &has_data, &stat);
    if (error != ErrorCode::kOk) {
      WriteError(*connection, item.op, error, to);
      return CheckCost(*connection);
    }
    CompleteConfigNode(connection->loop_->frontend().members_text(), item.path, &stat, &data,
                       &has_data);
    if (data.size() > bytes_max) return std::nullopt;
    // A long reply's buffer grows only once, to its maximum size; the system maps only the pages
    // that are written. Copying the reply each time it grows, while the tree is locked, would take
    // longer than everything else here.
    if (result == &results_ && results_.size() + data.size() > kGrowsOnceBytes) {
      results_.reserve(connection->ReplyBytesMax() + kGrowsOnceBytes);
    }
    WriteMultiResultHeader(item.op, to);
    WriteData(has_data, data, to);
    WriteStat(stat, to);
    return CheckCost(*connection) + data.size() / kBytesPerNode;
  }

  std::optional<size_t> ReadChildren(Connection* connection, const tree::Tree& tree,
                                     const MultiReadItem& item, size_t bytes_max,
                                     std::string* result) {
    BigEndianWriter to(result);
    tree::Stat stat;
    Listing::Names names;
    ErrorCode error;
    if (listing_ == nullptr) {
      error =
          Listing::Read(tree, item.path, connection->identities_.all(), bytes_max, &names, &stat);
      if (error == ErrorCode::kOk && !names.place.at_end) {
        listing_ = std::make_unique<Listing>(&connection->loop_->frontend().listings(),
                                             std::string(item.path), bytes_max, std::move(names));
        return kNodesPerHold;
      }
    } else {
      error = listing_->ReadNext(tree, connection->identities_.all(), &stat);
      if (error == ErrorCode::kOk && !listing_->done()) return kNodesPerHold;
      connection->loop_->UnlockTree();  // the rest needs no tree
      if (error == ErrorCode::kOk) names = listing_->Finish();
      listing_ = nullptr;
    }
    if (error == ErrorCode::kTooLarge) return std::nullopt;
    if (error != ErrorCode::kOk) {
      WriteError(*connection, item.op, error, to);
      return CheckCost(*connection);
    }
    WriteMultiResultHeader(item.op, to);
    to.Int(static_cast<int32_t>(names.count));
    to.Raw(names.bytes);
    if (item.op != OpCode::kGetChildren) WriteStat(stat, to);
    if (item.op == OpCode::kFilteredListDetailed) {
      to.Int<int32_t>(0);  // neither stats nor data were asked for
      to.Int<int32_t>(0);
    }
    return CheckCost(*connection) + names.count;
  }

  void Reply(Connection* connection) {
    const tree::Zxid zxid = connection->SeenZxid();
    // What follows needs no tree. It may be unlocked, because no later event is sent before the
    // reply.
    if (total_bytes_ > kNamesBytesQuick || !corrections_.empty()) connection->loop_->UnlockTree();
    ReplyWriter reply(&connection->out_, xid(), zxid, ErrorCode::kOk);
    size_t begin = 0;
    for (const auto& [item, correction] : corrections_) {
      reply.body().Raw(std::string_view(results_).substr(begin, BeginOf(item) - begin));
      reply.body().Raw(correction);
      begin = items_[item].result_end;
    }
    reply.body().Raw(std::string_view(results_).substr(begin));
    WriteMultiEnd(reply.body());
    ++connection->packets_sent_;
  }

  const std::unique_ptr<const std::string> body_;
  std::vector<MultiReadItem> items_;
  const bool reads_children_;                  // an item shows what children contain
  size_t next_ = 0;                            // the first item that was not read yet
  size_t item_ = 0;                            // the item that is being read
  std::unique_ptr<Listing> listing_;           // of item_, if it takes more than one piece
  std::unique_ptr<DetailedListing> detailed_;  // the same for a list of what children contain
  std::string results_;                        // of all items that were read, concatenated
  size_t total_bytes_ = 0;                     // of the reply, with the corrections

  // The paths that were changed according to the events sent to the client since the first piece.
  std::vector<Change> changes_;
  size_t changes_bytes_ = 0;
  std::vector<uint32_t> by_path_;                     // items sorted by path; empty without changes
  absl::btree_set<size_t> stale_;                     // items that have to be read again
  absl::btree_map<size_t, std::string> corrections_;  // replace the item's result in results_
  size_t corrections_bytes_ = 0;
  size_t corrected_ = 0;  // the number of corrections
  std::string correction_;
};

Connection::Progress Connection::ReadMany(int32_t xid, std::string_view body) {
  loop_->LockTree();
  auto kept = std::make_unique<const std::string>(body);
  std::vector<MultiReadItem> items;
  if (!DecodeMultiRead(*kept, ServesKeeper(), &items)) {
    ReplyError(xid, ErrorCode::kMarshallingError);
    return Progress::kAnswered;
  }
  for (MultiReadItem& item : items) {
    if (paths_.ToTree(&item.path)) continue;
    ReplyError(xid, ErrorCode::kBadArguments);
    return Progress::kAnswered;
  }
  return Begin(std::make_unique<MultiRead>(xid, std::move(kept), std::move(items)));
}

// --- Ephemerals ----------------------------------------------------------------------------------

class Connection::EphemeralsRead final : public LongRead {
 public:
  EphemeralsRead(int32_t xid, std::string prefix) : LongRead(xid), prefix_(std::move(prefix)) {}

  bool Continue(Connection* connection) override {
    const tree::Tree& tree = connection->loop_->LockTree();
    const size_t bytes_max = connection->ReplyBytesMax();
    BigEndianWriter writer(&paths_);
    size_t spent = 0;
    std::string client_path;
    const auto add = [&](std::string_view path) {
      if (path.starts_with(prefix_)) {
        writer.String(connection->paths_.ToClient(path, &client_path));
        ++count_;
      }
      last_ = path;
      return ++spent < kNodesPerHold && paths_.size() <= bytes_max;
    };
    const bool goes_on = tree.ReadEphemerals(connection->session_, last_, add);
    connection->loop_->Spend(1 + spent);
    if (!goes_on) {  // another client has deleted the znode that was read last
      paths_.clear();
      last_.clear();
      count_ = 0;
      deleted_.clear();
      if (++restarts_ <= kRestartsMax) return false;
    }
    if (!goes_on || paths_.size() > bytes_max) {
      connection->ReplyError(xid(), kReplyTooLarge);
      return true;
    }
    if (spent == kNodesPerHold) return false;
    const tree::Zxid zxid = connection->SeenZxid();
    if (!deleted_.empty()) {
      connection->loop_->UnlockTree();  // the rest needs no tree
      RemoveDeleted(connection->paths_);
    }
    ReplyWriter reply(&connection->out_, xid(), zxid, ErrorCode::kOk);
    ++connection->packets_sent_;
    reply.body().Int(count_);
    reply.body().Raw(paths_);
    return true;
  }
  // If the client was notified of a znode's deletion before the reply, the reply must not contain
  // the znode. (The session creates no ephemerals meanwhile, because its writes wait for this
  // read.)
  void OnEvent(tree::EventType type, std::string_view path) override {
    if (type == tree::EventType::kNodeDeleted && path.starts_with(prefix_)) deleted_.emplace(path);
  }
  size_t bytes() const override { return paths_.size(); }

 private:
  void RemoveDeleted(const ClientPaths& client_paths) {
    const std::string all = std::exchange(paths_, {});
    BigEndianReader reader(all);
    BigEndianWriter writer(&paths_);
    for (int32_t left = std::exchange(count_, 0); left > 0; --left) {
      const std::string_view path = reader.String();
      std::string_view tree_path = path;
      client_paths.ToTree(&tree_path);
      if (deleted_.contains(tree_path)) continue;
      writer.String(path);
      ++count_;
    }
  }

  const std::string prefix_;
  std::set<std::string, std::less<>> deleted_;  // the client was notified of their deletion
  std::string last_;                            // the last path that was read
  int32_t count_ = 0;
  std::string paths_;  // encoded, as the client knows them
  int restarts_ = 0;
};

Connection::Progress Connection::GetEphemerals(int32_t xid, std::string_view body) {
  loop_->LockTree();
  ReadRequest request;
  if (!DecodeReadRequest(body, /*has_watch_flag=*/false, &request)) {
    ReplyError(xid, ErrorCode::kMarshallingError);
    return Progress::kAnswered;
  }
  if (!paths_.ToTree(&request.path)) {
    ReplyError(xid, ErrorCode::kBadArguments);
    return Progress::kAnswered;
  }
  return Begin(std::make_unique<EphemeralsRead>(
      xid, IsEverything(request.path) ? std::string() : std::string(request.path)));
}

// --- Descendants ---------------------------------------------------------------------------------

class Connection::DescendantsRead final : public LongRead {
 public:
  DescendantsRead(int32_t xid, std::string path) : LongRead(xid), path_(std::move(path)) {}

  bool Continue(Connection* connection) override {
    bool done = false;
    const ErrorCode error = connection->loop_->LockTree().CountDescendants(
        path_, connection->identities_.all(), kNodesPerHold, &place_, &done);
    connection->loop_->Spend(std::min(1 + place_.count, kNodesPerHold));
    if (error == ErrorCode::kOk && !done) return false;
    ReplyWriter reply(&connection->out_, xid(), connection->SeenZxid(), error);
    ++connection->packets_sent_;
    // ZooKeeper's root has two names, "" and "/", and "/" counts as a descendant of "".
    const size_t count = place_.count + (path_.empty() ? 1 : 0);
    if (error == ErrorCode::kOk) reply.body().Int(static_cast<int32_t>(count));
    return true;
  }
  size_t bytes() const override { return path_.size(); }

 private:
  const std::string path_;
  tree::DescendantsPlace place_;
};

Connection::Progress Connection::GetAllChildrenNumber(int32_t xid, std::string_view body) {
  loop_->LockTree();
  ReadRequest request;
  if (!DecodeReadRequest(body, /*has_watch_flag=*/false, &request) || !request.has_path) {
    ReplyError(xid, ErrorCode::kMarshallingError);
    return Progress::kAnswered;
  }
  if (!paths_.ToTree(&request.path)) {
    ReplyError(xid, ErrorCode::kBadArguments);
    return Progress::kAnswered;
  }
  return Begin(std::make_unique<DescendantsRead>(xid, std::string(request.path)));
}

// --- Pieces of all reads -------------------------------------------------------------------------

Connection::Progress Connection::Begin(std::unique_ptr<LongRead> read) {
  if (read->Continue(this)) return Progress::kAnswered;
  long_read_ = std::move(read);
  CountMemory();
  return Progress::kReading;
}

void Connection::CountMemory() {
  MemoryBudget& memory = loop_->frontend().service().memory();
  const auto count = [&memory](MemoryUse use, size_t bytes, int64_t* counted) {
    const auto now = static_cast<int64_t>(bytes);
    if (now != *counted) memory.Add(use, now - std::exchange(*counted, now));
  };
  count(MemoryUse::kReads, long_read_bytes(), &counted_reads_);
  count(MemoryUse::kRequests,
        std::max(in_.size(), admitted_bytes_) + held_bytes_ +
            (sasl_ == nullptr ? 0 : sasl_->kept_bytes()),
        &counted_requests_);
  tenants_.SetOutstanding(pipeline_.size(), static_cast<size_t>(counted_requests_));
}

size_t Connection::long_read_bytes() const {
  if (long_read_ == nullptr) return 0;
  // Its first piece comes before its place in the pipeline.
  const bool has_path = !pipeline_.empty() && pipeline_.front().stage == Stage::kReading;
  return long_read_->bytes() + (has_path ? pipeline_.front().bytes.size() : 0);
}

size_t Connection::kept_bytes() const {
  Watches& watches = loop_->frontend().watches();
  size_t watch_bytes = 0;
  {
    MutexLock lock(&watches.mutex);
    watch_bytes = watches.table.BytesOf(tag_);
  }
  return in_.capacity() + held_bytes_ + watch_bytes + long_read_bytes() +
         (sasl_ == nullptr ? 0 : sasl_->kept_bytes());
}

bool Connection::ContinueReading() {
  const size_t out_before = out_.size();
  // Every client knows this error, and it ends neither the session nor the connection.
  if (long_read_->may_be_refused() && long_read_->bytes() > kSmallReadBytes &&
      loop_->frontend().service().memory().replies_exceed()) {
    loop_->frontend().service().memory().CountRefused();
    ReplyError(long_read_->xid(), ErrorCode::kSystemError);
  } else if (!long_read_->Continue(this)) {
    CountMemory();
    return false;
  }
  long_read_ = nullptr;
  CountMemory();
  CountReply(pipeline_.front(), out_.size() - out_before);
  pipeline_.pop_front();
  return true;
}

}  // namespace quorate::rpc::zk
