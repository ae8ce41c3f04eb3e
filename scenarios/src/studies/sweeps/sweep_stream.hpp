#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "scenarios/src/studies/sweeps/sweep.hpp"
#include "sim/process/output.hpp"

namespace trainyard {

/// The files of a sweep whose points are not kept in memory: the same bytes as `sweep_lines` and `sweep_csv` give.
class StreamedSweep {
 public:
  /// Where points and table go; one of them may be empty. All throw UserError where a file cannot be written.
  StreamedSweep(const Sweep&, const StudyShard&, const std::filesystem::path& points, std::filesystem::path csv);

  /// The next point of the shard.
  void take(std::size_t index, const SweepPoint&);
  bool whole() const { return whole_; }  ///< all that came were done
  /// After the last one: the files are there.
  void finish();
  /// "3 of 200000 points are impossible; the first: …"; "" where none is.
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
