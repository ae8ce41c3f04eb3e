// RING-*: the ring all-reduce step by step, its literal listing, its deadlock, and gather + broadcast.
#include <fmt/format.h>

#include "scenarios/src/collectives/collective_run.hpp"
#include "tests/collective_options.hpp"
#include "tests/seeds/seed_case.hpp"

namespace trainyard {
namespace {

CollectiveRun symbolic_ring(const std::string& algorithm, int ranks) {
  CollectiveRunOptions o = test::collective_options(Operation::all_reduce, algorithm, ranks, Bytes{1e6 * ranks});
  o.values = contributor_values(ranks);
  return run_collective(star_cluster(ranks, BytesPerSecond{1e9}), o);
}

SeedFigures buffers_after_each_step(const CollectiveRun& run, int ranks) {
  SeedFigures got;
  for (std::size_t step = 0; step < run.steps.size(); ++step)
    for (int rank = 0; rank < ranks; ++rank) {
      const bool reducing = static_cast<int>(step) < ranks - 1;
      std::vector<std::string> words;
      for (const double value : run.steps[step][static_cast<std::size_t>(rank)])
        words.push_back(contributors(value, ranks));
      got[fmt::format("{} {} GPU{}", reducing ? "scatter-reduce" : "all-gather",
                      reducing ? step + 1 : step + 2 - static_cast<std::size_t>(ranks), rank)] =
          fmt::format("{}", fmt::join(words, " "));
    }
  got["total_steps"] = run.steps.size();
  return got;
}

SeedFigures ring_01(const Node& inputs) {
  const int ranks = static_cast<int>(number_of(inputs, "gpus"));
  const CollectiveRun run = symbolic_ring("ring", ranks);
  SeedFigures got = buffers_after_each_step(run, ranks);
  std::string owners;
  const auto& buffers = run.steps[static_cast<std::size_t>(ranks) - 2];
  for (int rank = 0; rank < ranks; ++rank)
    for (int chunk = 0; chunk < ranks; ++chunk) {
      // A complete chunk has contributions of all ranks.
      const std::string text =
          contributors(buffers[static_cast<std::size_t>(rank)][static_cast<std::size_t>(chunk)], ranks);
      if (std::count(text.begin(), text.end(), '+') == ranks - 1)
        owners += fmt::format("{}GPU{}:{}", owners.empty() ? "" : " ", rank, static_cast<char>('a' + chunk));
    }
  got["owner_after_scatter_reduce"] = owners;
  got["hazards"] = run.hazards.size();
  return got;
}

SeedFigures ring_02(const Node& inputs) {
  const int ranks = static_cast<int>(number_of(inputs, "gpus"));
  const CollectiveRun run = symbolic_ring("ring-literal", ranks);
  SeedFigures got = buffers_after_each_step(run, ranks);
  got["final_equals_RING-01"] = run.values == symbolic_ring("ring", ranks).values;
  got["hazard_reported"] = !run.hazards.empty();
  return got;
}

SeedFigures ring_03(const Node& inputs) {
  const int ranks = static_cast<int>(number_of(inputs, "gpus"));
  CollectiveRunOptions o;
  o.ranks = ranks;
  o.options.size = Bytes{1e6};
  o.options.one_stream = true;  // blocking: a rank posts its receive after its send has ended
  SeedFigures got;
  try {
    run_collective(star_cluster(ranks, BytesPerSecond{1e9}), o);
    got["outcome"] = "finished";
  } catch (const Deadlock& deadlock) {
    const std::string text = deadlock.what();
    got["outcome"] = "deadlock";
    int sends = 0;
    for (int rank = 0; rank < ranks; ++rank)
      sends += text.find(fmt::format("rank {} (node0/gpu{}) sends to rank {}", rank, rank, (rank + 1) % ranks)) !=
                       std::string::npos
                   ? 1
                   : 0;
    got["ranks_in_send"] = sends;
    got["cycle_named"] = text.ends_with("again");
  }
  return got;
}

SeedFigures ring_04(const Node& inputs) {
  CollectiveRunOptions o =
      test::collective_options(Operation::all_reduce, "gather-broadcast", static_cast<int>(number_of(inputs, "n")),
                               Bytes{number_of(inputs, "S_bytes")});
  const CollectiveRun run =
      run_collective(star_cluster(o.ranks, BytesPerSecond{number_of(inputs, "link_GBps") * 1e9}), o);
  return {{"root_rx_bytes", run.received[0]},
          {"root_tx_bytes", run.sent[0]},
          {"total_bytes", run.total},
          {"time_ms", run.time * 1e3},
          {"bottleneck", "link of " + run.busiest_device}};
}

const RegisterSeed ring_seeds[] = {
    {"RING-01", ring_01}, {"RING-02", ring_02}, {"RING-03", ring_03}, {"RING-04", ring_04}};

}  // namespace
}  // namespace trainyard
