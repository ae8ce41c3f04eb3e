#pragma once
#include <string>

#include "scenarios/src/sizing/size_training.hpp"

namespace trainyard {

/// The training of a row on a part of its samples.
struct PartOfTraining {
  SizeRow row;
  double end = 0;     ///< days until it ends, including the delivery
  double needed = 0;  ///< the least deadline that it meets, with the requested probability, days
};

/// Ways to train on owned and bought nodes, on the rows of an answer.
class IslandRows {
 protected:
  /// Both must outlive this object.
  IslandRows(SizeAnswer& answer, const SizeQuestion& question) : answer_(answer), question_(question) {}

  SizeAnswer& answer_;

  /// Returns the cheapest size in time on these types of nodes, else the fastest one. Null: none was evaluated.
  const SizeRow* best_row(const std::string& node, const std::string& beside) const;
  /// Returns the way of a row.
  SizeIsland island(IslandKind, const SizeRow&) const;
  /// Returns the way of a job on owned nodes and one on the bought nodes. `share`: part of the samples of the first.
  SizeIsland two_jobs(const PartOfTraining& first, const PartOfTraining& second, double share) const;
  static double samples_per_s(const SizeRow& row) { return static_cast<double>(row.batch) / row.step_time; }
  /// Sets the days of a part from its row.
  void take_end(PartOfTraining&) const;

 private:
  const SizeQuestion& question_;
};

}  // namespace trainyard
