// SPDX-License-Identifier: Apache-2.0

// The simulated network: hosts, the paths between them with their delays and cuts, and pipes, which
// carry packets in order as TCP does.
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/simulation/simulation.h"

namespace quorate::simulation {

class Pipe;

// Hosts are numbered: first the members, then one host that represents all clients.
class Network {
 public:
  Network(Simulation* simulation, size_t members);

  Simulation& simulation() { return simulation_; }
  size_t client_host() const { return hosts_ - 1; }

  // --- Faults ----------------------------------------------------------------------------------
  void Cut(size_t from, size_t to) { path(from, to).cut = true; }
  void Heal(size_t from, size_t to);
  void HealAll();
  // Nothing that is sent on this path arrives before `until_us`.
  void Clog(size_t from, size_t to, int64_t until_us);
  // From now on no packet is lost, altered or delayed for long. Cuts stay.
  void BecomeSteady();

  // --- For pipes and the like -------------------------------------------------------------------
  bool IsOpen(size_t from, size_t to) const { return !path(from, to).cut; }
  // How long a packet that is sent now takes, retransmissions included.
  int64_t Delay(size_t from, size_t to);
  // Reserves the bandwidth of both machines and of the link between them for a packet of so many
  // bytes; returns when its last byte has left. Packets of one machine leave one after another.
  int64_t Transmit(size_t from, size_t to, size_t bytes);
  // Whether this packet is to be damaged; if so, has flipped one bit behind its first `spared`
  // bytes.
  bool Corrupt(std::string* packet, size_t spared = 0);
  bool LoseMessage();
  bool DuplicateMessage();
  // The receiving end cannot take packets now: Wake tries again.
  void AddStalled(std::shared_ptr<Pipe> pipe) { stalled_.push_back(std::move(pipe)); }
  // A host can take packets again: resumes the stalled pipes.
  void Wake();

 private:
  struct Path {
    bool cut = false;
    int64_t clogged_until_us = 0;
    int64_t delay_us = 0;
    int64_t busy_until_us = 0;
  };
  Path& path(size_t from, size_t to) { return paths_[from * hosts_ + to]; }
  const Path& path(size_t from, size_t to) const { return paths_[from * hosts_ + to]; }

  Simulation& simulation_;
  Random& random_;
  NetworkOptions options_;
  const size_t hosts_;
  std::vector<Path> paths_;
  // By host: until when it is busy with the packets being sent, and with those being received.
  std::vector<int64_t> sends_until_us_;
  std::vector<int64_t> receives_until_us_;
  std::vector<std::shared_ptr<Pipe>> stalled_;
};

// The receiving end of a pipe.
class PipeEnd {
 public:
  virtual ~PipeEnd() = default;
  // Whether the host can take a packet now: it is on and not paused.
  virtual bool CanReceive() const = 0;
  virtual void OnPacket(std::string packet) = 0;
  // The other side has closed the pipe, after all its packets.
  virtual void OnEnd() = 0;
};

// One direction of a connection. Packets that cannot be delivered wait.
class Pipe : public std::enable_shared_from_this<Pipe> {
 public:
  // The pipe uses `end` until Abandon; `end` must live until then.
  Pipe(Network* network, size_t from, size_t to, PipeEnd* end)
      : network_(*network), from_(from), to_(to), end_(end) {}

  void Send(std::string packet);
  // Sends the end of the stream: nothing follows.
  void SendEnd();
  // Delivers nothing any more.
  void Abandon() {
    end_ = nullptr;
    delivered_ = nullptr;
    packets_.clear();
    unsent_.clear();
    bytes_ = unsent_bytes_ = 0;
  }
  // Bytes that were sent and not delivered.
  size_t bytes() const { return bytes_; }
  // Those of `bytes()` that have not left the machine yet, because of its bandwidth or the link's.
  size_t unsent_bytes();
  // The time at which unsent_bytes() will be at most `bytes`.
  int64_t UnsentUntilUs(size_t bytes);
  // `call` is called after each delivery.
  void OnDelivered(std::function<void()> call) { delivered_ = std::move(call); }
  // Tries again to deliver the waiting packets.
  void Resume();

 private:
  struct Packet {
    int64_t arrival_us = 0;
    bool is_end = false;
    std::string bytes;
  };
  struct Unsent {
    int64_t left_us = 0;
    size_t bytes = 0;
  };
  void Add(Packet packet);
  void SchedulePump();
  void Pump();

  Network& network_;
  const size_t from_;
  const size_t to_;
  PipeEnd* end_;
  std::function<void()> delivered_;
  std::deque<Packet> packets_;
  size_t bytes_ = 0;
  std::deque<Unsent> unsent_;
  size_t unsent_bytes_ = 0;
  int64_t last_arrival_us_ = 0;
  bool scheduled_ = false;  // a pump is scheduled, or the pipe is among the stalled ones
};

}  // namespace quorate::simulation
