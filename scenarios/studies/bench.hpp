#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/collectives/collective_run.hpp"
#include "scenarios/collectives/tuner.hpp"

namespace trainyard {

/// One collective over a range of sizes, as nccl-tests runs it.
struct BenchOptions {
  Operation operation = Operation::all_reduce;
  int ranks = 2;
  std::vector<std::vector<Actor>> groups;  ///< of `ranks` each, at the same time; empty: ranks 0 … ranks−1
  std::string algorithm = "ring";          ///< or "auto"
  CollectiveSettings settings;
  SoftwareStack software;
  Bytes element{4};
  Bytes first{8}, last;
  double factor = 2;  ///< from one size to the next
  bool check = true;  ///< of messages: move values, and count wrong ones
};

struct BenchRow {
  double size = 0;      ///< bytes, as nccl-tests counts them: what divides among the ranks in units of 16 bytes
  double elements = 0;  ///< nccl-tests' count
  double time = 0;      ///< s
  double algorithm_bandwidth = 0, bus_bandwidth = 0;  ///< bytes/s
  std::optional<long> wrong, wrong_in_place;          ///< elements; none where no values are moved
  std::string algorithm;                              ///< "auto": which it chose
  std::string detail;                                 ///< of a modelled one: protocol
};

nlohmann::json to_json(const BenchRow&);
BenchRow bench_row_from_json(const nlohmann::json&);

/// The row of the size that is nearest to `size` from below among those that can be.
BenchRow bench_row(const ClusterSpec&, const BenchOptions&, double size);
/// The sizes asked for. Throws UserError for ranges that hold none, or over 10,000.
std::vector<double> bench_sizes(const BenchOptions&);

/// Elements that are not what the operation gives, by its definition: computed on arrays of at most 4,096 elements that
/// the same messages move. In place, or out of place (a changed input counts too).
long wrong_elements(const ClusterSpec&, const CollectiveRunOptions&);

}  // namespace trainyard
