#pragma once
#include <memory>

#include "sim/program.hpp"
#include "strategies/step/pass_table.hpp"
#include "strategies/step/training_streams.hpp"

namespace trainyard {

/// All steps of one rank. Plan, tables and streams must outlive the program.
std::unique_ptr<Program> training_program(int rank, const TrainingPlan&, const PassTables&, const TrainingStreams&);

}  // namespace trainyard
