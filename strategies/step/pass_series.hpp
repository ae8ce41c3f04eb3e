#pragma once
#include <deque>
#include <map>
#include <tuple>

#include "sim/series.hpp"
#include "strategies/step/pass_table.hpp"
#include "strategies/step/training_streams.hpp"

namespace trainyard {

/// Passes through all layers of a model chunk as one operation (Kind::series): kernels and exchanges, one of
/// them beside kernels at most, where the members of each exchange are one actor. The same operations in the same
/// order as those of the layers one by one.
class PassSeries {
 public:
  /// Plan, tables and streams must outlive it.
  PassSeries(const TrainingPlan&, const PassTables&, const TrainingStreams&);

  struct OfChunk {
    Series series;
    Tag number = 0;
    bool meets_first = false;  ///< its first part is an exchange
    bool whole = true;         ///< false: several exchanges go on beside kernels, the layers are told one by one
    int left = 0;              ///< exchanges that whatever follows waits for
  };
  /// Can passes be series in this plan?
  bool any() const { return any_; }
  /// first: see PassTables::pass; sends: a message to another stage follows.
  const OfChunk& chunk(Pass pass, int stage, int chunk, bool first, bool sends) const {
    const OfChunk*& made = known_[{pass, stage, chunk, first, sends}];
    return made ? *made : *(made = &make(pass, stage, chunk, first, sends));
  }
  const Series& series(Tag number) const { return made_.at(number).series; }

 private:
  const TrainingPlan& plan_;
  const PassTables& tables_;
  const TrainingStreams& streams_;
  bool any_;
  mutable std::map<std::tuple<Pass, int, int, bool, bool>, const OfChunk*> known_;
  mutable std::deque<OfChunk> made_;

  const OfChunk& make(Pass, int stage, int chunk, bool first, bool sends) const;
};

}  // namespace trainyard
