#include "scenarios/src/lessons/teach_zero.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "scenarios/src/answer/json_fields.hpp"
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
  Tone tone;  // colour in the ZeRO paper's figure
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
  const ZeroQuestion& question = lesson.question;
  std::vector<std::string> sums;
  std::string decimal;
  for (std::size_t zero = 0; zero < kZeroStages; ++zero) {
    // Counted as in the ZeRO paper, so that its 120 GB appear here.
    decimal += (zero == 0 ? "" : ", ") + decimal_size(states_of(lesson, zero));
    if (question.stage >= 0 && static_cast<int>(zero) != question.stage) continue;
    std::string parts;
    for (const ZeroState& state : kZeroStates) {
      const double bytes = state_of(lesson, zero, state.kind);
      parts += fmt::format("{}{} {} ({})", parts.empty() ? "" : ", ", name_of(state.kind),
                           bytes == 0                                ? "none"
                           : bytes < state_of(lesson, 0, state.kind) ? fmt::format("1/{}", question.ranks)
                                                                     : "all",
                           show(Bytes{bytes}));
    }
    sums.push_back(fmt::format("{}: {}", zero_name(zero), parts));
  }
  const auto last = static_cast<std::size_t>(question.stage >= 0 ? question.stage : kZeroStages - 1);
  const double bytes = states_of(lesson, last), saving = states_of(lesson, 0) / bytes;
  sums.push_back(fmt::format("{}: {} a rank, {:.4g} bytes a parameter{}", zero_name(last), show(Bytes{bytes}),
                             bytes / question.parameters,
                             last == 0       ? ""
                             : saving == 1.0 ? ", as much as data parallel: there is one rank"
                                             : fmt::format(", {:.4g} times less than data parallel", saving)));
  sums.push_back(fmt::format("all ranks together: {}", show(Bytes{lesson.all[last]})));
  sums.push_back("per rank by stage, in powers of 1000 as the ZeRO paper counts: " + decimal);
  return sums;
}

std::vector<FieldRow> zero_json_rows() {
  return {{"parameters", "number", "number of parameters of the network", ""},
          {"ranks", "number", "number of ranks that share the states", ""},
          {"precision", "text", "precision of the training", ""},
          {"optimizer", "text", "name of the optimizer", ""},
          {"stages", "list", "ZeRO's stages, from 0 on", ""},
          {"stages[].stage", "number", "number of the stage", ""},
          {"stages[].parameters_bytes", "bytes", "parameters that one rank holds", ""},
          {"stages[].gradients_bytes", "bytes", "gradients that one rank holds", ""},
          {"stages[].optimizer_bytes", "bytes", "optimizer states that one rank holds", ""},
          {"stages[].rank_bytes", "bytes", "all states that one rank holds", ""},
          {"stages[].bytes_per_parameter", "bytes", "rank_bytes over the number of parameters", ""},
          {"stages[].all_ranks_bytes", "bytes", "all states that all ranks hold together", ""}};
}
const RegisterJsonReference zero_json_reference{"teach zero", "what one rank holds under ZeRO's stages",
                                                zero_json_rows};

}  // namespace

std::vector<MemoryUse::ByClass> held_memory(const StaticMemory& of_rank, int ranks) {
  TrainingPlan plan = replica_plan(std::make_shared<const Network>(), ranks);
  plan.stages.front().memory = of_rank;
  Names names;
  const TrainingPrograms programs(plan, names);
  IdealMachine machine("rank");
  MemoryUse memory;
  run_programs(machine, programs.programs(), {{&memory}});
  std::vector<MemoryUse::ByClass> peaks;
  for (Actor rank = 0; rank < ranks; ++rank) peaks.push_back(memory.parts_at_peak(rank));
  return peaks;
}

ZeroLesson teach_zero(const ZeroQuestion& question) {
  ZeroLesson lesson{question};
  for (std::size_t zero = 0; zero < kZeroStages; ++zero) {
    const HeldElements share =
        held_elements(question.parameters, zero_shares(static_cast<ZeroStage>(zero), question.ranks));
    const auto peaks = held_memory(model_states(share, question.precision, *question.optimizer), question.ranks);
    lesson.rank[zero] = std::ranges::max(peaks, {}, sum_of);
    for (const auto& parts : peaks) lesson.all[zero] += sum_of(parts);
  }
  return lesson;
}

LessonView lesson_view(const ZeroLesson& lesson) {
  const ZeroQuestion& question = lesson.question;
  LessonView view{fmt::format("ZeRO: {} parameters in {} with {}, {}", parameter_words(question.parameters),
                              question.precision_name, question.optimizer->name, counted_noun(question.ranks, "rank")),
                  "Bars of the memory of one rank: parameters, gradients, optimizer",
                  {}};
  view.sums = zero_sums(lesson);
  LessonFrame frame{.axis = LessonFrame::Axis::amount, .end = states_of(lesson, 0)};
  for (const ZeroState& state : kZeroStates) frame.legend.push_back({state.letter, name_of(state.kind), state.tone});
  nlohmann::ordered_json stages = nlohmann::ordered_json::array();
  for (std::size_t zero = 0; zero < kZeroStages; ++zero) {
    const double rank = states_of(lesson, zero);
    LessonLane lane{zero_name(zero), "", {}, show(Bytes{rank}), static_cast<int>(zero) == question.stage};
    nlohmann::ordered_json stage{{"stage", zero}};
    double begin = 0;
    for (const ZeroState& state : kZeroStates) {
      const double bytes = state_of(lesson, zero, state.kind);
      lane.bars.push_back({begin, begin + bytes, state.letter, "", state.tone});
      begin += bytes;
      stage[fmt::format("{}_bytes", name_of(state.kind))] = bytes;
    }
    stage["rank_bytes"] = rank;
    stage["bytes_per_parameter"] = rank / question.parameters;
    stage["all_ranks_bytes"] = lesson.all[zero];
    frame.lanes.push_back(std::move(lane));
    stages.push_back(std::move(stage));
  }
  view.frames = {std::move(frame)};
  view.json = json_text(nlohmann::ordered_json{{"parameters", question.parameters},
                                               {"ranks", question.ranks},
                                               {"precision", question.precision_name},
                                               {"optimizer", question.optimizer->name},
                                               {"stages", stages}},
                        2);
  return view;
}

}  // namespace trainyard
