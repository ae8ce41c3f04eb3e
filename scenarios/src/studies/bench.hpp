#pragma once
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/src/collectives/collective_run.hpp"
#include "scenarios/src/collectives/tuner.hpp"
#include "scenarios/src/running/packet_cost.hpp"

namespace trainyard {

template <class T>
class JsonFields;

/// One collective over a range of sizes, as nccl-tests runs it.
struct BenchOptions {
  Operation operation = Operation::all_reduce;
  int ranks = 2;
  std::vector<std::vector<Actor>> groups;  ///< concurrent groups of `ranks` ranks each; empty: ranks 0 … ranks−1
  std::string algorithm = "ring";          ///< name of an algorithm, or "auto"
  CollectiveSettings settings;
  SoftwareStack software;
  Mode mode = Mode::rendezvous;  ///< mode of messages
  Bytes element{4};
  Bytes first{8}, last;
  double factor = 2;                            ///< factor from one size to the next
  bool check = true;                            ///< moves values by messages and counts wrong ones
  Folding folding = Folding::automatic;         ///< folding of equivalent ranks, for the times
  TransportKind transport = kDefaultTransport;  ///< transport for the times; values move by the default one
  Bytes port_buffer = {};                       ///< switch port buffer by packets, see PacketNetwork
  SlowParts slow = {};                          ///< links with a lower rate for a time
  std::string kind;  ///< kind of machine whose errors make intervals (see `collective_kind`); "": no intervals
  NcclRatios::Sizes measured = {};  ///< sizes of collectives to which the node is anchored
  /// Times of one group by the library's model, without a simulation.
  std::shared_ptr<const ModelledTimes> modelled = {};
};

/// A row of nccl-tests' table, in the units of nccl-tests.
struct BenchRow {
  /// Size of the data as nccl-tests counts it: rounded down to divide among the ranks in units of 16 bytes.
  double size_bytes = 0;
  double count = 0;  ///< number of elements
  double time_us = 0, algbw_GBps = 0, busbw_GBps = 0;
  std::optional<std::int64_t> wrong, wrong_in_place;  ///< number of wrong elements; no value: no values were moved
  std::string algorithm;                              ///< algorithm in use, with its protocol if it is modelled
  int channels = 1;  ///< number of rings, or other parts of the data, at the same time; 0: NCCL takes no ring
  /// Lower and upper end of the interval that holds a measured time with a probability of 80 %.
  std::optional<std::array<double, 2>> time_interval_us;
  std::optional<double> measured_us, error;  ///< measured time, and simulated / measured − 1
  std::optional<double> flow_us;             ///< with packets: time by the default transport
  /// Time by which NCCL chose its algorithm, without contention, if contention makes it over 5 % longer.
  std::optional<double> chosen_by_us;
};
const JsonFields<BenchRow>& bench_fields();

/// Returns the row of the largest possible size that is not above `size`. `measured`: measured time of that size, if
/// known.
BenchRow bench_row(const ClusterSpec&, const BenchOptions&, double size, std::optional<Seconds> measured = {});
/// Returns the sizes of the range. Throws UserError for an empty range, or one of over 10,000 sizes.
std::vector<double> bench_sizes(const BenchOptions&);

/// Estimates the cost of the simulation of a size packet by packet.
PacketCost packet_cost(const ClusterSpec&, const BenchOptions&, double size);

/// Simulates a size with folding and rank by rank. Returns the largest relative difference of times, bytes by rank and
/// bytes by link.
double fold_difference(const ClusterSpec&, const BenchOptions&, double size);

}  // namespace trainyard
