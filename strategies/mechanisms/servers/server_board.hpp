#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <tuple>
#include <vector>

#include "sim/units.hpp"

namespace trainyard {

/// What servers of a run agree on without messages (whose gradients a step takes, as the tokens of a chief would say),
/// and what is counted of a run in its steady part: from when every worker has done so many steps until the first has
/// done all of them. Memory does not depend on the number of steps.
class ServerBoard {
 public:
  /// `takes`: workers whose gradients make a step; fewer than `workers` where some are backups.
  /// `warm`: the steps before the steady part; at least 1.
  ServerBoard(int workers, int takes, int steps, std::size_t keys, int warm = 1);

  /// A worker was given the weights of a key that so many updates have been made to.
  void given(int worker, std::uint32_t version);
  /// A push of a worker's so manyth step (from 0) has arrived: is it among those that the step of its weights takes?
  bool takes(int worker, std::uint32_t step);
  /// A push of a worker has been dealt with: its key's weights have changed so many times since it was given them.
  void applied(int worker, std::uint32_t staleness, Seconds now);
  void dropped(int worker, Seconds now);

  /// What is on its way from one server to another, of which key: messages between two arrive in the order of sending.
  enum class What : std::uint8_t { copy, confirmation };
  void sent(What what, int from, int to, std::size_t key) { on_the_way_[{what, from, to}].push_back(key); }
  std::size_t taken(What, int from, int to);

  /// Steps of all workers a second, in the steady part: each worker's between its own first and last end of a step there.
  double steps_per_s() const;
  const std::map<std::uint32_t, std::uint64_t>& staleness() const { return staleness_; }  ///< pushes of keys
  std::uint64_t dropped_pushes() const { return dropped_; }                               ///< of keys

 private:
  static constexpr std::uint32_t kMixed = 0xffffffff;
  struct Worker {
    std::uint32_t lowest = kMixed, highest = 0;  // version of the weights that it is being given
    std::size_t given = 0;                       // keys of them
    std::uint32_t version = kMixed;              // of its present step; kMixed: keys of different ones
    std::uint32_t step = kMixed;                 // its own count
    bool taken = false;
    std::size_t pushes = 0;  // of its present step, dealt with
    int done = 0;            // steps
    int counted = -1;        // ends of steps in the steady part after the first of them
    Seconds first, last;     // of these ends
  };
  std::vector<Worker> workers_;
  int takes_, steps_, warm_;
  std::size_t keys_;
  std::uint32_t step_ = 0;  // that is being gathered
  int taken_ = 0;
  int begun_ = 0;  // workers that have done their warm steps
  bool steady_ = false, frozen_ = false;
  Seconds from_, to_;
  std::uint64_t steps_done_ = 0, dropped_ = 0;
  std::map<std::uint32_t, std::uint64_t> staleness_;
  std::map<std::tuple<What, int, int>, std::deque<std::size_t>> on_the_way_;

  void dealt_with(Worker&, Seconds now);
};

}  // namespace trainyard
