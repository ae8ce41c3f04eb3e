#pragma once
#include <vector>

#include "strategies/mechanisms/servers/server_plan.hpp"

namespace trainyard {

/// The state of a server's keys without their weights: which pushes they contain, and which workers may continue. Keys
/// are counted from 0 on each server.
class ServerKeys {
 public:
  ServerKeys(int server, const ServerPlan&, ServerBoard&);

  std::size_t count() const { return keys_.size(); }
  std::size_t number(std::size_t key) const { return keys_[key].number; }  ///< number of the key in the plan
  std::size_t index_of_number(std::size_t number) const;                   ///< inverse of `number`
  double share() const { return share_; }                                  ///< share of all elements

  struct Arrival {
    std::size_t key;
    ServerCall what;  ///< what the server does with it
  };
  /// The next push of a worker, or of another client, has arrived. Pushes arrive in the order of the keys.
  Arrival on_push(std::size_t worker);
  /// The server has processed a push, or a sum (`worker` is ignored then). Returns the workers that it answers now with
  /// the key's weights; valid until the next call.
  const std::vector<std::size_t>& on_done(ServerCall, std::size_t worker, std::size_t key, Seconds now);
  /// The sum contains all gradients of a step and can be applied.
  bool sum_is_whole(std::size_t key) const { return keys_[key].added == takes_; }
  /// The server sends a key's weights to a worker.
  void on_weights_sent(std::size_t worker, std::size_t key);
  /// True if the worker's last step has been applied. The answer then only confirms this.
  bool has_ended(std::size_t worker, std::size_t key) const;
  /// In a synchronous run: all keys have had the same number of updates.
  bool step_is_over() const;
  /// In a synchronous run: all keys have had all updates.
  bool all_updated() const;

 private:
  struct Key {
    std::size_t number = 0;
    std::uint32_t version = 0;
    std::vector<std::uint32_t> pulled;  // indexed by worker: the version that it was sent last
    std::vector<std::uint32_t> pushes;  // indexed by worker: number of its pushes that were applied
    std::uint32_t slowest = 0;          // the smallest of these numbers
    std::size_t slowest_workers = 0;    // number of workers with that number
    int taken = 0, added = 0;           // gradients of a synchronous step that have arrived, and that were added
    std::vector<std::size_t> waiting;   // workers whose push is not answered yet
  };
  const ServerPlan& plan_;
  ServerBoard& board_;
  std::vector<Key> keys_;
  std::vector<std::uint64_t> pushes_;  // indexed by worker: number of pushes that have arrived
  std::vector<std::size_t> answers_;
  int takes_;
  double share_ = 0;

  std::uint32_t steps() const { return static_cast<std::uint32_t>(plan_.base.step.steps); }
  bool synchronous() const { return plan_.consistency == Consistency::synchronous; }
  void update(Key&);
  void apply(Key&, std::size_t worker, Seconds now);
  bool may_go_on(const Key&, std::size_t worker) const;
};

}  // namespace trainyard
