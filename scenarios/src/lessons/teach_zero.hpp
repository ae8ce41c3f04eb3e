#pragma once
#include <array>
#include <string>
#include <vector>

#include "models/software/training_memory.hpp"
#include "scenarios/src/lessons/lesson_view.hpp"
#include "sim/observers/memory_use.hpp"

namespace trainyard {

constexpr int kZeroStages = 4;  ///< stages 0 (plain data parallelism) to 3

struct ZeroQuestion {
  double parameters = 0;
  int ranks = 1, stage = -1;  ///< stage −1: no stage is selected
  std::string precision_name;
  Precision precision{};
  const Optimizer* optimizer = nullptr;
};

/// The simulated memory at each ZeRO stage.
struct ZeroLesson {
  ZeroQuestion question;
  std::array<MemoryUse::ByClass, kZeroStages> rank{};  ///< bytes of the fullest rank, by stage
  std::array<double, kZeroStages> all{};               ///< bytes of all ranks together, by stage
};
ZeroLesson teach_zero(const ZeroQuestion&);
LessonView lesson_view(const ZeroLesson&);

/// Simulates a step of replicas that store this memory and compute nothing. Returns each rank's peak by memory class.
std::vector<MemoryUse::ByClass> held_memory(const StaticMemory& of_rank, int ranks);

}  // namespace trainyard
