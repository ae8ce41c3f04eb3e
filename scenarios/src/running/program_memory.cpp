#include "scenarios/src/running/program_memory.hpp"

#include <unordered_set>
#include <vector>

#include "scenarios/src/planning/device_memory.hpp"
#include "scenarios/src/planning/size.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "sim/hashing.hpp"
#include "sim/process/job.hpp"
#include "strategies/mechanisms/mechanism.hpp"
#include "strategies/step/pass_table.hpp"
#include "strategies/step/training_programs.hpp"

namespace trainyard {
namespace {

/// Returns the lowest rank of each kind, ascending.
std::vector<Actor> kinds_of_ranks(const Scenario& s, const TrainingPrograms& programs) {
  std::vector<Actor> lowest;
  std::unordered_set<std::uint64_t> known;
  for (Actor rank = 0; rank < programs.actors(); ++rank) {
    const NodeType* type = &s.cluster.type_of_gpu(rank);
    if (known.insert(hash_numbers({programs.content(rank), reinterpret_cast<std::uintptr_t>(type)})).second)
      lowest.push_back(rank);
  }
  return lowest;
}

/// Reads a program to its end. No value: a second stream changes memory.
std::optional<RankMemory> memory_in_order(Actor rank, Program& program, Stream stream) {
  MemoryUse memory;
  bool is_known = true;
  const auto book = [&](const Op& read) {
    if (read.memory == Memory{}) return;
    is_known = is_known && read.stream == stream;
    Op op = read;
    op.actor = 0;
    OpRun run;
    run.op = &op;
    memory.started(run);
    memory.finished(run);
  };
  const Op* op = nullptr;
  const Repeat* rounds = nullptr;
  for (Pull pull = Pull::op; is_known && (pull = program.next(op, rounds)) != Pull::done;) {
    if (pull == Pull::waiting || (pull == Pull::op && op->kind == Kind::series)) return std::nullopt;
    if (pull == Pull::op) book(*op);
    for (int i = 0; pull == Pull::repeat && i < rounds->operations(); ++i)
      is_known = is_known && rounds->operation(i).first.memory == Memory{};
  }
  if (!is_known) return std::nullopt;
  return RankMemory{rank, memory.peak(0), memory.parts_at_peak(0)};
}

}  // namespace

void book_fullest(const Scenario& s, const TrainingPlan& training, std::span<const RankMemory> ranks, Result& r) {
  // If GPUs differ, the fullest in proportion counts.
  const auto gpu = [&s](const RankMemory& of) -> const Gpu& { return s.cluster.type_of_gpu(of.rank).gpu; };
  const auto on_device = [&](const RankMemory& of) {
    const auto stage = static_cast<std::size_t>(&training.stage_of(of.rank) - training.stages.data());
    return device_memory(s, training, stage, of.peak, gpu(of));
  };
  const RankMemory* held = &ranks.front();
  DeviceMemory device = on_device(*held);
  for (const RankMemory& other : ranks.subspan(1)) {
    if (const DeviceMemory of_other = on_device(other); of_other.risk() > device.risk()) device = of_other;
    if (other.peak / gpu(other).memory_capacity > held->peak / gpu(*held).memory_capacity) held = &other;
  }
  const auto bytes = [held](MemoryClass c) { return Bytes{held->parts[static_cast<std::size_t>(c)]}; };
  const auto [low, high] = device.interval();
  r.memory = {gpu(*held).memory_capacity,
              held->peak,
              bytes(MemoryClass::parameters),
              bytes(MemoryClass::gradients),
              bytes(MemoryClass::optimizer),
              bytes(MemoryClass::activations),
              bytes(MemoryClass::buffers),
              held->rank,
              s.plan.mesh.pipeline > 1 ? s.plan.mesh.coordinates(held->rank).pipeline : 0,
              device.reserved,
              device.device,
              device.needed,
              device.usable};
  r.memory_interval = {low.value, high.value};
  r.fits = device.fits();
  r.risk = device.risk();
}

std::optional<Result> memory_by_programs(const Scenario& s, const Plan& planned) {
  if (!s.plan.mechanism->ranks_alike() || planned.search || s.plan.offload.is_used() || s.input.is_used())
    return std::nullopt;
  require_simulable(s, planned);
  TrainingPlan training = planned.training;
  training.steps += planned.warm_steps;
  training.marks_steps = planned.warm_steps > 0;
  if (training.fuses_kernels) training.first_fused = kFirstFused;
  Names names;
  const TrainingPrograms programs(training, names);
  const std::vector<Actor> ranks = kinds_of_ranks(s, programs);
  require_size(s, planned, static_cast<double>(ranks.size()) / s.ranks(), "");
  std::vector<RankMemory> memories;
  for (const Actor rank : ranks) {
    end_if_interrupted();
    const auto program = programs.program(rank);
    const std::optional<RankMemory> memory = memory_in_order(rank, *program, TrainingStreams::compute);
    if (!memory) return std::nullopt;
    memories.push_back(*memory);
  }
  Result r;
  book_fullest(s, training, memories, r);
  return r;
}

Result memory_of_step(const Scenario& s) {
  const Plan laid_out = plan(s);
  if (const std::optional<Result> known = memory_by_programs(s, laid_out)) return *known;
  return simulate_here(s, laid_out, {.critical_path = false});
}

}  // namespace trainyard
