// SPDX-License-Identifier: Apache-2.0

#include "bench/grown_tree.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/assert.h"

namespace quorate::bench {
namespace {

constexpr tree::Proposer kProposer{1, 1};
constexpr tree::SessionId kSession{7};
constexpr int64_t kStartMs = 1'700'000'000'000;
constexpr uint64_t kGroup = 20;  // znodes in a chain or a directory
const std::string kData(100, 'd');

// Ignores all calls, so that only the changes are measured.
class NoListener : public tree::ApplyListener {
 public:
  void OnNodeEvent(tree::EventType, std::string_view, tree::Zxid, const tree::EventAcls&) override {
  }
  void OnSessionAttached(const tree::SessionInfo&) override {}
  void OnSessionClosed(tree::SessionId, tree::Zxid) override {}
  void OnResult(tree::ApplyResult result) override {
    ASSERT(result.error == tree::ErrorCode::kOk);
    ASSERT(result.ops.empty() || result.ops.front().error == tree::ErrorCode::kOk);
  }
};

std::string Name(std::string_view prefix, uint64_t number) {
  return absl::StrFormat("%s%022d", std::string(prefix), number);
}

}  // namespace

std::optional<Shape> ShapeOf(std::string_view name) {
  if (name == "flat") return Shape::kFlat;
  if (name == "chains") return Shape::kChains;
  if (name == "directories") return Shape::kDirectories;
  return std::nullopt;
}

void GrownTree::OpenSession() {
  std::string command;
  AppendCreateSession(NextHeader(tree::CommandKind::kCreateSession), 30'000, "0123456789abcdef",
                      &command);
  Apply(command);
  attach_zxid_ = tree_->last_zxid();
}

tree::CommandHeader GrownTree::NextHeader(tree::CommandKind kind) {
  tree::CommandHeader header;
  header.kind = kind;
  header.proposer = kProposer;
  header.sequence = ++sequence_;
  header.time_ms = kStartMs + static_cast<int64_t>(sequence_ / 100);
  header.session = kSession;
  header.attach_zxid = attach_zxid_;
  return header;
}

std::string GrownTree::Command(tree::Op op) {
  tree::Request request;
  request.ops.push_back(std::move(op));
  std::string command;
  AppendRequest(NextHeader(tree::CommandKind::kRequest), request, &command);
  return command;
}

std::string GrownTree::CreateCommand(std::string_view path, std::string_view data) {
  tree::Op op;
  op.kind = tree::OpKind::kCreate;
  op.path = path;
  op.has_data = true;
  op.data = data;
  op.acl = tree::OpenAcl();
  return Command(std::move(op));
}

std::string GrownTree::SetDataCommand(std::string_view path, std::string_view data) {
  tree::Op op;
  op.kind = tree::OpKind::kSetData;
  op.path = path;
  op.has_data = true;
  op.data = data;
  return Command(std::move(op));
}

std::string GrownTree::DeleteCommand(std::string_view path) {
  tree::Op op;
  op.kind = tree::OpKind::kDelete;
  op.path = path;
  return Command(std::move(op));
}

void GrownTree::Apply(std::string_view command) {
  NoListener listener;
  tree_->Apply(tree_->last_zxid() + 1, command, kProposer, &listener);
}

std::string GrownTree::PathOf(uint64_t i) const {
  const uint64_t group = i / kGroup;
  const uint64_t place = i % kGroup;
  switch (shape_) {
    case Shape::kFlat:
      return absl::StrCat("/", Name("n-", i));
    case Shape::kChains: {
      std::string path = absl::StrCat("/", Name("c-", group));
      for (uint64_t depth = 1; depth <= place; ++depth) {
        absl::StrAppend(&path, "/", Name("n-", depth));
      }
      return path;
    }
    case Shape::kDirectories: {
      std::string path = absl::StrCat("/", Name("d-", group));
      if (place > 0) absl::StrAppend(&path, "/", Name("n-", place));
      return path;
    }
  }
  ASSERT(false, "there are no other shapes");
}

void GrownTree::GrowTo(uint64_t nodes) {
  for (; size_ < nodes; ++size_) Apply(CreateCommand(PathOf(size_), kData));
}

}  // namespace quorate::bench
