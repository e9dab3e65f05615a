// SPDX-License-Identifier: Apache-2.0

// The workloads of clients: operations whose answers can be checked, on the same znodes by all
// clients of all processes.
//
//   register   /chaos/register/N        get, exists, set with and without a version; several at a
//                                       time now and then
//   set        /chaos/set/N/TOKEN       creations, one by one and two by a multi, some with a check
//                                       that fails; lists, existence
//   sequence   /chaos/sequence/N/TOKEN- sequential creations; who made a znode may delete it
//   counter    /chaos/counter/N         "NUMBER TOKEN": one more than was read, set with the
//                                       version that was read; and add to the first two, on the
//                                       native front end
//   append     /chaos/append/N.G        "TOKEN TOKEN ...": one more, with the version that was
//                                       read; generation G + 1 goes on when G is long enough
//   bank       /chaos/bank/N            "BALANCE TOKEN": transfers by multi of two sets with
//                                       versions, some with a check that fails; multi-get of all
//   ephemeral  /chaos/ephemeral/TOKEN   of sessions that are closed, abandoned, away for a while,
//                                       or live on; also ephemeral-sequential
//   watch      /chaos/watch/CLIENT-N    topics: set to 1, 2, 3, ... by that client only, which also
//                                       makes and deletes "present" (half of them ephemeral) and
//                                       "item-NUMBER" below it, with data from the same count. Each
//                                       client watches some topics, one watch each at a time
//                                       ("exist" on "present", all other kinds on the topic
//                                       itself); one-shot ones are set again after their event, all
//                                       of them in a new session. Sessions are closed or abandoned
//
// A TOKEN is "CLIENT.NUMBER" and never used twice, if no two clients have the same number; by it
// all data of one path are different.
//
// Thread-safety: a workload belongs to the thread of its client.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/chaos/client.h"

namespace quorate::chaos {

class Workload {
 public:
  // `client` must outlive the workload.
  Workload(std::string name, Client* client, uint64_t seed)
      : name_(std::move(name)), client_(client), random_(seed, name_) {}
  virtual ~Workload() = default;
  Workload(const Workload&) = delete;
  Workload& operator=(const Workload&) = delete;

  // Creates the shared nodes, unless they exist; retries until `until_ns`. Returns false if some
  // are still missing then.
  bool Prepare(int64_t until_ns);
  // Performs some operations. Takes a while if the cluster does not serve, but returns.
  virtual void Step() = 0;
  // Performs the last, linearizable reads, each repeated until it succeeds. Returns false if one
  // did not succeed until `until_ns`.
  virtual bool Finish(int64_t until_ns) = 0;

  const std::string& name() const { return name_; }
  // The number of operations attempted so far.
  int64_t operations() const { return operations_; }

 protected:
  // Paths and data of the shared nodes below /chaos, parents first.
  virtual std::vector<std::pair<std::string, std::string>> Shared() const = 0;

  // Each builds an operation of this workload.
  Line Operation(std::string function, std::string path = "") const;
  Line Get(std::string path, bool linearizable) const;
  Line List(std::string path, bool linearizable) const;
  Line Create(std::string path, std::string data, std::string mode = "persistent") const;
  // Version -1: any.
  Line Set(std::string path, std::string data, int32_t version = -1) const;

  Line Perform(Line operation);
  std::vector<Line> Perform(std::vector<Line> operations);
  // Repeats the operations until each was answered, even if by a refusal; returns false if that
  // took until `until_ns`.
  bool PerformFinally(const std::vector<Line>& operations, int64_t until_ns);
  bool PerformFinally(Line operation, int64_t until_ns, Line* outcome);

  std::string NewToken();
  bool Chance(double probability) { return random_.Chance(probability); }
  size_t Below(size_t bound) { return random_.Below(bound); }

  Client* client() const { return client_; }
  simulation::Random& random() { return random_; }

 private:
  const std::string name_;
  Client* const client_;
  simulation::Random random_;
  int64_t operations_ = 0;
  int64_t tokens_ = 0;
};

// The names of all workloads.
const std::vector<std::string>& WorkloadNames();

// REQUIRES: `name` is one of WorkloadNames().
std::unique_ptr<Workload> MakeWorkload(const std::string& name, Client* client, uint64_t seed,
                                       bool is_native);

// The root of a workload's nodes: "/chaos/register" and so on.
std::string RootOf(const std::string& workload);

std::unique_ptr<Workload> MakeRegister(Client* client, uint64_t seed);
std::unique_ptr<Workload> MakeSet(Client* client, uint64_t seed);
std::unique_ptr<Workload> MakeSequence(Client* client, uint64_t seed);
std::unique_ptr<Workload> MakeAppend(Client* client, uint64_t seed);
// `is_native`: the client supports "add".
std::unique_ptr<Workload> MakeCounter(Client* client, uint64_t seed, bool is_native);
std::unique_ptr<Workload> MakeBank(Client* client, uint64_t seed);
std::unique_ptr<Workload> MakeEphemeral(Client* client, uint64_t seed);
// `is_native`: the client has no one-shot watches.
std::unique_ptr<Workload> MakeWatch(Client* client, uint64_t seed, bool is_native);

}  // namespace quorate::chaos
