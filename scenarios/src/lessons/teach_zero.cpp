#include "scenarios/src/lessons/teach_zero.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "scenarios/src/lessons/data_size.hpp"
#include "sim/executor/simulation.hpp"
#include "sim/json_text.hpp"
#include "strategies/step/training_programs.hpp"
#include "topologies/machines/ideal_machine.hpp"

namespace trainyard {
namespace {

struct ZeroState {
  MemoryClass kind;
  const char* letter;
  Tone tone;  // as in the paper's figure
};
constexpr ZeroState kZeroStates[] = {{MemoryClass::parameters, "P", Tone::blue},
                                     {MemoryClass::gradients, "G", Tone::orange},
                                     {MemoryClass::optimizer, "O", Tone::green}};

double sum_of(const MemoryUse::ByClass& parts) { return std::accumulate(parts.begin(), parts.end(), 0.0); }

double state_of(const ZeroLesson& lesson, std::size_t zero, MemoryClass kind) {
  return lesson.rank[zero][static_cast<std::size_t>(kind)];
}

double states_of(const ZeroLesson& lesson, std::size_t zero) {
  double sum = 0;
  for (const ZeroState& state : kZeroStates) sum += state_of(lesson, zero, state.kind);
  return sum;
}

std::string parameter_words(double count) {
  if (count >= 1e12) return fmt::format("{:.4g} trillion", count * 1e-12);
  if (count >= 1e9) return fmt::format("{:.4g} billion", count * 1e-9);
  if (count >= 1e6) return fmt::format("{:.4g} million", count * 1e-6);
  return fmt::format("{:.0f}", count);
}

std::string zero_name(std::size_t zero) { return zero == 0 ? "data parallel" : fmt::format("ZeRO stage {}", zero); }

std::vector<std::string> zero_sums(const ZeroLesson& lesson) {
  const ZeroQuestion& asked = lesson.asked;
  std::vector<std::string> sums;
  std::string decimal;
  for (std::size_t zero = 0; zero < kZeroStages; ++zero) {
    // As the ZeRO paper counts: its 120 GB are to be found again.
    decimal += (zero == 0 ? "" : ", ") + decimal_size(states_of(lesson, zero));
    if (asked.stage >= 0 && static_cast<int>(zero) != asked.stage) continue;
    std::string parts;
    for (const ZeroState& state : kZeroStates) {
      const double held = state_of(lesson, zero, state.kind);
      parts += fmt::format("{}{} {} ({})", parts.empty() ? "" : ", ", name_of(state.kind),
                           held == 0                                ? "none"
                           : held < state_of(lesson, 0, state.kind) ? fmt::format("1/{}", asked.ranks)
                                                                    : "all",
                           show(Bytes{held}));
    }
    sums.push_back(fmt::format("{}: {}", zero_name(zero), parts));
  }
  const auto last = static_cast<std::size_t>(asked.stage >= 0 ? asked.stage : kZeroStages - 1);
  const double held = states_of(lesson, last), saving = states_of(lesson, 0) / held;
  sums.push_back(fmt::format("{}: {} a rank, {:.4g} bytes a parameter{}", zero_name(last), show(Bytes{held}),
                             held / asked.parameters,
                             last == 0       ? ""
                             : saving == 1.0 ? ", as much as data parallel: there is one rank"
                                             : fmt::format(", {:.4g} times less than data parallel", saving)));
  sums.push_back(fmt::format("all ranks together: {}", show(Bytes{lesson.all[last]})));
  sums.push_back("a rank by stage in powers of 1000, as the ZeRO paper counts: " + decimal);
  return sums;
}

}  // namespace

std::vector<MemoryUse::ByClass> held_memory(const StaticMemory& of_rank, int ranks) {
  TrainingPlan plan = replica_plan(std::make_shared<const Network>(), ranks);
  plan.stages.front().memory = of_rank;
  Names names;
  const TrainingPrograms programs(plan, names);
  IdealMachine machine("rank");
  MemoryUse memory;
  run_programs(machine, programs.all(), {{&memory}});
  std::vector<MemoryUse::ByClass> held;
  for (Actor rank = 0; rank < ranks; ++rank) held.push_back(memory.parts_at_peak(rank));
  return held;
}

ZeroLesson teach_zero(const ZeroQuestion& asked) {
  ZeroLesson lesson{asked};
  for (std::size_t zero = 0; zero < kZeroStages; ++zero) {
    const HeldElements share = held_elements(asked.parameters, zero_shares(static_cast<ZeroStage>(zero), asked.ranks));
    const auto held = held_memory(model_states(share, asked.precision, *asked.optimizer), asked.ranks);
    lesson.rank[zero] =
        *std::max_element(held.begin(), held.end(), [](const auto& a, const auto& b) { return sum_of(a) < sum_of(b); });
    for (const auto& parts : held) lesson.all[zero] += sum_of(parts);
  }
  return lesson;
}

LessonView lesson_view(const ZeroLesson& lesson) {
  const ZeroQuestion& asked = lesson.asked;
  LessonView view{fmt::format("ZeRO: {} parameters in {} with {}, {} rank{}", parameter_words(asked.parameters),
                              asked.precision_name, asked.optimizer->name, asked.ranks, asked.ranks == 1 ? "" : "s"),
                  "Bars of what one rank holds: parameters, gradients, optimizer",
                  {}};
  view.sums = zero_sums(lesson);
  LessonFrame frame{.axis = LessonFrame::Axis::amount, .end = states_of(lesson, 0)};
  for (const ZeroState& state : kZeroStates) frame.legend.push_back({state.letter, name_of(state.kind), state.tone});
  nlohmann::ordered_json stages = nlohmann::ordered_json::array();
  for (std::size_t zero = 0; zero < kZeroStages; ++zero) {
    const double rank = states_of(lesson, zero);
    LessonLane lane{zero_name(zero), "", {}, show(Bytes{rank}), static_cast<int>(zero) == asked.stage};
    nlohmann::ordered_json stage{{"stage", zero}};
    double begin = 0;
    for (const ZeroState& state : kZeroStates) {
      const double held = state_of(lesson, zero, state.kind);
      lane.bars.push_back({begin, begin + held, state.letter, "", state.tone});
      begin += held;
      stage[fmt::format("{}_bytes", name_of(state.kind))] = held;
    }
    stage["rank_bytes"] = rank;
    stage["bytes_per_parameter"] = rank / asked.parameters;
    stage["all_ranks_bytes"] = lesson.all[zero];
    frame.lanes.push_back(std::move(lane));
    stages.push_back(std::move(stage));
  }
  view.frames = {std::move(frame)};
  view.json = json_text(nlohmann::ordered_json{{"parameters", asked.parameters},
                                               {"ranks", asked.ranks},
                                               {"precision", asked.precision_name},
                                               {"optimizer", asked.optimizer->name},
                                               {"stages", stages}},
                        2);
  return view;
}

}  // namespace trainyard
