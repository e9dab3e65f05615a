// SPDX-License-Identifier: Apache-2.0

// Locks with thread-safety annotations. Debian's absl::Mutex is not used: its library is not
// instrumented, so that ThreadSanitizer sees no ordering through it, and was built with its
// deadlock detector on, which takes one global lock at each use.
#pragma once

#include <pthread.h>

#include <mutex>

#include "absl/base/thread_annotations.h"
#include "base/assert.h"

namespace quorate {

class ABSL_LOCKABLE Mutex {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  bool TryLock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) { return mutex_.try_lock(); }
  // Returns the underlying mutex, for ConditionVariable.
  std::mutex& native() ABSL_LOCK_RETURNED(this) { return mutex_; }

 private:
  std::mutex mutex_;
};

class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) {
    mutex_->Lock();
  }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_->Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* mutex_;
};

// A lock for several readers or one writer. A waiting writer goes before new readers, so that a
// steady stream of readers cannot starve it (std::shared_mutex prefers readers on Linux). A thread
// that holds the lock for reading must not take it again.
class ABSL_LOCKABLE SharedMutex {
 public:
  SharedMutex() {
    pthread_rwlockattr_t attributes;
    ASSERT(pthread_rwlockattr_init(&attributes) == 0);
    ASSERT(pthread_rwlockattr_setkind_np(&attributes,
                                         PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP) == 0);
    ASSERT(pthread_rwlock_init(&lock_, &attributes) == 0);
    pthread_rwlockattr_destroy(&attributes);
  }
  ~SharedMutex() { pthread_rwlock_destroy(&lock_); }
  SharedMutex(const SharedMutex&) = delete;
  SharedMutex& operator=(const SharedMutex&) = delete;

  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { ASSERT(pthread_rwlock_wrlock(&lock_) == 0); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { ASSERT(pthread_rwlock_unlock(&lock_) == 0); }
  bool TryLock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) {
    return pthread_rwlock_trywrlock(&lock_) == 0;
  }
  void ReaderLock() ABSL_SHARED_LOCK_FUNCTION() { ASSERT(pthread_rwlock_rdlock(&lock_) == 0); }
  bool ReaderTryLock() ABSL_SHARED_TRYLOCK_FUNCTION(true) {
    return pthread_rwlock_tryrdlock(&lock_) == 0;
  }
  void ReaderUnlock() ABSL_UNLOCK_FUNCTION() { ASSERT(pthread_rwlock_unlock(&lock_) == 0); }

 private:
  pthread_rwlock_t lock_;
};

class ABSL_SCOPED_LOCKABLE ReaderLock {
 public:
  explicit ReaderLock(SharedMutex* mutex) ABSL_SHARED_LOCK_FUNCTION(mutex) : mutex_(mutex) {
    mutex_->ReaderLock();
  }
  ~ReaderLock() ABSL_UNLOCK_FUNCTION() { mutex_->ReaderUnlock(); }
  ReaderLock(const ReaderLock&) = delete;
  ReaderLock& operator=(const ReaderLock&) = delete;

 private:
  SharedMutex* mutex_;
};

class ABSL_SCOPED_LOCKABLE WriterLock {
 public:
  explicit WriterLock(SharedMutex* mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) {
    mutex_->Lock();
  }
  ~WriterLock() ABSL_UNLOCK_FUNCTION() { mutex_->Unlock(); }
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;

 private:
  SharedMutex* mutex_;
};

}  // namespace quorate
