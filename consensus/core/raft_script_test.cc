// SPDX-License-Identifier: Apache-2.0

// Runs the scripts in testdata/, which are made to be read. A script has commands and, after
// "----", the outputs that they cause. A blank line ends the output.
//
// The commands (members are numbers; "->" names a direction):
//
//   add-members N [key=value ...]  members 1..N, before anything else. Keys: learners,
//                                  election-ticks (10), heartbeat-ticks (3), append-bytes,
//                                  inflight-messages, cached-bytes, uncommitted-bytes, apply-bytes,
//                                  commit-hint, version (1), others (the last N in no membership,
//                                  and new), new (1: all are), trailing, retained,
//                                  compaction-step (1), chunk-bytes, tick-bytes, stall-ticks
//   campaign I                     ticks I until its election timeout
//   tick I [N]                     N ticks
//   propose I DATA ...             entries, one for each word
//   read-index I ID                asks for a read point
//   transfer I J                   I hands leadership over to J (0: to a member that I chooses)
//   unreachable I J                I's connection to J broke
//   persist I [N]                  I's N oldest batches (default: all) become durable with one sync
//   deliver A->B [N] | deliver all the N oldest messages (default: all) arrive
//   drop A->B [N] | drop all       the messages are lost
//   duplicate A->B                 the oldest message is duplicated
//   reverse A->B                   the newest message becomes the oldest
//   isolate I | heal               messages from and to I are lost when they are sent | no longer
//   read-log I                     I's storage answers its oldest log read
//   crash I [hard-state]           I loses all that is not durable [except the oldest hard state]
//   restart I [VERSION]            starts I from its disk with an empty state machine, or with
//                                  its checkpoint; VERSION: with a program of that version
//   lose-disk I                    starts I, which was crashed, with a new empty directory
//   change I voters=A,B,... [learners=C,...]  I changes the membership
//   checkpoint I                   a checkpoint of the entries that I has applied is durable
//   read-snapshot I                I's storage answers its oldest snapshot read
//   stage I | install I            I's storage stages a chunk | installs the staged snapshot
//   forget-checkpoints I           I's storage keeps only its newest checkpoint
//   stabilize [I ...]              persists, reads the log, transfers snapshots and delivers among
//                                  these (default: all) until nothing is left to do
//   status [I]                     the state of a member, on one line
//   log I                          the log of I; a bar marks the end of its durable part
//
// "quiet" before a command suppresses its output. Outputs are taken, and ranges are applied, right
// after each input. Election timeouts are election-ticks + 5 (with the default of 10).
//
// QUORATE_REWRITE_SCRIPTS=directory reads the scripts from there and writes them back with their
// present outputs, which must then be reviewed:
//   QUORATE_REWRITE_SCRIPTS=$PWD/consensus/core/testdata bazel run consensus/core:raft_script_test
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/assert.h"
#include "consensus/core/describe.h"
#include "consensus/core/testing/test_member.h"

namespace quorate::consensus {
namespace {

using Words = std::vector<std::string>;

uint64_t Number(const std::string& word) {
  ASSERT(!word.empty() && word.find_first_not_of("0123456789") == std::string::npos);
  return std::stoull(word);
}

class Interpreter {
 public:
  // Runs a command and returns the text that it printed.
  std::string Run(Words words);

 private:
  using Command = void (Interpreter::*)(const Words&);
  static const std::map<std::string, Command>& Commands();

  void AddMembers(const Words& words);
  void Campaign(const Words& words);
  void Tick(const Words& words);
  void Propose(const Words& words);
  void ReadIndex(const Words& words);
  void Transfer(const Words& words);
  void Unreachable(const Words& words);
  void Persist(const Words& words);
  void Deliver(const Words& words);
  void Drop(const Words& words);
  void Duplicate(const Words& words);
  void Reverse(const Words& words);
  void Isolate(const Words& words);
  void Heal(const Words& words);
  void ReadLog(const Words& words);
  void Crash(const Words& words);
  void Restart(const Words& words);
  void LoseDisk(const Words& words);
  void Change(const Words& words);
  void Checkpoint(const Words& words);
  void ReadSnapshot(const Words& words);
  void Stage(const Words& words);
  void Install(const Words& words);
  void ForgetCheckpoints(const Words& words);
  void Stabilize(const Words& words);
  void Status(const Words& words);
  void Log(const Words& words);

  void Line(const std::string& text) { out_ += text + "\n"; }
  TestMember& Member(const std::string& word) { return Member(MemberId(Number(word))); }
  TestMember& Member(MemberId id) {
    ASSERT(id.value() >= 1 && id.value() <= members_.size());
    return members_[id.value() - 1];
  }
  // Takes and prints all outputs; applies their entries and sends their messages.
  void Collect(TestMember* member);
  void PersistAll(TestMember* member, size_t count);
  void Arrive(Message message);
  // Takes the oldest messages of "A->B" or "all", at most `count`, out of the network and returns
  // them.
  std::vector<Message> TakeMessages(const std::string& direction, size_t count);

  FixedRandom random_{5};
  std::deque<TestMember> members_;
  std::deque<Message> network_;
  std::set<MemberId> isolated_;
  std::string out_;
};

const std::map<std::string, Interpreter::Command>& Interpreter::Commands() {
  static const std::map<std::string, Command> commands = {
      {"add-members", &Interpreter::AddMembers},
      {"campaign", &Interpreter::Campaign},
      {"tick", &Interpreter::Tick},
      {"propose", &Interpreter::Propose},
      {"read-index", &Interpreter::ReadIndex},
      {"transfer", &Interpreter::Transfer},
      {"unreachable", &Interpreter::Unreachable},
      {"persist", &Interpreter::Persist},
      {"deliver", &Interpreter::Deliver},
      {"drop", &Interpreter::Drop},
      {"duplicate", &Interpreter::Duplicate},
      {"reverse", &Interpreter::Reverse},
      {"isolate", &Interpreter::Isolate},
      {"heal", &Interpreter::Heal},
      {"read-log", &Interpreter::ReadLog},
      {"crash", &Interpreter::Crash},
      {"restart", &Interpreter::Restart},
      {"lose-disk", &Interpreter::LoseDisk},
      {"change", &Interpreter::Change},
      {"checkpoint", &Interpreter::Checkpoint},
      {"read-snapshot", &Interpreter::ReadSnapshot},
      {"stage", &Interpreter::Stage},
      {"install", &Interpreter::Install},
      {"forget-checkpoints", &Interpreter::ForgetCheckpoints},
      {"stabilize", &Interpreter::Stabilize},
      {"status", &Interpreter::Status},
      {"log", &Interpreter::Log},
  };
  return commands;
}

std::string Interpreter::Run(Words words) {
  ASSERT(!words.empty());
  const bool quiet = words.front() == "quiet";
  if (quiet) words.erase(words.begin());
  const auto command = Commands().find(words.front());
  INFO("command " << words.front());
  REQUIRE(command != Commands().end());
  out_.clear();
  (this->*command->second)(words);
  for (const TestMember& member : members_) {
    if (member.running()) member.raft().CheckInvariants();
  }
  return quiet || out_.empty() ? "ok\n" : out_;
}

void Interpreter::Collect(TestMember* member) {
  std::string trace;
  do {
    while (member->can_apply()) member->ApplyOne();
    member->Collect(&trace);
  } while (member->can_apply());
  std::istringstream lines(trace);
  for (std::string line; std::getline(lines, line);) Line(Describe(member->id) + ": " + line);
  for (Message& message : member->outbox) {
    if (isolated_.contains(message.from) || isolated_.contains(message.to)) continue;
    network_.push_back(std::move(message));
  }
  member->outbox.clear();
  member->reads.clear();
}

void Interpreter::PersistAll(TestMember* member, size_t count) {
  count = std::min(count, member->unpersisted());
  if (count == 0) return;
  Line(Describe(member->id) + ": " + std::to_string(count) +
       (count == 1 ? " batch is durable" : " batches are durable"));
  member->Persist(count);
  Collect(member);
}

void Interpreter::Arrive(Message message) {
  TestMember& member = Member(message.to);
  if (isolated_.contains(message.from) || isolated_.contains(message.to)) return;
  if (!member.running()) return;
  Line("deliver " + ToString(message));
  member.raft().Step(std::move(message));
  Collect(&member);
}

std::vector<Message> Interpreter::TakeMessages(const std::string& direction, size_t count) {
  std::vector<Message> taken;
  std::deque<Message> rest;
  for (Message& message : network_) {
    const bool wanted =
        direction == "all" || direction == Describe(message.from) + "->" + Describe(message.to);
    if (wanted && taken.size() < count) {
      taken.push_back(std::move(message));
    } else {
      rest.push_back(std::move(message));
    }
  }
  network_ = std::move(rest);
  return taken;
}

// --- Commands ------------------------------------------------------------------------------------

void Interpreter::AddMembers(const Words& words) {
  std::map<std::string, uint64_t> keys;
  for (size_t i = 2; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    ASSERT(equals != std::string::npos);
    keys[words[i].substr(0, equals)] = Number(words[i].substr(equals + 1));
  }
  auto take = [&keys](const char* key, size_t otherwise) {
    const auto found = keys.find(key);
    if (found == keys.end()) return otherwise;
    const size_t value = found->second;
    keys.erase(found);
    return value;
  };
  RaftOptions options;
  options.cluster_id_if_new = "cluster";
  options.election_ticks = static_cast<int>(take("election-ticks", 10));
  options.heartbeat_ticks = static_cast<int>(take("heartbeat-ticks", 3));
  options.append_bytes_max = take("append-bytes", options.append_bytes_max);
  options.inflight_messages_max = take("inflight-messages", options.inflight_messages_max);
  options.cached_bytes_max = take("cached-bytes", options.cached_bytes_max);
  options.uncommitted_bytes_max = take("uncommitted-bytes", options.uncommitted_bytes_max);
  options.apply_bytes_max = take("apply-bytes", options.apply_bytes_max);
  options.commit_hint_entries = take("commit-hint", options.commit_hint_entries);
  options.version = static_cast<uint32_t>(take("version", kVersionBase));
  const uint64_t count = Number(words.at(1));
  options.trailing_entries = take("trailing", options.trailing_entries);
  options.retained_entries_max = take("retained", options.retained_entries_max);
  options.compaction_step_entries = take("compaction-step", 1);
  options.snapshot_chunk_bytes = take("chunk-bytes", options.snapshot_chunk_bytes);
  options.snapshot_bytes_per_tick = take("tick-bytes", options.snapshot_bytes_per_tick);
  options.disk_stall_ticks = static_cast<int>(take("stall-ticks", 0));
  const uint64_t learners = take("learners", 0);
  const uint64_t others = take("others", 0);
  const bool is_new = take("new", 0) != 0;
  const uint64_t members = count - others;
  ASSERT(keys.empty(), "an unknown key");
  for (uint32_t i = 1; i <= members; ++i) {
    (i + learners > members ? options.membership.learners : options.membership.voters)
        .push_back(MemberId{i});
  }
  for (uint32_t i = 1; i <= count; ++i) {
    options.self = MemberId{i};
    TestMember::Disk disk;
    if (is_new || i > members) disk.hard_state.member_state = MemberState::kNew;
    members_.emplace_back(options, std::move(disk), &random_);
    std::string discarded;
    members_.back().Collect(&discarded);
  }
  Line(ToString(options.membership));
}

void Interpreter::Campaign(const Words& words) {
  TestMember& member = Member(words.at(1));
  ASSERT(member.raft().role() != Role::kLeader);
  while (member.raft().role() == Role::kFollower) member.raft().Tick();
  Collect(&member);
}

void Interpreter::Tick(const Words& words) {
  TestMember& member = Member(words.at(1));
  for (uint64_t i = words.size() > 2 ? Number(words[2]) : 1; i > 0; --i) {
    member.raft().Tick();
    Collect(&member);
  }
}

void Interpreter::Propose(const Words& words) {
  TestMember& member = Member(words.at(1));
  std::vector<Slice> payloads;
  for (size_t i = 2; i < words.size(); ++i) payloads.emplace_back(words[i]);
  const absl::Status status = member.raft().Propose(std::move(payloads));
  if (!status.ok()) Line("refused: " + std::string(status.message()));
  Collect(&member);
}

void Interpreter::ReadIndex(const Words& words) {
  TestMember& member = Member(words.at(1));
  member.raft().ReadIndex(Number(words.at(2)));
  Collect(&member);
}

void Interpreter::Transfer(const Words& words) {
  TestMember& member = Member(words.at(1));
  const absl::Status status = member.raft().TransferLeadership(MemberId(Number(words.at(2))));
  if (!status.ok()) Line("refused: " + std::string(status.message()));
  Collect(&member);
}

void Interpreter::Unreachable(const Words& words) {
  TestMember& member = Member(words.at(1));
  member.raft().PeerUnreachable(MemberId(Number(words.at(2))));
  Collect(&member);
}

void Interpreter::Persist(const Words& words) {
  PersistAll(&Member(words.at(1)), words.size() > 2 ? Number(words[2]) : SIZE_MAX);
}

void Interpreter::Deliver(const Words& words) {
  const size_t count = words.size() > 2 ? Number(words[2]) : SIZE_MAX;
  for (Message& message : TakeMessages(words.at(1), count)) Arrive(std::move(message));
}

void Interpreter::Drop(const Words& words) {
  const size_t count = words.size() > 2 ? Number(words[2]) : SIZE_MAX;
  for (const Message& message : TakeMessages(words.at(1), count)) Line("drop " + ToString(message));
}

void Interpreter::Duplicate(const Words& words) {
  const std::vector<Message> oldest = TakeMessages(words.at(1), 1);
  REQUIRE(!oldest.empty());
  network_.push_front(oldest.front());
  network_.push_back(oldest.front());
}

void Interpreter::Reverse(const Words& words) {
  std::vector<Message> messages = TakeMessages(words.at(1), SIZE_MAX);
  REQUIRE(messages.size() > 1);
  std::move(messages.rbegin(), messages.rend(), std::back_inserter(network_));
}

void Interpreter::Isolate(const Words& words) { isolated_.insert(Member(words.at(1)).id); }
void Interpreter::Heal(const Words&) { isolated_.clear(); }

void Interpreter::ReadLog(const Words& words) {
  TestMember& member = Member(words.at(1));
  REQUIRE(member.can_read_log());
  member.AnswerLogRead();
  Collect(&member);
}

void Interpreter::Crash(const Words& words) {
  TestMember::Torn torn;
  if (words.size() > 2 && words[2] == "hard-state") torn.hard_states = 1;
  Member(words.at(1)).Crash(torn);
}

void Interpreter::Restart(const Words& words) {
  TestMember& member = Member(words.at(1));
  if (words.size() > 2) member.SetVersion(static_cast<uint32_t>(Number(words[2])));
  member.Restart(Index{0});
  Collect(&member);
}

void Interpreter::LoseDisk(const Words& words) {
  TestMember& member = Member(words.at(1));
  member.RestartNew();
  Collect(&member);
}

void Interpreter::Change(const Words& words) {
  TestMember& member = Member(words.at(1));
  Membership target;
  for (size_t i = 2; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    const std::string key = words[i].substr(0, equals);
    REQUIRE((key == "voters" || key == "learners"));
    std::istringstream list(words[i].substr(equals + 1));
    for (std::string id; std::getline(list, id, ',');) {
      (key == "voters" ? target.voters : target.learners).emplace_back(Number(id));
    }
  }
  const absl::Status status = member.raft().ChangeMembership(target);
  if (!status.ok()) Line("refused: " + std::string(status.message()));
  Collect(&member);
}

void Interpreter::Checkpoint(const Words& words) {
  TestMember& member = Member(words.at(1));
  member.Checkpoint();
  Collect(&member);
}

void Interpreter::ReadSnapshot(const Words& words) {
  TestMember& member = Member(words.at(1));
  REQUIRE(member.can_read_snapshot());
  member.AnswerSnapshotRead();
  Collect(&member);
}

void Interpreter::Stage(const Words& words) {
  TestMember& member = Member(words.at(1));
  REQUIRE(member.can_stage());
  member.StageOne();
  Collect(&member);
}

void Interpreter::Install(const Words& words) {
  TestMember& member = Member(words.at(1));
  Line(Describe(member.id) + ": installed");
  member.Install();
  Collect(&member);
}

void Interpreter::ForgetCheckpoints(const Words& words) { Member(words.at(1)).ForgetCheckpoints(); }

void Interpreter::Stabilize(const Words& words) {
  std::vector<MemberId> among;
  for (size_t i = 1; i < words.size(); ++i) among.push_back(Member(words[i]).id);
  if (words.size() == 1) {
    for (const TestMember& member : members_) among.push_back(member.id);
  }
  auto takes_part = [&among](MemberId id) {
    return std::find(among.begin(), among.end(), id) != among.end();
  };
  for (bool busy = true; busy;) {
    busy = false;
    for (MemberId id : among) {
      TestMember& member = Member(id);
      if (!member.running()) continue;
      for (; member.unpersisted() > 0; busy = true) PersistAll(&member, SIZE_MAX);
      for (; member.can_read_log(); busy = true) {
        member.AnswerLogRead();
        Collect(&member);
      }
      for (; member.can_read_snapshot(); busy = true) ReadSnapshot({"", Describe(id)});
      for (; member.can_stage(); busy = true) Stage({"", Describe(id)});
      for (; member.can_install(); busy = true) Install({"", Describe(id)});
    }
    for (Message& message : TakeMessages("all", SIZE_MAX)) {
      if (takes_part(message.from) && takes_part(message.to)) {
        busy = true;
        Arrive(std::move(message));
      } else {
        network_.push_back(std::move(message));
      }
    }
  }
}

void Interpreter::Status(const Words& words) {
  for (const TestMember& member : members_) {
    if (words.size() > 1 && Member(words[1]).id != member.id) continue;
    Line(member.running() ? member.raft().ToString() : Describe(member.id) + " down");
  }
}

void Interpreter::Log(const Words& words) {
  const TestMember& member = Member(words.at(1));
  const std::vector<Entry>& log = member.running() ? member.log() : member.disk().log;
  const size_t durable = member.running() ? member.raft().durable_index().value() : log.size();
  std::string text;
  const size_t base = member.running() ? member.raft().base_index().value() : 0;
  if (base > 0) text += "(" + std::to_string(base) + ") ";
  for (size_t i = base; i <= log.size(); ++i) {
    if (i > base) text += ToString(log[i - 1]) + " ";
    if (i == durable) text += "| ";
  }
  Line(text.substr(0, text.size() - 1));
}

// --- Files ---------------------------------------------------------------------------------------

// Returns the script with the outputs that its commands produce now.
std::string RunScript(const std::string& script) {
  Interpreter interpreter;
  std::istringstream in(script);
  std::string out;
  Words words;
  for (std::string line; std::getline(in, line);) {
    if (line == "----") {
      REQUIRE(!words.empty());
      out += "----\n" + interpreter.Run(std::move(words)) + "\n";
      words.clear();
      while (std::getline(in, line) && !line.empty()) continue;
      continue;
    }
    out += line + "\n";
    if (line.empty() || line[0] == '#') continue;
    REQUIRE(words.empty());
    std::istringstream split(line);
    words.assign(std::istream_iterator<std::string>(split), {});
  }
  REQUIRE(words.empty());
  while (out.ends_with("\n\n")) out.pop_back();
  return out;
}

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream in(path);
  REQUIRE(in.good());
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST_CASE("each script produces the outputs that it states") {
  const char* rewrite = std::getenv("QUORATE_REWRITE_SCRIPTS");
  const std::filesystem::path directory = rewrite != nullptr ? rewrite : "consensus/core/testdata";
  std::set<std::filesystem::path> scripts;
  for (const auto& file : std::filesystem::directory_iterator(directory)) {
    if (file.path().extension() == ".txt") scripts.insert(file.path());
  }
  REQUIRE(scripts.size() >= 35);
  for (const std::filesystem::path& path : scripts) {
    INFO(path.string());
    const std::string expected = ReadFile(path);
    const std::string actual = RunScript(expected);
    if (rewrite != nullptr) {
      std::ofstream(path) << actual;
    } else {
      CHECK(actual == expected);
    }
  }
}

}  // namespace
}  // namespace quorate::consensus
