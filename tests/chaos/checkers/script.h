// SPDX-License-Identifier: Apache-2.0

// Writes histories for tests: one line per call, a millisecond apart, so that earlier calls
// happened earlier.
//
//   Script script;
//   script.Connect(1, 100);
//   const int64_t write = script.Invoke(1, Set("/r", "a"));
//   script.Ok(write, Changed(/*zxid=*/10, /*version=*/1));
//   CHECK(Broken(CheckRegisters(script.run())) == "");
#pragma once

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/chaos/checkers/report.h"
#include "tests/chaos/checkers/run.h"
#include "tests/chaos/history.h"

namespace quorate::chaos {

// --- Invocations ---------------------------------------------------------------------------------

inline Line Call(std::string function, std::string path) {
  Line line;
  line.function = std::move(function);
  line.path = std::move(path);
  return line;
}
inline Line Get(std::string path) { return Call("get", std::move(path)); }
inline Line Exists(std::string path) { return Call("exists", std::move(path)); }
inline Line List(std::string path) { return Call("list", std::move(path)); }
inline Line Delete(std::string path) { return Call("delete", std::move(path)); }
inline Line Linearizable(Line line) {
  line.linearizable = true;
  return line;
}
inline Line Create(std::string path, std::string data, std::string mode = "persistent") {
  Line line = Call("create", std::move(path));
  line.data = std::move(data);
  line.mode = std::move(mode);
  return line;
}
inline Line Set(std::string path, std::string data, int32_t version = -1) {
  Line line = Call("set", std::move(path));
  line.data = std::move(data);
  line.version = version;
  return line;
}

// --- Answers -------------------------------------------------------------------------------------

inline Stat MakeStat(int64_t czxid, int64_t mzxid, int32_t version) {
  Stat stat;
  stat.czxid = stat.pzxid = czxid;
  stat.mzxid = mzxid;
  stat.version = version;
  return stat;
}
// The answer of a node that was created at zxid 1.
inline Line Changed(int64_t zxid, int32_t version) {
  Line line;
  line.zxid = zxid;
  line.stat = MakeStat(1, zxid, version);
  return line;
}
inline Line Found(std::string data, int64_t mzxid, int32_t version, int64_t zxid = 0) {
  Line line = Changed(mzxid, version);
  line.data = std::move(data);
  line.zxid = zxid == 0 ? mzxid : zxid;
  return line;
}
inline Line Created(std::string path, int64_t zxid) {
  Line line;
  line.path = std::move(path);
  line.stat = MakeStat(zxid, zxid, 0);
  line.zxid = zxid;
  return line;
}
inline Line At(int64_t zxid) {
  Line line;
  line.zxid = zxid;
  return line;
}
inline Line Children(std::vector<std::string> names, int64_t pzxid, int64_t zxid = 0) {
  Line line;
  line.children = std::move(names);
  line.stat = MakeStat(1, 1, 0);
  line.stat->pzxid = pzxid;
  line.stat->cversion = static_cast<int32_t>(pzxid);
  line.zxid = zxid == 0 ? pzxid : zxid;
  return line;
}

class Script {
 public:
  explicit Script(std::string workload = "register") : workload_(std::move(workload)) {
    path_ = (std::filesystem::temp_directory_path() / "scriptXXXXXX").string();
    const int file = mkstemp(path_.data());
    REQUIRE(file >= 0);
    close(file);
    writer_ = HistoryWriter::Open(path_, 1).value();
  }
  ~Script() { std::filesystem::remove(path_); }
  Script(const Script&) = delete;
  Script& operator=(const Script&) = delete;

  // Writes the next line so many milliseconds later.
  void Wait(int64_t ms) { now_ms_ += ms; }

  // Connects with a timeout of a second.
  void Connect(int32_t client, int64_t session, const std::string& frontend = "zookeeper") {
    Line line;
    line.session = session;
    line.frontend = frontend;
    line.timeout_ms = 1000;
    line.new_session = sessions_.insert(session).second;
    Tell(client, What::kConnected, std::move(line));
  }
  void Tell(int32_t client, What what, Line line = {}) {
    line.what = what;
    line.client = client;
    Write(std::move(line));
  }
  void End(int32_t client, What what, int64_t session) {
    Line line;
    line.session = session;
    Tell(client, what, std::move(line));
  }
  void Event(int32_t client, const std::string& path, const std::string& type, int64_t zxid,
             int64_t watch = 0) {
    Line line;
    line.path = path;
    line.type = type;
    line.zxid = zxid;
    line.watch = watch;
    Tell(client, What::kEvent, std::move(line));
  }

  // Writes an invocation; returns the operation's number.
  int64_t Invoke(int32_t client, Line line) {
    line.what = What::kInvoke;
    line.client = client;
    line.operation = writer_->NextOperation();
    line.workload = workload_;
    clients_[line.operation] = client;
    const int64_t operation = line.operation;
    Write(std::move(line));
    return operation;
  }
  void Ok(int64_t operation, Line line = {}) { Answer(operation, What::kOk, std::move(line)); }
  void Refused(int64_t operation, const std::string& error, int64_t zxid = 0) {
    Line line;
    line.error = error;
    line.zxid = zxid;
    Answer(operation, What::kRefused, std::move(line));
  }
  void Unknown(int64_t operation) {
    Line line;
    line.error = "ConnectionLoss";
    Answer(operation, What::kUnknown, std::move(line));
  }
  // Writes an invocation and its ok.
  void Do(int32_t client, Line call, Line answer) {
    Ok(Invoke(client, std::move(call)), std::move(answer));
  }

  // The run of all lines written so far; no more may follow.
  const Run& run() {
    if (run_ == nullptr) {
      run_ = std::make_unique<Run>();
      const absl::Status status = run_->AddFile(path_);
      INFO(status);
      REQUIRE(status.ok());
      run_->Finish();
    }
    return *run_;
  }
  const std::string& path() const { return path_; }

 private:
  void Answer(int64_t operation, What what, Line line) {
    line.what = what;
    line.client = clients_.at(operation);
    line.operation = operation;
    Write(std::move(line));
  }
  void Write(Line line) {
    line.time_ns = ++now_ms_ * 1'000'000;
    writer_->Write(std::move(line));
  }

  const std::string workload_;
  std::string path_;
  std::unique_ptr<HistoryWriter> writer_;
  int64_t now_ms_ = 0;
  std::set<int64_t> sessions_;
  std::map<int64_t, int32_t> clients_;
  std::unique_ptr<Run> run_;
};

// The violated invariants, in the order of their names; empty if there are none.
inline std::string Broken(const Verdicts& verdicts) {
  std::set<std::string> invariants;
  for (const Violation& violation : verdicts.violations()) invariants.insert(violation.invariant);
  std::string text;
  for (const std::string& invariant : invariants) {
    text += (text.empty() ? "" : "; ") + invariant;
  }
  return text;
}

}  // namespace quorate::chaos
