// Answers call TPUs, FPGAs and other accelerators by their nouns.
#include <catch2/catch.hpp>
#include <regex>

#include "models/reading/shipped_files.hpp"
#include "tests/tools/html_pages.hpp"
#include "topologies/device_noun.hpp"

namespace tools_test_device_words {

using namespace trainyard;
using namespace trainyard::test;
using Catch::Matchers::Contains;

namespace {

/// Whether the text has the word GPU. Names such as GPUDirect do not count.
bool says_gpu(const std::string& text) { return std::regex_search(text, std::regex("\\bGPUs?\\b")); }

}  // namespace

TEST_CASE("in_words_of replaces GPU in a text by the noun of the chip", "[device-words]") {
  CHECK(in_words_of("FPGA", "a GPU, GPUs; 2x GPU FLOP/s, GPU-hours") == "an FPGA, FPGAs; 2x FPGA FLOP/s, FPGA-hours");
  CHECK(in_words_of("accelerator", "A GPU of media GPU") == "An accelerator of media accelerator");
  CHECK(in_words_of("TPU", "GPUDirect, XGPU, GPU_x, a GPU") == "GPUDirect, XGPU, GPU_x, a TPU");
  CHECK(in_words_of("GPU", "a GPU") == "a GPU");
  CHECK(common_noun("", "TPU") == "TPU");
  CHECK(common_noun("TPU", "GPU") == "device");
}

TEST_CASE("answers name links, library and runtime as the vendor of the chips does", "[device-words][cli]") {
  const TopoFolder shell;
  const std::string amd = shell.trainyard("run lora-llama2-70b-mi300x --no-what-if").out;
  CHECK_THAT(amd, Contains("on the device with allocator, HIP and RCCL"));
  CHECK_FALSE(std::regex_search(amd, std::regex("\\b(NVLink|NCCL|CUDA)\\b")));
  const std::string gpt =
      "explain gpt2-xl-ddp-dgx-a100 --set cluster.nodes=1 --set plan.global_batch_size=128 --set software=plain --set "
      "plan.data_parallel.overlap=false --set plan.data_parallel.all_reduce=ring --set cluster.node=";
  for (const auto& [node, link] : {std::pair<std::string, std::string>{"mi300x-8x", "Infinity Fabric"},
                                   {"gaudi-3-8x", "Gaudi's Ethernet"},
                                   {"dgx-a100", "NVLink"}}) {
    CAPTURE(node);
    const std::string path = shell.trainyard(gpt + node).out;
    CHECK_THAT(path, Contains(link));
    CHECK((link == "NVLink" || path.find("NVLink") == std::string::npos));
  }
}

TEST_CASE("paths and benchmarks name links and library as the vendor of the chips does", "[device-words][cli]") {
  const TopoFolder shell;
  for (const char* words : {"topo path mi300x-8x gpu0 gpu5", "bench all_gather --on mi300x-8x -b 1M -e 1M",
                            "bench all_gather --on mi300x-8x --nodes 2 --fabric nonblocking -b 1M -e 1M"}) {
    const TopoAnswer answer = shell.trainyard(words);
    CAPTURE(words, answer.out, answer.err);
    CHECK(answer.exit == 0);
    CHECK_THAT(answer.out, Contains("Infinity Fabric") || Contains("RCCL"));
    CHECK_FALSE(std::regex_search(answer.out, std::regex("\\b(NVLink|NCCL)\\b")));
  }
}

TEST_CASE("no answer calls a TPU, an FPGA or an ASIC a GPU", "[device-words][cli]") {
  const TopoFolder shell;
  const std::string file = shipped_file("scenarios/accelerators-gpt2.yaml").string();
  const auto out = [&shell](const std::string& words) {
    const TopoAnswer answer = shell.trainyard(words);
    CAPTURE(words, answer.err);
    CHECK(answer.exit == 0);
    return answer.out;
  };
  for (const auto& [node, noun] : {std::pair<std::string, std::string>{"tpu-v5e-host", "TPU"},
                                   {"gaudi-3-8x", "accelerator"},
                                   {"stratix-10-nx-2x", "FPGA"}}) {
    CAPTURE(node);
    const std::string arguments = " '" + file + "' --set cluster.node=" + node;
    const std::string run = out("run" + arguments);
    CHECK_FALSE(says_gpu(run));
    CHECK_THAT(run,
               Contains("TFLOP/s a" + std::string(noun == "TPU" ? " " : "n ") + noun) && Contains(noun + " compute"));
    for (const std::string verb : {"explain", "show --mesh", "show --machine"}) {
      CAPTURE(verb);
      CHECK_FALSE(says_gpu(out(verb + arguments)));
    }
  }
  CHECK_FALSE(says_gpu(out("explain --help") + out("plan --help") + out("size --help")));
  const std::string tpu = " '" + file + "' --set cluster.node=tpu-v5e-host";
  shell.trainyard("run" + tpu + " --no-what-if --html p.html");
  CHECK(data_of_page(shell.text("p.html"))["device"] == "TPU");
  CHECK_FALSE(says_gpu(data_of_page(shell.text("p.html"))["screen"]));
  const std::string sweep = "sweep" + tpu + " --set plan.global_batch_size=64,128 --svg s.svg";
  CHECK_FALSE(says_gpu(out(sweep)));
  CHECK_FALSE(says_gpu(shell.text("s.svg")));
  // Texts about GPUs stay unchanged.
  CHECK(says_gpu(out("run '" + file + "' --set cluster.node=dgx-a100 --no-what-if")));
}

TEST_CASE("no table, search or refusal calls a TPU, an FPGA or an ASIC a GPU", "[device-words][cli]") {
  const TopoFolder shell;
  const std::string file = shipped_file("scenarios/accelerators-gpt2.yaml").string();
  const auto output = [&shell](const std::string& words, int exit) {
    const TopoAnswer answer = shell.trainyard(words);
    CAPTURE(words, answer.out, answer.err);
    CHECK(answer.exit == exit);
    CHECK_FALSE(says_gpu(answer.out + answer.err));
    return answer.out + answer.err;
  };
  for (const auto& [node, noun] : {std::pair<std::string, std::string>{"tpu-v5e-host", "TPU"},
                                   {"gaudi-3-8x", "accelerator"},
                                   {"stratix-10-nx-2x", "FPGA"}}) {
    CAPTURE(node);
    const std::string arguments = " '" + file + "' --set cluster.node=" + node;
    output("bench all_reduce -b 1M -e 1M --algorithm ring --on " + node, 0);
    CHECK_THAT(output("bench all_reduce --on " + node + " --gpus 99", 2), Contains(noun + "s"));
    CHECK_THAT(output("bench all_reduce --on " + node + " --groups 0-98", 2), Contains(noun + "s"));
    output("topo show " + node, 0);
    output("topo path " + node + " 0 1", 0);
    output("explain" + arguments + " --limits --most 2", 0);
    output("plan" + arguments + " --set plan.global_batch_size=2 --work 100K", 0);
    CHECK_THAT(output("run" + arguments + " --set plan.tensor_parallel=3 --set plan.data_parallel=null", 2),
               Contains(noun + "s"));
    CHECK_THAT(output("run" + arguments + " --set plan.data_parallel.size=99", 2), Contains(noun + "s"));
    CHECK_THAT(output("plan" + arguments +
                          " --set plan.global_batch_size=1 --set model=llama-3-8b "
                          "--headroom 99% --work 100K",
                      1),
               Contains("nothing"));
    output("size --model gpt2 --tokens 1M --days 30 --work 100K --gpus 8 --nodes-of " + node, 0);
  }
  CHECK_THAT(shell.trainyard("launch 'torchrun --nproc_per_node 99 x.py' --on '" + file + "' ").err, Contains("GPUs"));
}

}  // namespace tools_test_device_words
