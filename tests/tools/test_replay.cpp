// `trainyard replay` on Chakra execution traces that these tests write, and on shipped profiles.
#include <fmt/format.h>
#include <sqlite3.h>

#include "scenarios/src/traces/kineto.hpp"
#include "sim/json_text.hpp"
#include "tests/tools/trace_shell.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace tools_test_replay {

using nlohmann::json;
using namespace trainyard;
using namespace trainyard::test;
using Catch::Matchers::Contains;

namespace {

constexpr int kAllReduce = 0, kAllGather = 2, kAllToAll = 6, kReduceScatter = 7, kBarrier = 9;

ChakraNode with_stream(ChakraNode node, double stream) {
  node.stream = stream;
  return node;
}

ChakraNode in_group(ChakraNode node, const std::string& group) {
  node.group = group;
  return node;
}

ChakraNode message_node(std::uint64_t id, ChakraType type, int peer, double bytes, double tag = 0) {
  ChakraNode node = trace_node(id, type);
  (type == ChakraType::send ? node.destination : node.source) = peer;
  node.bytes = bytes;
  node.tag = tag;
  return node;
}

/// The tables that `nsys export --type sqlite` writes of one step, in ns: the host launches two kernels and waits for a
/// copy. A second process has fewer kernels with the same correlations.
constexpr const char* kNsightExport = R"(
  CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
  INSERT INTO StringIds VALUES (1, 'cudaLaunchKernel_v7000'), (2, 'ampere_bf16_gemm'), (3, 'iteration 12'),
    (4, 'cudaDeviceSynchronize_v3020'), (5, 'cudaMemcpyAsync_v3020'), (6, 'layer_norm_kernel');
  CREATE TABLE TARGET_INFO_GPU (id INT, name TEXT, totalMemory INT);
  INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA A100-SXM4-80GB', 85899345920);
  CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, streamId INT, correlationId INT,
    globalPid INT, demangledName INT);
  INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1010000, 1110000, 0, 7, 1, 16777216, 2),
    (1110000, 1150000, 0, 7, 2, 16777216, 6), (900000, 8000000, 0, 9, 1, 33554432, 2);
  CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INT, end INT, deviceId INT, streamId INT, correlationId INT,
    globalPid INT);
  INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (1150000, 1180000, 0, 7, 3, 16777216);
  CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, end INT, globalTid INT, correlationId INT, nameId INT);
  INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1000000, 1004000, 16777221, 1, 1), (1010000, 1014000, 16777221, 2, 1),
    (1020000, 1024000, 16777221, 3, 5), (1030000, 1200000, 16777221, 4, 4), (100000, 7000000, 33554437, 1, 1);
  CREATE TABLE NVTX_EVENTS (start INT, end INT, eventType INT, text TEXT, globalTid INT, textId INT);
  INSERT INTO NVTX_EVENTS VALUES (990000, 1210000, 59, NULL, 16777221, 3), (0, 9000000, 59, 'epoch', 16777221, NULL);
)";

void write_database(const std::filesystem::path& file, const char* tables) {
  sqlite3* base = nullptr;
  REQUIRE(sqlite3_open(file.c_str(), &base) == SQLITE_OK);
  CHECK(sqlite3_exec(base, tables, nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(base);
}

}  // namespace

TEST_CASE("nodes of one stream run one after the other, others at once unless they depend on each other", "[replay]") {
  const TraceFolder shell;
  shell.write_trace("one", 1, {stated(0, 5e-6), stated(1, 3e-6)});
  CHECK(shell.replayed("one") == Approx(8e-6).epsilon(1e-9));
  shell.write_trace("two", 1, {with_stream(stated(0, 5e-6), 7), with_stream(stated(1, 3e-6), 8)});
  CHECK(shell.replayed("two") == Approx(5e-6).epsilon(1e-9));
  shell.write_trace("after", 1, {with_stream(stated(0, 5e-6), 7), with_stream(stated(1, 3e-6, {0}), 8)});
  CHECK(shell.replayed("after") == Approx(8e-6).epsilon(1e-9));
  // The nodes cannot run in the order of the file. A node waits for more streams than an operation can name.
  Nodes many{with_stream(stated(9, 1e-6, {1, 2, 3, 4, 5}), 20)};
  for (std::uint64_t id = 1; id <= 5; ++id)
    many.push_back(with_stream(stated(id, 1e-6 * static_cast<double>(id)), static_cast<double>(id)));
  shell.write_trace("many", 1, many);
  CHECK(shell.replayed("many") == Approx(6e-6).epsilon(1e-9));
  ChakraNode host = stated(1, 4e-6);
  host.on_host = 1;
  shell.write_trace("host", 1, {stated(0, 5e-6), host});
  const json j = shell.answer("replay host --on dgx-a100");
  CHECK(j["time_s"] == Approx(5e-6).epsilon(1e-9));
  CHECK(j["breakdown_s"]["compute"] == Approx(5e-6).epsilon(1e-9));
}

TEST_CASE("collectives of a trace take the time of bench", "[replay]") {
  const TraceFolder shell;
  const std::string ring = " --algorithm ring", direct = " --algorithm direct";
  // comm_size is the input of a rank; for an all-gather of eight ranks, that is an eighth of the size in nccl-tests.
  for (const auto& [type, input, operation, replay_flags, bench_flags] :
       {std::tuple{kAllReduce, 1 << 20, std::string("all_reduce"), std::string(), std::string()},
        {kAllReduce, 1 << 20, "all_reduce", ring, ring},
        {kAllReduce, 1 << 20, "all_reduce", " --algorithm all_reduce=double-binary-tree",
         " --algorithm double-binary-tree"},
        {kAllGather, 1 << 17, "all_gather", "", ""},
        {kReduceScatter, 1 << 20, "reduce_scatter", "", ""},
        {kAllToAll, 1 << 20, "all_to_all", direct, direct}}) {
    CAPTURE(operation, replay_flags);
    shell.write_trace("one", 8, {exchange(0, type, input)});
    CHECK(shell.replayed("one" + replay_flags) ==
          Approx(shell.bench_time(operation + " --on dgx-a100" + bench_flags, "1M")).epsilon(1e-9));
  }
  shell.write_trace("barrier", 8, {exchange(0, kBarrier, 0)});
  CHECK(shell.replayed("barrier") > 0);
}

TEST_CASE("a collective is exposed except for the part that computing hides", "[replay]") {
  const TraceFolder shell;
  const double alone = shell.bench_time("all_reduce --on dgx-a100", "64M");
  const Nodes nodes{stated(0, 1e-3), exchange(1, kAllReduce, 64 << 20, {0}), stated(2, alone / 2, {0}),
                    stated(3, 1e-3, {1, 2})};
  shell.write_trace("step", 8, nodes);
  const json j = shell.answer("replay step --on dgx-a100");
  const double time = j["time_s"], exposed = j["breakdown_s"]["exposed_communication"]["all-reduce"];
  CHECK(time == Approx(2e-3 + alone).epsilon(0.05));  // exchanges are slower while kernels run
  CHECK(time >= 2e-3 + alone * (1 - 1e-9));
  CHECK(j["breakdown_s"]["compute"] == Approx(2e-3 + alone / 2).epsilon(1e-9));
  CHECK(j["breakdown_s"]["compute"].get<double>() + exposed + j["breakdown_s"]["other"].get<double>() ==
        Approx(time).epsilon(1e-9));
  double path = 0;
  for (const auto& [resource, seconds] : j["critical_path_s"].items()) path += seconds.get<double>();
  CHECK(path == Approx(time).epsilon(1e-9));
  CHECK(j["bottleneck"]["share"].get<double>() > 0.3);
  CHECK(j["traffic_bytes"]["sent_per_rank_max"].get<double>() > 64 << 20);
  CHECK(j["collectives"][0]["count"] == 1);
  // A message counts on each link of its path: to a switch and from it are two hops.
  const std::string text = shell.trainyard("replay step --on dgx-a100").out;
  double hops = 0;
  for (const auto& [kind, bytes] : j["traffic_bytes"]["by_link_kind"].items()) {
    if (bytes > 0) CHECK_THAT(text, Contains(fmt::format("{} {} over all hops", kind, show(Bytes{bytes}))));
    hops += bytes.get<double>();
  }
  CHECK(hops == Approx(2 * j["traffic_bytes"]["total"].get<double>()));
  shell.write_trace("long", 8, {stated(0, 1e15)});
  shell.check_replay_refused("long", "long.0.et: node 0: duration is 1e+15 s; at most 1e+06 s (12 days) expected");
}

TEST_CASE("the error to expect of a replay is that of where its collectives run", "[replay]") {
  const TraceFolder shell;
  const auto judged = [&](int ranks_of_group) {
    std::vector<Nodes> ranks;
    for (int rank = 0; rank < 16; ++rank)
      ranks.push_back({in_group(exchange(0, kAllReduce, 1 << 20), rank < ranks_of_group ? "3" : "4")});
    shell.write_trace("groups", ranks);
    return nlohmann::json::parse(
               shell.trainyard("replay groups --on dgx-a100 --nodes 2 --fabric nonblocking --json -").out)
        .at("collectives_judged")
        .get<std::string>();
  };
  const std::string all_members = R"([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15])";
  shell.write("groups.groups.json", R"({"3": )" + all_members + "}");
  CHECK_THAT(judged(16), Catch::StartsWith("between nodes by infiniband") && !Contains("in nodes"));
  shell.write("groups.groups.json", R"({"3": [0, 1, 2, 3, 4, 5, 6, 7], "4": [8, 9, 10, 11, 12, 13, 14, 15]})");
  CHECK_THAT(judged(8), Catch::StartsWith("sizes left out of the fit of a100") && !Contains("between nodes"));
}

TEST_CASE("groups come from a file, from PyTorch's metadata, or from dimensions", "[replay]") {
  const TraceFolder shell;
  const double half = shell.bench_time("all_reduce --on dgx-a100 --gpus 4", "1M");
  std::vector<Nodes> ranks;
  for (int rank = 0; rank < 8; ++rank)
    ranks.push_back({in_group(exchange(0, kAllReduce, 1 << 20), rank < 4 ? "3" : "4")});
  shell.write_trace("named", ranks);
  shell.write("named.groups.json", R"({"3": [0, 1, 2, 3], "4": [4, 5, 6, 7]})");
  CHECK(shell.replayed("named") == Approx(half).epsilon(1e-9));
  shell.write("other.json", R"({"3": [0, 1, 2, 3], "4": [4, 5, 6, 8]})");
  shell.check_replay_refused("named --comm-groups other.json",
                             "other.json:1:26: group 4 has rank 8, and the trace ranks 0 to 7");
  ChakraNode metadata = trace_node(5, ChakraType::metadata);
  metadata.values =
      R"(['[{"pg_name": "3", "ranks": [0, 1, 2, 3]}, {"pg_name": "4", "ranks": [4, 5, 6, 7]}, {"pg_name": "0", "ranks": []}]'])";
  for (Nodes& nodes : ranks) nodes.insert(nodes.begin(), metadata);
  shell.write_trace("pytorch", ranks);
  CHECK(shell.replayed("pytorch") == Approx(half).epsilon(1e-9));
  ChakraNode reduce_along = exchange(0, kAllReduce, 1 << 20);
  reduce_along.dims = {true, false};
  shell.write_trace("dims", 8, {reduce_along});
  CHECK(shell.replayed("dims --dims 4,2") == Approx(half).epsilon(1e-9));
  shell.check_replay_refused(
      "dims", "dims.0.et: node 0: involved_dim leaves dimensions out; --dims says how many ranks each has, as 8,4");
  shell.check_replay_refused("dims --dims 4,4", "--dims 4,4: 16 ranks, but the trace has 8");
}

TEST_CASE("messages take the time of their route, memory of its bandwidth, arithmetic of the roofline", "[replay]") {
  const TraceFolder shell;
  shell.write_trace("pair", {{message_node(0, ChakraType::send, 1, 1e9)}, {message_node(0, ChakraType::recv, 0, 1e9)}});
  const json path = shell.answer("topo path dgx-a100 0 1");
  const double alone = path["latency_s"].get<double>() + 1e9 / path["rate_Bps"].get<double>();
  CHECK(shell.replayed("pair") == Approx(alone).epsilon(1e-9));
  const Catalog catalog;
  ClusterSpec cluster;
  cluster.node = read_node(catalog.resolve("node", Node::scalar_node("dgx-a100")), catalog);
  ChakraNode priced = trace_node(0, ChakraType::compute), load = trace_node(1, ChakraType::load, {0});
  priced.flops = 1e12;
  priced.tensor = 1e6;
  load.tensor = 1e9;
  shell.write_trace("work", 1, {priced, load});
  Work work, moved;
  work.flops = Flops{1e12};
  work.bytes = Bytes{1e6};
  work.kernel = static_cast<std::uint16_t>(Kernel::gemm);
  work.precision = static_cast<std::uint8_t>(Precision::bf16);
  moved.bytes = Bytes{1e9};
  moved.kernel = static_cast<std::uint16_t>(Kernel::elementwise);
  const Gpu& gpu = cluster.node.gpu;
  const double arithmetic = kernel_time(gpu, work).value;
  CHECK(shell.replayed("work") == Approx(arithmetic + kernel_time(gpu, moved).value).epsilon(1e-9));
  CHECK(shell.replayed("work --precision fp32") > 2 * arithmetic);
  // Both kernels start, one of them calculates, and the other one waits for memory.
  const json split = shell.answer("replay work --on dgx-a100")["critical_path_s"];
  CHECK(split["kernel start-up"] == Approx(2 * gpu.kernel_launch.value));
  CHECK(split["GPU compute"] == Approx(arithmetic - gpu.kernel_launch.value));
  CHECK(split["GPU memory"] == Approx(memory_time(gpu, moved).value));
  // Data from the host's memory goes over PCIe.
  const double remote = shell.replayed("work --remote-memory") - arithmetic;
  CHECK(remote > 1e9 / gpu.pcie.value);
  CHECK(remote < 1.5e9 / gpu.pcie.value);
}

TEST_CASE("background traffic on the adapters slows the exchanges of a trace, and not its kernels",
          "[replay][background]") {
  const TraceFolder shell;
  shell.write_trace("two", 16, {stated(0, 5e-3), exchange(1, kAllReduce, 1 << 30, {0})});
  const auto answer = [&shell](const std::string& background) {
    shell.write("two.yaml", "cluster: {nodes: 2, node: dgx-a100, fabric: nonblocking" + background +
                                "}\nmodel: gpt2\nsoftware: plain\nplan: {micro_batch_size: 1}\n");
    return shell.answer("replay two --on two.yaml --algorithm ring");
  };
  const json alone = answer(""), shared = answer(", background: {links: adapters, share: 0.5}");
  CHECK(shared["breakdown_s"]["compute"] == Approx(5e-3));
  CHECK(shared["time_s"].get<double>() - 5e-3 == Approx(2 * (alone["time_s"].get<double>() - 5e-3)).epsilon(0.02));
}

TEST_CASE("equal ranks are simulated once, with the same times", "[replay]") {
  const TraceFolder shell;
  shell.write_trace("ring", 64, {stated(0, 1e-4), exchange(1, kAllReduce, 1 << 22, {0}), stated(2, 1e-4, {1})});
  for (const std::string algorithm : {"", " --algorithm ring"}) {
    const std::string command = "replay ring --on dgx-a100 --nodes 8 --fabric nonblocking" + algorithm;
    const json folded = shell.answer(command), unfolded = shell.answer(command + " --fold off");
    CHECK(folded["simulated_ranks"].get<int>() <= 8);
    CHECK(unfolded["simulated_ranks"] == 64);
    CHECK(folded["time_s"] == Approx(unfolded["time_s"].get<double>()).epsilon(1e-9));
    CHECK(folded["traffic_bytes"]["total"] == Approx(unfolded["traffic_bytes"]["total"].get<double>()).epsilon(1e-9));
  }
}

TEST_CASE("replay reads the bytes that MLCommons' writers produce", "[replay]") {
  const TraceFolder shell;
  // GlobalMetadata {version: "0.0.4"}. Node 0 is an ALL_REDUCE of 65,536 bytes in uint64_val, as ASTRA-sim's generators
  // write it (proto3 omits the id 0). Node 1 takes 7 us after it, by an unpacked dependency.
  const std::string first = std::string("\x07\x0a\x05") + "0.0.4" + std::string("\x33\x12\x0a", 3) + "ALL_REDUCE" +
                            std::string("\x18\x07", 2) + std::string("\x52\x0d\x0a\x09", 4) + "comm_type" +
                            std::string("\x48\x00", 2) + std::string("\x52\x0f\x0a\x09", 4) + "comm_size" +
                            std::string("\x68\x80\x80\x04", 4) + std::string("\x52\x03\x0a\x01x", 5);
  const std::string second = std::string("\x08\x08\x01\x18\x04\x28\x00\x38\x07", 9);
  for (int rank = 0; rank < 2; ++rank) shell.write("made." + std::to_string(rank) + ".et", first + second);
  CHECK(shell.replayed("made") ==
        Approx(7e-6 + shell.bench_time("all_reduce --on dgx-a100 --gpus 2", "64K")).epsilon(1e-9));
  const TopoAnswer text = shell.trainyard("replay made --on dgx-a100 --trace made.json");
  CHECK(text.exit == 0);
  CHECK(text.out.find("made · 2 ranks, 4 nodes (1 × dgx-a100") == 0);
  CHECK_THAT(text.out, Contains("bottleneck "));
  const json trace = parse_json(shell.text("made.json"));
  CHECK(trace["traceEvents"].size() > 4);
}

TEST_CASE("errors of bad traces name the file and the node", "[replay]") {
  const TraceFolder shell;
  shell.check_replay_refused("none", "none.0.et: no such file; the prefix of a trace NAME.0.et, NAME.1.et, … expected");
  shell.write_trace("hole", 4, {stated(0, 1e-6)});
  std::filesystem::remove(shell.path() / "hole.1.et");
  std::filesystem::remove(shell.path() / "hole.2.et");
  shell.check_replay_refused("hole",
                             "hole.1.et: no such file; there are files of ranks up to 3, but none of ranks 1, 2");
  shell.write_trace("wide", 9, {stated(0, 1e-6)});
  shell.check_replay_refused("wide", "wide: a trace of 9 ranks, but the cluster has 8 GPUs; --nodes adds nodes");

  shell.write_trace(
      "circle", 1,
      {stated(1, 1e-6), stated(4, 1e-6, {1, 9}), stated(7, 1e-6, {4}), stated(9, 1e-6, {7}), stated(12, 1e-6, {9})});
  shell.check_replay_refused("circle", "circle.0.et: nodes wait for each other in a circle: 7 > 9 > 4 > 7");
  shell.write_trace("unknown", 1, {stated(1, 1e-6), stated(4, 1e-6, {1, 3})});
  const std::size_t at = TraceFolder::bytes_of({stated(1, 1e-6)}).size();
  shell.check_replay_refused("unknown", "unknown.0.et: node 4 \"node 4\" (byte " + std::to_string(at) +
                                            ") depends on node 3, which the file does not have");
  shell.write_trace("twice", 1, {stated(1, 1e-6), stated(1, 1e-6)});
  CHECK(shell.trainyard("replay twice --on dgx-a100").err.find("twice.0.et: two nodes are called 1 (bytes 8 and ") ==
        0);

  const std::string bytes = TraceFolder::bytes_of({stated(1, 1e-6), stated(2, 1e-6)});
  shell.write("cut.0.et", bytes.substr(0, bytes.size() - 3));
  const std::string length = std::to_string(bytes.size() - at - 1), left = std::to_string(bytes.size() - at - 4);
  shell.check_replay_refused("cut", "cut.0.et: byte " + std::to_string(at) + ": a message of " + length +
                                        " bytes is cut short: " + left + " follow, or this is no Chakra trace");
  shell.write("text.0.et", "{\"nodes\": []}");
  CHECK(shell.trainyard("replay text --on dgx-a100").exit == 2);
  for (std::size_t end = 0; end < bytes.size(); ++end) {  // a cut file is refused, or has fewer nodes
    shell.write("any.0.et", bytes.substr(0, end));
    const int code = shell.trainyard("replay any --on dgx-a100").exit;
    CAPTURE(end);
    CHECK(code == (end == at || end == 8 ? 0 : 2));
  }

  shell.write_trace("peerless", 2, {trace_node(3, ChakraType::send)});
  shell.check_replay_refused("peerless", "peerless.0.et: node 3 \"node 3\": a message without comm_dst");
  shell.write_trace("lonely", {{message_node(0, ChakraType::send, 1, 8)}, {stated(0, 1e-6)}});
  shell.check_replay_refused(
      "lonely",
      "lonely.0.et: node 0 \"node 0\": of messages from rank 0 to rank 1 with tag 0, 1 are sent and 0 received");
  shell.write_trace("unlike", {{exchange(0, kAllReduce, 8)}, {exchange(2, kAllGather, 8)}});
  shell.check_replay_refused(
      "unlike",
      "unlike.1.et: node 2 \"node 2\": all-gather, but rank 0 does all-reduce (its node 0): collective 1 of "
      "their group");
  shell.write_trace("fewer", {{exchange(0, kAllReduce, 8), exchange(1, kAllReduce, 8)}, {exchange(0, kAllReduce, 8)}});
  shell.check_replay_refused(
      "fewer",
      "fewer.0.et: node 1: all-reduce of 2 ranks, of which 1 take part: the others' files have no collective 2 of "
      "that group");
  shell.write_trace("reduce", 2, {exchange(0, kAllReduce, 8)});
  shell.check_replay_refused(
      "reduce --algorithm all_reduce=rnig",
      "--algorithm all_reduce=rnig: unknown all-reduce algorithm \"rnig\"; did you mean \"ring\"?");
  shell.check_replay_refused(
      "reduce --algorithm bruck",
      "--algorithm bruck: no collective of the trace has an algorithm of that name (trainyard list collectives)");
  Nodes wide;
  for (std::uint64_t id = 0; id < 70; ++id) wide.push_back(with_stream(stated(id, 1e-6), static_cast<double>(id)));
  shell.write_trace("streams", 1, wide);
  CHECK(shell.trainyard("replay streams --on dgx-a100").err.find("streams.0.et: more than 64 streams: ") == 0);
  shell.write_trace("grouped", 2, {in_group(exchange(0, kAllReduce, 8), "7")});
  shell.check_replay_refused("grouped",
                             "grouped.0.et: node 0: unknown group \"7\"; --comm-groups FILE says which ranks it has");
}

TEST_CASE("copies and fills with a stated time are named as GPU memory, not as compute", "[replay]") {
  const TraceFolder shell;
  ChakraNode fill = trace_node(0, ChakraType::store);
  fill.duration = 0.01;
  shell.write_trace("fills", 1, {fill});
  const json answer = shell.answer("replay fills --on dgx-a100");
  CHECK(answer["bottleneck"]["resource"] == "GPU memory");
  CHECK(answer["breakdown_s"]["memory"].get<double>() == Approx(0.01));
}

TEST_CASE("shipped profiles take the times that the manual states", "[replay][kineto][manual]") {
  const TraceFolder shell;
  const std::string tables = TRAINYARD_SOURCE_DIR "/scenarios/measured/tables/";
  const json real = shell.answer("replay " + tables + "kineto-gpt-h100.json.gz --on dgx-h100");
  CHECK(real["ranks"] == 1);
  CHECK(real["time_s"] == Approx(14.6e-3).epsilon(0.005));
  CHECK(real["recorded_s"] == Approx(35.4e-3).epsilon(0.005));
  const json made = shell.answer("replay " + tables + "kineto-ddp-by-hand.json.gz --on dgx-a100");
  CHECK(made["ranks"] == 8);
  CHECK(made["step"] == "ProfilerStep#2, one of 3");
  CHECK(made["collectives"][0]["count"] == 4);
  CHECK(made["recorded_s"] == Approx(13.5e-3).epsilon(1e-6));
  // Only the last all-reduce is exposed: the others run beside the backward pass.
  const double exposed = made["breakdown_s"]["exposed_communication"]["all-reduce"];
  CHECK(made["time_s"] == Approx(12.5e-3 + exposed).epsilon(1e-6));
  CHECK(exposed == Approx(shell.bench_time("all_reduce --on dgx-a100", "100M")).epsilon(1e-6));
}

TEST_CASE("a step in which the host is ahead of the GPU takes the GPU's time", "[replay][kineto]") {
  const TraceFolder shell;
  // The GPU is 2 ms late, and the copy is launched 169 us after the first kernel. Nobody waits for the GPU.
  const std::string late = fmt::format(
      "{}; UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = start + 2000000, end = end + 2000000; UPDATE "
      "CUPTI_ACTIVITY_KIND_MEMCPY SET start = start + 2000000, end = end + 2000000; DELETE FROM "
      "CUPTI_ACTIVITY_KIND_RUNTIME WHERE nameId = 4; UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET start = 1169000, end = "
      "1173000 WHERE nameId = 5;",
      kNsightExport);
  write_database(shell.path() / "late.sqlite", late.c_str());
  CHECK(shell.replayed("late.sqlite") == Approx(170e-6).epsilon(1e-9));
  // If the host needs longer for the launches than the GPU for the works, it bounds the step.
  write_database(
      shell.path() / "bound.sqlite",
      (late + "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET start = 1196000, end = 1200000 WHERE nameId = 5;").c_str());
  CHECK(shell.replayed("bound.sqlite") == Approx(196e-6).epsilon(1e-9));
}

TEST_CASE(
    "replayed kernels take their recorded time on every GPU, and pauses for the host are left out without its calls",
    "[replay][kineto]") {
  const TraceFolder shell;
  const auto kernel = [](double begin, double length) {
    return nlohmann::json{{"ph", "X"},     {"cat", "kernel"}, {"name", "gemm"}, {"ts", begin},
                          {"dur", length}, {"pid", 0},        {"tid", 7},       {"args", {{"stream", 7}}}};
  };
  // A pause of 40 us lies between the kernels.
  shell.write("one.json", nlohmann::json{{"distributedInfo", {{"rank", 0}, {"world_size", 1}}},
                                         {"traceEvents", {kernel(1000, 100), kernel(1140, 50)}}}
                              .dump());
  for (const char* node : {"dgx-1v", "dgx-a100", "dgx-h100"}) {
    CAPTURE(node);
    const std::string words = std::string("replay one.json --on ") + node;
    const nlohmann::json answer = shell.answer(words);
    CHECK(answer["recorded_s"] == Approx(190e-6).epsilon(1e-9));
    CHECK(answer["time_s"] == Approx(150e-6).epsilon(1e-9));
    CHECK_THAT(shell.trainyard(words).out,
               Catch::Matchers::Contains("kernels and copies take their recorded time, whatever the GPUs") &&
                   Catch::Matchers::Contains("it has no calls of the host: each work begins when its stream is free"));
  }
}

TEST_CASE("an export of Nsight Systems is replayed and compared as a profile is", "[replay][kineto]") {
  const TraceFolder shell;
  write_database(shell.path() / "rank0.sqlite", kNsightExport);
  const json j = shell.answer("replay rank0.sqlite --on dgx-a100");
  CHECK(j["step"] == "ProfilerStep#12");
  CHECK(j["ranks"] == 1);
  // After the copy the host works for 20 us more, and then 6 us from the next step's first launch to its first kernel.
  CHECK(j["time_s"] == Approx(170e-6 + 20e-6 + 6e-6).epsilon(1e-9));
  CHECK(j["recorded_s"] == Approx(170e-6).epsilon(1e-9));
  CHECK(j["recorded_step_s"] == Approx(220e-6).epsilon(1e-9));
  CHECK_THAT(shell.trainyard("replay rank0.sqlite --on dgx-a100").out,
             Catch::Matchers::Contains("recorded; its steps took 220 us on average\n"));
  const KinetoTrace trace = read_kineto(shell.path() / "rank0.sqlite");
  CHECK(trace.gpu == "NVIDIA A100-SXM4-80GB");
  CHECK(trace.steps == 1);
  CHECK(trace.step_time == Approx(220e-6));
  CHECK(trace.families.at("matrix products").at("ampere_bf16_gemm").seconds == Approx(100e-6));
  CHECK(trace.families.at("normalization").size() == 1);
  CHECK(trace.families.at("copies").size() == 1);
  write_database(shell.path() / "graphs.sqlite",
                 "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INT, end INT); INSERT INTO "
                 "CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (1, 2);");
  shell.check_replay_refused("graphs.sqlite",
                             "graphs.sqlite: 1 CUDA graphs in it have no kernels; nsys profile --cuda-graph-trace=node "
                             "expected");
  write_database(shell.path() / "empty.sqlite", "CREATE TABLE StringIds (id INT, value TEXT);");
  shell.check_replay_refused(
      "empty.sqlite",
      "empty.sqlite: no kernel of a GPU is in it; a trace of torch.profiler with ProfilerActivity.CUDA, or of "
      "nsys with --trace=cuda, expected");
  shell.write("broken.sqlite", "SQLite format 3" + std::string(1, '\0') + std::string(100, 'x'));
  shell.check_replay_refused("broken.sqlite", "broken.sqlite: file is not a database");
}

}  // namespace tools_test_replay
