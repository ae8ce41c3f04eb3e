#include "scenarios/running/bare_pipeline.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "models/software/training_memory.hpp"
#include "sim/executor/simulation.hpp"
#include "sim/list_program.hpp"
#include "sim/observers/memory_use.hpp"
#include "sim/observers/timeline.hpp"
#include "sim/process/child.hpp"
#include "topologies/machines/ideal_machine.hpp"

namespace trainyard {
namespace {

using TaskPass = PipelineTask::Pass;
using nlohmann::json;

constexpr Stream kWork = 0, kOutputsIn = 1, kGradientsIn = 2, kOut = 3;
constexpr int kStreams = 4;

double duration(const BarePipeline::Times& times, TaskPass pass) {
  switch (pass) {
    case TaskPass::forward:
      return times.forward;
    case TaskPass::backward:
      return times.backward_input + times.backward_weights;
    case TaskPass::backward_input:
      return times.backward_input;
    case TaskPass::backward_weights:
      return times.backward_weights;
  }
  return 0;
}

/// What one stage does, operation by operation.
class StageOps {
 public:
  StageOps(const BarePipeline& pipeline, int stage) : p_(pipeline), stage_(stage) {
    for (const PipelineTask& task : p_.tasks[static_cast<std::size_t>(stage)]) add(task);
  }
  std::unique_ptr<Program> program() const { return std::make_unique<ListProgram>(ops_, peers_, kStreams); }
  const std::vector<Actor>& peers() const { return peers_; }

 private:
  const BarePipeline& p_;
  int stage_;
  std::vector<Op> ops_;
  std::vector<Actor> peers_;
  std::uint32_t given_[kStreams] = {};

  void add(const PipelineTask& task) {
    const int v = virtual_stage(task.chunk), last = static_cast<int>(p_.places.size()) - 1;
    const bool forward = task.pass == TaskPass::forward, weights = task.pass == TaskPass::backward_weights;
    Op op;
    op.kind = Kind::compute;
    op.stream = kWork;
    op.work.flops = Flops{duration(p_.times[static_cast<std::size_t>(v)], task.pass)};
    if (forward && v > 0) op.deps[0] = receive(v - 1, v, task.micro_batch, kOutputsIn);
    if (!forward && !weights && v < last) op.deps[0] = receive(v + 1, v, task.micro_batch, kGradientsIn);
    op.memory.change = forward ? 1 : task.pass == TaskPass::backward_input ? 0 : -1;
    op.set_memory_class(static_cast<std::uint8_t>(MemoryClass::activations));
    give(op);
    if (forward && v < last) send(v, v + 1, task.micro_batch);
    if (!forward && !weights && v > 0) send(v, v - 1, task.micro_batch);
  }

  int virtual_stage(int chunk) const {
    for (std::size_t v = 0; v < p_.places.size(); ++v)
      if (p_.places[v].stage == stage_ && p_.places[v].chunk == chunk) return static_cast<int>(v);
    throw InternalError("a pipeline task of a chunk that is nowhere");
  }

  void give(const Op& op) {
    ops_.push_back(op);
    ++given_[op.stream];
  }

  Op message(Kind kind, Stream stream, int from, int to, int micro_batch, int peer) {
    Op op;
    op.kind = kind;
    op.stream = stream;
    const auto at = std::find(peers_.begin(), peers_.end(), peer);
    op.message.slot = static_cast<std::uint16_t>(at - peers_.begin());
    if (at == peers_.end()) peers_.push_back(peer);
    op.message.bytes =
        Bytes{p_.transfers[static_cast<std::size_t>(std::min(from, to))] * IdealMachine::kBytesPerSecond};
    op.message.mode = Mode::eager;  // it leaves when it is there: the sender goes on
    const auto number = static_cast<Tag>(micro_batch) * p_.places.size() + static_cast<Tag>(from);
    op.message.tag = 2 * number + (to > from ? 0 : 1);
    return op;
  }

  int stage_of(int virtual_stage) const { return p_.places[static_cast<std::size_t>(virtual_stage)].stage; }

  Dep receive(int from, int to, int micro_batch, Stream stream) {
    if (stage_of(from) == stage_) return {};  // the order of tasks has seen to it
    give(message(Kind::recv, stream, from, to, micro_batch, stage_of(from)));
    return {given_[stream], stream};
  }

  void send(int from, int to, int micro_batch) {
    if (stage_of(to) == stage_) return;
    Op op = message(Kind::send, kOut, from, to, micro_batch, stage_of(to));
    op.deps[0] = {given_[kWork], kWork};
    give(op);
  }
};

json simulate_pipeline(const BarePipeline& pipeline) {
  IdealMachine machine("stage");
  std::vector<std::unique_ptr<Program>> programs;
  for (int stage = 0; stage < pipeline.shape.stages; ++stage) {
    const StageOps ops(pipeline, stage);
    for (const Actor peer : ops.peers()) machine.connect(stage, peer);
    programs.push_back(ops.program());
  }
  Simulation simulation(machine);
  Timeline timeline;
  MemoryUse memory;
  simulation.observe(timeline);
  simulation.observe(memory);
  for (std::size_t stage = 0; stage < programs.size(); ++stage)
    simulation.add(static_cast<Actor>(stage), std::move(programs[stage]));
  json result{{"end", simulation.run().end.value}, {"times", json::array()}, {"in_flight", json::array()}};
  for (int stage = 0; stage < pipeline.shape.stages; ++stage) {
    result["times"].push_back(json::array());
    result["in_flight"].push_back(memory.peak(stage).value);
  }
  for (const OpRecord& record : timeline.records())
    if (record.kind == Kind::compute)
      result["times"][static_cast<std::size_t>(record.actor)].push_back({record.started, record.ended});
  return result;
}

}  // namespace

BarePipeline even_pipeline(const PipelineSchedule& schedule, const PipelineShape& shape,
                           const BarePipeline::Times& whole, double transfer) {
  BarePipeline pipeline;
  pipeline.shape = shape;
  for (int stage = 0; stage < shape.stages; ++stage) pipeline.tasks.push_back(schedule.tasks(stage, shape));
  const double chunks = shape.chunks;
  const BarePipeline::Times times{whole.forward / chunks, whole.backward_input / chunks,
                                  whole.backward_weights / chunks};
  for (int v = 0; v < shape.stages * shape.chunks; ++v) {
    pipeline.places.push_back(schedule.place_of(v, shape));
    pipeline.times.push_back(times);
    if (v > 0) pipeline.transfers.push_back(transfer);
  }
  return pipeline;
}

double PipelineRun::busy(std::size_t stage) const {
  double sum = 0;
  for (const PipelineTaskRun& run : stages.at(stage)) sum += run.end - run.begin;
  return sum;
}

double PipelineRun::busy() const {
  double sum = 0;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) sum += busy(stage);
  return sum;
}

PipelineRun run_pipeline(const BarePipeline& pipeline) {
  const json result = json::parse(in_child([&pipeline] { return simulate_pipeline(pipeline).dump(); }));
  PipelineRun run;
  run.end = result["end"];
  for (std::size_t stage = 0; stage < pipeline.tasks.size(); ++stage) {
    const json& times = result["times"][stage];
    std::vector<PipelineTaskRun>& tasks = run.stages.emplace_back();
    for (std::size_t i = 0; i < times.size(); ++i)
      tasks.push_back({pipeline.tasks[stage][i], times[i][0], times[i][1]});
    run.in_flight.push_back(static_cast<int>(std::lround(result["in_flight"][stage].get<double>())));
  }
  return run;
}

}  // namespace trainyard
