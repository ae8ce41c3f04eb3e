#include "scenarios/src/search/uneven_pipeline.hpp"

#include <algorithm>

#include "scenarios/src/traces/replay_program.hpp"
#include "sim/executor/simulation.hpp"
#include "sim/list_program.hpp"
#include "strategies/pipelines/pipeline_schedule.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {
namespace {

enum UnevenStream : Stream {
  kPasses1F1B,
  kActivationsIn,
  kGradientsIn,
  kActivationsOut,
  kGradientsOut,
  kUnevenStreams
};

/// A message of every micro-batch between two ranks of neighbouring stages.
struct CrossMessage {
  int from = 0, to = 0;  ///< places within their stages
  double bytes = 0;
};

/// What of a micro-batch goes from which rank to which: data rank q of n has the samples from q/n up to (q + 1)/n.
std::vector<CrossMessage> cross_messages(const PlacedStage& before, const PlacedStage& after) {
  std::vector<CrossMessage> all;
  for (int to = 0; to < after.data; ++to)
    for (int from = 0; from < before.data; ++from) {
      const std::int64_t first = std::max(std::int64_t{to} * before.data, std::int64_t{from} * after.data),
                         last = std::min((std::int64_t{to} + 1) * before.data, (std::int64_t{from} + 1) * after.data);
      if (first >= last) continue;
      const double share = static_cast<double>(last - first) / (static_cast<double>(before.data) * after.data);
      for (int tensor = 0; tensor < after.tensor; ++tensor)
        all.push_back(
            {from * before.tensor + tensor % before.tensor, to * after.tensor + tensor, before.output * share});
    }
  return all;
}

class UnevenRank {
 public:
  UnevenRank(const std::vector<PlacedStage>& stages, int stage, int place, int micro_batches)
      : stages_(stages), stage_(stage), place_(place), micro_batches_(micro_batches) {}

  std::unique_ptr<Program> program() {
    const PlacedStage& own = stages_[static_cast<std::size_t>(stage_)];
    const PipelineShape shape{static_cast<int>(stages_.size()), micro_batches_};
    const std::vector<PipelineTask> tasks =
        shape.stages == 1 ? one_stage_tasks(micro_batches_)
                          : find_pipeline_schedule("1f1b", shape, Place::of("--layers")).tasks(stage_, shape);
    for (const PipelineTask& task : tasks) {
      const bool back = task.pass != PipelineTask::Pass::forward;
      messages(task.micro_batch, back, Kind::recv);
      pass(back ? own.backward : own.forward, back);
      messages(task.micro_batch, back, Kind::send);
    }
    pass(own.tail, false, false);
    return std::make_unique<ListProgram>(std::move(ops_), std::move(slots_), kUnevenStreams);
  }

 private:
  const std::vector<PlacedStage>& stages_;
  int stage_, place_, micro_batches_;
  std::vector<Op> ops_;
  std::vector<Actor> slots_;
  std::uint32_t counts_[kUnevenStreams] = {};

  std::uint16_t slot(Actor peer) {
    const auto known = std::find(slots_.begin(), slots_.end(), peer);
    if (known == slots_.end()) slots_.push_back(peer);
    return static_cast<std::uint16_t>(std::find(slots_.begin(), slots_.end(), peer) - slots_.begin());
  }

  void pass(double seconds, bool back, bool waits = true) {
    Op op;
    op.stream = kPasses1F1B;
    op.kind = Kind::compute;
    op.work.flops = Flops{seconds};
    op.work.kernel = kStatedTime;
    const Stream in = back ? kGradientsIn : kActivationsIn;
    if (waits && counts_[in] > 0) op.deps[0] = {counts_[in], in};
    add(op);
  }

  /// Activations come from the stage before and go to the next one, gradients the other way.
  void messages(int micro_batch, bool back, Kind kind) {
    const bool sends = kind == Kind::send;
    const int first = sends != back ? stage_ : stage_ - 1;  // of the two stages between which they go
    if (first < 0 || first + 1 >= static_cast<int>(stages_.size())) return;
    const PlacedStage &before = stages_[static_cast<std::size_t>(first)],
                      &after = stages_[static_cast<std::size_t>(first) + 1];
    for (const CrossMessage& message : cross_messages(before, after)) {
      if ((first == stage_ ? message.from : message.to) != place_) continue;
      const int peer = first == stage_ ? after.ranks[static_cast<std::size_t>(message.to)]
                                       : before.ranks[static_cast<std::size_t>(message.from)];
      Op op;
      op.stream = sends ? (back ? kGradientsOut : kActivationsOut) : (back ? kGradientsIn : kActivationsIn);
      op.kind = kind;
      op.message.bytes = Bytes{message.bytes};
      op.message.slot = slot(static_cast<Actor>(peer));
      op.message.tag = static_cast<Tag>(micro_batch) * 2 + (back ? 1 : 0);
      op.message.mode = Mode::eager;
      if (sends) op.deps[0] = {counts_[kPasses1F1B], kPasses1F1B};
      add(op);
    }
  }

  void add(Op op) {
    op.actor = static_cast<Actor>(stages_[static_cast<std::size_t>(stage_)].ranks[static_cast<std::size_t>(place_)]);
    ++counts_[op.stream];
    ops_.push_back(op);
  }
};

}  // namespace

double uneven_step(const ClusterSpec& cluster, const SoftwareStack& software, const std::vector<PlacedStage>& stages,
                   int micro_batches) {
  ClusterMachine base(cluster, software);
  ReplayMachine machine(base);
  Programs programs;
  for (int rank = 0; rank < cluster.gpus(); ++rank)
    programs.push_back(std::make_unique<ListProgram>(std::vector<Op>{}));
  for (std::size_t stage = 0; stage < stages.size(); ++stage)
    for (std::size_t place = 0; place < stages[stage].ranks.size(); ++place)
      programs[static_cast<std::size_t>(stages[stage].ranks[place])] =
          UnevenRank(stages, static_cast<int>(stage), static_cast<int>(place), micro_batches).program();
  return run_programs(machine, std::move(programs)).end.value;
}

}  // namespace trainyard
