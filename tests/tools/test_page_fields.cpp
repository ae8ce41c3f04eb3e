// The fields of the page of `trainyard serve`: their labels, sections, typed values and errors.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <tuple>

#include "models/fitted/measured_family.hpp"
#include "models/reading/shipped_files.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "tests/tools/served_page.hpp"
#include "tools/serving/page_fields.hpp"

namespace tools_test_page_fields {

using namespace trainyard;
using namespace trainyard::test;
using Catch::Matchers::Contains;
using nlohmann::json;

TEST_CASE("fields of the page have labels from their descriptions, and sections", "[serve]") {
  const PageFolder folder;
  ServedProcess served(folder);
  std::map<std::string, json> controls;
  std::vector<std::string> undescribed;
  const json answer = served.ask("[]", "answer", "failures-llama3-16k");
  for (const json& control : answer["controls"]) {
    CAPTURE(control["path"]);
    controls[control["path"]] = control;
    const std::string label = control["label"], path = control["path"];
    CHECK((!label.empty() && label.size() <= 110));
    CHECK(label.find_first_of("_.") == std::string::npos);
    CHECK(label != path);
    if (!path.starts_with("cluster.") && control["words"] == "") undescribed.push_back(path);
  }
  CHECK(undescribed == std::vector<std::string>{"plan.data_parallel.delay"});  // read without its mechanism
  CHECK(controls["plan.data_parallel.gradient_sync"]["label"] == "When gradients are exchanged");
  CHECK(controls["cluster.nodes"]["label"] == "Number of nodes");
  CHECK(controls["cluster.nodes"]["section"] == "Cluster");
  CHECK(controls["cluster.hca.rate"]["label"] == "Rate of one adapter, each way");
  CHECK(controls["cluster.hca.rate"]["section"] == "Cluster: HCA");
  CHECK(controls["plan.sequence_parallel"]["label"] ==
        "Tensor ranks split norms, dropouts and residual sums by tokens");
  CHECK(controls["plan.data_parallel.zero_stage"]["section"] == "Plan: data parallel");
  CHECK(controls["faults.failures.mtbf.gpu"]["section"] == "Faults: failures");
  CHECK(controls["model"]["section"] == "Scenario");
  CHECK(controls.contains("cluster.gpu.memory_capacity"));
  CHECK(served.stop() == 0);
}

TEST_CASE("the reader accepts the value that the page shows of a field, or names another field that it needs",
          "[serve]") {
  for (const char* name : {"zero-offload-v100", "gpt2-xl-ddp-dgx-a100", "mixtral-ep8", "failures-llama3-16k",
                           "lora-llama2-70b-mi300x", "diloco-1b-4-sites"}) {
    const Node document = read_scenario_document(shipped_file(std::string("scenarios/") + name + ".yaml"));
    std::vector<ScenarioField> fields;
    {
      const AskedFields asked;
      read_scenario(document, name);
      fields = offered_fields(asked);
    }
    std::vector<std::string> paths;
    for (const ScenarioField& field : fields) {
      paths.push_back(field.path);
      const std::string shown = field.value.empty() ? field.fallback : field.value;
      const std::string value = shown.empty() ? field.choices.empty() ? "1" : field.choices.front() : shown;
      std::string error;
      try {
        read_scenario(document, name, {{field.path, value}});
      } catch (const UserError& e) {
        error = e.what();
      }
      CAPTURE(name, field.path, value, error);
      CHECK(error.find("unknown key \"" + field.path.substr(field.path.rfind('.') + 1)) == std::string::npos);
      CHECK(error.find("expected a list") == std::string::npos);
      if (!shown.empty())
        for (const char* words :
             {"is too small", "is too many", "out of range", "has no unit", "must be", " expected, got"})
          CHECK(error.find(words) == std::string::npos);
      if (!field.value.empty() && field.path != "model") CHECK(error.empty());
    }
    const auto has = [&paths](const char* path) { return std::ranges::find(paths, path) != paths.end(); };
    if (std::string_view(name) == "gpt2-xl-ddp-dgx-a100") CHECK(has("cluster.power.busy"));
    CHECK(has("cluster.rack_units"));
    CHECK_FALSE(has("plan.recompute_modules"));
    if (std::string_view(name) == "zero-offload-v100") CHECK(has("cluster.pcie.switches.0.uplink_lanes"));
  }
}

TEST_CASE("a change on the page is that of --set, and replicas are left out only where --set is refused",
          "[serve][cli]") {
  const PageFolder folder;
  ServedProcess served(folder);
  for (const char* set : {"plan.tensor_parallel=2", "cluster.nodes=1", "cluster.node.gpu.count=16"}) {
    const std::string word = set, path = word.substr(0, word.find('=')), value = word.substr(path.size() + 1);
    const json page = served.ask(json::array({json::array({path, value})}).dump(), "answer", "zero-offload-v100");
    CAPTURE(set, page.dump().substr(0, 300));
    if (page.contains("error")) continue;  // a field that the page does not offer
    const TopoAnswer run = folder.trainyard("run zero-offload-v100 --no-what-if --json - --set " + word);
    REQUIRE(run.exit == 0);
    CHECK(page["answer"]["step_time_s"] == parse_json(run.out)["step_time_s"]);
    CHECK(page["note"] == "");
  }
  folder.write(
      "sized.yaml",
      "cluster: {nodes: 2, node: dgx-1v, fabric: nonblocking}\nmodel: {base: gpt2, n_layer: 2}\n"
      "plan: {global_batch_size: 32, micro_batch_size: 1, seq_length: 64, precision: fp16, data_parallel: {size: "
      "16}}\n");
  ServedProcess sized(folder, "sized.yaml");
  const json halved = sized.ask(R"([["cluster.nodes","1"]])", "answer", "sized");
  CHECK(halved["note"] ==
        "plan.data_parallel.size: 16 does not fit these changes and is left out: 16 ranks, but the cluster has 8 GPUs "
        "(1 node x 8).");
  CHECK(halved["answer"]["step_time_s"].get<double>() > 0);
  CHECK(sized.stop() == 0);
  CHECK(served.stop() == 0);
}

TEST_CASE("with prices of other machines, the page answers without costs and says so", "[serve][cli]") {
  const PageFolder folder;
  folder.write("p.yml", "currency: EUR\ngpu_hour: {a100-sxm4-80gb: 2, h100-sxm5-80gb: 3}\n");
  ServedProcess served(folder, "--prices=p.yml");
  const json without = served.ask("[]", "answer", "zero-offload-v100");  // a V100, which the file has no price of
  CHECK(without["answer"]["step_time_s"].get<double>() > 0);
  CHECK_FALSE(without["answer"].contains("money"));
  CHECK_THAT(without["note"].get<std::string>(), Contains("No costs: ") && Contains("none of dgx-2"));
  CHECK_THAT(
      served.ask(R"([["prices.gpu_hour.a100-sxm4-80gb","-4"]])", "answer", "gpt2-one-a100")["error"].get<std::string>(),
      Contains("-4 is out of range"));
  CHECK(served.stop() == 0);
}

TEST_CASE("prices on the page have the words and units of the assumptions", "[serve][cli]") {
  const PageFolder folder;
  folder.write("p.yml",
               "currency: EUR\ngpu_hour: {a100-sxm4-80gb: {value: 2, source: offer}}\nsources: {offer: May}\n"
               "reserved: [{months: 1, gpu_hour: {a100-sxm4-80gb: 1.5}}, {months: 12, gpu_hour: "
               "{a100-sxm4-80gb: 1}, idle: 0.5}]\npurchase: {gpu: {a100-sxm4-80gb: 9000}, kwh: 0.1, staff: "
               "0.03}\n");
  ServedProcess served(folder, "--prices=p.yml");
  std::map<std::string, std::string> labels;
  const json answer = served.ask("[]", "answer", "gpt2-one-a100");
  for (const json& control : answer["controls"]) labels[control["path"]] = control["label"];
  CHECK(labels["prices.gpu_hour.a100-sxm4-80gb"] == "Rent of one a100-sxm4-80gb, EUR an hour");
  CHECK(labels["prices.reserved.1.gpu_hour.a100-sxm4-80gb"] ==
        "Rent of one a100-sxm4-80gb, reserved 12 months, EUR an hour");
  CHECK(labels["prices.reserved.1.months"] == "Reserved term 2, months");
  CHECK(labels["prices.reserved.1.idle"] == "Share of the rent for unused hours, reserved 12 months");
  CHECK(labels["prices.purchase.gpu.a100-sxm4-80gb"] == "A100-sxm4-80gb with its share of the node, EUR each");
  CHECK(labels["prices.purchase.kwh"] == "Electricity at the site, EUR a kWh");
  CHECK(labels["prices.purchase.staff"] == "Staff of a year, share of the price");
  CHECK(served.stop() == 0);
}

TEST_CASE("errors of a task on the page name no file that the user has not", "[serve][cli]") {
  const PageFolder folder;
  ServedProcess served(folder);
  const json wrong = served.ask(R"([["plan.data_parallel.all_reduce","rong"]])", "answer", "task 1: ring-for-master");
  const std::string error = wrong["error"];
  CAPTURE(error);
  CHECK_THAT(error, Contains("unknown") && !Contains("mine.yaml") && !Contains("/tmp"));
  CHECK(served.stop() == 0);
}

TEST_CASE("a count may be typed with a prefix, separators and the noun of its field", "[serve]") {
  ScenarioField field;
  field.path = "plan.training.tokens";
  field.words = "Number of tokens of the training, for example 300e9.";
  field.type = "a number";
  for (const auto& [text, value] : {std::pair{"2 M tokens", "2000000"},
                                    {"2M", "2000000"},
                                    {"1,536", "1536"},
                                    {"15T tokens", "15000000000000"},
                                    {"1.5 k", "1500"},
                                    {"3 B", "3000000000"},
                                    {"7 tokens", "7"},
                                    {"1 token", "1"},
                                    {" 12 ", "12"},
                                    {"300e9", "300e9"},
                                    {"0.25", "0.25"},
                                    {"80 GB", "80 GB"},
                                    {"many", "many"}})
    CHECK(typed_value(field, text) == value);
  CHECK_THROWS_WITH(typed_value(field, "2 M tokns"),
                    "plan.training.tokens: \"2 M tokns\": unknown unit \"tokns\"; expected a number, such as 1536, "
                    "1,536, 2 k or 2 M");
  CHECK_THROWS_AS(typed_value(field, "2 M days"), UserError);
  field.type = "a time such as 1.5 us";
  CHECK(typed_value(field, "3 days") == "3 days");  // its reader knows the unit
}

TEST_CASE("units that are typed on the page are those of scenarios, and a wrong one is an error of its field",
          "[serve][cli]") {
  const PageFolder folder;
  ServedProcess served(folder);
  const auto step = [&](const std::string& path, const std::string& value) {
    return served.ask(json::array({json::array({path, value})}).dump())["answer"]["step_time_s"];
  };
  CHECK(step("cluster.hca.rate", "400 Gbit/s") == step("cluster.hca.rate", "50 GB/s"));
  CHECK(step("plan.global_batch_size", "64 samples") == step("plan.global_batch_size", "64"));
  CHECK(step("cluster.gpu.memory_capacity", "80 GB").is_number());
  const json days = served.ask(R"([["plan.training.time","3 days"]])", "answer", "failures-llama3-16k"),
             hours = served.ask(R"([["plan.training.time","72 h"]])", "answer", "failures-llama3-16k");
  CHECK(days["answer"]["training_time_s"].is_number());
  CHECK(days["answer"]["training_time_s"] == hours["answer"]["training_time_s"]);
  for (const auto& [path, value, words] :
       {std::tuple{"cluster.hca.rate", "400 Gbits", "unknown unit \"Gbits\"; expected a rate such as 400 Gbit/s"},
        {"cluster.hca.rate", "fast", "a rate such as 400 Gbit/s or 25 GB/s expected"},
        {"cluster.gpu.memory_capacity", "80", "has no unit; expected a size such as 80 GiB"},
        {"plan.global_batch_size", "2 M tokns", "unknown unit \"tokns\""},
        {"plan.global_batch_size", "80 GB", "\"80 GB\" is not a whole number"},
        {"plan.micro_batch_size", "3", "32 is not a multiple of 48"}}) {
    const json answer = served.ask(json::array({json::array({path, value})}).dump());
    CAPTURE(path, value, answer["error"]);
    CHECK_FALSE(answer.contains("answer"));
    CHECK(answer["path"] == path);
    CHECK_THAT(answer["error"].get<std::string>(), Contains(words) && !Contains("--set"));
  }
  // The error belongs to the field that it names, not to the last change.
  const json two = served.ask(R"([["plan.seq_length","many"],["cluster.nodes","1"]])");
  CHECK(two["path"] == "plan.seq_length");
  CHECK_THAT(served.page(), Contains("error-of-") && Contains("aria-invalid"));
  CHECK(served.stop() == 0);
}

}  // namespace tools_test_page_fields
