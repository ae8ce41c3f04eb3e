#pragma once
#include <memory>

#include "sim/program.hpp"
#include "strategies/step/pass_series.hpp"
#include "strategies/step/training_streams.hpp"

namespace trainyard {

/// All steps of one rank. Plan, tables, streams and series must outlive the program; null: no passes are series.
std::unique_ptr<Program> training_program(int rank, const TrainingPlan&, const PassTables&, const TrainingStreams&,
                                          const PassSeries* = nullptr);

}  // namespace trainyard
