#pragma once
#include <memory>

#include "sim/folding/outline.hpp"
#include "sim/program.hpp"
#include "strategies/step/pass_series.hpp"
#include "strategies/step/training_streams.hpp"

namespace trainyard {

/// Makes the program of one rank for all steps. Plan, tables, streams and series must outlive it. Null series: no pass
/// is a series.
std::unique_ptr<Program> training_program(int rank, const TrainingPlan&, const PassTables&, const TrainingStreams&,
                                          const PassSeries* = nullptr);

/// The programs of all ranks of a plan, with the tables that they share.
class TrainingPrograms : public ProgramSource {
 public:
  /// The plan and the names must outlive this object, and this object the programs.
  TrainingPrograms(const TrainingPlan&, Names&);

  Actor actors() const override { return plan_.ranks(); }
  ActorOutline outline(Actor rank) const override;
  std::unique_ptr<Program> program(Actor rank) const override;
  Programs programs() const;  ///< indexed by rank
  /// A fingerprint: equal for ranks that compute the same, in groups of the same sizes. At most their messages differ.
  std::uint64_t content(Actor rank) const;
  const PassTables& tables() const { return tables_; }
  const TrainingStreams& streams() const { return streams_; }

 private:
  const TrainingPlan& plan_;
  PassTables tables_;
  TrainingStreams streams_;
  PassSeries series_;

  std::uint64_t own_work(Actor rank) const;
};

}  // namespace trainyard
