#pragma once
#include <optional>
#include <string>
#include <vector>

#include "scenarios/src/collectives/collective_run.hpp"
#include "scenarios/src/collectives/modelled_times.hpp"
#include "scenarios/src/collectives/tuner.hpp"
#include "scenarios/src/running/packet_cost.hpp"

namespace trainyard {

template <class T>
class JsonFields;

/// One collective over a range of sizes, as nccl-tests runs it.
struct BenchOptions {
  Operation operation = Operation::all_reduce;
  int ranks = 2;
  std::vector<std::vector<Actor>> groups;  ///< of `ranks` each, at the same time; empty: ranks 0 … ranks−1
  std::string algorithm = "ring";          ///< or "auto"
  CollectiveSettings settings;
  SoftwareStack software;
  Mode mode = Mode::rendezvous;  ///< of messages
  Bytes element{4};
  Bytes first{8}, last;
  double factor = 2;                                   ///< from one size to the next
  bool check = true;                                   ///< of messages: move values, and count wrong ones
  Folding folding = Folding::automatic;                ///< of times: ranks that are alike are simulated once
  TransportKind transport = kDefaultTransport;         ///< of times; values move by the default
  Bytes port_buffer = {};                              ///< by packets: see PacketNetwork
  std::shared_ptr<const ModelledTimes> modelled = {};  ///< of one group by the library's model: no simulation a size
};

/// A row of nccl-tests' table, in its units.
struct BenchRow {
  double size_bytes = 0;  ///< as nccl-tests counts it: what divides among the ranks in units of 16 bytes
  double count = 0;       ///< elements
  double time_us = 0, algbw_GBps = 0, busbw_GBps = 0;
  std::optional<std::int64_t> wrong, wrong_in_place;  ///< elements; none where no values are moved
  std::string algorithm;                              ///< "auto": which it chose; a modelled one: with its protocol
  std::optional<double> measured_us, error;           ///< beside a measurement: simulated over measured, less one
  std::optional<double> flow_us;                      ///< by packets: of the same by the default transport
};
const JsonFields<BenchRow>& bench_fields();

/// The row of the size that is nearest to `size` from below among those that can be. `measured`: of that size, if known.
BenchRow bench_row(const ClusterSpec&, const BenchOptions&, double size, std::optional<Seconds> measured = {});
/// The sizes asked for. Throws UserError for ranges that hold none, or over 10,000.
std::vector<double> bench_sizes(const BenchOptions&);

/// What it takes to simulate a size packet by packet.
PacketCost packet_cost(const ClusterSpec&, const BenchOptions&, double size);

/// The largest difference of times, bytes by rank and bytes by link between ranks folded and one by one, relative.
double fold_difference(const ClusterSpec&, const BenchOptions&, double size);

/// Elements that are not what the operation gives, by its definition: computed on arrays of at most 4,096 elements that
/// the same messages move. In place, or out of place (a changed input counts too).
long wrong_elements(const ClusterSpec&, const CollectiveRunOptions&);

}  // namespace trainyard
