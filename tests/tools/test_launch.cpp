// `trainyard launch` reads command lines that start a training.
#include <catch2/catch.hpp>

#include "scenarios/src/reading/launch_line.hpp"
#include "tests/tools/topo_shell.hpp"

namespace tools_test_launch {

using namespace trainyard;
using Catch::Matchers::Contains;

TEST_CASE("launch shows which rank runs where", "[launch]") {
  const LaunchLine torch = read_launch_line(
      "python -m torch.distributed.launch --nproc_per_node=4 --nnodes=16 --node_rank 3 --master_addr=192.168.0.1 "
      "--master_port=1234 train.py --epochs 3");
  CHECK(torch.world_size() == 64);
  CHECK(torch.first_rank(3) == 12);
  CHECK(torch.node_rank == 3);
  CHECK(torch.master == "192.168.0.1:1234");
  for (const char* line :
       {"torchrun --nnodes 2 --nproc-per-node 4 train.py", "horovodrun -np 8 -H one:4,two:4 python train.py",
        "mpirun --allow-run-as-root -np 8 -H one:4,two:4 -bind-to none python train.py", "mpirun -np 8 -N 4 train",
        "deepspeed --num_nodes 2 --num_gpus 4 train.py",
        "accelerate launch --multi_gpu --num_machines 2 --num_processes 8 t.py"}) {
    INFO(line);
    const LaunchLine launch = read_launch_line(line);
    CHECK(launch.world_size() == 8);
    REQUIRE(launch.hosts.size() == 2);
    CHECK(launch.first_rank(1) == 4);
  }
}

TEST_CASE("launch counts the requests of the rendezvous by backend", "[launch]") {
  const LaunchLine nccl = read_launch_line("torchrun --nnodes 2 --nproc-per-node 4 train.py");
  CHECK(nccl.backend == "nccl");
  CHECK(nccl.init_method == "env://");
  CHECK(nccl.rendezvous_requests() == 16);
  const LaunchLine gloo = read_launch_line("torchrun --nnodes 2 --nproc-per-node 4 t.py --dist-backend gloo");
  CHECK(gloo.rendezvous_requests() == 8 + 64);
  const LaunchLine tcp =
      read_launch_line("torchrun --nproc-per-node 4 t.py --backend nccl --init_method tcp://n0:23456");
  CHECK(tcp.master == "n0:23456");
  CHECK(read_launch_line("mpirun -np 8 -N 4 train").rendezvous_requests() == 0);
  CHECK(read_launch_line("horovodrun --gloo -np 4 python t.py").backend == "gloo");
  CHECK_THROWS_WITH(read_launch_line("torchrun t.py --backend ncll"), Contains("did you mean \"nccl\"?"));
  CHECK_THROWS_WITH(read_launch_line("torchrun t.py --init-method http://a"), Contains("tcp://HOST:PORT"));
}

TEST_CASE("bad launch lines are refused with the nearest name", "[launch]") {
  CHECK_THROWS_WITH(read_launch_line("torchrn --nnodes 2"), Contains("did you mean \"torchrun\"?"));
  CHECK_THROWS_WITH(read_launch_line("torchrun --nnode 2"), Contains("did you mean \"--nnodes\"?"));
  CHECK_THROWS_WITH(read_launch_line("torchrun --nnodes two"), Contains("a whole number from 1 to 1048576 expected"));
  CHECK_THROWS_WITH(read_launch_line("torchrun --nnodes=99999999 t.py"), Contains("from 1 to 1048576 expected"));
  CHECK_THROWS_WITH(read_launch_line("torchrun --nnodes=2 \"t.py"), Contains("a quote \" is not closed"));
  CHECK_THROWS_WITH(read_launch_line("torchrun --nnodes=2 --rdzv-id 'my job t.py"),
                    Contains("a quote ' is not closed"));
  CHECK(read_launch_line("torchrun --rdzv-id 'my job' --nnodes=\"2\" t.py").world_size() == 2);
  CHECK_THROWS_WITH(read_launch_line("torchrun --nnodes 2 --node_rank 2"), Contains("count from 0"));
  CHECK_THROWS_WITH(read_launch_line("horovodrun -np 9 -H one:4,two:4 t"),
                    Contains("the hosts have 8 slots; expected at most 8"));
  CHECK_THROWS_WITH(read_launch_line("mpirun -np 6 --oversubscribe -H one,two t"),
                    Contains("--oversubscribe is not modelled"));
  CHECK_THROWS_WITH(read_launch_line("mpirun -np 8 -H one:4,two:4 --map-by node t"),
                    Contains("nearest is --map-by slot"));
  CHECK_THROWS_WITH(read_launch_line("mpirun -H one:4,two:4 --map-by ppr:5:node t"),
                    Contains("expected at most ppr:4:node"));
  CHECK_THROWS_WITH(read_launch_line("mpirun -np 7 -N 4 t"),
                    Contains("7 processes are not 4 on each of 2 machines; nearest: 8"));
  CHECK_THROWS_WITH(read_launch_line("torchrun --nnodes"), Contains("a value expected"));
}

TEST_CASE("processes fill the hosts one after another, or are as many on each as --map-by says", "[launch]") {
  const auto processes = [](const std::string& line) {
    std::vector<int> counts;
    for (const LaunchLine::Host& host : read_launch_line(line).hosts) counts.push_back(host.processes);
    return counts;
  };
  CHECK(processes("mpirun -np 6 -H one:4,two:4 t") == std::vector{4, 2});
  CHECK(processes("horovodrun -np 4 -H one:4,two:4 t") == std::vector{4});
  CHECK(processes("mpirun -H one:4,two:4 --map-by ppr:2:node t") == std::vector{2, 2});
  CHECK(processes("mpirun -np 8 -H one:4,two:4 --map-by slot t") == std::vector{4, 4});
}

TEST_CASE("a launch line needs a GPU for each process", "[launch][cli]") {
  const test::TopoFolder shell;
  const std::string on = " --on " TRAINYARD_SOURCE_DIR "/scenarios/gpt2-ddp-t4-servers.yaml";  // two nodes of four GPUs
  const test::TopoAnswer good =
      shell.trainyard("launch 'torchrun --nnodes 2 --nproc-per-node 4 --node-rank 1 t.py'" + on);
  CHECK(good.exit == 0);
  CHECK_THAT(good.out, Contains("8 processes on 2 machines") && Contains("4-7"));
  CHECK_THAT(shell.trainyard("launch 'torchrun --nproc-per-node 8 t.py'" + on).err, Contains("a t4-server has 4 GPUs"));
  CHECK(shell.trainyard("launch 'torchrun --nnodes 4 --nproc-per-node 4 t.py'" + on).exit == 2);
}

}  // namespace tools_test_launch
