#pragma once
#include <deque>
#include <map>
#include <tuple>

#include "sim/series.hpp"
#include "strategies/step/pass_table.hpp"
#include "strategies/step/training_streams.hpp"

namespace trainyard {

/// Passes through all layers of a model chunk as one operation (Kind::series): kernels, and exchanges whose members are
/// all one simulated actor. At most one exchange at a time runs beside kernels. A series has the operations that the
/// layers would yield one by one, in the same order.
class PassSeries {
 public:
  /// Plan, tables and streams must outlive this object.
  PassSeries(const TrainingPlan&, const PassTables&, const TrainingStreams&);

  struct ChunkSeries {
    Series series;
    Tag number = 0;
    bool begins_with_exchange = false;
    /// False if several exchanges run beside kernels. The layers then yield their operations one by one.
    bool is_valid = true;
    int pending_exchanges = 0;  ///< number of exchanges that the next operation waits for
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
