// A worker whose gradients are summed in its node before they are pushed: the first worker of the node passes the sum
// to the aggregator and broadcasts the answer. The aggregator, a static program, pushes the sums and forwards the answers.
#include <algorithm>

#include "sim/index.hpp"
#include "strategies/mechanisms/servers/server_step.hpp"
#include "strategies/mechanisms/servers/server_worker.hpp"

namespace trainyard {
namespace {

/// A worker's group, and its index in the group.
struct LocalPlace {
  std::size_t group = 0;
  int index = 0;

  LocalPlace(const ServerPlan& plan, Actor worker) {
    for (; group < plan.local.groups.size(); ++group) {
      const std::vector<Actor>& workers = plan.local.groups[group].workers;
      index = static_cast<int>(std::ranges::find(workers, worker) - workers.begin());
      if (index < static_cast<int>(workers.size())) return;
    }
  }
};

class LocalWorker : public ServerWorker {
 public:
  LocalWorker(LocalPlace place, const ServerPlan& plan, const PassTables& tables, const CentralNames& words)
      : ServerWorker(plan, tables, words, slots_of(place, plan), kLocalStreams),
        workers_(plan.local.groups[place.group].workers),
        place_{place.index, static_cast<int>(workers_.size()), &plan.local.settings},
        reduce_peers_(peers_of(*plan.local.reduce, place_)),
        broadcast_peers_(peers_of(*plan.local.broadcast, place_)) {}

 protected:
  Ops push(std::size_t key) override {
    if (step_.values) co_yield call(TrainingCall::fill_bucket, key);
    const ServerPlan::Slices all = servers_.slices_up_to(key);
    if (all.count == 0) co_return;
    if (step_.values && all.count > 1) co_yield call(ServerCall::join_gradients, all.first);
    const CollectiveCall reduce{.send_stream = kReduce,
                                .recv_stream = kReduce + 1,
                                .group = words_.gradients,
                                .name = words_.local_reduce,
                                .tag = local_tag(LocalTag::reduce, all.first),
                                .group_of = workers_.front(),
                                .buffer = buffer_of(TrainingBuffer::Kind::gradients, joined_slices(servers_, all)),
                                .start = out_.last_operation(compute)};
    co_yield collective_ops(*servers_.local.reduce, Local(out_, place_, reduce_peers_, reduce, all.push), all.push);
    if (!is_first()) co_return;
    Op& op = put_message(Kind::send, kUp, words_.up, words_.gradients, aggregator_slot(),
                         local_tag(LocalTag::up, all.first));
    op.message.bytes = servers_.local.on_cpu ? all.push : Bytes{0};
    op.deps[0] = out_.last_operation(compute);
    op.deps[1] = out_.last_operation(kReduce + 1);
    op.effect.read = whole_buffer(TrainingBuffer::Kind::gradients, joined_slices(servers_, all));
    co_yield out_.emit();
  }
  Ops pull_key(std::size_t key) override {
    const ServerPlan::Slices all = servers_.slices_up_to(key);
    if (all.count == 0) co_return;
    const std::size_t joined = joined_slices(servers_, all);
    if (is_first()) {
      Op& op = put_message(Kind::recv, kDown, words_.down, words_.parameters, aggregator_slot(),
                           local_tag(LocalTag::down, all.first));
      if (step_.values) op.write_to(whole_buffer(TrainingBuffer::Kind::parameters, joined));
      co_yield out_.emit();
    }
    const CollectiveCall broadcast{.send_stream = kBroadcast,
                                   .recv_stream = kBroadcast + 1,
                                   .first_slot = static_cast<std::uint16_t>(reduce_peers_.size()),
                                   .group = words_.parameters,
                                   .name = words_.local_broadcast,
                                   .tag = local_tag(LocalTag::broadcast, all.first),
                                   .group_of = workers_.front(),
                                   .buffer = buffer_of(TrainingBuffer::Kind::parameters, joined),
                                   .start = out_.last_operation(kDown)};
    co_yield collective_ops(*servers_.local.broadcast, Local(out_, place_, broadcast_peers_, broadcast, all.pull),
                            all.pull);
    if (step_.values) co_yield take(all);
    for (std::size_t k = all.first; k < all.first + all.count; ++k)
      set_arrival(k, is_first() && !step_.values ? kDown : kBroadcast + 1);
  }
  /// If servers update, only the aggregator waits until all pushes are applied.
  Ops last_answers() override {
    if (!servers_.workers_update()) co_return;
    co_yield pull(true);
    co_yield update_all();
  }

 private:
  // Streams. A collective sends on this one and receives on the next.
  static constexpr Stream kReduce = 1, kBroadcast = 3, kUp = 5, kDown = 6;
  static constexpr int kLocalStreams = 7;
  const std::vector<Actor>& workers_;
  GroupPlace place_;
  std::vector<int> reduce_peers_, broadcast_peers_;

  bool is_first() const { return place_.index == 0; }
  std::size_t aggregator_slot() const { return peers() - 1; }

  Ops take(ServerPlan::Slices all) {
    Op& wait = out_.begin(Kind::mark, kBroadcast + 1, words_.wait_for_messages);
    wait.deps[0] = out_.last_operation(compute);  // parameters must not change during the computation
    wait.deps[1] = out_.last_operation(kDown);
    co_yield out_.emit();
    if (all.count > 1) co_yield call_on(kBroadcast + 1, ServerCall::separate_answers, all.first);
    for (std::size_t k = all.first; k < all.first + all.count; ++k)
      co_yield call_on(kBroadcast + 1, TrainingCall::take_parameters, k);
  }

  /// The peers of the reduction, those of the broadcast, then the aggregator.
  static std::vector<Actor> slots_of(LocalPlace worker, const ServerPlan& plan) {
    const std::vector<Actor>& workers = plan.local.groups[worker.group].workers;
    const GroupPlace place{worker.index, static_cast<int>(workers.size()), &plan.local.settings};
    std::vector<Actor> slots;
    for (const Collective* algorithm : {plan.local.reduce, plan.local.broadcast})
      for (const int peer : peers_of(*algorithm, place)) slots.push_back(workers[peer]);
    slots.push_back(plan.first_client() + static_cast<Actor>(worker.group));
    return slots;
  }
};

/// The servers, then the first worker of the node.
std::vector<Actor> peers_of_aggregator(const ServerPlan& plan, const LocalGroup& group) {
  std::vector<Actor> peers = consecutive_numbers(plan.workers(), plan.servers);
  peers.push_back(group.workers.front());
  return peers;
}

class Aggregator : public CentralStep {
 public:
  Aggregator(const LocalGroup& group, const ServerPlan& plan, const PassTables& tables, const CentralNames& words)
      : CentralStep(plan.base, tables, words, peers_of_aggregator(plan, group), aggregator_streams_of(plan), false),
        servers_(plan),
        stream_pairs_(std::min(plan.servers, kAggregatorStreamPairs)) {}

 protected:
  Ops run() override {
    co_yield book_memory(buffer_bytes(), MemoryClass::buffers);
    for (int step = 0; step < step_.steps; ++step) {
      for (std::size_t i = 0; (step > 0 || !servers_.workers_update()) && i < servers_.keys(); ++i)
        co_yield pull(step > 0 ? i : servers_.keys() - 1 - i, true);
      for (std::size_t key = 0; key < servers_.keys(); ++key) co_yield push(key);
    }
    for (std::size_t key = 0; key < servers_.keys(); ++key) co_yield pull(key, servers_.workers_update());
  }

 private:
  const ServerPlan& servers_;
  int stream_pairs_;

  Stream receiving_from(std::size_t key) const {
    return static_cast<Stream>(1 + servers_.server_of[key] % stream_pairs_);
  }
  Stream sending_to(std::size_t key) const { return static_cast<Stream>(receiving_from(key) + stream_pairs_); }
  Stream up() const { return static_cast<Stream>(1 + 2 * stream_pairs_); }
  Stream down() const { return static_cast<Stream>(up() + 1); }

  /// Bytes of the buffers. A key is sent from the buffer that it was reduced to, and its answer is received there
  /// (MXNet, src/kvstore/kvstore_dist.h: send_buf_; BytePS shares a buffer between processes).
  double buffer_bytes() const {
    Bytes all;
    for (std::size_t key = 0; key < servers_.keys(); ++key)
      all += std::max(servers_.push_bytes(key), servers_.pull_bytes(key));
    return all.value;
  }

  const Op& send(Op& op, Bytes bytes, Stream after, BufferRef from) {
    op.message.bytes = bytes;
    op.deps[0] = out_.last_operation(after);
    op.effect.read = from;
    return out_.emit();
  }
  const Op& receive(Op& op, BufferRef into) {
    if (step_.values) op.write_to(into);
    return out_.emit();
  }
  std::size_t worker() const { return peers() - 1; }

  std::size_t server_of(std::size_t key) const { return static_cast<std::size_t>(servers_.server_of[key]); }

  /// Pushes all slices of a key when their sums have arrived from the first worker.
  Ops push(std::size_t key) {
    const ServerPlan::Slices all = servers_.slices_up_to(key);
    if (all.count == 0) co_return;
    BufferRef sum = whole_buffer(TrainingBuffer::Kind::gradients, joined_slices(servers_, all));
    co_yield receive(
        put_message(Kind::recv, up(), words_.up, words_.gradients, worker(), local_tag(LocalTag::up, all.first)), sum);
    for (std::size_t i = 0; i < all.count; ++i) {
      const std::size_t k = all.first + i;
      if (sum) sum = {sum.buffer, static_cast<std::uint16_t>(i), static_cast<std::uint16_t>(all.count)};
      co_yield send(put_message(Kind::send, sending_to(k), words_.push, words_.gradients, server_of(k), kPushTag),
                    servers_.push_bytes(k), up(), sum);
    }
  }
  /// Receives a key. `forwards`: sends all slices of a key to the first worker when the last of them has arrived.
  Ops pull(std::size_t key, bool forwards) {
    const ServerPlan::Slices all = servers_.slices_up_to(key);
    for (std::size_t k = all.first; k < all.first + all.count; ++k) {
      co_yield receive(
          put_message(Kind::recv, receiving_from(k), words_.take, words_.parameters, server_of(k), answer_tag(k)),
          whole_buffer(TrainingBuffer::Kind::parameters, k));
      if (!forwards) continue;
      out_.begin(Kind::mark, down(), words_.wait_for_messages, 0, out_.last_operation(receiving_from(k)));
      co_yield out_.emit();
    }
    if (!forwards || all.count == 0) co_return;
    if (step_.values && all.count > 1) co_yield call_on(down(), ServerCall::join_answers, all.first);
    co_yield send(
        put_message(Kind::send, down(), words_.down, words_.parameters, worker(), local_tag(LocalTag::down, all.first)),
        servers_.local.on_cpu ? all.pull : Bytes{0}, down(),
        whole_buffer(TrainingBuffer::Kind::parameters, joined_slices(servers_, all)));
  }
};

}  // namespace

std::unique_ptr<Program> local_worker(Actor actor, const ServerPlan& plan, const PassTables& tables,
                                      const CentralNames& words) {
  return std::make_unique<LocalWorker>(LocalPlace(plan, actor), plan, tables, words);
}

int aggregator_streams_of(const ServerPlan& plan) { return 3 + 2 * std::min(plan.servers, kAggregatorStreamPairs); }

std::unique_ptr<Program> aggregator(Actor actor, const ServerPlan& plan, const PassTables& tables,
                                    const CentralNames& words) {
  const auto group = static_cast<std::size_t>(actor - plan.first_client());
  return std::make_unique<Aggregator>(plan.local.groups[group], plan, tables, words);
}

}  // namespace trainyard
