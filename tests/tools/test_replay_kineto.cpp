// `trainyard replay` on traces of PyTorch's profiler. The traces are made by hand in the profiler's format.
#include <fmt/format.h>

#include "scenarios/src/traces/kineto.hpp"
#include "sim/json_text.hpp"
#include "tests/tools/trace_shell.hpp"

namespace tools_test_replay_kineto {

using nlohmann::json;
using namespace trainyard;
using namespace trainyard::test;
using Catch::Matchers::Contains;

namespace {

/// Events of a trace. Times are in us.
struct Profile {
  json events = json::array();
  json info = {{"backend", "nccl"}, {"rank", 0}, {"world_size", 2}};

  json& event(const char* category, const std::string& name, double begin, double duration, json arguments = {}) {
    events.push_back({{"ph", "X"},
                      {"cat", category},
                      {"name", name},
                      {"pid", 1},
                      {"tid", 7},
                      {"ts", begin},
                      {"dur", duration},
                      {"args", std::move(arguments)}});
    return events.back();
  }
  json& kernel(int stream, double begin, double duration, int correlation = 0, const std::string& name = "gemm") {
    return event("kernel", name, begin, duration, {{"device", 0}, {"stream", stream}, {"correlation", correlation}});
  }
  /// An exchange of 1 MiB in fp32.
  json& exchange(const char* operation, const json& members, int stream, double begin, double duration,
                 int correlation = 0) {
    json& kernel_event = kernel(stream, begin, duration, correlation, "ncclDevKernel_Generic(ncclDevComm*)");
    kernel_event["args"].update({{"Collective name", operation},
                                 {"In msg nelems", 1 << 18},
                                 {"Out msg nelems", 1 << 18},
                                 {"Group size", members.size()},
                                 {"dtype", "Float"},
                                 {"Process Group Name", "0"},
                                 {"Process Group Ranks", members.dump()}});
    return kernel_event;
  }
  json& call(const std::string& name, double begin, double duration, int correlation = 0) {
    return event("cuda_runtime", name, begin, duration, {{"correlation", correlation}});
  }
  void step(int number, double begin, double duration) {
    event("user_annotation", fmt::format("ProfilerStep#{}", number), begin, duration);
  }
  std::string text() const {
    return json{{"schemaVersion", 1}, {"distributedInfo", info}, {"traceEvents", events}}.dump();
  }
};

/// Computing for 100 us, an all-reduce, and computing for 50 us.
Profile three_kernels(int rank = 0, const json& members = {0, 1}) {
  Profile profile;
  profile.info["rank"] = rank;
  profile.kernel(7, 1000, 100);
  profile.exchange("allreduce", members, 20, 1100, 300);
  profile.kernel(7, 1400, 50);
  return profile;
}

/// The same with the host's calls: it makes the streams wait for each other.
Profile launched_kernels() {
  Profile profile;
  profile.call("cudaLaunchKernel", 1000, 4, 1);
  profile.call("cudaStreamWaitEvent", 1006, 1, 2);
  profile.call("cudaLaunchKernelExC", 1008, 4, 3);
  profile.call("cudaStreamWaitEvent", 1014, 1, 4);
  profile.call("cudaLaunchKernel", 1016, 4, 5);
  profile.kernel(7, 1010, 100, 1);
  profile.exchange("allreduce", {0, 1}, 20, 1110, 300, 3);
  profile.kernel(7, 1410, 50, 5);
  return profile;
}

double reduce_time(const TraceFolder& shell) { return shell.bench_time("all_reduce --on dgx-a100 --gpus 2", "1M"); }

const std::string kOn = " --on dgx-a100";

}  // namespace

TEST_CASE("a profile of two ranks takes the time of its kernels and of the simulated all-reduce", "[replay][kineto]") {
  const TraceFolder shell;
  const double expected = 150e-6 + reduce_time(shell);
  shell.write("one.json", three_kernels().text());
  const json j = shell.answer("replay one.json" + kOn);
  CHECK(j["time_s"] == Approx(expected).epsilon(1e-9));
  CHECK(j["recorded_s"] == Approx(450e-6).epsilon(1e-9));
  CHECK(j["ranks"] == 2);
  CHECK(j["nodes"] == 6);
  CHECK(j["breakdown_s"]["compute"] == Approx(150e-6).epsilon(1e-9));
  CHECK(j["collectives"] ==
        parse_json(R"([{"operation": "all-reduce", "ranks": 2, "count": 1.0, "bytes": 1048576.0}])"));
  CHECK(j["notes"] ==
        json{"the trace has no calls of the host: streams wait for all that had ended, and the host takes no time",
             "no ProfilerStep marks a step, so the whole trace is replayed",
             "traces of 1 of 2 ranks; the others do what a rank of their pipeline stage does"});
  CHECK_FALSE(j.contains("step"));
  // The traces of both ranks, whose process groups have other names.
  Profile second = three_kernels(1);
  second.events[1]["args"]["Process Group Name"] = "default_pg";
  std::filesystem::create_directory(shell.path() / "both");
  shell.write("both/a.json", second.text());
  shell.write("both/b.json", three_kernels().text());
  CHECK(shell.replayed("both") == Approx(expected).epsilon(1e-9));
  // A list of events in the form of older profilers. Names of files and --ranks replace distributedInfo.
  Profile old = three_kernels();
  for (json& event : old.events) event["cat"] = "Kernel";
  shell.write("old-rank-0.json", old.events.dump());
  CHECK(shell.replayed("old-rank-0.json --ranks 2") == Approx(expected).epsilon(1e-9));
  const TopoAnswer text = shell.trainyard("replay one.json" + kOn);
  CHECK_THAT(text.out, Contains(" from the first kernel to the last, where the trace was recorded\n"));
}

TEST_CASE("works of a profile wait for their launch and for what the host makes them wait for", "[replay][kineto]") {
  const TraceFolder shell;
  const double reduce = reduce_time(shell);
  const auto replayed = [&shell](const Profile& profile) {
    shell.write("t.json", profile.text());
    return shell.replayed("t.json");
  };
  CHECK(replayed(launched_kernels()) == Approx(150e-6 + reduce).epsilon(1e-9));
  // Without the wait, the last kernel follows the first one. It is longer than the all-reduce.
  Profile overlapped = launched_kernels();
  overlapped.events.erase(3);
  overlapped.events.back()["dur"] = 5000;
  CHECK(replayed(overlapped) == Approx(5100e-6).epsilon(1e-9));
  // The host is late. It launches the last kernel 2000 us after the first.
  Profile late = launched_kernels();
  late.events[4]["ts"] = 3000;
  late.events.back()["ts"] = 3010;
  CHECK(replayed(late) == Approx(2044e-6).epsilon(1e-9));
  // The last launch takes 4 ms, for which the GPU is idle but for the all-reduce: the host loads a module.
  Profile loading = launched_kernels();
  loading.events[4]["dur"] = 4000;
  loading.events.back()["ts"] = 5016;
  CHECK(replayed(loading) == Approx(4056e-6).epsilon(1e-9));
  // The host waits for the all-reduce, and then needs 90 us until the next launch has ended.
  Profile synchronized = launched_kernels();
  synchronized.call("cudaDeviceSynchronize", 1020, 390, 6);  // until the all-reduce has ended
  synchronized.events[4]["ts"] = 1496;
  synchronized.events[7]["ts"] = 1510;
  CHECK(replayed(synchronized) == Approx(100e-6 + reduce + 90e-6 + 50e-6).epsilon(1e-9));
  // Events of CUPTI name the streams: the all-reduce waits for nothing.
  Profile events = launched_kernels();
  events.call("cudaEventRecord", 1013, 1, 8);
  events.event("cuda_sync", "Stream Wait Event", 1014, 1,
               {{"stream", 7}, {"wait_on_stream", 20}, {"correlation", 4}, {"wait_on_cuda_event_record_corr_id", 8}});
  CHECK(replayed(events) == Approx(std::max(100e-6, 8e-6 + reduce) + 50e-6).epsilon(1e-3));
}

TEST_CASE("profiles with missing, repeated and contradictory events are replayed", "[replay][kineto]") {
  const TraceFolder shell;
  const double expected = 150e-6 + reduce_time(shell);
  const auto answer = [&shell](const Profile& profile, const std::string& options = "") {
    shell.write("t.json", profile.text());
    return shell.answer("replay t.json" + kOn + options);
  };
  const auto has_note = [](const json& j, const std::string& words) {
    for (const json& note : j["notes"])
      if (note.get<std::string>().find(words) != std::string::npos) return true;
    return false;
  };
  Profile repeated = launched_kernels();
  for (int i = 5; i < 8; ++i) repeated.events.push_back(json(repeated.events[static_cast<std::size_t>(i)]));
  json j = answer(repeated);
  CHECK(j["time_s"] == Approx(expected).epsilon(1e-9));
  CHECK(has_note(j, "3 events that are in the trace twice are replayed once"));
  // A second call has the correlation of the first one, as those of a long trace may.
  Profile reused = launched_kernels();
  reused.call("cudaLaunchKernel", 9000, 4, 1);
  CHECK(answer(reused)["time_s"] == Approx(expected).epsilon(1e-9));
  Profile missing = launched_kernels();
  missing.events[5]["args"].erase("correlation");
  j = answer(missing);
  CHECK(j["time_s"] == Approx(expected).epsilon(1e-9));
  CHECK(has_note(j, "1 work without a correlation: external ids and the order of launches join them with calls"));
  missing.events.erase(0);  // the call that launched it
  CHECK(has_note(answer(missing), "1 works have no call of the host"));
  // By skewed clocks, kernels begin before the host launches them, and a stream waits for an event of the future.
  Profile skewed = launched_kernels();
  for (int i = 0; i < 5; ++i) skewed.events[static_cast<std::size_t>(i)]["ts"] = 1200 + 4 * i;
  j = answer(skewed);
  CHECK(j["time_s"] == Approx(expected).epsilon(1e-9));
  CHECK(has_note(j, "the clock of the GPU is early: 2 works begin before the launch, \"gemm\" by 190.0 us"));
  Profile future = launched_kernels();
  future.call("cudaEventRecord", 1030, 1, 8);
  future.event("cuda_sync", "Stream Wait Event", 1006, 1,
               {{"stream", 20}, {"wait_on_stream", 7}, {"correlation", 2}, {"wait_on_cuda_event_record_corr_id", 8}});
  CHECK(has_note(answer(future), "1 dependencies that lead back in time"));
  // The first step is slow, and the last one is cut short.
  Profile steps;
  double begin = 0;
  for (const double duration : {900.0, 102.0, 105.0, 9.0}) {
    const int number = static_cast<int>(steps.events.size());
    steps.step(number, begin, duration + 10);
    for (int k = 0; k < (duration > 10 ? 3 : 1); ++k) {
      steps.call("cudaLaunchKernel", begin + 1 + k, 1, number + k + 1);
      steps.kernel(7, begin + 9 + k * duration / 3, duration / 3, number + k + 1);
    }
    begin += 2000;
  }
  steps.info["world_size"] = 1;
  j = answer(steps);
  CHECK(j["step"] == "ProfilerStep#14, one of 4");
  CHECK(j["time_s"] == Approx(105e-6).epsilon(1e-9));
  CHECK(answer(steps, " --step 0")["time_s"] == Approx(900e-6).epsilon(1e-9));
  CHECK(answer(steps, " --step 21")["time_s"] == Approx(3e-6).epsilon(1e-9));
  shell.check_replay_refused("t.json --step 3", "t.json: no ProfilerStep#3; steps that all traces have: 0, 7, 14, 21");
}

TEST_CASE("a profile with damaged ids, clocks or times takes the time of the whole one, and says what was mended",
          "[replay][kineto]") {
  const TraceFolder shell;
  json whole = json::array(), info;
  read_kineto_items(TRAINYARD_SOURCE_DIR "/scenarios/measured/tables/kineto-ddp-by-hand.json.gz",
                    [&](const std::string& list, const json& item) {
                      if (list == "distributedInfo") info = item;
                      if (list == "traceEvents") whole.push_back(item);
                    });
  const auto write = [&](const std::function<void(json & event, std::size_t number)>& damage) {
    json events = whole;
    for (std::size_t i = 0; i < events.size(); ++i) damage(events[i], i);
    shell.write("t.json", json{{"distributedInfo", info}, {"traceEvents", events}}.dump());
  };
  write([](json&, std::size_t) {});
  const json right = shell.answer("replay t.json" + kOn);
  const auto check = [&](const std::string& note) {
    CAPTURE(note);
    const json j = shell.answer("replay t.json" + kOn);
    CHECK(j["time_s"] == Approx(right["time_s"].get<double>()).epsilon(1e-9));
    CHECK(j["breakdown_s"]["exposed_communication"] == right["breakdown_s"]["exposed_communication"]);
    CHECK_THAT(j["notes"].dump(), Contains(note));
  };
  const auto has_id = [](const json& event) { return event["args"].contains("correlation"); };
  write([](json& event, std::size_t) { event["args"].erase("correlation"); });
  check("39 works without a correlation: external ids and the order of launches join them with calls");
  write([&](json& event, std::size_t) {
    if (has_id(event)) event["args"]["correlation"] = 7;
  });
  check("39 works with a correlation that is used again: the order of launches joins them with calls");
  for (const double skew : {1000.0, 16000.0, 1e6}) {
    write([skew](json& event, std::size_t) {
      if (event["cat"] == "kernel") event["ts"] = event["ts"].get<double>() - skew;
    });
    check(fmt::format(" by {:.1f} us; all times of the GPU are shifted by as much", skew - 300));
  }
  write([](json& event, std::size_t) { event["ts"] = fmt::format("{}", event["ts"].get<double>()); });
  check("96 events with ts or dur as text: read as numbers");
  // Two kernels of the first step have no duration.
  for (const bool negative : {false, true}) {
    write([negative](json& event, std::size_t number) {
      if (number < 4) event.erase("dur");
      if (number < 4 && negative) event["dur"] = -5;
    });
    check("2 works without a valid ts or dur: left out (the first: \\\"ampere_bf16_s16816gemm");
    CHECK_THAT(shell.answer("replay t.json --step 2" + kOn)["notes"].dump(),
               Contains("2 calls of the host without a valid dur: no time taken"));
  }
  write([](json& event, std::size_t number) {
    if (number < 12) event.erase("dur");
  });
  shell.check_replay_refused(
      "t.json",
      "t.json: 5 works without a valid ts or dur (the first: "
      "\"ampere_bf16_s16816gemm_bf16_128x256_forward\") of 39 in it: too many to replay the rest");
}

TEST_CASE("one profile makes the programs of all ranks by its groups, or by the scenario's plan", "[replay][kineto]") {
  const TraceFolder shell;
  const double expected = 150e-6 + reduce_time(shell);
  // Rank 2 of 8: its tensor group is 2 and 3, so the others are 0 and 1, 4 and 5, 6 and 7.
  Profile tensor = three_kernels(2, {2, 3});
  tensor.info["world_size"] = 8;
  shell.write("tensor.json", tensor.text());
  const json j = shell.answer("replay tensor.json" + kOn);
  CHECK(j["ranks"] == 8);
  CHECK(j["collectives"][0]["count"] == 4);
  CHECK(j["time_s"] == Approx(expected).epsilon(1e-9));
  Profile odd = three_kernels(2, {0, 2, 3});
  odd.info["world_size"] = 8;
  shell.write("odd.json", odd.text());
  shell.check_replay_refused(
      "odd.json",
      "odd.json: group \"0\": ranks 0, 2, 3 are at no equal distances, so the groups of other ranks do not "
      "follow; the traces of all ranks expected");
  // The ranks of a group come from its distances, from distributedInfo, or from the plan.
  Profile configured = tensor;
  configured.events[1]["args"]["Process Group Ranks"] = "[2, ..., 3]";
  shell.write("plan.json", configured.text());
  shell.check_replay_refused(
      "plan.json",
      "plan.json: group \"0\" of 2 ranks: its ranks are missing (\"Process Group Ranks\"); --on SCENARIO "
      "with a plan of 8 ranks expected");
  const std::string scenario = TRAINYARD_SOURCE_DIR "/scenarios/bert-large-ddp-8xh100.yaml";
  CHECK(shell.answer("replay plan.json --on " + scenario +
                     " --set plan.tensor_parallel=2")["collectives"][0]["count"] == 4);
  CHECK(shell.trainyard("replay plan.json --on " + scenario).err.find("and none of rank 2's groups in the plan (") !=
        std::string::npos);
  configured.info["pg_config"] = parse_json(R"([{"pg_name": "0", "ranks": [2, 3]}])");
  shell.write("configured.json", configured.text());
  CHECK(shell.replayed("configured.json") == Approx(expected).epsilon(1e-9));
  configured.info.erase("pg_config");
  configured.events[1]["args"].update({{"Global rank start", 2}, {"Global rank stride", 1}});
  shell.write("start.json", configured.text());
  CHECK(shell.replayed("start.json") == Approx(expected).epsilon(1e-9));
  // A pipeline of two stages, each with the trace of one of its two ranks.
  const auto stage = [](int rank, const char* operation, const char* peer, int other) {
    Profile profile;
    profile.info.update({{"rank", rank}, {"world_size", 4}});
    profile.kernel(7, 1000, 100);
    profile.exchange(operation, {rank % 2, rank % 2 + 2}, 20, 1100, 20)["args"][peer] = other;
    if (rank > 1) profile.kernel(7, 1120, 100);
    return profile.text();
  };
  std::filesystem::create_directory(shell.path() / "stages");
  shell.write("stages/0.json", stage(0, "send", "Dst Rank", 2));
  shell.check_replay_refused(
      "stages",
      "stages/0.json: it sends messages to other pipeline stages; the trace of one rank of each stage "
      "expected, but there is none for rank 2");
  shell.write("stages/1.json", stage(3, "recv", "Src Rank", 1));
  const json path = shell.answer("topo path dgx-a100 0 2");
  const double message = path["latency_s"].get<double>() + (1 << 20) / path["rate_Bps"].get<double>();
  CHECK(shell.replayed("stages") == Approx(200e-6 + message).epsilon(1e-9));
}

TEST_CASE("a profile is scaled out: the groups of its outermost ranks grow", "[replay][kineto]") {
  const TraceFolder shell;
  shell.write("one.json", three_kernels().text());
  const json eight = shell.answer("replay one.json --scale-out 8" + kOn);
  CHECK(eight["ranks"] == 8);
  CHECK(eight["collectives"] ==
        json::parse(R"([{"operation": "all-reduce", "ranks": 8, "count": 1.0, "bytes": 1048576.0}])"));
  CHECK(eight["time_s"] == Approx(150e-6 + shell.bench_time("all_reduce" + kOn, "1M")).epsilon(1e-9));
  CHECK(eight["breakdown_s"]["compute"] == Approx(150e-6).epsilon(1e-9));
  const std::string notes = eight["notes"].dump();
  CHECK_THAT(notes, Contains("8 ranks for the 2 of the trace: 4 times as many in group 0"));
  // Of four ranks, the tensor group 0 and 1 stays, and the data group 0 and 2 grows. An all-gather keeps its result.
  Profile both = three_kernels(0, {0, 1});
  both.info["world_size"] = 4;
  json& gather = both.exchange("_allgather_base", {0, 2}, 20, 1500, 100);
  gather["args"].update({{"Process Group Name", "1"}, {"Out msg nelems", 1 << 19}});
  shell.write("both.json", both.text());
  const json grown = shell.answer("replay both.json --scale-out 8" + kOn);
  for (const json& row : grown["collectives"]) {
    const bool gathers = row["operation"] == "all-gather";
    CHECK(row["ranks"] == (gathers ? 4 : 2));
    CHECK(row["bytes"].get<double>() / row["count"].get<double>() == (gathers ? 2 << 20 : 1 << 20));
  }
  shell.check_replay_refused("one.json --scale-out 7", "--scale-out 7: no multiple of the 2 ranks of one.json");
}

TEST_CASE("exchanges that a profile does not describe take their recorded time if that is wished", "[replay][kineto]") {
  const TraceFolder shell;
  Profile profile = three_kernels();
  profile.events[1]["args"].erase("Collective name");
  shell.write("plain.json", profile.text());
  CHECK_THAT(shell.trainyard("replay plain.json" + kOn).err, Contains("or --keep-undescribed"));
  const json j = shell.answer("replay plain.json --keep-undescribed" + kOn);
  CHECK(j["time_s"] == Approx(450e-6).epsilon(1e-9));
  CHECK_THAT(j["notes"].dump(), Contains("an exchange that the trace does not describe takes its recorded time"));
}

TEST_CASE("a profile that is missing or empty is refused, and the error says so", "[replay][kineto]") {
  const TraceFolder shell;
  shell.check_replay_refused("missing.json", "missing.json: cannot be read: no such file");
  shell.write("empty.json", "");
  shell.check_replay_refused("empty.json", "empty.json: byte 1: empty, JSON expected");
}

TEST_CASE("bad profiles are refused, and the error says what is missing", "[replay][kineto]") {
  const TraceFolder shell;
  const auto refuse = [&shell](const Profile& profile, const std::string& error, const std::string& options = "") {
    shell.write("t.json", profile.text());
    shell.check_replay_refused("t.json" + options, error);
  };
  const std::string at_exchange = "t.json: the exchange at 1100.000 us \"ncclDevKernel_Generic(ncclDevComm*)\": ";
  Profile profile = three_kernels();
  profile.events[1]["args"].erase("Collective name");
  refuse(profile, at_exchange +
                      "its operation is missing; \"Collective name\", \"In msg nelems\" and \"dtype\" expected, in its "
                      "arguments or in those of its record_param_comms; or --keep-undescribed");
  // The operator that starts the kernel may have what the kernel lacks.
  profile.events[1]["args"]["External id"] = 12;
  json arguments = three_kernels().events[1]["args"];
  arguments["External id"] = 12;
  profile.event("cpu_op", "record_param_comms", 900, 5, arguments);
  shell.write("operator.json", profile.text());
  CHECK(shell.replayed("operator.json") == Approx(150e-6 + reduce_time(shell)).epsilon(1e-9));
  profile = three_kernels();
  profile.events[1]["args"]["dtype"] = "Quad";
  refuse(profile, at_exchange + "unknown dtype \"Quad\"");
  profile = three_kernels();
  profile.events[1]["args"]["Collective name"] = "coalesced";
  refuse(profile, at_exchange + "\"coalesced\" is no collective that can be replayed");
  profile = three_kernels();
  profile.events[1]["args"]["Collective name"] = "send";
  refuse(profile, at_exchange + "\"Dst Rank\" expected");
  profile = three_kernels();
  profile.info.erase("world_size");
  refuse(profile,
         "t.json: of how many ranks? distributedInfo.world_size is missing; --ranks N or --on SCENARIO expected");
  refuse(three_kernels(5), "t.json: the trace of rank 5, but there are 2 ranks");
  refuse(three_kernels(0, {0, 2}), "t.json: group \"0\" of 2 ranks: it has rank 2, but there are 2 ranks");
  refuse(three_kernels(1, {0}), "t.json: group \"0\" of 1 rank: rank 1 uses it, but is none of its ranks 0");
  refuse(three_kernels(), "t.json: no ProfilerStep is in it; --step cannot choose", " --step 4");
  profile = three_kernels();
  profile.info["world_size"] = 16;
  refuse(profile, "t.json: a trace of 16 ranks, but the cluster has 8 GPUs; --nodes adds nodes");
  std::filesystem::create_directory(shell.path() / "pair");
  shell.check_replay_refused("pair", "pair: no traces in this folder; .json, .json.gz or .sqlite expected");
  shell.write("pair/a.json", three_kernels().text());
  shell.write("pair/b.json", three_kernels().text());
  shell.check_replay_refused("pair", "pair/a.json and pair/b.json: both are traces of rank 0");
  shell.write("pair/b.json", three_kernels().events.dump());
  shell.check_replay_refused(
      "pair", "pair/b.json: of which rank? distributedInfo.rank, or a name such as rank-3.json expected");
  shell.write("empty.json", R"({"traceEvents": []})");
  shell.check_replay_refused("empty.json",
                             "empty.json: no kernel of a GPU is in it; a trace of torch.profiler with "
                             "ProfilerActivity.CUDA, or of nsys with --trace=cuda, expected");
  shell.write_trace("chakra", 1, {stated(0, 1e-6)});
  shell.check_replay_refused(
      "chakra --step 1", "--step, --ranks: only with traces of a profiler (.json, .json.gz, .sqlite, or their folder)");
}

TEST_CASE("a trace without ProfilerSteps says that the host's time is that of the whole trace", "[replay][kineto]") {
  const TraceFolder shell;
  Profile profile = launched_kernels();
  shell.write("t.json", profile.text());
  const std::string note = "no ProfilerStep marks a step, so the whole trace is replayed";
  CHECK_THAT(shell.answer("replay t.json" + kOn)["notes"].dump(), Contains(note));
  profile.step(1, 990, 600);
  shell.write("t.json", profile.text());
  CHECK_THAT(shell.answer("replay t.json" + kOn)["notes"].dump(), !Contains(note));
  shell.write("kernels.json", three_kernels().text());  // without a host
  CHECK_THAT(shell.answer("replay kernels.json" + kOn)["notes"].dump(), Contains(note) && !Contains(note + ":"));
}

}  // namespace tools_test_replay_kineto
