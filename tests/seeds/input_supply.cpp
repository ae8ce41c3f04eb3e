// IO-01, IO-02, CACHE-01: reading, decoding and copying of samples, their overlap, and the host's page cache.
#include <fmt/format.h>

#include "models/hardware/input_supply.hpp"
#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/running/steady_state.hpp"
#include "scenarios/src/running/step_machine.hpp"
#include "sim/executor/simulation.hpp"
#include "sim/observers/traffic.hpp"
#include "strategies/step/training_programs.hpp"
#include "tests/seeds/transfers.hpp"

namespace trainyard {
namespace {

constexpr BytesPerSecond kDrive{16e9}, kPcie{32e9};

/// Returns a box with one GPU and one drive.
ClusterSpec one_box(BytesPerSecond drive) {
  return cluster_of(1, fmt::format("interconnect: pcie\npcie: {{rate: {} B/s, latency: 0 us}}\n"
                                   "nvme: {{count: 1, read: {} B/s, latency: 0 us, lanes: 16}}\n",
                                   kPcie.value, drive.value));
}

/// Returns batches of one sample. Reading, decoding (0: none) and copying of it take these times.
InputChoice lanes_of(Seconds read, Seconds decode, Seconds copy, InputOverlap overlap) {
  InputChoice choice;
  choice.overlap = overlap;
  InputSupply& supply = choice.supply;
  supply.store = SampleStore::drives;
  supply.sample = supply.file = kDrive * read;
  supply.on_gpu = kPcie * copy;
  if (decode.value > 0) {
    supply.workers = 1;
    supply.rate = 1 / decode.value;
  }
  return choice;
}

/// Times and reads of a run.
struct FedRun {
  double end = 0;                  // s
  double step = 0, computing = 0;  // s, share; without the first steps
  double read = 0, reading = 0;    // bytes; s in which something was read
};

/// Simulates `steps` steps of a GPU that computes for `train` on each batch. `reads`: bytes that each step reads;
/// empty: those of `choice`.
FedRun run_fed(const ClusterSpec& cluster, const InputChoice& choice, Seconds train, int steps,
               const std::vector<Bytes>& reads = {}) {
  constexpr int warm_steps = 10;
  Network network;
  Layer& layer = network.layers.emplace_back();
  layer.name = "all";
  layer.forward.push_back(
      {"train", flops_work(cluster.node.gpu.peak[static_cast<std::size_t>(Precision::fp32)] * train, Precision::fp32)});
  TrainingPlan plan = replica_plan(std::make_shared<const Network>(network), 1);
  ClusterMachine machine(cluster, SoftwareStack{});
  InputRun input(choice, plan.mesh, 1, machine);
  if (!reads.empty()) input.plan().read = reads;
  plan.steps = steps;
  plan.marks_steps = true;
  input.feed(plan);
  Names names;
  const PassTables tables(plan, names);
  const TrainingStreams streams(plan);
  Breakdown breakdown(names);
  SteadyWindow window(breakdown, names.intern(kStepOver), warm_steps, steps - warm_steps);
  Traffic traffic(input.machine().links());
  Programs programs;
  programs.push_back(training_program(0, plan, tables, streams));
  input.add_to(programs, names);
  const double end = run_programs(input.machine(), std::move(programs), {{&breakdown, &window, &traffic}}).end.value;
  const Actor loader = input.machine().groups().front().loader;
  const BreakdownParts parts = window.parts(0);
  return {end, parts.total.value / (steps - warm_steps), parts.work.at("compute") / parts.total,
          traffic.received(loader).value, breakdown.parts(loader).exposed.at("read").value};
}

Seconds ms(double number) { return Seconds{number * 1e-3}; }

SeedFigures io_01(const Node& inputs) {
  const int steps = static_cast<int>(number_of(inputs, "steps"));
  SeedFigures got;
  const std::pair<const char*, InputOverlap> overlaps[] = {
      {"serial", InputOverlap::none}, {"prefetch", InputOverlap::prefetch}, {"full_pipeline", InputOverlap::full}};
  for (const auto& [name, overlap] : overlaps) {
    const FedRun fed = run_fed(one_box(kDrive),
                               lanes_of(ms(number_of(inputs, "read_ms")), ms(number_of(inputs, "preprocess_ms")),
                                        ms(number_of(inputs, "h2d_ms")), overlap),
                               ms(number_of(inputs, "train_ms")), steps);
    got[fmt::format("{}_step_ms", name)] = fed.step * 1e3;
    got[fmt::format("{}_total_ms", name)] = fed.end * 1e3;
  }
  return got;
}

SeedFigures io_02(const Node& inputs) {
  SeedFigures got;
  const Seconds half = ms(number_of(inputs, "io_ms") / 2);  // half to read, half to copy
  for (const double train : numbers_of(inputs, "gpu_ms")) {
    const FedRun fed = run_fed(one_box(kDrive), lanes_of(half, {}, half, InputOverlap::prefetch), ms(train), 50);
    got[fmt::format("step_ms {}", train)] = fed.step * 1e3;
    got[fmt::format("gpu_utilisation {}", train)] = fed.computing;
  }
  return got;
}

SeedFigures cache_01(const Node& inputs) {
  constexpr int files = 100;
  const Bytes file{number_of(inputs, "dataset_GB") * 1e9 / files};
  const BytesPerSecond storage{number_of(inputs, "storage_GBps") * 1e9};
  SeedFigures got;
  for (const double room : numbers_of(inputs, "host_free_GB"))
    for (const CachePolicy policy : {CachePolicy::lru, CachePolicy::pinned}) {
      const std::vector<Bytes> reads =
          missed_reads(files, file, PageCache(Bytes{room * 1e9}, policy), ReadOrder::sequential, 2);
      const FedRun fed =
          run_fed(one_box(storage), lanes_of(file / kDrive, {}, ms(1), InputOverlap::full), ms(1), files, reads);
      const bool lru = policy == CachePolicy::lru;
      got[fmt::format("epoch2_storage_read_GB_{} {}", lru ? "lru" : "pinned_half", room)] = fed.read * 1e-9;
      if (lru) got[fmt::format("epoch2_read_s_lru {}", room)] = fed.reading;
    }
  return got;
}

const RegisterSeed supply_seeds[] = {{"IO-01", io_01}, {"IO-02", io_02}, {"CACHE-01", cache_01}};

}  // namespace
}  // namespace trainyard
