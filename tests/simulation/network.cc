// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/network.h"

#include <algorithm>
#include <utility>

namespace quorate::simulation {
namespace {

// TCP retransmits a lost packet after this time, then after twice that, and so on.
constexpr int64_t kRetransmissionUs = 200'000;
constexpr int64_t kSteadyDelayUs = 500;

}  // namespace

Network::Network(Simulation* simulation, size_t members)
    : simulation_(*simulation),
      random_(simulation->random("network")),
      options_(simulation->options().network),
      hosts_(members + 1),
      paths_(hosts_ * hosts_),
      sends_until_us_(hosts_),
      receives_until_us_(hosts_) {
  // Some paths are longer than others.
  for (Path& path : paths_) path.delay_us = random_.Between(1, 2 * options_.delay_us);
}

void Network::Heal(size_t from, size_t to) {
  path(from, to).cut = false;
  Wake();
}

void Network::HealAll() {
  for (Path& path : paths_) path.cut = false;
  Wake();
}

void Network::Clog(size_t from, size_t to, int64_t until_us) {
  path(from, to).clogged_until_us = until_us;
}

void Network::BecomeSteady() {
  options_ = {};
  for (Path& path : paths_) {
    path.clogged_until_us = 0;
    // Otherwise copying a log one entry at a time takes hours.
    path.delay_us = std::min(path.delay_us, kSteadyDelayUs);
  }
}

int64_t Network::Delay(size_t from, size_t to) {
  const Path& path = this->path(from, to);
  int64_t delay = random_.LongTail(path.delay_us);
  int64_t again = kRetransmissionUs;
  for (; options_.loss > 0 && random_.Chance(options_.loss); again *= 2) {
    simulation_.trace().Count("network: packet lost");
    delay += again;
  }
  return std::max(delay, path.clogged_until_us - simulation_.now_us());
}

int64_t Network::Transmit(size_t from, size_t to, size_t bytes) {
  const int64_t now_us = simulation_.now_us();
  // Clients have unlimited bandwidth.
  if (from == client_host() || to == client_host()) return now_us;
  const auto take = [&](int64_t bytes_per_second, int64_t start_us, int64_t* until_us) {
    if (bytes_per_second == 0) return start_us;
    const int64_t begin_us = std::max(start_us, *until_us);
    *until_us = begin_us + static_cast<int64_t>(bytes) * 1'000'000 / bytes_per_second;
    return *until_us;
  };
  const int64_t sent_us = take(options_.machine_bytes_per_second, now_us, &sends_until_us_[from]);
  const int64_t passed_us =
      take(options_.link_bytes_per_second, now_us, &path(from, to).busy_until_us);
  const int64_t received_us =
      take(options_.machine_bytes_per_second, now_us, &receives_until_us_[to]);
  return std::max({sent_us, passed_us, received_us});
}

bool Network::Corrupt(std::string* packet, size_t spared) {
  if (options_.corruption == 0 || packet->size() <= spared) return false;
  if (!random_.Chance(options_.corruption)) return false;
  simulation_.trace().Count("network: packet damaged");
  const size_t at = spared + random_.Below(packet->size() - spared);
  (*packet)[at] ^= static_cast<char>(1u << random_.Below(8));
  return true;
}

bool Network::LoseMessage() {
  return options_.message_loss > 0 && random_.Chance(options_.message_loss);
}

bool Network::DuplicateMessage() {
  return options_.message_duplication > 0 && random_.Chance(options_.message_duplication);
}

void Network::Wake() {
  for (const std::shared_ptr<Pipe>& pipe : std::exchange(stalled_, {})) pipe->Resume();
}

// --- Pipe ----------------------------------------------------------------------------------------

void Pipe::Send(std::string packet) { Add({0, false, std::move(packet)}); }
void Pipe::SendEnd() { Add({0, true, {}}); }

void Pipe::Add(Packet packet) {
  if (end_ == nullptr) return;
  const int64_t now_us = network_.simulation().now_us();
  const int64_t left_us = network_.Transmit(from_, to_, packet.bytes.size());
  if (left_us > now_us) {
    unsent_.push_back({left_us, packet.bytes.size()});
    unsent_bytes_ += packet.bytes.size();
  }
  last_arrival_us_ = std::max(last_arrival_us_, left_us + network_.Delay(from_, to_));
  packet.arrival_us = last_arrival_us_;
  bytes_ += packet.bytes.size();
  packets_.push_back(std::move(packet));
  SchedulePump();
}

size_t Pipe::unsent_bytes() {
  while (!unsent_.empty() && unsent_.front().left_us <= network_.simulation().now_us()) {
    unsent_bytes_ -= unsent_.front().bytes;
    unsent_.pop_front();
  }
  return unsent_bytes_;
}

int64_t Pipe::UnsentUntilUs(size_t bytes) {
  size_t left = unsent_bytes();
  for (const Unsent& packet : unsent_) {
    if (left <= bytes) break;
    left -= packet.bytes;
    if (left <= bytes) return packet.left_us;
  }
  return network_.simulation().now_us();
}

void Pipe::SchedulePump() {
  if (scheduled_ || packets_.empty()) return;
  scheduled_ = true;
  Simulation& simulation = network_.simulation();
  simulation.After(std::max<int64_t>(0, packets_.front().arrival_us - simulation.now_us()),
                   [self = shared_from_this()] {
                     self->scheduled_ = false;
                     self->Pump();
                   });
}

void Pipe::Resume() {
  scheduled_ = false;
  SchedulePump();
}

void Pipe::Pump() {
  while (end_ != nullptr && !packets_.empty()) {
    if (packets_.front().arrival_us > network_.simulation().now_us()) return SchedulePump();
    if (!network_.IsOpen(from_, to_) || !end_->CanReceive()) {
      scheduled_ = true;
      network_.AddStalled(shared_from_this());
      return;
    }
    Packet packet = std::move(packets_.front());
    packets_.pop_front();
    bytes_ -= packet.bytes.size();
    if (packet.is_end) {
      PipeEnd* end = std::exchange(end_, nullptr);
      end->OnEnd();
    } else {
      end_->OnPacket(std::move(packet.bytes));
      if (delivered_) delivered_();
    }
  }
}

}  // namespace quorate::simulation
