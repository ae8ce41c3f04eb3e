// `trainyard teach step`: a divided training step gives the weights of one device, but not without one of its exchanges.
#include <nlohmann/json.hpp>

#include "sim/json_text.hpp"
#include "tests/tools/teach_shell.hpp"

namespace tools_test_teach_step {

using namespace trainyard::test;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

struct StepTeacher : Teacher {
  StepTeacher() {
    write("mlp.yaml",
          "cluster: {nodes: 1, node: pcie-4}\n"
          "model: {mlp: {widths: [16, 16, 16, 16]}}\n"
          "plan: {global_batch_size: 16, micro_batch_size: 4, precision: fp32, optimizer: sgd}\n");
    write("gpt2.yaml",
          "cluster: {nodes: 1, node: pcie-4}\n"
          "model: {base: gpt2, n_layer: 2, n_embd: 16, n_head: 4, vocab_size: 30}\n"
          "plan: {global_batch_size: 8, micro_batch_size: 2, seq_length: 8, precision: fp32, optimizer: sgd}\n");
  }
  json step(const std::string& arguments) const {
    const TopoAnswer answer = teach("step " + arguments + " --json -");
    CAPTURE(arguments, answer.err);
    REQUIRE(answer.exit == 0);
    return trainyard::parse_json(answer.out);
  }
};

}  // namespace

TEST_CASE("a step divided by data, matrices, stages or states has the weights of one device", "[teach][step]") {
  const StepTeacher teacher;
  double loss = 0;
  for (const std::string plan :
       {"", " --set plan.tensor_parallel=2", " --set plan.tensor_parallel=4", " --set plan.pipeline_parallel=2",
        " --set plan.tensor_parallel=2 --set plan.pipeline_parallel=2", " --set plan.data_parallel.zero_stage=3",
        " --set plan.context_parallel=2"})
    for (const std::string file : {"mlp.yaml", "gpt2.yaml"}) {
      if (file == "mlp.yaml" && plan.find("context") != std::string::npos) continue;
      CAPTURE(file, plan);
      const json j = teacher.step(file + plan + " --steps 3");
      CHECK(j["equals_one_device"] == true);
      CHECK(j["largest_difference"] < 1e-13);
      CHECK(j["largest_move"] > 1e-3);
      CHECK(j["loss"] == Approx(j["loss_of_one_device"].get<double>()).epsilon(1e-12));
      CHECK(!j["messages"].empty());
      if (file != "mlp.yaml") continue;
      if (loss > 0) CHECK(j["loss_of_one_device"] == loss);  // the same weights and samples for every plan
      loss = j["loss_of_one_device"];
    }
}

TEST_CASE("a step without one of its exchanges has other weights", "[teach][step]") {
  const StepTeacher teacher;
  const std::string divided = "gpt2.yaml --set plan.tensor_parallel=2 --set plan.pipeline_parallel=2";
  for (const auto& [plan, exchange] : {std::pair<std::string, std::string>{"gpt2.yaml", "all-reduce"},
                                       {divided, "tensor parallel"},
                                       {divided, "pipeline"},
                                       {divided, "tied weight"},
                                       {"gpt2.yaml --set plan.data_parallel.zero_stage=3", "all-gather of parameters"},
                                       {"gpt2.yaml --set plan.context_parallel=2", "context"}}) {
    CAPTURE(plan, exchange);
    const json j = teacher.step(plan + " --leave-out '" + exchange + "'");
    CHECK(j["equals_one_device"] == false);
    CHECK(j["left_out"] == exchange);
    const json& weights = j["relative_difference"]["weights"];
    CHECK((weights.is_null() || weights > 1e-3));  // null: NaN, from the logarithm of zeros that arrive instead
  }
  teacher.check_refused("step mlp.yaml --leave-out pipelines",
                        "--leave-out pipelines: no exchange of this plan; known: all-reduce");
}

TEST_CASE("teach step shows the weights of each rank and the difference of each tensor", "[teach][step]") {
  const StepTeacher teacher;
  const std::string text = teacher.teach("step mlp.yaml --set plan.tensor_parallel=4").out;
  CHECK_THAT(text, Contains("1 step of mlp on 4 ranks: tensor 4"));
  CHECK_THAT(text, Contains(" 216 of 816\n"));
  CHECK_THAT(text, Contains("layer 2  linear.bias"));
  CHECK_THAT(text, Contains(": the step of one device\n"));
  const json j = teacher.step("mlp.yaml --set plan.tensor_parallel=4");
  CHECK(j["held_by_rank"] == json{216, 216, 216, 216});
  CHECK(j["tensors"][0]["held"] == json{64, 64, 64, 64});
  CHECK_THAT(teacher.teach("step mlp.yaml --svg -").out, Contains("rank 3"));
  CHECK_THAT(teacher.teach("step mlp.yaml --html -").out, Contains("816 of 816"));
}

TEST_CASE("teach step names the operators f and g of a layer whose matrices are cut", "[teach][step]") {
  const StepTeacher teacher;
  const json cut = teacher.step("gpt2.yaml --set plan.tensor_parallel=2")["cut_layer"];
  CHECK(cut["layer"] == "block 0");
  CHECK(cut["ranks"] == 2);
  REQUIRE(cut["parts"].size() == 2);
  // 2 micro-batches of 2 x 8 tokens, 16 fp32 numbers each. Each of 2 ranks sends 2 (2 - 1) / 2 of it in an all-reduce.
  const json once = {{"f", {{"forward_bytes", 0}, {"backward_bytes", 2048.0}}},
                     {"g", {{"forward_bytes", 2048.0}, {"backward_bytes", 0}}}};
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(cut["parts"][i]["part"] == (i == 0 ? "attention" : "mlp"));
    CHECK(cut["parts"][i]["f"] == once["f"]);
    CHECK(cut["parts"][i]["g"] == once["g"]);
  }
  const TopoAnswer drawn = teacher.teach("step gpt2.yaml --set plan.tensor_parallel=2 --svg -");
  for (const char* label : {"f: identity", "g: all-reduce", "g: identity", "f: all-reduce", ">qkv<", ">fc2.dgrad<",
                            "attention: each rank sends 2048 B at g, and none at f"})
    CHECK_THAT(drawn.out, Contains(label));
  CHECK_THAT(drawn.out, !Contains("norm<"));  // norms lie outside f and g
  for (const std::string other : {"", " --set plan.tensor_parallel=2 --set plan.sequence_parallel=true",
                                  " --set plan.tensor_parallel=2 --set plan.recompute=full"}) {
    CAPTURE(other);
    CHECK(teacher.step("gpt2.yaml" + other)["cut_layer"].is_null());
  }
}

TEST_CASE("teach step refuses trainings that it cannot compute", "[teach][step]") {
  const StepTeacher teacher;
  teacher.check_refused("step mlp.yaml --set plan.data_parallel.local_steps=2",
                        "mlp.yaml:3:7: teach step: only replicas that all-reduce whole gradients compute the step of "
                        "one device; `trainyard learn` shows the others");
  CHECK_THAT(teacher.teach("step mlp.yaml --set model=resnet50 --set plan.optimizer=momentum").err,
             Contains("model: teach step computes networks of linear layers and decoders; expected"));
  CHECK_THAT(teacher.teach("step mlp.yaml --set 'model={mlp: {widths: [4096, 4096, 4096]}}'").err,
             Contains("parameters on 4 ranks and 16 tokens are too many to compute"));
  CHECK_THAT(teacher.teach("step mlp.yaml --set plan.data_parallel.all_reduce.fidelity=modelled").err,
             Contains("plan.data_parallel.all_reduce: only messages carry values; leave out fidelity"));
  teacher.check_refused("step mlp.yaml --steps 0", "--steps 0: 1 to 100 expected");
}

}  // namespace tools_test_teach_step
