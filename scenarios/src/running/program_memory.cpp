#include "scenarios/src/running/program_memory.hpp"

#include <unordered_set>
#include <vector>

#include "scenarios/src/planning/size.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "scenarios/src/running/fullest_rank.hpp"
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
  std::unordered_set<std::uint64_t> seen;
  for (Actor rank = 0; rank < programs.actors(); ++rank) {
    const NodeType* type = &s.cluster.type_of_gpu(rank);
    if (seen.insert(hash_numbers({programs.content(rank), reinterpret_cast<std::uintptr_t>(type)})).second)
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
  if (const auto memory = memory_by_programs(s, laid_out)) return *memory;
  return simulate_here(s, laid_out, {.critical_path = false});
}

}  // namespace trainyard
