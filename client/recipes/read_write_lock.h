// A lock that either many readers have, or one writer.
//
//   quorate::ReadWriteLock lock(client.get(), "/locks/catalogue");
//   lock.read_lock().Acquire();
//
// Layout, that of Curator's InterProcessReadWriteLock, with which it can share a path:
//   PATH                                    a container, created when it is needed
//   PATH/_c_<uuid>-__READ__<10 digits>      ephemeral sequential, one for each thread that reads or
//   waits PATH/_c_<uuid>-__WRIT__<10 digits>      likewise for writing
// A writer waits for the znode before its own, a reader for the last writer before it: neither
// passes the other, and a release wakes those who get the lock and nobody else.
//
// Both sides are reentrant. Who has the write lock may acquire the read lock, too, and then release
// the former: so it goes from writing to reading, with no other writer in between, and other
// readers come in. The znode for it gets the number of the writer's, and is ephemeral without being
// sequential, so that it stays before all who waited for the writer. (Curator puts it at the end of
// the line, where the next writer does not see it: a Java program that downgrades is not protected
// from writers who waited already, be they in Java or not. One in C++ is, from both.) Nobody can go
// from reading to writing.
//
// Fencing tokens are those of mutex.h, with one difference: tokens of readers are to be compared
// with those of writers only. The protected resource refuses a reader or writer whose token is
// smaller than the largest writer's token it has seen, and does not record tokens of readers:
// concurrent readers hold different tokens, and by the rule of mutex.h one would lock out another.
// A writer that has downgraded to reader keeps the writer's token.
#pragma once

#include <memory>
#include <string>

#include "client/client.h"
#include "client/recipes/lock.h"
#include "client/recipes/mutex.h"

namespace quorate {

// Thread-safety: all functions from any thread. The client must live longer.
class ReadWriteLock {
 public:
  // The options of either side.
  ReadWriteLock(Client* client, const std::string& path, LockOptions read = {},
                LockOptions write = {});
  // As of InterProcessMutex.
  ~ReadWriteLock();

  // Of both: Acquire, TryAcquire and all else are as of InterProcessMutex; its ParticipantNodes are
  // those of both sides. FAILED_PRECONDITION, of the write lock: this thread has the read
  // lock, and would wait for itself.
  InterProcessMutex& read_lock();
  InterProcessMutex& write_lock();

 private:
  class Side;
  const std::unique_ptr<Side> read_, write_;
};

}  // namespace quorate
