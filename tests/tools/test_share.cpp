// `trainyard share` as a user sees it.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/tools/topo_shell.hpp"

namespace tools_test_share {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using nlohmann::json;
using trainyard::test::TopoAnswer;
using trainyard::test::TopoFolder;

namespace {

struct JobsFolder : TopoFolder {
  JobsFolder() {
    write(
        "small.yaml",
        "cluster: {node: dgx-a100}\nmodel: {base: gpt2, n_layer: 2}\nplan: {micro_batch_size: 4, data_parallel: {}}\n");
    write("jobs.yaml",
          "cluster: {nodes: 4, node: dgx-a100, fabric: {base: leaf-spine, levels: [{down: 16, oversubscription: 8}]}}\n"
          "jobs:\n- {name: a, nodes: 2, placement: spread, scenario: small.yaml}\n"
          "- {name: b, nodes: 1, model: {base: gpt2, n_layer: 2}, plan: {micro_batch_size: 4}}\n");
  }
};

}  // namespace

TEST_CASE("share prints the jobs, the leaf switches and the links of several jobs, and writes the same as JSON",
          "[jobs][cli]") {
  const JobsFolder folder;
  const TopoAnswer text = folder.trainyard("share jobs.yaml --steps 3 --json answer.json");
  CAPTURE(text.err, text.out);
  REQUIRE(text.exit == 0);
  CHECK(text.out.find("2 jobs on 4 × dgx-a100") != std::string::npos);
  CHECK(text.out.find("leaf0  a b\n") != std::string::npos);
  CHECK(text.out.find("leaf1  a -\n") != std::string::npos);
  CHECK(text.out.find("No link carries messages of two jobs.") != std::string::npos);  // b has one node
  for (const char* legend :
       {"packed: step alone on the fewest leaf switches; alone: step alone on its own nodes; together: step while all "
        "jobs run\nplacement costs: alone compared with packed; slower: together compared with alone\n",
        "a name for each node of the leaf switch; -: a node without a job\n"})
    CHECK(text.out.find(legend) != std::string::npos);
  const json answer = json::parse(folder.text("answer.json"));
  CHECK(answer["ranks"] == 24);
  CHECK(answer["jobs"][0]["nodes"] == json::array({0, 2}));
  CHECK(answer["jobs"][1]["nodes"] == json::array({1}));
  CHECK(answer["leaves"][1]["jobs"] == json::array({"a", nullptr}));
  const TopoAnswer packed = folder.trainyard("share jobs.yaml --steps 3 --set jobs.0.placement=packed --json -");
  REQUIRE(packed.exit == 0);
  CHECK(json::parse(packed.out)["jobs"][0]["placement_cost_share"] == Approx(0).margin(1e-6));
  const TopoAnswer together = folder.trainyard("share jobs.yaml --steps 3 --set jobs.1.nodes=2 --json together.json");
  REQUIRE(together.exit == 0);
  CHECK(together.out.find("used: mean share of the link's rate, and the part of each job; limits: share of") !=
        std::string::npos);
  const json links = json::parse(folder.text("together.json"))["links"];
  CHECK_FALSE(links.empty());
  for (const json& link : links) {  // the jobs' uses of a link sum to its use
    double uses = 0;
    for (const json& use : link["use_by_job_share"]) uses += use.get<double>();
    CHECK(uses == Approx(link["use_share"].get<double>()));
    CHECK(uses <= 1);
  }
}

TEST_CASE("share refuses files without jobs, and run refuses files with jobs", "[jobs][cli]") {
  const JobsFolder folder;
  const TopoAnswer none = folder.trainyard("share small.yaml");
  CHECK(none.exit == 2);
  CHECK(none.err.find("small.yaml") != std::string::npos);
  const TopoAnswer run = folder.trainyard("run jobs.yaml");
  CHECK(run.exit == 2);
  CHECK(run.err.find("trainyard share FILE") != std::string::npos);
  // An error that an override causes elsewhere in the file names the override.
  const auto refusal = [&folder](const std::string& sets) { return folder.trainyard("share jobs.yaml" + sets).err; };
  const std::string fine = " --set jobs.1.placement=packed";
  CHECK_THAT(refusal(fine + " --set jobs.0.plan.tensor_parallel=3" + fine),
             StartsWith("--set jobs.0.plan.tensor_parallel: plan: tensor 3 ") && !Contains("jobs.yaml"));
  CHECK_THAT(refusal(" --set cluster.nodes=1" + fine),
             StartsWith("--set cluster.nodes: jobs.nodes: ") && Contains("the most is 1"));
  CHECK_THAT(refusal(" --set jobs.0.transport=native"), StartsWith("--set jobs.0.transport: jobs: "));
  const TopoAnswer missing = folder.trainyard("share jbs.yaml");
  CHECK(missing.exit == 2);
}

}  // namespace tools_test_share
