// The figures of runs in which ranks are unlike, and of runs that grow: whole processes, in processor time. `e` is the
// time of a million lockstep transfers of the bare executor (bench_flow), measured beside each command. The exponent is
// the slope of the logarithm of time over that of size, fitted to the sizes of one series so far.
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>

#include "tests/bench/ring.hpp"

using namespace trainyard;
using namespace trainyard::bench;

namespace {

const std::string kScenarios = TRAINYARD_SOURCE_DIR "/scenarios/";
const std::string kLarge = kScenarios + "gpt3-175b-1024xa100.yaml", kMain = kScenarios + "gpt2-xl-ddp-dgx-a100.yaml";

/// A run of the command. seconds: processor time of its process; mib: peak memory.
struct CommandRun {
  bool is_good = false;
  double seconds = 0, mib = 0;
};

CommandRun run_trainyard(const std::vector<std::string>& words) {
  const pid_t child = fork();
  if (child == 0) {
    std::vector<std::string> copies{TRAINYARD_BINARY};
    copies.insert(copies.end(), words.begin(), words.end());
    std::vector<char*> arguments;
    for (std::string& word : copies) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    if (!std::freopen("/dev/null", "w", stdout) || !std::freopen("/dev/null", "w", stderr)) _exit(1);
    execv(arguments[0], arguments.data());
    _exit(1);
  }
  int status = 0;
  rusage usage{};
  if (wait4(child, &status, 0, &usage) != child) return {};
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return {WIFEXITED(status) && WEXITSTATUS(status) == 0, seconds(usage.ru_utime) + seconds(usage.ru_stime),
          static_cast<double>(usage.ru_maxrss) / 1024};
}

/// Processor time in s of a million lockstep transfers.
double unit_seconds() {
  const Ring ring{256, 4000, 1, true};
  return run_ring(ring, TransportKind::flow).cpu / ring.transfers() * 1e6;
}

/// The slope of log(time) over log(size), by least squares; 0 for one size.
double exponent(const std::map<double, double>& times) {
  double x = 0, y = 0, xx = 0, xy = 0;
  const auto n = static_cast<double>(times.size());
  for (const auto& [size, time] : times) {
    x += std::log(size) / n;
    y += std::log(time) / n;
  }
  for (const auto& [size, time] : times) {
    xx += (std::log(size) - x) * (std::log(size) - x);
    xy += (std::log(size) - x) * (std::log(time) - y);
  }
  return xx > 0 ? xy / xx : 0;
}

/// Times a command, and reports its time in `e`, its peak memory and, if it is one of a series, the exponent of growth.
/// `aim`: most time in `e`; 0: none.
void time_command(benchmark::State& state, const std::vector<std::string>& words, double aim = 0,
                  const std::string& series = "", double size = 0) {
  static std::map<std::string, std::map<double, double>> all_series;
  const double unit = unit_seconds();
  CommandRun run;
  for (auto _ : state) {
    run = run_trainyard(words);
    if (!run.is_good) return state.SkipWithError("the command failed");
    state.SetIterationTime(run.seconds);
  }
  state.counters["e"] = run.seconds / unit;
  state.counters["peak_MiB"] = run.mib;
  if (aim > 0) state.counters["over_aim"] = run.seconds / unit / aim;
  if (series.empty()) return;
  std::map<double, double>& times = all_series[series];
  times[size] = run.seconds;
  if (times.size() > 1) state.counters["exponent"] = exponent(times);
}

std::vector<std::string> run_of(const std::string& file, const std::vector<std::string>& sets,
                                const std::vector<std::string>& flags = {}) {
  std::vector<std::string> words{"run", "--no-what-if"};
  words.insert(words.end(), flags.begin(), flags.end());
  for (const std::string& set : sets) words.insert(words.end(), {"--set", set});
  words.push_back(file);
  return words;
}

/// GPT-3 on replicas of 64 GPUs.
std::vector<std::string> replicas_of_gpt3(std::int64_t replicas, std::int64_t micro_batches) {
  return {fmt::format("cluster.nodes={}", 8 * replicas), fmt::format("plan.data_parallel.size={}", replicas),
          fmt::format("plan.global_batch_size={}", micro_batches * replicas)};
}

void gpus_with_drawn_slow_downs(benchmark::State& state, const std::vector<std::string>& flags, double aim,
                                std::int64_t micro_batches, const std::string& series) {
  std::vector<std::string> sets = replicas_of_gpt3(state.range(0) / 64, micro_batches);
  sets.insert(sets.end(), {"faults={stragglers: {kind: lognormal, sigma: 0.1}}", "plan.steps=1"});
  time_command(state, run_of(kLarge, sets, flags), aim, series, static_cast<double>(state.range(0)));
}

void growth_gpus_rank_by_rank(benchmark::State& state) {
  gpus_with_drawn_slow_downs(state, {"--fold", "off"}, state.range(0) == 1024 ? 60 : 0, 96, "gpus");
}
void growth_gpus_4096_rank_by_rank(benchmark::State& state) {
  gpus_with_drawn_slow_downs(state, {"--fold", "off"}, 250, 48, "");
}
void growth_gpus_with_shared_draws(benchmark::State& state) { gpus_with_drawn_slow_downs(state, {}, 0, 96, "shared"); }
void growth_gpus_64_unfolded(benchmark::State& state) {
  time_command(state, run_of(kLarge, replicas_of_gpt3(1, 96), {"--fold", "off"}), 3);
}
void growth_layers(benchmark::State& state) {
  std::vector<std::string> sets = replicas_of_gpt3(1, 24);
  sets.push_back(fmt::format("model={{base: gpt3-175b, n_layer: {}}}", state.range(0)));
  time_command(state, run_of(kLarge, sets, {"--fold", "off"}), 0, "layers", static_cast<double>(state.range(0)));
}
void growth_micro_batches(benchmark::State& state) {
  time_command(state, run_of(kLarge, replicas_of_gpt3(1, state.range(0)), {"--fold", "off"}), 0, "micro-batches",
               static_cast<double>(state.range(0)));
}
/// A flat ring with every message and every rank: 2 (n - 1) steps of n messages for each bucket.
void growth_messages(benchmark::State& state) {
  const auto gpus = state.range(0);
  const auto sets = {fmt::format("cluster.nodes={}", gpus / 8), fmt::format("plan.global_batch_size={}", 16 * gpus),
                     std::string("plan.data_parallel.all_reduce.algorithm=ring"),
                     std::string("plan.data_parallel.all_reduce.fidelity=messages")};
  time_command(state, run_of(kMain, sets, {"--fold", "off"}), 0, "messages", static_cast<double>(gpus * (gpus - 1)));
}
/// Four workers for each server, and 20 steps: the messages grow as the square of the servers.
void growth_servers(benchmark::State& state) {
  const auto servers = state.range(0);
  const auto sets = {fmt::format("cluster.nodes={}", 5 * servers),
                     fmt::format("plan.global_batch_size={}", 256 * servers),
                     fmt::format("plan.data_parallel.servers.label={}W{}PS", 4 * servers, servers)};
  time_command(state, run_of(kScenarios + "parameter-server-resnet50.yaml", sets), servers == 16 ? 10 : 0, "servers",
               static_cast<double>(servers));
}
void growth_servers_64_of_512_workers(benchmark::State& state) {
  time_command(
      state,
      run_of(kScenarios + "parameter-server-resnet50.yaml",
             {"cluster.nodes=576", "plan.global_batch_size=32768", "plan.data_parallel.servers.label=512W64PS"}),
      100);
}
/// Jobs of two nodes each, spread over the leaf switches of one cluster.
void growth_jobs(benchmark::State& state) {
  const auto count = state.range(0);
  std::string file = fmt::format(
      "cluster: {{nodes: {}, node: dgx-a100, fabric: {{base: leaf-spine, levels: [{{down: 16, oversubscription: "
      "8}}]}}}}\n"
      "software: pytorch-ddp\njobs:\n",
      2 * count);
  for (int job = 0; job < count; ++job)
    file +=
        fmt::format("- {{name: j{}, nodes: 2, placement: spread, model: gpt2, plan: {{micro_batch_size: 4}}}}\n", job);
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / fmt::format("trainyard-bench-jobs-{}.yml", getpid());
  std::ofstream(path) << file;
  time_command(state, {"share", path.string(), "--steps", "20"}, 0, "jobs", static_cast<double>(count));
  std::filesystem::remove(path);
}
void growth_steps_of_one_gpu(benchmark::State& state) {
  time_command(state, run_of(kScenarios + "gpt2-one-a100.yaml", {fmt::format("plan.steps={}", state.range(0))}));
}
void growth_gpus_of_pods(benchmark::State& state) {  // at most 30 e if the last pod is not full
  time_command(state,
               run_of(kScenarios + "ddp-100k.yaml", {fmt::format("cluster.nodes={}", state.range(0) / 8),
                                                     fmt::format("plan.global_batch_size={}", 4 * state.range(0))}),
               30);
}

void once(benchmark::internal::Benchmark* benchmark) {
  benchmark->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(1);
}

}  // namespace

BENCHMARK(growth_gpus_64_unfolded)->Apply(once);
BENCHMARK(growth_gpus_rank_by_rank)->ArgName("gpus")->Arg(128)->Arg(256)->Arg(512)->Arg(1024)->Apply(once);
BENCHMARK(growth_gpus_4096_rank_by_rank)->ArgName("gpus")->Arg(4096)->Apply(once);
BENCHMARK(growth_gpus_with_shared_draws)->ArgName("gpus")->Arg(1024)->Arg(4096)->Arg(8192)->Arg(16384)->Apply(once);
BENCHMARK(growth_layers)->ArgName("layers")->Arg(24)->Arg(48)->Arg(96)->Arg(192)->Apply(once);
BENCHMARK(growth_micro_batches)->ArgName("micro_batches")->Arg(24)->Arg(48)->Arg(96)->Arg(192)->Apply(once);
BENCHMARK(growth_messages)->ArgName("gpus")->Arg(32)->Arg(64)->Arg(128)->Arg(256)->Apply(once);
BENCHMARK(growth_servers)->ArgName("servers")->Arg(4)->Arg(8)->Arg(16)->Arg(32)->Apply(once);
BENCHMARK(growth_servers_64_of_512_workers)->Apply(once);
BENCHMARK(growth_jobs)->ArgName("jobs")->Arg(2)->Arg(4)->Arg(8)->Arg(16)->Apply(once);
BENCHMARK(growth_steps_of_one_gpu)->ArgName("steps")->Arg(65536)->Apply(once);
BENCHMARK(growth_gpus_of_pods)->ArgName("gpus")->Arg(100352)->Arg(100000)->Apply(once);
