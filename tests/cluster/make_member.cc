// SPDX-License-Identifier: Apache-2.0

// make_member DIRECTORY MEMBER VOTERS ZXID: makes the directory of a member of a cluster with that
// many voters that begins with a tree of that zxid. It holds a node /made with a child "a" and the
// data "from records", and a session with an ephemeral child "b".

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tools/offline/member_directory.h"
#include "tree/tree.h"

namespace quorate {
namespace {

constexpr tree::SessionId kSession{0x0100000000000001};

class Listener : public tree::ApplyListener {
 public:
  void OnNodeEvent(tree::EventType, std::string_view, tree::Zxid, const tree::EventAcls&) override {
  }
  void OnSessionAttached(const tree::SessionInfo&) override {}
  void OnSessionClosed(tree::SessionId, tree::Zxid) override {}
  void OnResult(tree::ApplyResult) override {}
};

class Filler {
 public:
  explicit Filler(tree::Tree* tree) : tree_(*tree) {
    std::string command;
    AppendCreateSession(Header(), /*timeout_ms=*/4000, std::string(tree::kPasswordBytes, 'p'),
                        &command);
    Apply(command);
    attach_zxid_ = tree_.last_zxid();
  }

  void Create(std::string_view path, tree::CreateMode mode) {
    tree::Op op;
    op.kind = tree::OpKind::kCreate;
    op.path = path;
    op.has_data = true;
    op.data = "from records";
    op.acl = tree::OpenAcl();
    op.mode = mode;
    std::string command;
    tree::Request request;
    request.ops.push_back(op);
    AppendRequest(Header(), request, &command);
    Apply(command);
  }

 private:
  tree::CommandHeader Header() const {
    tree::CommandHeader header;
    header.time_ms = 1'700'000'000'000;
    header.session = kSession;
    header.attach_zxid = attach_zxid_;
    return header;
  }
  void Apply(const std::string& command) {
    Listener listener;
    tree_.Apply(tree_.last_zxid() + 1, command, {}, &listener);
  }

  tree::Tree& tree_;
  tree::Zxid attach_zxid_;
};

absl::Status Make(char** arguments) {
  tree::Tree tree;
  Filler filler(&tree);
  filler.Create("/made", tree::CreateMode::kPersistent);
  filler.Create("/made/a", tree::CreateMode::kPersistent);
  filler.Create("/made/b", tree::CreateMode::kEphemeral);
  tree.Skip(tree::Zxid(std::strtoll(arguments[4], nullptr, 0)));
  tools::NewMember member;
  member.data_dir = arguments[1];
  member.member = std::strtoull(arguments[2], nullptr, 10);
  const uint64_t voters = std::strtoull(arguments[3], nullptr, 10);
  for (uint64_t voter = 1; voter <= voters; ++voter) member.voters.push_back(voter);
  member.cluster_id = std::string(consensus::kClusterIdBytes, 'c');
  auto writer = tools::MemberDirectoryWriter::Create(std::move(member), tree.last_zxid(),
                                                     /*term=*/3, tree.digest());
  if (!writer.ok()) return writer.status();
  absl::Status status;
  tree.ForEachRecord([&](std::string_view key, std::optional<std::string_view> value) {
    if (status.ok()) status = (*writer)->Add(key, *value);
  });
  return status.ok() ? (*writer)->Finish() : status;
}

}  // namespace
}  // namespace quorate

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fputs("usage: make_member DIRECTORY MEMBER VOTERS ZXID\n", stderr);
    return 2;
  }
  const absl::Status status = quorate::Make(argv);
  if (status.ok()) return 0;
  std::fprintf(stderr, "make_member: %s\n", std::string(status.message()).c_str());
  return 1;
}
