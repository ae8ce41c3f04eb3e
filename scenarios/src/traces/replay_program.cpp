#include "scenarios/src/traces/replay_program.hpp"

#include <algorithm>
#include <bit>

#include "sim/hashing.hpp"
#include "sim/ops.hpp"
#include "strategies/collectives/collective_flows.hpp"

namespace trainyard {
namespace {

/// Bit in the tags of the trace's own messages, below the bits of channels (see Local::on_channel). Other tags have the
/// number of the collective and of its communicator; routes to the host are numbered after the communicators.
constexpr int kMessageBit = 47;

class ReplayProgram : public CoroutineProgram {
 public:
  ReplayProgram(const ReplayPlan& plan, const ReplayOptions& options, std::size_t rank, Names& names)
      : CoroutineProgram(plan.ranks[rank].slots, static_cast<int>(plan.ranks[rank].streams.size())),
        plan_(plan),
        options_(options),
        me_(plan.ranks[rank]),
        rank_(rank),
        names_(names),
        ends_(me_.steps.size()) {}

  std::span<const GroupFlow* const> group_flows() const override { return me_.flows; }

 protected:
  Ops run() override {
    for (std::size_t number = 0; number < me_.steps.size(); ++number) {
      const ReplayStep& step = me_.steps[number];
      take_deps(step);
      while (count_ > (step.node->type == ChakraType::collective ? 1U : 2U)) co_yield join_two(step);
      if (step.node->type == ChakraType::collective)
        co_yield collective(step);
      else
        co_yield work(step);
      ends_[number] = out_.last_operation(step.stream);
    }
  }

 private:
  const ReplayPlan& plan_;
  const ReplayOptions& options_;
  const RankReplay& me_;
  std::size_t rank_;
  Names& names_;
  Emitter out_;
  std::vector<Dep> ends_;  // end of each step
  std::array<Dep, kMaxStreams> waits_{};
  std::size_t count_ = 0;
  std::uint32_t transfers_ = 0;

  /// Collects the dependencies of the step besides its stream: the last one on each other stream.
  void take_deps(const ReplayStep& step) {
    count_ = 0;
    for (const std::uint32_t dependency : step.deps) {
      const Dep end = ends_[dependency];
      if (end.stream == step.stream || end.count == 0) continue;
      const auto last = waits_.begin() + static_cast<std::ptrdiff_t>(count_);
      const auto wait = std::find_if(waits_.begin(), last, [end](const Dep& d) { return d.stream == end.stream; });
      if (wait == last)
        waits_[count_++] = end;
      else
        wait->count = std::max(wait->count, end.count);
    }
  }

  /// Returns a mark that joins two dependencies: an operation has room for only two.
  const Op& join_two(const ReplayStep& step) {
    begin_after_two(step);
    return out_.emit();
  }

  /// Begins an operation that waits for the last two dependencies.
  Op& begin_after_two(const ReplayStep& step) {
    Op& op = out_.begin(Kind::mark, step.stream);
    for (Dep& dep : op.deps)
      if (count_ > 0) dep = waits_[--count_];
    return op;
  }

  const Op& work(const ReplayStep& step) {
    const ChakraNode& node = *step.node;
    Op& op = begin_after_two(step);
    op.name = names_.intern(node.name);
    switch (node.type) {
      case ChakraType::send:
      case ChakraType::recv:
        message(op, step);
        break;
      case ChakraType::compute:
        compute(op, node);
        break;
      case ChakraType::load:
      case ChakraType::store:
        memory(op, step);
        break;
      default:
        break;
    }
    return out_.emit();
  }

  static void state_time(Op& op, double seconds) {
    op.work.flops = Flops{seconds};
    op.work.kernel = kStatedTime;
  }

  void compute(Op& op, const ChakraNode& node) {
    const bool on_host = node.on_host > 0;
    if (node.duration) {
      op.kind = on_host ? Kind::delay : Kind::compute;
      op.group = names_.group(on_host ? "host" : "compute", Role::work);
      return state_time(op, *node.duration);
    }
    if (on_host || (node.flops == 0 && node.tensor == 0)) return;
    op.kind = Kind::local;
    op.group = names_.group("compute", Role::work);
    op.work = {.flops = Flops{node.flops},
               .bytes = Bytes{node.tensor},
               .kernel = static_cast<std::uint16_t>(node.flops > 0 ? Kernel::gemm : Kernel::elementwise),
               .precision = static_cast<std::uint8_t>(options_.precision)};
  }

  void memory(Op& op, const ReplayStep& step) {
    const ChakraNode& node = *step.node;
    const bool remote = options_.remote_memory && !node.duration && node.tensor > 0;
    op.group = remote ? names_.group("remote memory", Role::collective) : names_.group("memory", Role::work);
    if (remote) {
      op.kind = Kind::join;
      op.message.bytes = Bytes{node.tensor};
      op.message.slot = step.slot;
      op.message.steps = 1;
      op.message.tag = route_number(step.slot) << kJoinBits | ++transfers_;
      return;
    }
    op.kind = node.duration ? Kind::compute : Kind::local;
    if (node.duration) return state_time(op, *node.duration);
    op.work.bytes = Bytes{node.tensor};
    op.work.kernel = static_cast<std::uint16_t>(Kernel::elementwise);
    op.work.precision = static_cast<std::uint8_t>(options_.precision);
  }

  Tag route_number(std::uint16_t flow) const {
    const bool loads = me_.flows[flow]->edges.front().to == static_cast<Actor>(rank_);
    return plan_.communicators() + 2 * rank_ + (loads ? 1 : 0);
  }

  void message(Op& op, const ReplayStep& step) {
    const ChakraNode& node = *step.node;
    op.kind = node.type == ChakraType::send ? Kind::send : Kind::recv;
    op.group = names_.group("messages", Role::point_to_point);
    Message& m = op.message;
    m.bytes = Bytes{node.bytes};
    m.tag = Tag{1} << kMessageBit | (static_cast<Tag>(std::max(0.0, node.tag)) & ((Tag{1} << kMessageBit) - 1));
    m.extra_latency = to_picoseconds(Seconds{node.latency});
    m.rate_cap = BytesPerSecond{node.rate_cap};
    m.slot = step.slot;
    m.mode = static_cast<Mode>(node.mode);
    m.path = static_cast<PathClass>(node.path);
    m.steps = static_cast<std::uint32_t>(node.steps);
  }

  Ops collective(const ReplayStep& step) {
    const ReplayCall& replay_call = me_.calls[step.call];
    const CollectiveSettings& settings = replay_call.what->settings;
    const ChakraNode& node = *step.node;
    const int ranks = static_cast<int>(plan_.communicator(replay_call.communicator).members.size());
    const Operation operation = replay_call.what->algorithm->operation;
    CollectiveCall call;
    call.recv_stream = step.stream;
    call.send_stream = settings.fidelity == Fidelity::modelled ? step.stream : step.more;
    call.more_streams = static_cast<Stream>(step.more + 1);
    call.group_flow = replay_call.flow;
    call.first_slot = replay_call.first_slot;
    call.group = names_.group(name_of(operation), Role::collective,
                              settings.fidelity == Fidelity::modelled ? "" : replay_call.what->algorithm->name);
    call.name = names_.intern(node.name);
    call.tag = static_cast<Tag>(replay_call.communicator) << kJoinBits | step.instance;
    if (count_ > 0) call.start = waits_[--count_];
    if (settings.fidelity != Fidelity::modelled) call.launch = to_picoseconds(Seconds{node.launch});
    const Bytes bytes{whole_bytes(operation, plan_.bytes_of(replay_call.communicator, step.instance).value,
                                  static_cast<std::size_t>(ranks))};
    Local me(out_, {replay_call.index, ranks, &settings}, replay_call.peers, call, bytes);
    if (ranks == 1 || settings.fidelity != Fidelity::modelled) {
      Ops all = collective_ops(*replay_call.what->algorithm, me, bytes);
      co_yield all;
      Op& op = out_.begin(Kind::mark, step.stream);  // joins the streams: later steps wait for one stream only
      op.deps[0] = out_.last_operation(call.send_stream);
      op.deps[1] = call.start;
      co_yield out_.emit();
      co_return;
    }
    co_yield modelled(me, operation, bytes, node);
  }

  const Op& modelled(Local& me, Operation operation, Bytes bytes, const ChakraNode& node) {
    ModelledJoin join = modelled_join(operation, me.settings(), me.group_size(), bytes / node.share);
    join.bytes = join.bytes * node.share;
    join.latency = to_picoseconds((join.latency.seconds() * node.slowdown + Seconds{node.launch}) * node.share);
    join.rate = join.rate / node.slowdown;
    join.what = scale_network_latency(join.what, node.slowdown * node.share);
    return me.join_modelled(join);
  }
};

}  // namespace

ReplayPrograms::ReplayPrograms(const ReplayPlan& plan, const ReplayOptions& options, Names& names)
    : plan_(plan), options_(options), names_(names) {}

std::unique_ptr<Program> ReplayPrograms::program(Actor rank) const {
  return std::make_unique<ReplayProgram>(plan_, options_, static_cast<std::size_t>(rank), names_);
}

Programs ReplayPrograms::programs() const {
  Programs programs;
  for (Actor rank = 0; rank < actors(); ++rank) programs.push_back(program(rank));
  return programs;
}

bool ReplayPrograms::foldable() const {
  return !options_.remote_memory && std::ranges::all_of(plan_.ranks, [](const RankReplay& rank) {
    return std::ranges::all_of(rank.nodes, [](const ChakraNode& node) { return node.path == 0; });
  });
}

ActorOutline ReplayPrograms::outline(Actor actor) const {
  const RankReplay& rank = plan_.ranks[static_cast<std::size_t>(actor)];
  ActorOutline outline;
  std::uint64_t text = rank.streams.size();
  for (const ReplayStep& step : rank.steps) {
    const ChakraNode& n = *step.node;
    text = hash_numbers(
        {text, static_cast<std::uint64_t>(n.type), step.stream, step.more, step.call, step.slot, step.instance});
    for (const std::uint32_t dep : step.deps) text = hash_numbers({text, dep});
    for (const double number : {n.duration.value_or(-1), n.on_host, n.flops, n.tensor, n.bytes, n.tag, n.share,
                                n.slowdown, n.launch, n.latency, n.rate_cap, n.steps, n.mode})
      text = hash_numbers({text, std::bit_cast<std::uint64_t>(number)});
  }
  for (const ReplayCall& call : rank.calls) {
    const auto ranks = plan_.communicator(call.communicator).members.size();
    const bool modelled = call.what->settings.fidelity == Fidelity::modelled;
    text = hash_numbers(
        {text, static_cast<std::uint64_t>(call.what->algorithm->operation), ranks, call.first_slot,
         modelled ? 0 : role_of(*call.what->algorithm, {call.index, static_cast<int>(ranks), &call.what->settings})});
    if (modelled && ranks > 1)
      outline.joins.push_back({static_cast<Tag>(call.communicator), call.what->settings.flow.get(), call.flow});
  }
  outline.text = text;
  outline.slots = rank.slots;
  return outline;
}

}  // namespace trainyard
