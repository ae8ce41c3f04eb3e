#pragma once
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "strategies/collectives/collective.hpp"
#include "strategies/mechanisms/central/central_plan.hpp"
#include "strategies/mechanisms/servers/key_split.hpp"
#include "strategies/mechanisms/servers/server_board.hpp"

namespace trainyard {

class PassTables;

/// When a server lets a worker go on (Li et al. 2014). synchronous: when the gradients of all workers, or of the first
/// so many, are in one sum and applied. stale: its gradient is applied, and it is at most so many steps ahead of the
/// slowest worker (stale synchronous parallel, Ho et al. 2013). asynchronous: its gradient is applied.
enum class Consistency : std::uint8_t { synchronous, stale, asynchronous };
const std::vector<std::string>& consistency_names();

/// What a server makes of the sum of a step's gradients.
struct ServerRule {
  std::string name;
  bool updates = true;    ///< runs the optimizer and answers with weights; else with what it keeps, and workers update
  bool averages = false;  ///< keeps the mean of all workers' gradients
};
/// optimizer, sum, mean. MXNet's kvstore knows the first two (update_on_kvstore), BytePS the sum.
const std::vector<ServerRule>& server_rules();

/// Copies of keys on several servers (Li et al. 2014, 4.3): the next servers, in a ring, have what one has. What has been
/// updated is copied (a sum once it is whole, "replication after aggregation"), and workers are answered when all copies
/// are there. chain: each copy is passed on by the one before (van Renesse & Schneider 2004). parallel: the first server
/// sends them all.
struct Replication {
  enum class Forward : std::uint8_t { chain, parallel };
  int copies = 1;  ///< of each key; 1: it is on one server
  Forward forward = Forward::chain;
  Bytes state;  ///< of one element besides the weight: what the optimizer needs to go on elsewhere

  bool used() const { return copies > 1; }
  /// Servers that one sends copies to, of its own keys or as it passes them on; so many send to it.
  int targets() const { return forward == Forward::chain ? std::min(1, copies - 1) : copies - 1; }
};
constexpr int kMostCopies = 8;

/// Workers that push together: their gradients meet on the first of them before they leave the node, and its aggregator
/// (an actor of its own, on that GPU or on a CPU) pushes their sum and pulls what all of them get.
struct LocalGroup {
  std::vector<Actor> workers;
};
struct LocalAggregation {
  std::vector<LocalGroup> groups;  ///< empty: each worker pushes by itself
  bool on_cpu = false;             ///< the aggregators
  const Collective *reduce = nullptr, *broadcast = nullptr;
  CollectiveSettings settings;

  bool used() const { return !groups.empty(); }
};

/// Parameter servers and their workers. Workers are actors 0 … workers − 1, servers come next, and after them, where
/// there are backup workers, the chief: the run is over when every server has told it that all steps are done; or, with
/// local aggregation, the aggregators. Whom servers deal with are clients: workers, or aggregators.
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
  double elements = 0;                   ///< of all keys
  std::vector<int> server_of;            ///< by key
  std::vector<std::size_t> first_slice;  ///< by key: see SharedKeys
  Consistency consistency = Consistency::synchronous;
  int staleness = 0;       ///< of Consistency::stale: steps
  int backup_workers = 0;  ///< synchronous: a step takes the first workers − so many; late gradients are dropped
  /// λ by worker (not synchronous): a worker updates its own weights and pushes these, w ← w + λ (w_k − w). Empty:
  /// gradients are pushed and applied.
  std::vector<double> worker_weights;
  Work mixing;  ///< of one element of such weights
  ServerRule rule;
  LocalAggregation local;
  Replication replication;

  int workers() const { return base.replicas; }
  int clients() const { return local.used() ? static_cast<int>(local.groups.size()) : workers(); }
  /// The actor that a client is: of the first one; others follow.
  Actor first_client() const { return local.used() ? workers() + servers : 0; }
  std::size_t keys() const { return base.step.stages.front().buckets.size(); }
  const GradientBucket& key(std::size_t k) const { return base.step.stages.front().buckets[k]; }
  bool mixes() const { return !worker_weights.empty(); }
  /// Who runs the optimizer on gradients that came from all?
  bool workers_update() const { return !rule.updates; }
  /// Slices of one key, next to each other: within a node they are one. Most keys are the only ones of themselves.
  struct Slices {
    std::size_t first = 0, count = 1;
    Bytes push, pull;  ///< of all of them
  };
  /// Of the key whose last slice this is; none (count 0) of other slices.
  Slices slices_up_to(std::size_t k) const;
  Bytes push_bytes(std::size_t k) const;
  /// Of compressed gradients: what a worker sends of a key, and what a server's memory moves to decode it.
  struct Payload {
    Bytes bytes, decode;
  };
  Payload payload(std::size_t k) const;
  Bytes pull_bytes(std::size_t k) const;
  /// Of all elements; an even part where keys have none.
  double share_of(std::size_t k) const;
  /// What a server copies to another one of an updated key.
  Bytes copy_bytes(std::size_t k) const;
  /// The server that has copy `copy` of the keys of `server`; 0: itself.
  int holder(int server, int copy) const { return (server + copy) % servers; }
  int actors() const { return workers() + servers + (backup_workers > 0 ? 1 : 0) + (local.used() ? clients() : 0); }
};

/// "8W2PS": workers and servers. Throws UserError at `where`.
struct ServerLabel {
  int workers = 1, servers = 1;
};
ServerLabel parse_server_label(const std::string&, const Place& where);

/// The plan of such workers (see `without_all_reduce`) with so many servers that share out the keys, their buckets;
/// `mixing` is said. Throws UserError at `where` for more servers than keys, unless keys are split, and for more keys than
/// are told apart.
ServerPlan server_plan(TrainingPlan workers, int servers, KeySharding, const Place& where, const KeySplit& = {});

/// Calls of the servers' programs, besides those of training_calls.hpp. They are about a ServerPush.
enum class ServerCall : std::uint16_t {
  first = 48,    ///< a key's first gradient of a step: the sum so far
  add,           ///< a further one
  update,        ///< the sum is applied
  apply,         ///< one gradient, or one worker's weights, into the weights
  drop,          ///< too late: nothing
  local_update,  ///< a worker's own weights of a key; index: the key
  copied,        ///< a copy of a key has arrived from another server
  // Slices of one key, `index` the first, in a node; see `joined_slices`.
  join_gradients,    ///< into one
  join_answers,      ///< the same of what servers have answered
  separate_answers,  ///< the other way
};
/// The index of the buffer (of gradients, or parameters) that has all slices of a key.
std::size_t joined_slices(const ServerPlan&, const ServerPlan::Slices&);
struct ServerPush {
  std::size_t key = 0;
  int worker = 0;             ///< or aggregator: the client
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
