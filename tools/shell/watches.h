// SPDX-License-Identifier: Apache-2.0

// The watches of a shell's session. They print their events in the words of zkCli.sh.
//
// Thread-safety: one thread at a time; events are printed from the client's thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "client/client.h"
#include "tools/shell/console.h"

namespace quorate::tools::shell {

enum class WatchKind {
  kData,                 // one event of the znode itself (get -w, stat -w)
  kChildren,             // one event of its list of children, or of its deletion (ls -w)
  kPersistent,           // all events of both kinds (addWatch -m PERSISTENT)
  kPersistentRecursive,  // all events of the znode and everything below it
};

class Watches {
 public:
  Watches(Console* console, bool json);

  // Sets a watch for events after `after_zxid` (0: from now on). Replaces a watch of the same kind.
  absl::Status Add(Client& client, const std::string& path, WatchKind kind, int64_t after_zxid);
  // Removes a watch, and prints that as an event. Returns false if there was no watch.
  bool Remove(const std::string& path, WatchKind kind);
  void RemoveAll() { watches_.clear(); }
  // Returns whether events are printed (printwatches).
  bool prints() const { return printer_->prints; }
  void SetPrints(bool prints) { printer_->prints = prints; }

 private:
  // Prints each event once, even if several watches see it. Only the client's thread uses it,
  // except `prints`.
  struct Printer {
    Printer(Console* the_console, bool prints_json) : console(the_console), json(prints_json) {}

    Console* const console;
    const bool json;
    std::atomic<bool> prints{true};
    int64_t zxid = 0;
    std::set<std::string> printed;  // the events of `zxid` printed so far

    void Print(const std::string& type, const std::string& path, int64_t event_zxid);
    void Show(const std::string& type, const std::string& path, int64_t event_zxid) const;
  };
  struct Watched {
    std::string path;
    WatchKind kind;
    std::atomic<bool> has_fired{false};

    bool is_once() const { return kind == WatchKind::kData || kind == WatchKind::kChildren; }
  };
  struct Entry {
    std::shared_ptr<Watched> watched;
    WatchHandle handle;
  };

  static void OnNotification(const WatchNotification& notification, Watched& watched,
                             Printer& printer);

  const std::shared_ptr<Printer> printer_;
  std::map<std::pair<std::string, WatchKind>, Entry> watches_;
};

}  // namespace quorate::tools::shell
