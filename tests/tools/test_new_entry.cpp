// `trainyard new node`, `new gpu` and `show --yaml` write files to save and edit.
#include <algorithm>
#include <catch2/catch.hpp>

#include "models/hardware/node.hpp"
#include "tests/tools/topo_shell.hpp"
#include "tools/reports/entry_yaml.hpp"

namespace tools_test_new_entry {

using namespace trainyard;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using test::TopoAnswer;
using test::TopoFolder;

namespace {

/// Figures and their values, without their sources. Leaves out lists of switches (with a source they are one figure,
/// without one several) and words (they are figures only with a source).
std::vector<std::string> figures_of(const Sources& sources) {
  std::vector<std::string> figures;
  for (const FigureSource& s : sources) {
    const std::string figure = s.figure.substr(s.figure.find(": "));
    const bool word = figure.ends_with("peer_to_peer") || figure.ends_with("transport");
    if (!word && figure.find("pcie.switches") == std::string::npos) figures.push_back(figure + " = " + s.value);
  }
  std::sort(figures.begin(), figures.end());
  return figures;
}

Sources sources_of(const std::string& kind, const Node& entry, const Catalog& catalog) {
  return kind == "node" ? read_node(entry, catalog).sources : read_gpu(entry).sources;
}

}  // namespace

TEST_CASE("every node and GPU of the catalog is unchanged after it is written and read back", "[catalog][new]") {
  const Catalog catalog;
  for (const std::string kind : {"node", "gpu"})
    for (const std::string& name : catalog.names(kind)) {
      CAPTURE(kind, name);
      const Node reference = Node::scalar_node(name, Place::named("test"));
      const std::string text = entry_yaml(kind, reference, catalog);
      CAPTURE(text);
      const Node again = catalog.resolve(kind, parse_document(text, name + ".yaml"));
      CHECK(figures_of(sources_of(kind, again, catalog)) ==
            figures_of(sources_of(kind, catalog.resolve(kind, reference), catalog)));
    }
}

TEST_CASE("the file of a node or GPU has every key, and every key has an explanation", "[catalog][new]") {
  const Catalog catalog;
  for (const std::string kind : {"node", "gpu"}) {
    const std::string text =
        entry_yaml(kind, Node::scalar_node(catalog.names(kind).front(), Place::named("test")), catalog);
    for (const EntryKey& key : entry_keys(kind, catalog)) {
      CAPTURE(key.path);
      const std::string name = key.path.substr(key.path.rfind('.') + 1) + ":";
      CHECK(text.find(name) != std::string::npos);
      const bool needs_no_words = key.path.starts_with("gpu.peak.") || key.path.starts_with("gpu.efficiency.");
      if (!key.section && !needs_no_words) CHECK_FALSE(key.words.empty());
    }
  }
}

TEST_CASE("new node writes a server of four PCIe GPUs that can be run", "[cli][new]") {
  const TopoFolder shell;
  const TopoAnswer written = shell.trainyard("new node mine.yaml --gpu l40s --gpus 4 --set hca.rate='100 Gbit/s'");
  CHECK(written.exit == 0);
  CHECK(written.err == "");
  CHECK_THAT(shell.text("mine.yaml"), Contains("\n  count: 4 ") && Contains("\n  type: l40s ") && Contains("# nvme:") &&
                                          Contains("rate: 100 Gbit/s"));
  shell.write("s.yaml",
              "cluster: {node: mine.yaml, nodes: 2, fabric: nonblocking}\nmodel: gpt2\n"
              "plan: {global_batch_size: 8, micro_batch_size: 1}\n");
  const TopoAnswer run = shell.trainyard("run s.yaml --no-what-if");
  CHECK(run.exit == 0);
  CHECK_THAT(run.out, Contains("8 × l40s") && Contains("2 × mine"));
  CHECK(shell.trainyard("new gpu chip.yaml --from l40s --set memory_capacity='96 GiB'").exit == 0);
  CHECK(shell.trainyard("new node two.yaml --gpu chip.yaml --gpus 2").exit == 0);
  CHECK_THAT(shell.trainyard("run s.yaml --no-what-if --set cluster.node=two.yaml").out, Contains("of 96.0 GiB"));
  CHECK(shell.trainyard("new node mine.yaml").err == "new: mine.yaml exists already (--force overwrites it)\n");
  CHECK(shell.trainyard("new node mine.yaml --force").exit == 0);
  shell.check_refused("new node - --gpus 0", "--gpus: node rtx-6000-ada-4x: gpu.count: 0 is too small; the least is 1");
  CHECK_THAT(shell.trainyard("new node --set hca.rate=fast").err, StartsWith("--set hca.rate: "));
  CHECK_THAT(shell.trainyard("new gpu --set memory_capacity=-3").err, StartsWith("--set memory_capacity: "));
  CHECK_THAT(shell.trainyard("new --batch many").err, StartsWith("--batch: plan.global_batch_size: \"many\""));
  CHECK_THAT(shell.trainyard("new x.yaml --nodes 0").err, StartsWith("--nodes: cluster.nodes: 0 is too small"));
  CHECK_THAT(shell.trainyard("new node --gpu l40ss").err, Contains("unknown gpu \"l40ss\"; did you mean \"l40s\"?"));
  CHECK_THAT(shell.trainyard("new node --set pcie.latncy=1us").err, Contains("did you mean \"latency\"?"));
  CHECK_THAT(shell.trainyard("show node dgx-a100").out, Contains("trainyard new node my-node.yaml --from dgx-a100"));
}

TEST_CASE("show --yaml prints files that can be saved and edited", "[cli][new]") {
  const TopoFolder shell;
  shell.write("node.yaml", shell.trainyard("show node dgx-h100 --yaml").out);
  shell.write("s.yaml", shell.trainyard("show gpt2-one-a100 --yaml").out);
  CHECK_THAT(shell.text("s.yaml"), Contains("# with fp32 master weights"));
  CHECK(shell.trainyard("run s.yaml --no-what-if --set cluster.node=node.yaml --set plan.micro_batch_size=4").exit ==
        0);
  CHECK_THAT(shell.trainyard("show s.yaml --yaml --set plan.micro_batch_size=2").out, Contains("micro_batch_size: 2"));
  CHECK_THAT(shell.trainyard("show hca connectx-6 --yaml").err, Contains("for nodes, GPUs and scenarios"));
}

}  // namespace tools_test_new_entry
