#include "strategies/step/training_programs.hpp"

namespace trainyard {

TrainingPrograms::TrainingPrograms(const TrainingPlan& plan, Names& names)
    : plan_(plan), tables_(plan, names), streams_(plan) {}

std::unique_ptr<Program> TrainingPrograms::of(int rank) const {
  return training_program(rank, plan_, tables_, streams_);
}

Programs TrainingPrograms::all() const {
  Programs programs;
  for (int rank = 0; rank < plan_.ranks(); ++rank) programs.push_back(of(rank));
  return programs;
}

}  // namespace trainyard
