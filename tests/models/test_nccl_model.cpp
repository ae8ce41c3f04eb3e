// NCCL's times: the fit to the measured table, and the model without measurements.
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <functional>

#include "models/fitted/nccl_cost.hpp"
#include "models/fitted/nccl_fit.hpp"
#include "tests/replaced_text.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/user_errors.hpp"

namespace models_test_nccl_model {

using namespace trainyard;

namespace {

const std::filesystem::path kTable = TRAINYARD_SOURCE_DIR "/scenarios/measured/tables/nccl.csv";

Node reference(const std::string& name) { return parse_document(name, "test"); }
Gpu catalog_gpu(const std::string& name) { return read_gpu(Catalog().resolve("gpu", reference(name))); }
NcclModel model_of(const std::string& gpu) { return nccl_model_for(catalog_gpu(gpu), Catalog()); }

double microseconds(const NcclModel& model, NcclOperation operation, double size, int gpus) {
  return nccl_cost(model, {operation, Bytes{size}, gpus}).time.value * 1e6;
}

constexpr double kKiB = 1024, kMiB = 1048576;

}  // namespace

TEST_CASE("the catalog's NCCL entries are those that a fit of the measured table writes", "[nccl]") {
  const std::map<std::string, std::string> gpus{
      {"a100_sxm", "a100-sxm4-80gb"}, {"h100_sxm", "h100-sxm5-80gb"}, {"b200_sxm", "b200-sxm-180gb"}};
  const std::vector<NcclLog> logs = read_nccl_logs(kTable, {});
  REQUIRE(logs.size() == gpus.size());
  for (const NcclLog& log : logs) {
    INFO(log.gpu);
    std::string name = log.gpu;
    std::replace(name.begin(), name.end(), '_', '-');
    const NcclFit fit = fit_nccl({log}, catalog_gpu(gpus.at(log.gpu)), name);
    CHECK(fit.entry == test::file_text(TRAINYARD_SOURCE_DIR "/models/catalog/nccls/" + name + ".yaml"));
    CHECK(fit.fitted.rows == 120);
    CHECK(fit.judged.rows == 132);
    CHECK(fit.judged.median <= 0.04);
    CHECK(fit.judged.p90 <= 0.15);
    CHECK(fit.entry.find("ai-dynamo/aiconfigurator 095f58a5 (Apache-2.0)") != std::string::npos);
  }
}

TEST_CASE("every NCCL entry of the catalog has sourced figures", "[nccl][catalog]") {
  const Catalog catalog;
  REQUIRE(catalog.names("nccl").size() == 4);
  for (const std::string& name : catalog.names("nccl")) {
    const NcclModel model = read_nccl_model(catalog.resolve("nccl", reference(name)));
    REQUIRE_FALSE(model.sources.empty());
    for (const FigureSource& f : model.sources) {
      INFO(f.figure);
      CHECK(f.source.size() > 20);
    }
    CHECK(model.link == nccl_link(catalog_gpu(model.gpu)));
    for (const auto& [operation, curves] : model.curves)
      for (const NcclCurve& c : curves) CHECK(c.simple.rate < model.link);  // no ring is faster than its link
  }
  for (const std::string& name : catalog.names("nccl-network"))
    for (const FigureSource& f : read_nccl_network(catalog.resolve("nccl-network", reference(name))).sources)
      CHECK(f.source.size() > 20);
}

TEST_CASE("time never falls with size, and stays plausible, for all GPUs, operations and numbers of GPUs", "[nccl]") {
  const Catalog catalog;
  for (const std::string& name : catalog.names("gpu")) {
    const Gpu gpu = catalog_gpu(name);
    if (gpu.kind == ChipKind::tpu) continue;
    const NcclModel model = nccl_model_for(gpu, catalog);
    for (int o = 0; o < kNcclOperations; ++o)
      for (int gpus = 1; gpus <= 16; ++gpus) {
        const auto operation = static_cast<NcclOperation>(o);
        double before = 0;
        bool rises = true, sane = true;
        for (double size = 0; size < 64e9; size = size < 256 ? size + 64 : size * 1.19) {
          const NcclCost cost = nccl_cost(model, {operation, Bytes{size}, gpus});
          rises &= cost.time.value >= before;
          sane &= std::isfinite(cost.time.value) && cost.time.value > 0 && cost.latency <= cost.time;
          before = cost.time.value;
        }
        INFO(name << " " << name_of(operation) << " " << gpus);
        CHECK(rises);
        CHECK(sane);
      }
  }
}

TEST_CASE("times for other numbers of GPUs are interpolated or extrapolated", "[nccl]") {
  const NcclModel a100 = model_of("a100-sxm4-80gb");
  for (const auto operation : {NcclOperation::all_reduce, NcclOperation::all_gather, NcclOperation::reduce_scatter}) {
    INFO(name_of(operation));
    for (int gpus = 3; gpus <= 16; ++gpus)
      CHECK(microseconds(a100, operation, 512, gpus) >= microseconds(a100, operation, 512, gpus - 1));
    for (const int gpus : {3, 5, 6, 7}) {
      const double below = microseconds(a100, operation, 512 * kMiB, gpus > 4 ? 4 : 2);
      const double time = microseconds(a100, operation, 512 * kMiB, gpus);
      CHECK(time > below);
      CHECK(time < microseconds(a100, operation, 512 * kMiB, gpus > 4 ? 8 : 4));
    }
  }
  CHECK(microseconds(a100, NcclOperation::all_reduce, 512, 1) < microseconds(a100, NcclOperation::all_reduce, 512, 2));
  CHECK(nccl_cost(model_of("gb200"), {NcclOperation::all_reduce, Bytes{512 * kMiB}, 72}).in_switch);
}

TEST_CASE("the switch sums from six GPUs of Hopper and Blackwell on, and fewer bytes are sent", "[nccl]") {
  const NcclModel h100 = model_of("h100-sxm5-80gb");
  NcclCall call{NcclOperation::all_reduce, Bytes{512 * kMiB}, 8};
  const NcclCost nvls = nccl_cost(h100, call);
  CHECK(nvls.in_switch);
  CHECK(nvls.protocol == std::string("NVLS"));
  CHECK(nvls.wire.value == 512 * kMiB * 9 / 8);
  call.in_switch = false;
  const NcclCost ring = nccl_cost(h100, call);
  CHECK_FALSE(ring.in_switch);
  CHECK(ring.protocol == std::string("ring, Simple"));
  CHECK(ring.wire.value == 512 * kMiB * 14 / 8);
  CHECK(ring.time > nvls.time);
  CHECK_FALSE(nccl_cost(h100, {NcclOperation::all_reduce, Bytes{512 * kMiB}, 4}).in_switch);
  CHECK_FALSE(nccl_cost(h100, {NcclOperation::all_gather, Bytes{512 * kMiB}, 8}).in_switch);
  CHECK_FALSE(nccl_cost(h100, {NcclOperation::all_reduce, Bytes{kKiB}, 8}).in_switch);  // LL is faster there
  CHECK_FALSE(nccl_cost(model_of("a100-sxm4-80gb"), {NcclOperation::all_reduce, Bytes{512 * kMiB}, 8}).in_switch);
  CHECK_FALSE(nccl_cost(model_of("h100-pcie-80gb"), {NcclOperation::all_reduce, Bytes{512 * kMiB}, 8}).in_switch);
  for (const char* other : {"mi325x", "mi355x", "gaudi-3", "trainium-2", "ascend-910b", "max-1550"})
    CHECK_FALSE(nccl_cost(model_of(other), {NcclOperation::all_reduce, Bytes{512 * kMiB}, 8}).in_switch);
}

TEST_CASE("a GPU without a fit takes that of its generation, scaled by its links, and names it", "[nccl]") {
  CHECK(model_of("h100-sxm5-80gb").scaled.empty());
  CHECK(model_of("h200-sxm-141gb").scaled == "scaled from h100-sxm by NVLink 450/450 GB/s");
  CHECK(model_of("gb200").scaled == "scaled from b200-sxm by NVLink 900/900 GB/s");
  CHECK(model_of("v100-sxm2-32gb").scaled == "scaled from a100-sxm by NVLink 150/300 GB/s");
  CHECK(model_of("a100-pcie-80gb").scaled == "scaled from a100-sxm by PCIe 31.5/300 GB/s");
  CHECK(model_of("l40s").scaled == "scaled from a100-sxm by PCIe 31.5/300 GB/s");
  CHECK(model_of("mi300x").scaled ==
        "all_gather, reduce_scatter, alltoall: scaled from h100-sxm by 7 links of 64/450 GB/s");
  CHECK(microseconds(model_of("h200-sxm-141gb"), NcclOperation::all_reduce, 16 * kMiB, 8) ==
        microseconds(model_of("h100-sxm5-80gb"), NcclOperation::all_reduce, 16 * kMiB, 8));
  const Bytes large{1024 * kMiB};
  const double bus = nccl_bus_bandwidth(NcclOperation::all_reduce, large, 8,
                                        nccl_cost(model_of("l40s"), {NcclOperation::all_reduce, large, 8}).time)
                         .value;
  CHECK(bus > 15e9);
  CHECK(bus < 31.5e9);
  // 42 us were measured on eight RTX 4090 (NVIDIA/nccl issue 1530).
  CHECK(microseconds(model_of("rtx-4090"), NcclOperation::all_reduce, 8, 8) == Approx(42).epsilon(0.25));
  for (const auto& refused : {std::function<void()>([&] { model_of("tpu-v4"); }),
                              std::function<void()>([] { nccl_link(catalog_gpu("tpu-v4")); })})
    CHECK_THROWS_WITH(refused(), "gpu tpu-v4: a TPU has no NCCL; expected an algorithm, for example torus");
}

TEST_CASE("a GPU's own log of one operation is used, and the other operations are those of its generation", "[nccl]") {
  const test::TemporaryFolder folder;
  const std::filesystem::path& root = folder.path();
  std::filesystem::copy(Catalog().root(), root, std::filesystem::copy_options::recursive);
  NcclLog log{"own.log", "NVIDIA H200", "2.27.3", "", {}};
  for (double size = 512; size < 1e9; size *= 2)
    log.rows.push_back({NcclOperation::all_reduce, 8, 1, Bytes{size}, Seconds{50e-6 + size / 200e9}});
  std::ofstream(root / "nccls" / "h200-sxm-141gb.yaml")
      << fit_nccl({log}, catalog_gpu("h200-sxm-141gb"), "h200-sxm-141gb").entry;
  const NcclModel h200 = nccl_model_for(catalog_gpu("h200-sxm-141gb"), Catalog(root));
  CHECK(h200.name == "h200-sxm-141gb");
  CHECK(h200.scaled == "all_gather, reduce_scatter, alltoall: scaled from h100-sxm by NVLink 450/450 GB/s");
  CHECK(microseconds(h200, NcclOperation::all_reduce, 512, 8) == Approx(50).epsilon(0.05));
  CHECK(microseconds(h200, NcclOperation::all_gather, 512, 8) ==
        microseconds(model_of("h100-sxm5-80gb"), NcclOperation::all_gather, 512, 8));
}

TEST_CASE("operations that were not measured follow from those that were", "[nccl]") {
  const NcclModel a100 = model_of("a100-sxm4-80gb");
  // A broadcast sends the whole buffer, an all-gather 7/8 of it.
  CHECK(nccl_wire(NcclOperation::broadcast, Bytes{800}, 8) == Bytes{800});
  CHECK(nccl_wire(NcclOperation::all_gather, Bytes{800}, 8) == Bytes{700});
  CHECK(microseconds(a100, NcclOperation::broadcast, 512 * kMiB, 8) >
        microseconds(a100, NcclOperation::all_gather, 512 * kMiB, 8));
  CHECK(microseconds(a100, NcclOperation::sendrecv, 0, 8) == microseconds(a100, NcclOperation::alltoall, 0, 2));
  NcclModel one = a100;
  std::erase_if(one.curves, [](const auto& c) { return c.first != NcclOperation::all_reduce; });
  const double all_reduce_time = microseconds(one, NcclOperation::all_reduce, 512, 8),
               all_gather_time = microseconds(one, NcclOperation::all_gather, 512, 8);
  CHECK(all_gather_time < all_reduce_time);
  CHECK(all_gather_time > all_reduce_time / 2);
  CHECK(all_gather_time == Approx(microseconds(a100, NcclOperation::all_gather, 512, 8)).epsilon(0.1));
}

TEST_CASE("between nodes every step costs a hop, and the network is the limit", "[nccl]") {
  const NcclModel b200 = nccl_model_for(catalog_gpu("b200-sxm-180gb"), Catalog(), "efa-b200");
  NcclCall call{NcclOperation::all_reduce, Bytes{16 * 1024 * kMiB}, 32, 4, BytesPerSecond{400e9}};
  const NcclCost cost = nccl_cost(b200, call);
  CHECK(nccl_bus_bandwidth(call.operation, call.size, 32, cost.time).value == Approx(382e9).epsilon(0.025));
  call.size = Bytes{0};
  const Seconds four_node_time = nccl_cost(b200, call).time;
  call.wires = Seconds{0};
  CHECK(nccl_cost(b200, call).time < four_node_time);
  const NcclModel infiniband = model_of("b200-sxm-180gb");
  const Seconds hop = infiniband.between.hop[0] - infiniband.between.wires;
  call.gpus = 64;
  call.nodes = 8;
  CHECK((nccl_cost(infiniband, call).time.value - nccl_cost(infiniband, {call.operation, Bytes{0}, 8}).time.value) ==
        Approx(6 * hop.value));  // hops up and down a tree of three levels
  // Over InfiniBand a step is shorter.
  CHECK(nccl_cost(model_of("b200-sxm-180gb"), {call.operation, Bytes{8}, 32, 4, BytesPerSecond{400e9}}).time <
        four_node_time);
  CHECK_THROWS_WITH(nccl_model_for(catalog_gpu("b200-sxm-180gb"), Catalog(), "efa-b20"),
                    "NCCL's model: unknown nccl-network \"efa-b20\"; did you mean \"efa-b200\"?");
  call.network = {};
  CHECK_THROWS_WITH(nccl_cost(b200, call), "all_reduce between 8 nodes: no rate of the network");
  CHECK_THROWS_WITH(nccl_cost(b200, {NcclOperation::all_reduce, Bytes{8}, 9, 2, BytesPerSecond{1e9}}),
                    "all_reduce: 9 GPUs in 2 nodes: expected the same number in each, at least 1");
  CHECK_THROWS_WITH(nccl_cost(b200, {NcclOperation::all_reduce, Bytes{-1}, 8}),
                    "all_reduce: a size of -1 bytes: expected 0 or more");
}

TEST_CASE("a ring over many nodes takes time for each step inside the nodes, even if a fit in one node found none",
          "[nccl]") {
  // In one node of H100 the start-up of Simple does not grow with the GPUs, because sums in the switch and LL128 hide
  // it.
  for (const char* gpu : {"a100-sxm4-80gb", "h100-sxm5-80gb", "b200-sxm-180gb"}) {
    const NcclModel model = nccl_model_for(catalog_gpu(gpu), Catalog(), "roce");
    for (const NcclOperation operation :
         {NcclOperation::all_reduce, NcclOperation::all_gather, NcclOperation::reduce_scatter}) {
      INFO(gpu << ", " << name_of(operation));
      NcclCall call{operation, Bytes{64 * 1024 * kMiB}, 512, 64, BytesPerSecond{400e9}};
      call.rings_only = true;
      const NcclCost small = nccl_cost(model, call);
      call.gpus *= 2;
      call.nodes *= 2;
      const NcclCost large = nccl_cost(model, call);
      REQUIRE(std::string(small.protocol) == "ring, Simple");
      REQUIRE(std::string(large.protocol) == "ring, Simple");
      const double steps = (operation == NcclOperation::all_reduce ? 2 : 1) * 64 * 7, hops = steps / 7;
      // NCCL's own cost model has 3.4 us for a step by NVLink, and 14 us for a step between nodes.
      CHECK((large.latency - small.latency).value >= steps * 3.4e-6 + hops * 10e-6);
    }
  }
}

TEST_CASE("times between nodes are within 25 % of the measured rows", "[nccl]") {
  const NcclModel b200 = nccl_model_for(catalog_gpu("b200-sxm-180gb"), Catalog(), "efa-b200");
  // Bytes and microseconds of 4 nodes of 8 B200 (scenarios/measured/tables/collectives.csv).
  const std::vector<std::pair<double, double>> rows{{262144, 382.134},     {1048576, 378.274},    {4194304, 429.965},
                                                    {16777216, 504.517},   {67108864, 829.549},   {268435456, 2270.26},
                                                    {1073741824, 5747.04}, {17179869184, 87181.8}};
  for (const auto& [size, time] : rows) {
    const NcclCall call{NcclOperation::all_reduce, Bytes{size}, 32, 4, BytesPerSecond{400e9}};
    INFO(size);
    CHECK(nccl_cost(b200, call).time.value * 1e6 == Approx(time).epsilon(0.25));
  }
}

TEST_CASE("faults of an NCCL entry are named with their place", "[nccl]") {
  const std::string good = test::file_text(TRAINYARD_SOURCE_DIR "/models/catalog/nccls/a100-sxm.yaml");
  const auto refused = [&](const std::string& from, const std::string& to) -> std::string {
    const std::string text = test::with_replaced(good, from, to);
    const std::string error = test::user_error([&] { read_nccl_model(parse_document(text, "x.yaml")); });
    return error.substr(error.find(": ") + 2);
  };
  CHECK(refused("gpus: {value: [2, 4, 8]", "gpus: {value: [2, 8, 4]") ==
        "nccl custom-nccl: all_reduce.gpus: 4: expected 9 or more, rising");
  CHECK(refused("gpus: {value: [2, 4, 8]", "gpus: {value: [2, 4]") ==
        "nccl custom-nccl: all_reduce.ll.startup: expected a list of 2, one for each number of GPUs");
  CHECK(refused("link: {value: 300 GB/s", "link: {value: 0 GB/s") ==
        "nccl custom-nccl: link: \"0 GB/s\" must be greater than 0");
  CHECK(refused("all_reduce:", "all_reduces:") ==
        "unknown key \"all_reduces\" in nccl custom-nccl; did you mean \"all_reduce\"?");
}

TEST_CASE("the wires of a call between nodes are the part of its latency that the network takes", "[nccl]") {
  const NcclModel model = nccl_model_for(catalog_gpu("a100-sxm4-80gb"), Catalog(), "infiniband");
  for (const NcclOperation operation :
       {NcclOperation::all_reduce, NcclOperation::all_gather, NcclOperation::alltoall}) {
    INFO(name_of(operation));
    NcclCall call{operation, Bytes{8}, 32, 4, BytesPerSecond{200e9}};
    call.wires = Seconds{0};
    const NcclCost without = nccl_cost(model, call);
    CHECK(without.wires.value == 0);
    call.wires = Seconds{3e-6};
    const NcclCost with = nccl_cost(model, call);
    REQUIRE(std::string(with.protocol) == without.protocol);
    CHECK(with.wires.value > 0);
    CHECK(with.time.value - without.time.value == Approx(with.wires.value));
    CHECK(with.latency.value - without.latency.value == Approx(with.wires.value));
    call.launch = Seconds{1};  // the launch takes longer, so that the network delays nothing
    CHECK(nccl_cost(model, call).wires.value == 0);
  }
}

}  // namespace models_test_nccl_model
