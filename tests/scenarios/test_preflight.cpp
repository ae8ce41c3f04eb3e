// `cluster.preflight`: the declared software and ports of hosts are checked before anything is simulated.
#include <catch2/catch.hpp>

#include "models/reading/shipped_files.hpp"
#include "tests/tools/topo_shell.hpp"

namespace scenarios_test_preflight {

using namespace trainyard;
using namespace trainyard::test;
using Catch::Matchers::Contains;

namespace {

struct PreflightShell : TopoFolder {
  std::string valid_text;

  PreflightShell() {
    valid_text = file_text(shipped_file("scenarios/lessons/7-running-and-planning/64-preflight.yaml"));
    valid_text = valid_text.substr(valid_text.find("\ncluster:") + 1);
    write("good.yaml", valid_text);
  }
  /// Replaces the last occurrence of `text` by `other`, and checks that the error has its line.
  void check_refused(const std::string& text, const std::string& other, const std::string& error) const {
    CAPTURE(text, other);
    std::string faulty_text = valid_text;
    const std::size_t position = faulty_text.rfind(text);
    REQUIRE(position != std::string::npos);
    const auto line =
        std::count(faulty_text.begin(), faulty_text.begin() + static_cast<std::ptrdiff_t>(position), '\n') + 1;
    faulty_text.replace(position, text.size(), other);
    write("bad.yaml", faulty_text);
    for (const char* verb : {"run", "topo check"}) {
      const TopoAnswer answer = trainyard(std::string(verb) + " bad.yaml");
      CHECK(answer.exit == 2);
      CHECK(answer.out.empty());
      CHECK_THAT(answer.err, Contains("bad.yaml:" + std::to_string(line)) && Contains(error));
    }
  }
};

}  // namespace

TEST_CASE("a training whose hosts cannot start it is refused with the reason, and the fixed one runs", "[preflight]") {
  const PreflightShell shell;
  shell.check_refused("open_ports: [22, 29500]", "open_ports: [22]",
                      "preflight: port 29500 is closed on host node2; open: 22");
  shell.check_refused("cuda: \"12.2\"", "cuda: \"11.8\"",
                      "preflight: cuda is 11.8 on host node2, but 12.2 on host node1");
  shell.check_refused("nccl: 2.18.5, ", "", "preflight: host node2 states no version of nccl; host node1 has 2.18.5");
  shell.check_refused("reaches: [node1]", "reaches: [nod1]",
                      "which is no host of the cluster; did you mean \"node1\"?");
  shell.check_refused("gpus: 4", "gpus: 3", "host node2 has 3, but a t4-server has 4");
  shell.check_refused("name: node2", "name: node1", "two hosts are called node1");
  shell.check_refused("open_ports: [22, 29500]", "open_ports: [22, 70000]", "a port from 1 to 65535 expected");
  shell.check_refused("open_ports", "open_prts", "did you mean \"open_ports\"?");
  CHECK_THAT(shell.trainyard("run good.yaml --no-what-if").out, Contains("step"));
  CHECK_THAT(shell.trainyard("topo check good.yaml").out,
             Contains("preflight: 2 hosts as declared; on all driver 535.104, cuda 12.2, nccl 2.18.5"));
  CHECK_THAT(shell.trainyard("run good.yaml --set cluster.nodes=3").err, Contains("2 of 3 nodes; one host a node"));
  CHECK_THAT(shell.trainyard("run good.yaml --set cluster.preflight.hosts.0.reaches=[node1]").err,
             Contains("--set cluster.preflight.hosts.0.reaches: preflight: host node1 does not reach host node2"));
}

TEST_CASE("a launch line must fit the hosts that were declared", "[preflight][launch]") {
  const PreflightShell shell;
  const auto launch = [&shell](const std::string& line) {
    return shell.trainyard("launch '" + line + "' --on good.yaml");
  };
  CHECK(launch("horovodrun -np 8 -H node1:4,node2:4 python train.py").exit == 0);
  CHECK_THAT(launch("horovodrun -np 8 -H node1:4,nod2:4 python train.py").err,
             Contains("good declares no host nod2; did you mean \"node2\"?"));
  const std::string torch = "torchrun --nnodes 2 --nproc-per-node 4 --master-addr node1 --master-port ";
  CHECK(launch(torch + "29500 t.py").exit == 0);
  CHECK_THAT(launch(torch + "1234 t.py").err, Contains("port 1234, which is closed on host node1; open: 22, 29500"));
}

}  // namespace scenarios_test_preflight
