// SPDX-License-Identifier: Apache-2.0

// A lock that many readers or one writer can hold at a time.
//
//   quorate::ReadWriteLock lock(client.get(), "/locks/catalogue");
//   lock.read_lock().Acquire();
//
// Layout, that of Curator's InterProcessReadWriteLock, with which it can share a path:
//   PATH                                    a container, created when it is needed
//   PATH/_c_<uuid>-__READ__<10 digits>      ephemeral sequential, one for each thread that has the
//                                           read lock or waits for it
//   PATH/_c_<uuid>-__WRIT__<10 digits>      likewise for the write lock
// A writer waits for the znode before its own, a reader for the last writer before it: neither
// overtakes the other, and a release wakes only those who get the lock.
//
// Both sides are reentrant. A thread that has the write lock may acquire the read lock, too, and
// then release the write lock: it downgrades from writing to reading with no other writer in
// between, and other readers get the lock. Its read znode gets the number of its write znode, and
// is ephemeral without being sequential, so that it stays before all who waited for the writer.
// (Curator puts that znode at the end of the line, where the next writer does not see it: a Java
// program that downgrades is not protected from writers that waited already, whether they are C++
// or Java programs. A C++ program is protected from all of them.) A thread cannot upgrade from
// reading to writing.
//
// Fencing tokens are those of mutex.h, with one difference: tokens of readers are to be compared
// with those of writers only. The protected resource refuses a reader or writer whose token is
// smaller than the largest writer's token it has seen, and does not record tokens of readers:
// concurrent readers hold different tokens, and by the rule of mutex.h one would lock out another.
// A writer that has downgraded to reader keeps the writer's token.
//
// Both sides are lost with their session, and can be acquired again (lock.h). A downgrade in flight
// fails: no read lock of a later session continues a write lock of an earlier one.
#pragma once

#include <memory>
#include <string>

#include "client/client.h"
#include "client/recipes/lock.h"
#include "client/recipes/mutex.h"

namespace quorate {

// Thread-safety: all functions may be called from any thread. The client must outlive this object.
class ReadWriteLock {
 public:
  // `read` and `write` are the options of the two sides.
  ReadWriteLock(Client* client, const std::string& path, LockOptions read = {},
                LockOptions write = {});
  // As the destructor of InterProcessMutex, for both sides.
  ~ReadWriteLock();

  // Both sides are InterProcessMutexes; ParticipantNodes returns the znodes of both sides.
  // Acquiring the write lock returns FAILED_PRECONDITION if this thread has the read lock, because
  // it would wait for itself.
  InterProcessMutex& read_lock();
  InterProcessMutex& write_lock();

 private:
  class Side;
  const std::unique_ptr<Side> read_, write_;
};

}  // namespace quorate
