// SPDX-License-Identifier: Apache-2.0

// Streams of the tree without a session: reads of any number of znodes, and watches with the data of
// what changed. A program reads one message after the other, on its own thread; the servers send the
// next ones when it does. A stream that breaks is begun again at another member, behind the last
// message that was returned, so that nothing is shown twice and nothing is left out.
//
// Errors of Next, besides those named at each function. After an error, every further call fails.
//   refusals by the servers   ErrorOf returns the exact one (client/types.h)
//   UNAVAILABLE               no member has sent a message for TreeStreamOptions::patience_ms; the
//                             message names the last reason
//   DATA_LOSS                 a server has ended the stream before its last message
//   CANCELLED                 Cancel was called
//
// Thread-safety: Cancel may be called from any thread; everything else from one thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/tls.h"
#include "client/types.h"

namespace quorate {

// How a Scan or an EventStream connects.
struct TreeStreamOptions {
  // As ClientOptions has them. All paths are below the chroot of `servers`.
  std::string servers{};
  std::vector<Credential> credentials{};
  TlsOptions tls{};
  std::string token{};
  std::string token_file{};
  // How long members are tried, one after the other, without a message from any of them. Positive.
  int patience_ms = 30'000;
};

// The order of the znodes of a scan; siblings are in the byte order of their names.
enum class ScanOrder {
  kPaths = 1,   // a znode, then everything below it, then its next sibling
  kLevels = 2,  // breadth first
};

// The kinds of znodes. They differ in when the servers delete a znode without a request of a client.
enum class ZnodeKind { kPersistent = 1, kEphemeral = 2, kContainer = 3, kTtl = 4 };

// What a Scan shows.
struct ScanOptions {
  ScanOrder order = ScanOrder::kPaths;
  // Only znodes whose path behind that of the top and its slash begins with it.
  std::string prefix{};
  // Only znodes of these kinds; empty: of all kinds.
  std::vector<ZnodeKind> kinds{};
  // The greatest depth below the top: 1 for its children. nullopt: everything.
  std::optional<uint32_t> depth_max{};
  // Whether ScanEntry::stat and ScanEntry::data are filled.
  bool with_stats = false;
  bool with_data = false;
  // Whether the first page sees every write that was acknowledged to any client before.
  bool linearizable = false;
  // The first page shows the state at this zxid, or a later one.
  int64_t min_zxid = 0;
  // The result of ScanPage::token: the scan goes on behind that page. The options above other than
  // `linearizable`, `min_zxid` and `with_...` must be those of the scan that returned it.
  std::string token{};
};

// A znode that a scan shows.
struct ScanEntry {
  std::string path;
  ZnodeKind kind{};
  std::optional<Stat> stat;  // if it was requested
  std::string data;          // if it was requested
  // The data was requested, but the client may not read it, nor what is below the znode.
  bool no_auth = false;
};

// The znodes that were read at one moment.
struct ScanPage {
  std::vector<ScanEntry> entries;
  // The zxid of the state that the page shows. The tree may change between two pages.
  int64_t zxid = 0;
  // The place behind this page, for ScanOptions::token.
  std::string token;
  // A watch after this zxid reports every creation, deletion and change of data that the scan does not
  // show; a change of an access control list is no event.
  int64_t watch_after_zxid = 0;
};

// A read of everything below a znode, in the order of the bytes of the names. A znode that exists
// during the whole scan is shown exactly once; one that is created or deleted meanwhile may or may
// not be shown.
class Scan {
 public:
  // Connects to no server yet. INVALID_ARGUMENT: an option is not valid.
  static absl::StatusOr<std::unique_ptr<Scan>> Create(TreeStreamOptions options,
                                                      std::string_view path, ScanOptions scan = {});
  ~Scan();
  Scan(const Scan&) = delete;
  Scan& operator=(const Scan&) = delete;

  // Waits for the next page, and returns it; nullopt behind the last one. A page may have no entry.
  // NO_NODE, NO_AUTH: the top znode.
  absl::StatusOr<std::optional<ScanPage>> Next();
  // Ends the scan.
  void Cancel();

 private:
  class Impl;
  explicit Scan(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// What an EventStream reports.
struct EventStreamOptions {
  WatchScope scope = WatchScope::kNode;
  // Only events after this zxid, first those that have happened already. 0: from now on.
  int64_t after_zxid = 0;
  // Only events of these types; empty: all.
  std::vector<EventType> types{};
  // Only events of znodes whose path behind that of the watch and its slash begins with it.
  std::string prefix{};
  // Whether TreeEvent::value and previous_value are filled.
  bool with_value = false;
  bool with_previous_value = false;
  // How often Next returns at least, with the zxid up to which the events are complete. Between
  // 100 ms and an hour.
  std::chrono::milliseconds progress_interval{5000};
};

// A change of a znode.
struct TreeEvent {
  Event event;
  // The data after the change, and before it: see Event in rpc/proto/quorate/v1/types.proto.
  std::optional<std::string> value;
  std::optional<std::string> previous_value;
  // Data that the event would have are not kept, or may not be read by the client: read the znode.
  bool values_lost = false;
};

// The result of EventStream::Next.
struct EventBatch {
  std::vector<TreeEvent> events;
  // All events up to this zxid were returned; nullopt if that is not known now.
  std::optional<int64_t> zxid;
};

// The events of a znode or a subtree, without a session; it goes on at another member if one fails.
class EventStream {
 public:
  // Connects to no server yet. INVALID_ARGUMENT: an option is not valid.
  static absl::StatusOr<std::unique_ptr<EventStream>> Create(TreeStreamOptions options,
                                                             std::string_view path,
                                                             EventStreamOptions watch = {});
  ~EventStream();
  EventStream(const EventStream&) = delete;
  EventStream& operator=(const EventStream&) = delete;

  // Waits for the next events, or the end of an interval. Each event is returned once, in order.
  // EVENTS_LOST: the servers do not keep the next events any more; read again, and watch from there.
  absl::StatusOr<EventBatch> Next();
  // Ends the watch.
  void Cancel();

 private:
  class Impl;
  explicit EventStream(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quorate
