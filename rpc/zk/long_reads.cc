#include "rpc/zk/long_reads.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rpc/server/config_node.h"
#include "rpc/server/listing.h"
#include "rpc/zk/connection_loop.h"

namespace quorate::rpc::zk {
namespace {

using tree::ErrorCode;

// How often getEphemerals begins again because the ephemeral at which it stopped was deleted.
constexpr int kRestartsMax = 10;

// Bytes of names that are encoded in the same time as a few znodes are read.
constexpr size_t kNamesBytesQuick = 64u << 10;

// A reply that is longer is given all the memory that it can need at once.
constexpr size_t kGrowsOnceBytes = 1u << 20;

// What a reply may take that goes on to be made when replies take too much memory together.
constexpr size_t kSmallReadBytes = 1u << 20;

// Whether a prefix of getEphemerals means all: ZooKeeper trims it, but only to see that.
bool IsEverything(std::string_view prefix) {
  const auto is_blank = [](char c) { return static_cast<unsigned char>(c) <= ' '; };
  while (!prefix.empty() && is_blank(prefix.front())) prefix.remove_prefix(1);
  while (!prefix.empty() && is_blank(prefix.back())) prefix.remove_suffix(1);
  return prefix.empty() || prefix == "/";
}

// The tree's error as clients know it.
ErrorCode ToReply(ErrorCode error) {
  return error == ErrorCode::kTooLarge ? kReplyTooLarge : error;
}

}  // namespace

// --- Children ------------------------------------------------------------------------------------

// A list that one piece does not hold.
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
      return true;
    }
    if (!listing_->done()) return false;
    connection->ReplyChildren(xid(), op_, watch_, listing_->path(), &stat,
                              [this] { return listing_->Finish(); });
      connection->loop_->UnlockTree();  // the listing is about to be destroyed, which may take long
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
        std::make_unique<Listing>(&loop_->door().listings(), std::string(request.path),
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
  CompleteConfigNode(loop_->door().members_text(), path, stat);
  if (watch) Watch(path, tree::WatchKind::kChild);
  const tree::Zxid zxid = SeenZxid();
  // What is still to do needs no tree. Nothing that happens later comes before the reply.
  if (long_read_ != nullptr) loop_->UnlockTree();
  const Listing::Names names = finish();
  ReplyWriter reply(&out_, xid, zxid, ErrorCode::kOk);
  ++packets_sent_;
  reply.body().Int(static_cast<int32_t>(names.count));
  reply.body().Raw(names.bytes);
  if (op == OpCode::kGetChildren2) WriteStat(*stat, reply.body());
}

// --- Many reads at once --------------------------------------------------------------------------

// Each result is of one moment; all are of the same one if one piece holds them.
class Connection::MultiRead final : public LongRead {
 public:
  // Views into `body` are what was decoded of it.
  MultiRead(int32_t xid, std::unique_ptr<const std::string> body, std::vector<MultiReadItem> items)
      : LongRead(xid), body_(std::move(body)), items_(std::move(items)) {}

  bool Continue(Connection* connection) override {
    const tree::Tree& tree = connection->loop_->LockTree();
    BigEndianWriter to(&results_);
    for (size_t spent = 0; next_ < items_.size(); ++next_) {
      if (spent >= kNodesPerHold) return false;
      const bool goes_on = listing_ != nullptr;
      const std::optional<size_t> cost = items_[next_].op == OpCode::kGetData
                                             ? ReadData(connection, tree, items_[next_], to)
                                             : ReadChildren(connection, tree, items_[next_], to);
      if (!cost.has_value() || results_.size() > connection->ReplyBytesMax()) {
        connection->ReplyError(xid(), kReplyTooLarge);
        return true;
      }
      if (goes_on && listing_ == nullptr) {  // the tree was unlocked
        ++next_;
        return false;
      }
      spent += *cost;
      connection->loop_->Spend(*cost);
      if (listing_ != nullptr) return false;
    }
    WriteMultiEnd(to);
    const tree::Zxid zxid = connection->SeenZxid();
    if (results_.size() > kNamesBytesQuick) connection->loop_->UnlockTree();
    ReplyWriter reply(&connection->out_, xid(), zxid, ErrorCode::kOk);
    reply.body().Raw(results_);
    ++connection->packets_sent_;
    return true;
  }
  size_t bytes() const override {
    return body_->size() + results_.size() + (listing_ == nullptr ? 0 : listing_->bytes());
  }

 private:
  // What it costs to see that the caller may read a znode.
  static size_t CheckCost(const Connection& connection) {
    return 1 + connection.identities_.all().size() / kIdentitiesPerNode;
  }

  // Both return what it cost, or nothing if it is too large.
  std::optional<size_t> ReadData(Connection* connection, const tree::Tree& tree,
                                 const MultiReadItem& item, BigEndianWriter& to) {
    tree::Stat stat;
    std::string_view data;
    bool has_data = false;
    const ErrorCode error =
        tree.GetData(item.path, connection->identities_.all(), &data, &has_data, &stat);
    if (error != ErrorCode::kOk) {
      WriteMultiError(error, to);
      return CheckCost(*connection);
    }
    CompleteConfigNode(connection->loop_->door().members_text(), item.path, &stat, &data,
                       &has_data);
    if (results_.size() + data.size() > connection->ReplyBytesMax()) return std::nullopt;
    // A long reply grows once, to the most that it can be, of which the system gives what is
    // written: to move it again and again, while the tree is locked, would take longer than all
    // else here.
    if (results_.size() + data.size() > kGrowsOnceBytes) {
      results_.reserve(connection->ReplyBytesMax() + kGrowsOnceBytes);
    }
    WriteMultiResultHeader(item.op, to);
    WriteData(has_data, data, to);
    WriteStat(stat, to);
    return CheckCost(*connection) + data.size() / kBytesPerNode;
  }

  std::optional<size_t> ReadChildren(Connection* connection, const tree::Tree& tree,
                                     const MultiReadItem& item, BigEndianWriter& to) {
    const size_t bytes_max = connection->ReplyBytesMax() - results_.size();
    tree::Stat stat;
    Listing::Names names;
    ErrorCode error;
    if (listing_ == nullptr) {
      error =
          Listing::Read(tree, item.path, connection->identities_.all(), bytes_max, &names, &stat);
      if (error == ErrorCode::kOk && !names.place.at_end) {
        listing_ = std::make_unique<Listing>(&connection->loop_->door().listings(),
                                             std::string(item.path), bytes_max, std::move(names));
        return kNodesPerHold;
      }
    } else {
      error = listing_->ReadNext(tree, connection->identities_.all(), &stat);
      if (error == ErrorCode::kOk && !listing_->done()) return kNodesPerHold;
      connection->loop_->UnlockTree();  // what is still to do needs no tree
      if (error == ErrorCode::kOk) names = listing_->Finish();
      listing_ = nullptr;
    }
    if (error == ErrorCode::kTooLarge) return std::nullopt;
    if (error != ErrorCode::kOk) {
      WriteMultiError(error, to);
      return CheckCost(*connection);
    }
    WriteMultiResultHeader(item.op, to);
    to.Int(static_cast<int32_t>(names.count));
    to.Raw(names.bytes);
    return CheckCost(*connection) + names.count;
  }

  const std::unique_ptr<const std::string> body_;
  const std::vector<MultiReadItem> items_;
  size_t next_ = 0;
  std::unique_ptr<Listing> listing_;  // of the next one
  std::string results_;
};

Connection::Progress Connection::ReadMany(int32_t xid, std::string_view body) {
  loop_->LockTree();
  auto kept = std::make_unique<const std::string>(body);
  std::vector<MultiReadItem> items;
  if (!DecodeMultiRead(*kept, &items)) {
    ReplyError(xid, ErrorCode::kMarshallingError);
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
    const auto add = [&](std::string_view path) {
      if (path.starts_with(prefix_)) {
        writer.String(path);
        ++count_;
      }
      last_ = path;
      return ++spent < kNodesPerHold && paths_.size() <= bytes_max;
    };
    const bool goes_on = tree.ReadEphemerals(connection->session_, last_, add);
    connection->loop_->Spend(1 + spent);
    if (!goes_on) {  // another client has deleted the last one that was read
      paths_.clear();
      last_.clear();
      count_ = 0;
      if (++restarts_ <= kRestartsMax) return false;
    }
    if (!goes_on || paths_.size() > bytes_max) {
      connection->ReplyError(xid(), kReplyTooLarge);
      return true;
    }
    if (spent == kNodesPerHold) return false;
    ReplyWriter reply(&connection->out_, xid(), connection->SeenZxid(), ErrorCode::kOk);
    ++connection->packets_sent_;
    reply.body().Int(count_);
    reply.body().Raw(paths_);
    return true;
  }
  size_t bytes() const override { return paths_.size(); }

 private:
  const std::string prefix_;
  std::string last_;  // that was read
  int32_t count_ = 0;
  std::string paths_;
  int restarts_ = 0;
};

Connection::Progress Connection::GetEphemerals(int32_t xid, std::string_view body) {
  loop_->LockTree();
  ReadRequest request;
  if (!DecodeReadRequest(body, /*has_watch_flag=*/false, &request)) {
    ReplyError(xid, ErrorCode::kMarshallingError);
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
    // ZooKeeper knows the root by two names, and counts the one below the other.
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
  return Begin(std::make_unique<DescendantsRead>(xid, std::string(request.path)));
}

// --- Watches -------------------------------------------------------------------------------------

// What has changed while the client was away is told now, the rest is watched again, path by path.
// Such events carry no zxid: they stand for any number of changes.
class Connection::WatchesSetting final : public LongRead {
 public:
  WatchesSetting(int32_t xid, std::unique_ptr<const std::string> body, SetWatchesRequest request)
      : LongRead(xid), body_(std::move(body)), request_(std::move(request)) {}

  bool Continue(Connection* connection) override {
    const tree::Tree& tree = connection->loop_->LockTree();
    size_t spent = 0;
    for (; list_ < kLists; ++list_, next_ = 0) {
      const std::vector<std::string_view>& paths = *lists_[list_];
      for (; next_ < paths.size(); ++next_) {
        if (spent++ == kPathsPerHold || connection->HasMuchToSend()) {
          connection->loop_->Spend(kNodesPerHold);
          return false;
        }
        Set(connection, tree, paths[next_]);
      }
    }
    connection->loop_->Spend(1 + spent * kNodesPerHold / kPathsPerHold);
    connection->ReplyError(xid(), ErrorCode::kOk);
    return true;
  }
  size_t bytes() const override { return body_->size(); }
  // Its reply is small, and a client would not know which of its watches are set.
  bool may_be_refused() const override { return false; }

 private:
  // Each is looked for in the tree and in the table of watches.
  static constexpr size_t kPathsPerHold = kNodesPerHold / 4;
  static constexpr size_t kLists = 5;

  void Set(Connection* connection, const tree::Tree& tree, std::string_view path) {
    constexpr tree::Zxid kNone{-1};
    const tree::Zxid since(request_.relative_zxid);
    const auto tell = [&](tree::EventType type) {
      AppendNotification(type, path, kNone, &connection->out_);
    };
    tree::Stat stat;
    const std::vector<std::string_view>* list = lists_[list_];
    // What persistent ones have missed is not told: it could be anything.
    if (list == &request_.persistent_watches) {
      connection->Watch(path, tree::WatchKind::kPersistent);
    } else if (list == &request_.persistent_recursive_watches) {
      connection->Watch(path, tree::WatchKind::kPersistentRecursive);
    } else if (const bool exists = tree.FindStat(path, &stat); list == &request_.exist_watches) {
      if (exists) return tell(tree::EventType::kNodeCreated);
      connection->Watch(path, tree::WatchKind::kData);
    } else if (!exists) {
      tell(tree::EventType::kNodeDeleted);
    } else if (list == &request_.data_watches) {
      if (stat.mzxid > since) return tell(tree::EventType::kNodeDataChanged);
      connection->Watch(path, tree::WatchKind::kData);
    } else {
      if (stat.pzxid > since) return tell(tree::EventType::kNodeChildrenChanged);
      connection->Watch(path, tree::WatchKind::kChild);
    }
  }

  const std::unique_ptr<const std::string> body_;
  const SetWatchesRequest request_;
  const std::vector<std::string_view>* const lists_[kLists] = {
      &request_.data_watches, &request_.exist_watches, &request_.child_watches,
      &request_.persistent_watches, &request_.persistent_recursive_watches};
  size_t list_ = 0;
  size_t next_ = 0;
};

Connection::Progress Connection::SetWatches(int32_t xid, OpCode op, std::string_view body) {
  loop_->LockTree();
  auto kept = std::make_unique<const std::string>(body);
  SetWatchesRequest request;
  if (!DecodeSetWatches(op, *kept, &request)) {
    ReplyError(xid, ErrorCode::kMarshallingError);
    return Progress::kAnswered;
  }
  return Begin(std::make_unique<WatchesSetting>(xid, std::move(kept), std::move(request)));
}

// --- All of them ---------------------------------------------------------------------------------

Connection::Progress Connection::Begin(std::unique_ptr<LongRead> read) {
  if (read->Continue(this)) return Progress::kAnswered;
  long_read_ = std::move(read);
  CountMemory();
  return Progress::kReading;
}

void Connection::CountMemory() {
  MemoryBudget& memory = loop_->door().service().memory();
  const auto count = [&memory](MemoryUse use, size_t bytes, int64_t* counted) {
    const auto now = static_cast<int64_t>(bytes);
    if (now != *counted) memory.Add(use, now - std::exchange(*counted, now));
  };
  count(MemoryUse::kReads, long_read_ == nullptr ? 0 : long_read_->bytes(), &counted_reads_);
  count(MemoryUse::kRequests, held_bytes_, &counted_requests_);
}

size_t Connection::kept_bytes() const {
  Watches& watches = loop_->door().watches();
  size_t watch_bytes = 0;
  {
    MutexLock lock(&watches.mutex);
    watch_bytes = watches.table.BytesOf(tag_);
  }
  return in_.capacity() + held_bytes_ + watch_bytes +
         (long_read_ == nullptr ? 0 : long_read_->bytes());
}

bool Connection::ContinueReading() {
  const size_t out_before = out_.size();
  // Of ZooKeeper's errors the one that every client knows and that ends nothing.
  if (long_read_->may_be_refused() && long_read_->bytes() > kSmallReadBytes &&
      loop_->door().service().memory().replies_exceed()) {
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
