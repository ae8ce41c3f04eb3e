#pragma once
#include <memory>
#include <string>
#include <vector>

#include "strategies/mechanisms/central/central_plan.hpp"
#include "strategies/mechanisms/servers/server_board.hpp"

namespace trainyard {

class PassTables;

/// When a server lets a worker go on (Li et al. 2014). synchronous: when the gradients of all workers, or of the first
/// so many, are in one sum and applied. stale: its gradient is applied, and it is at most so many steps ahead of the
/// slowest worker (stale synchronous parallel, Ho et al. 2013). asynchronous: its gradient is applied.
enum class Consistency : std::uint8_t { synchronous, stale, asynchronous };
const std::vector<std::string>& consistency_names();

/// How keys are shared out among servers: in turn; the largest first, each to the server that has least; or every key
/// cut into even parts, one a server (as MXNet does with large arrays).
enum class KeySharding : std::uint8_t { round_robin, balanced, split };
const std::vector<std::string>& key_sharding_names();
/// The server of each key, of which `split` expects parts (see `split_keys`).
std::vector<int> share_keys(const std::vector<GradientBucket>& keys, int servers, KeySharding);

/// Every key cut into so many near-equal parts of whole elements, one after the other.
std::vector<GradientBucket> split_keys(const std::vector<GradientBucket>& keys, int parts);

/// Parameter servers and their workers. Workers are actors 0 … workers − 1, servers come next, and after them, where
/// there are backup workers, the chief: the run is over when every server has told it that all steps are done.
///
/// A worker pushes each key as its gradient gets final, and gets the key's weights as the answer, for its next step; it
/// computes a layer as soon as it has that one's. The first weights come unasked.
///
/// A worker that fails (ActorChange) is waited for in vain by whoever is in step with it, and by those who may not get
/// further ahead of it. Asynchronous servers go on with the others, until these have ended.
struct ServerPlan {
  /// Mechanism parameter_server: a worker's passes; its buckets are the keys, `replicas` the workers, `memory` what all
  /// servers together hold.
  CentralPlan base;
  int servers = 1;
  std::vector<int> server_of;  ///< by key
  Consistency consistency = Consistency::synchronous;
  int staleness = 0;       ///< of Consistency::stale: steps
  int backup_workers = 0;  ///< synchronous: a step takes the first workers − so many; late gradients are dropped
  /// λ by worker (not synchronous): a worker updates its own weights and pushes these, w ← w + λ (w_k − w). Empty:
  /// gradients are pushed and applied.
  std::vector<double> worker_weights;
  Work mixing;  ///< of one element of such weights

  int workers() const { return base.replicas; }
  std::size_t keys() const { return base.step.stages.front().buckets.size(); }
  const GradientBucket& key(std::size_t k) const { return base.step.stages.front().buckets[k]; }
  bool mixes() const { return !worker_weights.empty(); }
  Bytes push_bytes(std::size_t k) const;
  Bytes pull_bytes(std::size_t k) const;
  /// Of all elements; an even part where keys have none.
  double share_of(std::size_t k) const;
  int actors() const { return workers() + servers + (backup_workers > 0 ? 1 : 0); }
};

/// "8W2PS": workers and servers. Throws UserError at `where`.
struct ServerLabel {
  int workers = 1, servers = 1;
};
ServerLabel parse_server_label(const std::string&, const Place& where);

/// The plan of such workers (see `without_all_reduce`) with so many servers that share out the keys, their buckets;
/// `mixing` is said. Throws UserError at `where` for more servers than keys.
ServerPlan server_plan(TrainingPlan workers, int servers, KeySharding, const Place& where);

/// Calls of the servers' programs, besides those of training_calls.hpp. They are about a ServerPush.
enum class ServerCall : std::uint16_t {
  first = 48,    ///< a key's first gradient of a step: the sum so far
  add,           ///< a further one
  update,        ///< the sum is applied
  apply,         ///< one gradient, or one worker's weights, into the weights
  drop,          ///< too late: nothing
  local_update,  ///< a worker's own weights of a key; index: the key
};
struct ServerPush {
  std::size_t key = 0;
  int worker = 0;
  std::uint16_t arrival = 0;  ///< the buffer in which it has arrived; not of ServerCall::update

  Effect effect(ServerCall) const;
  static ServerPush of(const CallArguments&);
};

/// Streams of these programs, for traces.
std::vector<std::string> server_streams(const ServerPlan&);

/// All steps of one actor. Everything must outlive the program; the board is of this run.
std::unique_ptr<Program> server_program(Actor, const ServerPlan&, const PassTables&, const CentralWords&, ServerBoard&);
/// Of all actors.
Programs server_programs(const ServerPlan&, const PassTables&, const CentralWords&, ServerBoard&);

}  // namespace trainyard
