#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <tuple>
#include <vector>

#include "sim/units.hpp"

namespace trainyard {

/// State that the servers of a run share without messages: which gradients a step takes (real servers get tokens from a
/// chief), and the statistics of the steady part. The steady part begins when every worker has done `warm` steps, and
/// ends when the first worker has done all its steps. The state does not grow with the number of steps.
class ServerBoard {
 public:
  /// `takes`: number of workers whose gradients make a step; fewer than `workers` if some are backups.
  /// `warm`: number of steps before the steady part; at least 1.
  ServerBoard(int workers, int takes, int steps, std::size_t keys, int warm = 1);

  /// Records that a worker is sent the weights of a key after `version` updates.
  void count_weights_sent(int worker, std::uint32_t version);
  /// Records that a push of the worker's step `step` (from 0) has arrived. Returns true if the present step of its
  /// weights takes these gradients.
  bool take_push(int worker, std::uint32_t step);
  /// Records that a push of a worker has been applied. `staleness`: updates since the worker was sent the key's weights.
  void count_applied(int worker, std::uint32_t staleness, Seconds now);
  void count_dropped(int worker, Seconds now);

  /// Messages between servers: a copy of a key or its confirmation. Messages between two servers arrive in the order of
  /// sending.
  enum class MessageKind : std::uint8_t { copy, confirmation };
  void add_in_flight(MessageKind kind, int from, int to, std::size_t key) {
    in_flight_[{kind, from, to}].push_back(key);
  }
  /// Returns the key of the next message to arrive.
  std::size_t take_in_flight(MessageKind, int from, int to);

  /// Sum over all workers of their steps per second in the steady part. A worker's rate is measured between its own
  /// first and last end of a step there.
  double steps_per_s() const;
  /// Number of pushes of keys by their staleness.
  const std::map<std::uint32_t, std::uint64_t>& staleness() const { return staleness_; }
  std::uint64_t dropped_pushes() const { return dropped_; }  ///< number of dropped pushes of keys

 private:
  static constexpr std::uint32_t kMixed = 0xffffffff;
  struct Worker {
    std::uint32_t lowest = kMixed, highest = 0;  // versions of the weights that are being sent to it
    std::size_t keys_given = 0;                  // number of keys whose weights were sent
    std::uint32_t version = kMixed;              // version of the weights of its present step; kMixed: several
    std::uint32_t step = kMixed;                 // its present step
    bool is_taken = false;                       // true: the pushes of its present step are taken
    std::size_t pushes = 0;                      // processed pushes of its present step
    int steps_done = 0;
    int steady_steps = -1;  // number of steps that it has ended in the steady part, less one
    Seconds first, last;    // times of the first and the last of these ends
  };
  std::vector<Worker> workers_;
  int takes_, steps_, warm_;
  std::size_t keys_;
  std::uint32_t step_ = 0;   // the step whose gradients are being collected
  int taken_gradients_ = 0;  // number of workers whose gradients this step has taken
  int warm_workers_ = 0;     // number of workers that have done their warm-up steps
  bool is_steady_ = false, is_frozen_ = false;
  Seconds begin_, end_;
  std::uint64_t steps_done_ = 0, dropped_ = 0;
  std::map<std::uint32_t, std::uint64_t> staleness_;
  std::map<std::tuple<MessageKind, int, int>, std::deque<std::size_t>> in_flight_;

  void finish_push(Worker&, Seconds now);
};

}  // namespace trainyard
