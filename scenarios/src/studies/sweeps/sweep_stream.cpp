#include "scenarios/src/studies/sweeps/sweep_stream.hpp"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "scenarios/src/studies/sweeps/sweep_journal.hpp"
#include "sim/json_text.hpp"

namespace trainyard {

StreamedSweep::StreamedSweep(const Sweep& sweep, const StudyShard& shard, const std::filesystem::path& points,
                             std::filesystem::path csv)
    : sweep_(sweep),
      keep_(!points.empty()),
      csv_(std::move(csv)),
      lines_(keep_ ? points : std::filesystem::path(csv_.string() + ".points")),
      table_(sweep) {
  lines_.add(sweep_head_line(sweep, shard));
}

void StreamedSweep::take(std::size_t index, const SweepPoint& point) {
  whole_ = whole_ && point.done;
  if (!whole_) return;
  ++points_;
  if (!point.error.empty() && impossible_++ == 0) first_error_ = point.error;
  if (!csv_.empty()) table_.note(point);
  lines_.add(seal_line(sweep_line(sweep_, index, point)) + "\n");
}

void StreamedSweep::finish() {
  if (!csv_.empty()) write_table();
  if (keep_) lines_.commit();
}

/// Writes the table. Its columns are known only after the last point, so rows are made from the written lines.
void StreamedSweep::write_table() {
  AtomicOutput table(csv_);
  table.add(table_.head());
  std::ifstream in(lines_.flush());
  std::string text;
  std::getline(in, text);  // skip the study's line
  while (std::getline(in, text)) {
    const nlohmann::ordered_json line = parse_ordered_json(text);
    table.add(table_.row(line.at("point"), sweep_point_in(line)));
  }
  table.commit();
}

std::string StreamedSweep::impossible() const {
  if (impossible_ == 0) return "";
  return fmt::format("{} of {} points are impossible; the first: {}", impossible_, points_, first_error_);
}

}  // namespace trainyard
