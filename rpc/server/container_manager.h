// When the leader removes containers and nodes with a TTL whose time has come, and how many at a
// time: in rounds, one each check interval, which go on for as long as there is something to
// remove; and never faster than so many a minute, so that the removal of a great number leaves the
// log to the clients.
//
// Pure decisions: no thread, no clock, no I/O.
//
// Thread-safety: none; all calls come from the node thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quorate::rpc {

class ContainerManager {
 public:
  // REQUIRES: both are positive.
  ContainerManager(int64_t check_interval_ms, int64_t max_per_minute);

  // Leadership begins, or a round is cut short: the next one begins an interval from now.
  void Reset();
  // `elapsed_ms` have passed.
  void Advance(int64_t elapsed_ms);
  // How many nodes may be removed now; 0: nobody needs to look for any.
  size_t allowed() const;
  // So many of them were found, and are being removed. REQUIRES: at most allowed(), which is not 0.
  void OnFound(size_t found);

 private:
  const int64_t check_interval_ms_;
  const int64_t max_per_minute_;
  bool in_round_ = false;
  int64_t since_check_ms_ = 0;
  // What may be removed, in nodes times milliseconds of a minute.
  int64_t credit_ = 0;
};

}  // namespace quorate::rpc
