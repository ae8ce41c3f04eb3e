#pragma once
#include <array>
#include <string>
#include <vector>

#include "models/software/training_memory.hpp"
#include "scenarios/src/lessons/lesson_view.hpp"
#include "sim/observers/memory_use.hpp"

namespace trainyard {

constexpr int kZeroStages = 4;  ///< 0 being plain data parallel

struct ZeroQuestion {
  double parameters = 0;
  int ranks = 1, stage = -1;  ///< stage −1: none in particular
  std::string precision_name;
  Precision precision{};
  const Optimizer* optimizer = nullptr;
};

/// What a rank holds at each ZeRO stage, simulated.
struct ZeroLesson {
  ZeroQuestion asked;
  std::array<MemoryUse::ByClass, kZeroStages> rank{};  ///< bytes, of the fullest rank
  std::array<double, kZeroStages> all{};               ///< bytes, of all ranks together
};
ZeroLesson teach_zero(const ZeroQuestion&);
LessonView lesson_view(const ZeroLesson&);

/// What every rank holds at most, by memory class, in a step of replicas that keep so much each and compute nothing;
/// simulated.
std::vector<MemoryUse::ByClass> held_memory(const StaticMemory& of_rank, int ranks);

}  // namespace trainyard
