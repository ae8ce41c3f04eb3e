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

/// The condition under which a server answers a worker (Li et al. 2014). synchronous: the sum of the gradients of all
/// workers, or with backup workers of the first ones, has been applied. stale: the worker's gradient has been applied,
/// and the worker is at most `staleness` steps ahead of the slowest one (stale synchronous parallel, Ho et al. 2013).
/// asynchronous: the worker's gradient has been applied.
enum class Consistency : std::uint8_t { synchronous, stale, asynchronous };
const std::vector<std::string>& consistency_names();

/// Rule by which a server uses the gradients of a step.
struct ServerRule {
  std::string name;
  /// The server runs the optimizer and answers with weights. False: it answers with gradients, and workers update.
  bool updates = true;
  bool averages = false;  ///< the server answers with the mean of all workers' gradients
};
/// The rules optimizer, sum and mean. MXNet's kvstore has the first two (update_on_kvstore), BytePS the sum.
const std::vector<ServerRule>& server_rules();

/// Copies of keys on several servers (Li et al. 2014, 4.3): the next servers in a ring hold copies of a server's keys.
/// A key is copied after each update (in a synchronous step once, "replication after aggregation"), and workers are
/// answered when all copies are confirmed. chain: each server forwards the copy to the next (van Renesse & Schneider
/// 2004). parallel: the server of the key sends all copies.
struct Replication {
  enum class Forward : std::uint8_t { chain, parallel };
  int copies = 1;  ///< number of servers that hold each key; 1: no replication
  Forward forward = Forward::chain;
  Bytes state;  ///< size of the optimizer state of one element, which is copied with the weight

  bool is_used() const { return copies > 1; }
  /// Number of servers to which a server sends or forwards copies. The same number of servers send copies to it.
  int targets() const { return forward == Forward::chain ? std::min(1, copies - 1) : copies - 1; }
};
constexpr int kMostCopies = 8;

/// The workers of a node, which push together: their gradients are reduced to the first of them. The aggregator of the
/// node, an actor of its own on that GPU or on a CPU, pushes the sum and pulls the answer for all of them.
struct LocalGroup {
  std::vector<Actor> workers;
};
struct LocalAggregation {
  std::vector<LocalGroup> groups;  ///< empty: each worker pushes by itself
  bool on_cpu = false;             ///< aggregators are on CPUs; false: on GPUs
  const Collective *reduce = nullptr, *broadcast = nullptr;
  CollectiveSettings settings;

  bool is_used() const { return !groups.empty(); }
};

/// The rules by which servers and workers train, as a plan states them.
struct ServerRules {
  Consistency consistency = Consistency::synchronous;
  int staleness = 0;  ///< with Consistency::stale: steps that a worker may be ahead of the slowest one
  /// Synchronous only: a step takes the first workers − backup_workers gradients and drops the rest.
  int backup_workers = 0;
  /// λ by worker (not synchronous): a worker updates its own weights and pushes them; the server computes
  /// w ← w + λ (w_k − w). Empty: workers push gradients, which are applied.
  std::vector<double> mixing_shares;
  /// Factor on each worker's gradients (not synchronous). Empty: all count alike.
  std::vector<double> worker_weights;
  ServerRule rule = server_rules().front();
  Replication replication;
};

/// Parameter servers and their workers. Workers are actors 0 … workers − 1, followed by the servers. With backup
/// workers the chief comes next: the run is over when every server has told it that all steps are done. With local
/// aggregation the aggregators come next. The clients of the servers are the workers, or the aggregators.
///
/// A worker pushes each key as soon as its gradient is final. The answer brings the key's weights for the next step.
/// The worker computes a layer as soon as it has the layer's weights. Servers send the first weights without a push.
///
/// If a worker fails (ActorChange), workers that are in step with it, or that may not get further ahead of it, wait
/// forever. Asynchronous servers continue with the other workers until these have ended.
struct ServerPlan : ServerRules {
  /// Plan of the workers: its buckets are the keys, `replicas` is the number of workers, and `memory` is the memory of
  /// all servers together.
  CentralPlan base;
  int servers = 1;
  double elements = 0;                   ///< number of elements of all keys
  std::vector<int> server_of;            ///< server by key
  std::vector<std::size_t> first_slice;  ///< first slice by key: see SharedKeys
  Work mixing;                           ///< work of one element that mixes by `mixing_shares`
  LocalAggregation local;

  int workers() const { return base.replicas; }
  int clients() const { return local.is_used() ? static_cast<int>(local.groups.size()) : workers(); }
  /// The actor of the first client. The other clients follow.
  Actor first_client() const { return local.is_used() ? workers() + servers : 0; }
  std::size_t keys() const { return base.step.stages.front().buckets.size(); }
  const GradientBucket& key(std::size_t k) const { return base.step.stages.front().buckets[k]; }
  bool mixes() const { return !mixing_shares.empty(); }
  /// True if workers run the optimizer, on the combined gradients of all workers.
  bool workers_update() const { return !rule.updates; }
  /// The slices of one key. They are consecutive keys; within a node they are sent as one. Most keys have one slice.
  struct Slices {
    std::size_t first = 0, count = 1;
    Bytes push, pull;  ///< sizes of all slices together
  };
  /// The slices of the key whose last slice is `k`; count 0 if `k` is not a last slice.
  Slices slices_up_to(std::size_t k) const;
  Bytes push_bytes(std::size_t k) const;
  /// For compressed gradients of a key: the size of a push, and the memory traffic of a server that decodes it.
  struct Payload {
    Bytes bytes, decode;
  };
  Payload payload(std::size_t k) const;
  Bytes pull_bytes(std::size_t k) const;
  /// Share of a key in all elements; the same for every key if keys have no elements.
  double share_of(std::size_t k) const;
  /// The part of some work on all keys that one key takes.
  Work work_of_key(Work all, std::size_t k) const {
    all.flops = all.flops * share_of(k);
    all.bytes = all.bytes * share_of(k);
    return all;
  }
  /// Size of a copy of an updated key that a server sends to another.
  Bytes copy_bytes(std::size_t k) const;
  /// The server that holds copy number `copy` of the keys of `server`. Copy 0 is on the server itself.
  int holder(int server, int copy) const { return (server + copy) % servers; }
  int actors() const { return workers() + servers + (backup_workers > 0 ? 1 : 0) + (local.is_used() ? clients() : 0); }
};

struct ServerLabel {
  int workers = 1, servers = 1;
};
/// Parses numbers of workers and servers such as "8W2PS". Throws UserError at `where`.
ServerLabel parse_server_label(const std::string&, const Place& where);

/// The plan of `workers` (see `without_all_reduce`) with `servers` servers, over which the buckets are distributed as
/// keys. It sets `mixing`. Throws UserError at `where` if there are more servers than keys and keys are not split, or
/// more than 65535 keys.
ServerPlan server_plan(TrainingPlan workers, int servers, KeySharding, const Place& where, const KeySplit& = {});

/// Calls of the servers' programs in addition to those of training_calls.hpp. Their argument is a ServerPush.
enum class ServerCall : std::uint16_t {
  first = 48,    ///< starts the sum of a step with a key's first gradient
  add,           ///< adds a further gradient to the sum
  update,        ///< applies the sum to the weights
  apply,         ///< applies one gradient, or one worker's weights, to the weights
  drop,          ///< drops a gradient that came too late
  local_update,  ///< a worker updates its own weights of a key; `index` is the key
  copied,        ///< stores a copy of a key from another server
  // Calls about the slices of one key in a node; `index` is the first slice. See `joined_slices`.
  join_gradients,    ///< joins the slices of a gradient in one buffer
  join_answers,      ///< joins the slices of an answer in one buffer
  separate_answers,  ///< cuts a joined answer into its slices
};
/// The index of the buffer (of gradients, or parameters) that contains all slices of a key.
std::size_t joined_slices(const ServerPlan&, const ServerPlan::Slices&);
/// A push of a client to a server.
struct ServerPush {
  std::size_t key = 0;
  int worker = 0;             ///< number of the client: a worker or an aggregator
  std::uint16_t arrival = 0;  ///< the buffer in which it has arrived; unused by ServerCall::update

  Effect effect(ServerCall) const;
  static ServerPush from_call(const CallArguments&);
};

/// Names of the streams of these programs, for traces.
std::vector<std::string> server_streams(const ServerPlan&);

/// Program of all steps of one actor. The arguments must outlive it; all actors of a run share one board.
std::unique_ptr<Program> server_program(Actor, const ServerPlan&, const PassTables&, const CentralNames&, ServerBoard&);
/// The programs of all actors.
Programs server_programs(const ServerPlan&, const PassTables&, const CentralNames&, ServerBoard&);

}  // namespace trainyard
