#pragma once
#include <deque>
#include <map>
#include <tuple>

#include "sim/series.hpp"
#include "strategies/step/pass_table.hpp"
#include "strategies/step/training_streams.hpp"

namespace trainyard {

/// Passes through all layers of a model chunk as one operation (Kind::series): kernels, and exchanges whose members
/// are all one actor. At most one exchange at a time goes on beside kernels. The operations and their order are those
/// of the layers one by one.
class PassSeries {
 public:
  /// Plan, tables and streams must outlive this object.
  PassSeries(const TrainingPlan&, const PassTables&, const TrainingStreams&);

  struct ChunkSeries {
    Series series;
    Tag number = 0;
    bool meets_first = false;  ///< true if its first part is an exchange
    /// False: several exchanges go on beside kernels, so layers yield their operations one by one.
    bool whole = true;
    int left = 0;  ///< number of exchanges that the next operation waits for
  };
  /// True if passes can be series in this plan.
  bool has_passes() const { return any_; }
  /// first: see PassTables::pass; sends: a message to another stage follows.
  const ChunkSeries& chunk(Pass pass, int stage, int chunk, bool first, bool sends) const {
    const ChunkSeries*& entry = by_pass_[{pass, stage, chunk, first, sends}];
    return entry ? *entry : *(entry = &make(pass, stage, chunk, first, sends));
  }
  const Series& series(Tag number) const { return chunks_.at(number).series; }

 private:
  const TrainingPlan& plan_;
  const PassTables& tables_;
  const TrainingStreams& streams_;
  bool any_;
  mutable std::map<std::tuple<Pass, int, int, bool, bool>, const ChunkSeries*> by_pass_;
  mutable std::deque<ChunkSeries> chunks_;

  const ChunkSeries& make(Pass, int stage, int chunk, bool first, bool sends) const;
};

}  // namespace trainyard
