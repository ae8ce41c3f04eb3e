// The speed of the command as users see it: whole processes.
#include <benchmark/benchmark.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "scenarios/src/traces/chakra.hpp"

namespace {

void run_command(benchmark::State& state, const std::string& arguments) {
  const std::string line = std::string(TRAINYARD_BINARY " ") + arguments + " > /dev/null";
  for (auto _ : state) {
    const int status = std::system(line.c_str());
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) state.SkipWithError("the command failed");
  }
}

const std::string kMain = std::string("scenarios/gpt2-xl-ddp-dgx-a100.yaml");
const std::string kFile = std::string(TRAINYARD_SOURCE_DIR "/") + kMain;

void one_simulation(benchmark::State& state) { run_command(state, "run --no-what-if " + kFile); }
// Buckets of exactly 25 MiB make 238,080 messages.
void one_simulation_exact_buckets(benchmark::State& state) {
  run_command(state, "run --no-what-if --set plan.data_parallel.bucket_boundaries=bytes " + kFile);
}
void screen_with_what_ifs(benchmark::State& state) { run_command(state, "run " + kFile); }
// GPT-3 175B with tensor 8 x pipeline 8 and 96 micro-batches: one replica on 64 GPUs, and 16 replicas on 1,024.
const std::string kLarge = std::string(TRAINYARD_SOURCE_DIR "/scenarios/gpt3-175b-1024xa100.yaml");
void step_of_64_gpus(benchmark::State& state) {
  run_command(state,
              "run --no-what-if --set cluster.nodes=8 --set plan.data_parallel.size=1 --set "
              "plan.global_batch_size=96 " +
                  kLarge);
}
void step_of_1024_gpus(benchmark::State& state) { run_command(state, "run --no-what-if " + kLarge); }
/// The set-up of 65,536 GPUs, 1,024 replicas of 64, with the peak of its memory. It must run before larger commands.
void step_of_65536_gpus(benchmark::State& state) {
  run_command(state,
              "run --no-what-if --set cluster.nodes=8192 --set plan.data_parallel.size=1024 --set "
              "plan.global_batch_size=98304 " +
                  kLarge);
  rusage children{};
  getrusage(RUSAGE_CHILDREN, &children);
  state.counters["peak_MiB"] = static_cast<double>(children.ru_maxrss) / 1024;
}
/// The speed of a sweep over 100 sequence lengths on all processors, in points per second. `apart`: difference of two
/// lengths. Tensor ranks that share sequences must divide each length.
void sweep_points(benchmark::State& state, const std::string& file, int apart = 1) {
  std::string lengths = "1024";
  for (int number = 1; number < 100; ++number) lengths += "," + std::to_string(1024 - apart * number);
  run_command(state, "sweep " + file + " --set plan.seq_length=" + lengths + " --csv -");
  state.SetItemsProcessed(state.iterations() * 100);
}
void points_of_one_gpu(benchmark::State& state) {
  sweep_points(state, TRAINYARD_SOURCE_DIR "/scenarios/gpt2-one-a100.yaml");
}
void points_of_32_gpus(benchmark::State& state) { sweep_points(state, kFile); }
void points_of_1024_gpus(benchmark::State& state) { sweep_points(state, kLarge, 8); }
// 100 asynchronous workers of ResNet-50 and two servers, 20 steps of each: 1.3 million flows, 2,000 at a time.
void asynchronous_servers_of_resnet50(benchmark::State& state) {
  run_command(
      state,
      "run --no-what-if --set cluster.nodes=102 --set plan.global_batch_size=6400 --set "
      "plan.data_parallel.servers.label=100W2PS --set plan.data_parallel.consistency=asynchronous " TRAINYARD_SOURCE_DIR
      "/scenarios/parameter-server-resnet50.yaml");
}
// A flat ring on 256 GPUs, message by message, with every rank simulated.
void every_message_of_256_gpus(benchmark::State& state) {
  run_command(state,
              "run --no-what-if --fold off --set cluster.nodes=32 --set plan.global_batch_size=4096 --set "
              "plan.data_parallel.all_reduce.algorithm=ring --set plan.data_parallel.all_reduce.fidelity=messages " +
                  kFile);
}
/// ASTRA-sim's microbenchmark: a ring all-reduce of 1 MiB over 1,024 ranks, message by message. With the flags
/// "--fold off" every rank is simulated.
void replayed_ring(benchmark::State& state, const std::string& flags) {
  std::string folder = (std::filesystem::temp_directory_path() / "trainyard-bench-XXXXXX").string();
  if (!mkdtemp(folder.data())) return state.SkipWithError("no folder for traces");
  trainyard::ChakraNode node;
  node.name = "all_reduce_1024npus_1MB";
  node.type = trainyard::ChakraType::collective;
  node.collective = 0;
  node.bytes = 1 << 20;
  std::string file = trainyard::chakra_header();
  trainyard::append_chakra(file, node);
  for (int rank = 0; rank < 1024; ++rank) std::ofstream(folder + "/ring." + std::to_string(rank) + ".et") << file;
  run_command(state,
              "replay " + folder + "/ring --on dgx-a100 --nodes 128 --fabric nonblocking --algorithm ring " + flags);
  std::filesystem::remove_all(folder);
}
void replayed_ring_of_1024_ranks(benchmark::State& state) { replayed_ring(state, ""); }
void replayed_ring_rank_by_rank(benchmark::State& state) { replayed_ring(state, "--fold off"); }
void start_up(benchmark::State& state) { run_command(state, "show --mesh " + kFile); }

}  // namespace

BENCHMARK(step_of_65536_gpus)->UseRealTime()->Unit(benchmark::kMillisecond)->Iterations(3);
BENCHMARK(one_simulation)->UseRealTime()->Unit(benchmark::kMillisecond)->Iterations(5);
BENCHMARK(one_simulation_exact_buckets)->UseRealTime()->Unit(benchmark::kMillisecond)->Iterations(5);
BENCHMARK(screen_with_what_ifs)->UseRealTime()->Unit(benchmark::kMillisecond)->Iterations(3);
BENCHMARK(step_of_64_gpus)->UseRealTime()->Unit(benchmark::kMillisecond)->Iterations(3);
BENCHMARK(step_of_1024_gpus)->UseRealTime()->Unit(benchmark::kMillisecond)->Iterations(1);
BENCHMARK(points_of_one_gpu)->UseRealTime()->Unit(benchmark::kMillisecond)->Iterations(3);
BENCHMARK(points_of_32_gpus)->UseRealTime()->Unit(benchmark::kMillisecond)->Iterations(3);
BENCHMARK(points_of_1024_gpus)->UseRealTime()->Unit(benchmark::kMillisecond)->Iterations(1);
BENCHMARK(asynchronous_servers_of_resnet50)->UseRealTime()->Unit(benchmark::kMillisecond)->Iterations(1);
BENCHMARK(every_message_of_256_gpus)->UseRealTime()->Unit(benchmark::kMillisecond)->Iterations(1);
BENCHMARK(replayed_ring_of_1024_ranks)->UseRealTime()->Unit(benchmark::kMillisecond)->Iterations(5);
BENCHMARK(replayed_ring_rank_by_rank)->UseRealTime()->Unit(benchmark::kMillisecond)->Iterations(3);
BENCHMARK(start_up)->UseRealTime()->Unit(benchmark::kMillisecond)->Iterations(20);
