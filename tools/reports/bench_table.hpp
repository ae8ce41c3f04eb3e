#pragma once
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "scenarios/src/studies/bench.hpp"

namespace trainyard {

/// A benchmark's rows.
struct BenchTable {
  std::string machine, device;  ///< its name, and what its chips are called
  BenchOptions options;
  std::string type;    ///< of the elements, as nccl-tests calls it
  std::string scaled;  ///< of a modelled one: why it is less sure than a fit
  std::string judged;  ///< of a modelled one: the error to expect
  std::vector<BenchRow> rows;
};

/// nccl-tests' table. What is simulated is the same in place and out of place, except that values are checked in both.
std::string bench_text(const BenchTable&);
nlohmann::ordered_json bench_json(const BenchTable&);

/// How the program of a log of nccl-tests launched its calls, by its header; of a table: a process for each GPU. Throws
/// UserError where the log cannot be read.
NcclLaunch launch_in(const std::string& log, Operation);

/// Times of a log of nccl-tests (or a table of measured rows) for this operation, number of ranks and of nodes; of
/// several for one size, the mean. Throws UserError where the log cannot be read, or has none.
std::map<double, Seconds> measured_times(const std::string& log, const BenchOptions&, int nodes);

}  // namespace trainyard
