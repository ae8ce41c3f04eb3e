#pragma once
#include <filesystem>
#include <string>

#include "scenarios/src/studies/sweeps/sweep.hpp"
#include "sim/process/output.hpp"

namespace trainyard {

/// Writes the files of a sweep whose points are not kept in memory. They have the same bytes as `sweep_lines` and
/// `sweep_csv`.
class StreamedSweep {
 public:
  /// `points`, `csv`: files of the points and of the table; one of them may be empty. All functions throw UserError if
  /// a file cannot be written.
  StreamedSweep(const Sweep&, const StudyShard&, const std::filesystem::path& points, std::filesystem::path csv);

  /// Takes the next point of the shard.
  void take(std::size_t index, const SweepPoint&);
  bool is_complete() const { return whole_; }  ///< all points so far were done
  /// Completes the files after the last point.
  void finish();
  /// Returns "3 of 200000 points are impossible; the first: …"; "" if all are possible.
  std::string impossible() const;

 private:
  const Sweep& sweep_;
  bool keep_;
  std::filesystem::path csv_;
  AtomicOutput lines_;
  SweepTable table_;
  bool whole_ = true;
  std::size_t points_ = 0, impossible_ = 0;
  std::string first_error_;

  void write_table();
};

}  // namespace trainyard
