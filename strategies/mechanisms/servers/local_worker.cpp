// A worker whose gradients meet those of its node before they leave it: the first worker of the node hands their sum to
// the aggregator, and broadcasts what comes back.
#include <algorithm>

#include "strategies/mechanisms/servers/server_step.hpp"
#include "strategies/mechanisms/servers/server_worker.hpp"

namespace trainyard {
namespace {

/// Where a worker is among those that push together.
struct LocalPlace {
  std::size_t group = 0;
  int index = 0;

  LocalPlace(const ServerPlan& plan, Actor worker) {
    for (const std::vector<Actor>* of = nullptr; group < plan.local.groups.size(); ++group) {
      of = &plan.local.groups[group].workers;
      const auto at = std::find(of->begin(), of->end(), worker);
      index = static_cast<int>(at - of->begin());
      if (at != of->end()) return;
    }
  }
};

class LocalWorker : public ServerWorker {
 public:
  LocalWorker(LocalPlace place, const ServerPlan& plan, const PassTables& tables, const CentralWords& words)
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
    CollectiveCall of = collective_call(kReduce, LocalTag::reduce, all.first);
    of.group = words_.gradients;
    of.name = words_.local_reduce;
    of.buffer = buffer_of(TrainingBuffer::Kind::gradients, joined_slices(servers_, all));
    of.start = out_.after(compute);
    Local me(out_, place_, reduce_peers_, of, all.push);
    Ops reduce = collective_ops(*servers_.local.reduce, me, all.push);
    co_yield reduce;
    if (!is_first()) co_return;
    Op& op = to_aggregator(Kind::send, kUp, words_.up, words_.gradients, local_tag(LocalTag::up, all.first));
    op.message.bytes = servers_.local.on_cpu ? all.push : Bytes{0};
    op.deps[0] = out_.after(compute);
    op.deps[1] = out_.after(kReduce + 1);
    op.effect.read = whole(TrainingBuffer::Kind::gradients, joined_slices(servers_, all));
    co_yield out_.emit();
  }
  Ops pull_key(std::size_t key) override {
    const ServerPlan::Slices all = servers_.slices_up_to(key);
    if (all.count == 0) co_return;
    const std::size_t joined = joined_slices(servers_, all);
    if (is_first()) {
      Op& op = to_aggregator(Kind::recv, kDown, words_.down, words_.parameters, local_tag(LocalTag::down, all.first));
      if (step_.values) op.write_to(whole(TrainingBuffer::Kind::parameters, joined));
      co_yield out_.emit();
    }
    CollectiveCall of = collective_call(kBroadcast, LocalTag::broadcast, all.first);
    of.first_slot = static_cast<std::uint16_t>(reduce_peers_.size());
    of.group = words_.parameters;
    of.name = words_.local_broadcast;
    of.buffer = buffer_of(TrainingBuffer::Kind::parameters, joined);
    of.start = out_.after(kDown);
    Local me(out_, place_, broadcast_peers_, of, all.pull);
    Ops broadcast = collective_ops(*servers_.local.broadcast, me, all.pull);
    co_yield broadcast;
    if (step_.values) co_yield take(all);
    for (std::size_t k = all.first; k < all.first + all.count; ++k)
      arrives(k, is_first() && !step_.values ? kDown : kBroadcast + 1);
  }
  /// That all has been applied is the aggregator's to know.
  Ops last_answers() override {
    if (!servers_.workers_update()) co_return;
    co_yield pull(true);
    co_yield update_all();
  }

 private:
  // Streams; of a collective the one that sends, before the one that receives.
  static constexpr Stream kReduce = 1, kBroadcast = 3, kUp = 5, kDown = 6;
  static constexpr int kLocalStreams = 7;
  const std::vector<Actor>& workers_;
  GroupPlace place_;
  std::vector<int> reduce_peers_, broadcast_peers_;

  bool is_first() const { return place_.index == 0; }

  Ops take(ServerPlan::Slices all) {
    Op& wait = out_.begin(Kind::mark, kBroadcast + 1, words_.wait_for_messages);
    wait.deps[0] = out_.after(compute);  // what is being computed with has not to change
    wait.deps[1] = out_.after(kDown);
    co_yield out_.emit();
    if (all.count > 1) co_yield call_on(kBroadcast + 1, ServerCall::separate_answers, all.first);
    for (std::size_t k = all.first; k < all.first + all.count; ++k)
      co_yield call_on(kBroadcast + 1, TrainingCall::take_parameters, k);
  }

  /// Peers of the reduction, of the broadcast, then the aggregator.
  static std::vector<Actor> slots_of(LocalPlace at, const ServerPlan& plan) {
    const std::vector<Actor>& workers = plan.local.groups[at.group].workers;
    const GroupPlace place{at.index, static_cast<int>(workers.size()), &plan.local.settings};
    std::vector<Actor> slots;
    for (const Collective* algorithm : {plan.local.reduce, plan.local.broadcast})
      for (const int peer : peers_of(*algorithm, place)) slots.push_back(workers[peer]);
    slots.push_back(plan.first_client() + static_cast<Actor>(at.group));
    return slots;
  }

  Op& to_aggregator(Kind kind, Stream stream, NameId name, GroupId group, Tag tag) {
    Op& op = out_.begin(kind, stream, name, group);
    op.address(peers() - 1, tag, Mode::put);
    return op;
  }
  CollectiveCall collective_call(Stream stream, LocalTag tag, std::size_t key) const {
    CollectiveCall of;
    of.send_stream = stream;
    of.recv_stream = static_cast<Stream>(stream + 1);
    of.tag = local_tag(tag, key);
    of.group_of = workers_.front();
    return of;
  }
};

}  // namespace

std::unique_ptr<Program> local_worker(Actor actor, const ServerPlan& plan, const PassTables& tables,
                                      const CentralWords& words) {
  return std::make_unique<LocalWorker>(LocalPlace(plan, actor), plan, tables, words);
}

}  // namespace trainyard
