#include "strategies/step/training_programs.hpp"

#include "sim/executor/simulation.hpp"

namespace trainyard {

TrainingPrograms::TrainingPrograms(const TrainingPlan& plan, Names& names)
    : plan_(plan), tables_(plan, names), streams_(plan) {}

std::unique_ptr<Program> TrainingPrograms::of(int rank) const {
  return training_program(rank, plan_, tables_, streams_);
}

void TrainingPrograms::add_to(Simulation& simulation) const {
  for (int rank = 0; rank < plan_.ranks(); ++rank) simulation.add(rank, of(rank));
}

}  // namespace trainyard
