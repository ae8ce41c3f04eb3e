#pragma once
#include <vector>

#include "strategies/mechanisms/servers/server_plan.hpp"

namespace trainyard {

/// What a server knows of its keys besides their weights: whose pushes are in them, and who may go on. Keys are counted
/// from 0 on each server.
class ServerKeys {
 public:
  ServerKeys(int server, const ServerPlan&, ServerBoard&);

  std::size_t count() const { return keys_.size(); }
  std::size_t number(std::size_t key) const { return keys_[key].number; }  ///< in the plan
  std::size_t of_number(std::size_t number) const;                         ///< the other way
  double share() const { return share_; }                                  ///< of all elements

  struct Arrival {
    std::size_t key;
    ServerCall what;  ///< becomes of it
  };
  /// A worker's (or other client's) next push has arrived; they come in the order of its keys.
  Arrival arrived(std::size_t worker);
  /// What became of a push (or of a sum, whoever the worker) has been done. Whom the server answers now with the key's
  /// weights; valid until the next call.
  const std::vector<std::size_t>& done(ServerCall, std::size_t worker, std::size_t key, Seconds now);
  /// All gradients of a step are in the sum, which is to be applied.
  bool sum_is_whole(std::size_t key) const { return keys_[key].added == takes_; }
  /// A key's weights leave for a worker.
  void given(std::size_t worker, std::size_t key);
  /// Has the worker made its last step? Then the answer is that it has been applied.
  bool has_ended(std::size_t worker, std::size_t key) const;
  /// All keys have had as many updates, of a synchronous run.
  bool step_is_over() const;
  /// All keys have had all updates, of a synchronous run.
  bool all_updated() const;

 private:
  struct Key {
    std::size_t number = 0;
    std::uint32_t version = 0;
    std::vector<std::uint32_t> pulled;  // by worker: the version that it was given last
    std::vector<std::uint32_t> pushes;  // by worker: those that were applied
    std::uint32_t slowest = 0;          // the least of these
    std::size_t slowest_workers = 0;    // that have no more
    int taken = 0, added = 0;           // gradients of a synchronous step
    std::vector<std::size_t> waiting;   // workers whose push is not answered yet
  };
  const ServerPlan& plan_;
  ServerBoard& board_;
  std::vector<Key> keys_;
  std::vector<std::uint64_t> pushes_;  // by worker: that have arrived
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
