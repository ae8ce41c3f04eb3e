// The aggregator of a node's workers: it pushes the sums of their gradients and forwards the answers. A static program.
#include <algorithm>

#include "sim/index.hpp"
#include "strategies/mechanisms/servers/server_step.hpp"

namespace trainyard {
namespace {

/// The servers, then the first worker of the node.
std::vector<Actor> peers_of_aggregator(const ServerPlan& plan, const LocalGroup& group) {
  std::vector<Actor> peers = consecutive_numbers(plan.workers(), plan.servers);
  peers.push_back(group.workers.front());
  return peers;
}

class Aggregator : public CentralStep {
 public:
  Aggregator(const LocalGroup& group, const ServerPlan& plan, const PassTables& tables, const CentralWords& words)
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

  Op& message(Kind kind, Stream stream, NameId name, GroupId group, std::size_t peer, Tag tag) {
    Op& op = out_.begin(kind, stream, name, group);
    op.address(peer, tag, Mode::put);
    return op;
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
        message(Kind::recv, up(), words_.up, words_.gradients, worker(), local_tag(LocalTag::up, all.first)), sum);
    for (std::size_t i = 0; i < all.count; ++i) {
      const std::size_t k = all.first + i;
      if (sum) sum = {sum.buffer, static_cast<std::uint16_t>(i), static_cast<std::uint16_t>(all.count)};
      co_yield send(message(Kind::send, sending_to(k), words_.push, words_.gradients, server_of(k), kPushTag),
                    servers_.push_bytes(k), up(), sum);
    }
  }
  /// Receives a key. `forwards`: sends all slices of a key to the first worker when the last of them has arrived.
  Ops pull(std::size_t key, bool forwards) {
    const ServerPlan::Slices all = servers_.slices_up_to(key);
    for (std::size_t k = all.first; k < all.first + all.count; ++k) {
      co_yield receive(
          message(Kind::recv, receiving_from(k), words_.take, words_.parameters, server_of(k), answer_tag(k)),
          whole_buffer(TrainingBuffer::Kind::parameters, k));
      if (!forwards) continue;
      out_.begin(Kind::mark, down(), words_.wait_for_messages, 0, out_.last_operation(receiving_from(k)));
      co_yield out_.emit();
    }
    if (!forwards || all.count == 0) co_return;
    if (step_.values && all.count > 1) co_yield call_on(down(), ServerCall::join_answers, all.first);
    co_yield send(
        message(Kind::send, down(), words_.down, words_.parameters, worker(), local_tag(LocalTag::down, all.first)),
        servers_.local.on_cpu ? all.pull : Bytes{0}, down(),
        whole_buffer(TrainingBuffer::Kind::parameters, joined_slices(servers_, all)));
  }
};

}  // namespace

int aggregator_streams_of(const ServerPlan& plan) { return 3 + 2 * std::min(plan.servers, kAggregatorStreamPairs); }

std::unique_ptr<Program> aggregator(Actor actor, const ServerPlan& plan, const PassTables& tables,
                                    const CentralWords& words) {
  const auto group = static_cast<std::size_t>(actor - plan.first_client());
  return std::make_unique<Aggregator>(plan.local.groups[group], plan, tables, words);
}

}  // namespace trainyard
