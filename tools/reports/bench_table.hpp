#pragma once
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "scenarios/src/studies/bench.hpp"

namespace trainyard {

/// The rows of a benchmark, and what they were measured on.
struct BenchTable {
  std::string machine;  ///< name of the machine
  std::string device;   ///< noun for its chips, such as GPU
  BenchOptions options;
  std::string type;    ///< type of the elements, in the words of nccl-tests
  std::string scaled;  ///< why the fitted model is less certain here than on the machine of its fit; empty: it is not
  std::string judged;  ///< error of the fitted model, shown if there are no intervals; empty: messages are simulated
  std::string capped;  ///< adapters between nodes that a slot or a switch slows down; empty: none
  std::vector<BenchRow> rows;
  std::string unfinished;  ///< how many sizes are done if a signal ended the benchmark; empty: all
};

/// The table of nccl-tests. Times in place and out of place are equal; values are checked in both.
std::string bench_text(const BenchTable&);
nlohmann::ordered_json bench_json(const BenchTable&);

/// The launch of the calls in a log of nccl-tests, from its header. A table has a process for each GPU. Throws
/// UserError if the log cannot be read.
NcclLaunch launch_in(const std::string& log, Operation);

/// Times by size, bytes, from a log of nccl-tests or a table of measured rows, for this operation and these numbers of
/// ranks and nodes. Several times of one size are averaged. Throws UserError if the log cannot be read or has no such
/// row.
std::map<double, Seconds> measured_times(const std::string& log, const BenchOptions&, int nodes);

}  // namespace trainyard
