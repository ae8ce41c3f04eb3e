#include "models/fitted/nccl_network_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <set>

#include "models/fitted/fitting.hpp"

namespace trainyard {
namespace {

/// Algorithms whose figures the sweeps determine.
struct Coverage {
  bool rings = false, trees = false, pairs = false, all_to_all = false;
};

Coverage coverage_of(const std::vector<NcclSweep>& sweeps) {
  Coverage coverage;
  for (const NcclSweep& sweep : sweeps) {
    const NcclOperation operation = sweep.call.operation;
    const bool pairs = operation == NcclOperation::alltoall || operation == NcclOperation::sendrecv;
    coverage.pairs |= pairs;
    coverage.all_to_all |= operation == NcclOperation::alltoall;
    const bool tree = operation == NcclOperation::all_reduce && !sweep.call.rings_only;
    coverage.trees |= tree;
    coverage.rings |= !pairs && (!tree || sweep.call.nodes > 2);
  }
  return coverage;
}

/// Latencies of a step of LL, LL128 and Simple in NCCL's own cost model of InfiniBand (NVIDIA/nccl src/graph/tuning.cc,
/// hwLat of trees).
constexpr std::array kTunerHops{5e-6, 8.5e-6, 14e-6};

/// Returns the start of the search: NCCL's own steps times `times`, and estimates for the rest.
NcclNetwork first_guess(const std::string& name, double times) {
  NcclNetwork network;
  network.name = name;
  for (std::size_t p = 0; p < network.hop.size(); ++p) network.hop[p] = Seconds{kTunerHops[p] * times};
  network.peer = Seconds{2e-6};
  network.chunk_time = Seconds{20e-6 * times};
  network.share_ll = 0.1;
  network.share_ll128 = 0.3;
  network.share_ring = network.share_tree = network.share_pairs = 0.92;
  return network;
}

/// Returns the constants that the sweeps determine, at their present values.
std::vector<SearchedConstant> constants_of(NcclNetwork& network, const Coverage& coverage) {
  std::vector<SearchedConstant> constants{
      {"hop_ll", &network.hop[0].value},     {"hop_ll128", &network.hop[1].value},
      {"hop_simple", &network.hop[2].value}, {"chunk_time", &network.chunk_time.value},
      {"share_ll", &network.share_ll},       {"share_ll128", &network.share_ll128}};
  if (coverage.rings) constants.push_back({"share_ring", &network.share_ring});
  if (coverage.trees) constants.push_back({"share_tree", &network.share_tree});
  if (coverage.pairs) constants.push_back({"share_pairs", &network.share_pairs});
  if (coverage.all_to_all) constants.push_back({"peer", &network.peer.value});
  for (SearchedConstant& constant : constants) constant.logarithm = std::log(*constant.value);
  return constants;
}

/// Sets the shares that the sweeps do not determine to those of other algorithms.
void tie_rates(NcclNetwork& network, const Coverage& coverage) {
  if (!coverage.rings) network.share_ring = network.share_tree;
  if (!coverage.trees) network.share_tree = network.share_ring;
  if (!coverage.pairs) network.share_pairs = std::min(network.share_ring, network.share_tree);
}

Seconds predicted(const NcclSweep& sweep, const NcclNetwork& network, Bytes size) {
  NcclCall call = sweep.call;
  call.size = size;
  return nccl_cost_between(sweep.inside, network, call).time;
}

double error_of(const NcclNetwork& network, const std::vector<NcclSweep>& sweeps) {
  constexpr double kMost = 1, kLargeWeight = 2;
  // Prior of the shares: the geometric mean of eight fitted shares. A deviation of a share costs as much as 0.3 of it
  // as the error of one row. Of the weights from 0.02 to 2 this one predicts systems left out best: a fit that follows
  // its few systems closely predicts others worse.
  constexpr double kUsualShare = 0.83, kPrior = 0.3;
  // Upper limit, because of headers: the best rings have 391 of 400 GB/s (two and eight nodes of H100 on InfiniBand).
  constexpr double kMostShare = 0.98;
  double sum = 0;
  for (const double share : {network.share_ring, network.share_tree, network.share_pairs}) {
    if (share > kMostShare) return std::numeric_limits<double>::infinity();
    sum += kPrior * std::abs(std::log(share / kUsualShare));
  }
  // Prior of LL and LL128, which many sweeps do not distinguish from Simple: the shares fitted to InfiniBand, whose
  // sweeps do, and the ratios of the steps in NCCL's own model.
  constexpr double kUsualLl = 0.24, kUsualLl128 = 0.4;
  if (std::max(network.share_ll, network.share_ll128) > 1) return std::numeric_limits<double>::infinity();
  sum += kPrior *
         (std::abs(std::log(network.share_ll / kUsualLl)) + std::abs(std::log(network.share_ll128 / kUsualLl128)));
  for (std::size_t p = 0; p < 2; ++p)
    sum += kPrior * std::abs(std::log(network.hop[p] / network.hop[2] / (kTunerHops[p] / kTunerHops[2])));
  constexpr Seconds kLeastChunk{0.1e-6};
  for (const Seconds hop : network.hop)
    if (hop < network.wires || network.chunk_time < kLeastChunk) return std::numeric_limits<double>::infinity();
  for (const NcclSweep& sweep : sweeps) {
    double sweep_error = 0;
    for (const auto& [size, time] : sweep.rows)
      sweep_error += (size >= kLargeCollective ? kLargeWeight : 1) *
                     std::min(kMost, std::abs(std::log(predicted(sweep, network, size) / time)));
    sum += sweep_error /
           std::sqrt(static_cast<double>(sweep.rows.size()));  // long sweeps count more, but less than in proportion
  }
  return sum;
}

/// Searches from `network` on, and sets it to the best network found. Returns its error.
double search(NcclNetwork& network, const std::vector<NcclSweep>& sweeps, const Coverage& coverage) {
  std::vector<SearchedConstant> constants = constants_of(network, coverage);
  const double error = search(constants, [&] {
    tie_rates(network, coverage);
    return error_of(network, sweeps);
  });
  tie_rates(network, coverage);
  return error;
}

std::vector<std::string> unidentified(NcclNetwork network, const std::vector<NcclSweep>& sweeps,
                                      const Coverage& coverage) {
  constexpr double kMoved = 1.25, kLeastDifference = 0.002;
  const double error = error_of(network, sweeps);
  std::vector<std::string> keys = undetermined_constants(
      constants_of(network, coverage), std::log(kMoved), [&] { return error_of(network, sweeps); },
      [error](double moved) { return moved / error - 1 >= kLeastDifference; });
  if (!coverage.rings) keys.emplace_back("share_ring");
  if (!coverage.trees) keys.emplace_back("share_tree");
  if (!coverage.pairs) keys.emplace_back("share_pairs");
  if (!coverage.all_to_all) keys.emplace_back("peer");
  return keys;
}

/// Rounds all figures to four digits, as in the entry.
void round_figures(NcclNetwork& network) {
  Coverage all{true, true, true, true};
  for (const SearchedConstant& constant : constants_of(network, all))
    *constant.value = std::stod(fmt::format("{:.4g}", *constant.value));
}

}  // namespace

NcclNetworkFit fit_nccl_network(const std::string& name, const std::vector<NcclSweep>& sweeps) {
  if (sweeps.empty()) throw UserError(fmt::format("nccl-network {}: no rows to fit it to", name));
  const Coverage coverage = coverage_of(sweeps);
  Seconds wires = sweeps.front().call.wires;
  for (const NcclSweep& sweep : sweeps) wires = std::min(wires, sweep.call.wires);
  NcclNetworkFit best;
  double least = std::numeric_limits<double>::infinity();
  for (const double times : {1.0, 3.0, 10.0, 30.0}) {
    NcclNetwork network = first_guess(name, times);
    network.wires = wires;
    for (Seconds& hop : network.hop) hop = std::max(hop, wires * 1.5);
    const double error = search(network, sweeps, coverage);
    if (error >= least) continue;
    least = error;
    best.network = network;
  }
  std::set<std::string> systems;
  for (const NcclSweep& sweep : sweeps) systems.insert(sweep.system);
  best.network.systems = static_cast<int>(systems.size());
  best.unidentified = unidentified(best.network, sweeps, coverage);
  round_figures(best.network);
  return best;
}

std::vector<LeftOutRow> left_out_errors(const NcclNetwork& fitted, const std::vector<NcclSweep>& sweeps) {
  std::set<std::string> sources;
  for (const NcclSweep& sweep : sweeps) sources.insert(sweep.source);
  std::vector<LeftOutRow> rows;
  if (sources.size() < 2) return rows;
  for (const std::string& source : sources) {
    std::vector<NcclSweep> others;
    std::copy_if(sweeps.begin(), sweeps.end(), std::back_inserter(others),
                 [&](const NcclSweep& s) { return s.source != source; });
    NcclNetwork network = fitted;
    search(network, others, coverage_of(others));
    for (std::size_t s = 0; s < sweeps.size(); ++s) {
      if (sweeps[s].source != source) continue;
      for (std::size_t r = 0; r < sweeps[s].rows.size(); ++r) {
        const auto& [size, time] = sweeps[s].rows[r];
        rows.push_back({s, r, predicted(sweeps[s], network, size) / time - 1});
      }
    }
  }
  return rows;
}

}  // namespace trainyard
