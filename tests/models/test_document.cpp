#include <catch2/catch.hpp>
#include <fstream>

#include "models/reading/document.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/user_errors.hpp"

namespace models_test_document {

using namespace trainyard;

namespace {

std::string error_of(std::string_view text) {
  return test::user_error([&] { parse_document(text, "x.yaml"); });
}

}  // namespace

TEST_CASE("a bracket that is never closed is refused at its place", "[document]") {
  const auto refused = [](const char* text, const char* error) {
    CHECK_THROWS_WITH(parse_document(text, "x.yaml"), error);
  };
  refused("a: {b: 1, c: 2\nd: 3\n", "x.yaml:1:4: a \"{\" that is never closed; \"}\" expected, or \",\" before line 2");
  refused("a:\n  b: [1, 2\n  c: 3\n",
          "x.yaml:2:6: a \"[\" that is never closed; \"]\" expected, or \",\" before line 3");
}

TEST_CASE("a document remembers the place of each value and key", "[document]") {
  const Node root = parse_document("cluster:\n  nodes: 4\n  list: [a, 'b']\nempty:\n", "x.yaml");
  const Node* cluster = root.find("cluster");
  REQUIRE(cluster);
  CHECK(cluster->find("nodes")->scalar == "4");
  CHECK(cluster->find("nodes")->place.text() == "x.yaml:2:10");
  CHECK(cluster->find("nodes")->key_place.text() == "x.yaml:2:3");
  CHECK(cluster->find("list")->items.at(1).scalar == "b");
  CHECK(cluster->find("list")->items.at(1).quoted);
  CHECK_FALSE(cluster->find("list")->items.at(0).quoted);
  CHECK(root.find("empty")->kind == Node::Kind::null);
  CHECK(root.find("absent") == nullptr);
}

TEST_CASE("a JSON file is a document", "[document]") {
  const Node root = parse_document(
      "{\n\t\"a\": 1e-05, \"b\":true,\n \"c\": null, \"d\": {\"e\": [1, {\"f\": false}]}, "
      "\"g\": \"null\"}\n",
      "config.json");
  CHECK(parse_number(root.find("a")->scalar) == 1e-05);
  CHECK(root.find("b")->scalar == "true");
  CHECK(root.find("c")->kind == Node::Kind::null);
  CHECK(root.find("d")->find("e")->items.at(1).find("f")->scalar == "false");
  CHECK(root.find("g")->kind == Node::Kind::scalar);
}

TEST_CASE("faulty documents are refused with file, line and column", "[document]") {
  CHECK(error_of("a: 1\nb: 2\na: 3\n") == "x.yaml:3:1: duplicate key \"a\"; first given at x.yaml:1:1");
  CHECK(error_of("{\"a\": 1, \"a\": 2}") == "x.yaml:1:10: duplicate key \"a\"; first given at x.yaml:1:2");
  CHECK(error_of("") == "x.yaml:1:1: empty, nothing to read");
  CHECK(error_of("# only a comment\n\n") == "x.yaml:1:1: empty, nothing to read");
  CHECK(error_of("a: 1\n---\nb: 2\n") == "x.yaml:2:1: text after the end of the document (one document a file)");
  CHECK(error_of("a: &x 1\nb: 2\n") ==
        "x.yaml:1:4: anchors and aliases (& and *) are not read; write the value out, or use a catalog entry");
  CHECK(error_of("a: !!int 3\n").starts_with("x.yaml:1:4: tags"));
  CHECK(error_of("a:\n\tb: 1\n") == "x.yaml:2:1: a tab in the indentation; use spaces");
  CHECK(error_of("a: 1\nb: \xff\n") == "x.yaml:2:4: not UTF-8 text");
  CHECK(error_of(std::string_view("a\0b", 3)) == "x.yaml:1:2: a control character; not a text file?");
  CHECK(error_of("? [a, b]\n: 1\n").ends_with("a key must be plain text"));
  CHECK(error_of("~: 1\n").ends_with("a key must be plain text"));
  CHECK(error_of("{\"a\":\"b\",\n") == "x.yaml:1:1: a \"{\" that is never closed; \"}\" expected");
  const std::string config =
      "{\n  \"architectures\": [\"LlamaForCausalLM\"],\n  \"rope\": {\"factor\": 8.0, \"type\": \"llama3\"}}";
  for (std::size_t length = 2; length < config.size(); ++length) {  // a file that is cut off
    const std::string error = error_of(config.substr(0, length));
    CAPTURE(length, error);
    CHECK((!error.empty() && error.find("plain text") == std::string::npos));
  }
  CHECK(error_of("[1, 2") == "x.yaml:1:1: a \"[\" that is never closed; \"]\" expected");
  CHECK(error_of("a: {b: 1\n").starts_with("x.yaml:"));
  CHECK(error_of("a: [1, 2\nb: 3\n").starts_with("x.yaml:"));
  CHECK(error_of("a: \"unclosed \\\"\n") == "x.yaml:1:4: a quote that is never closed");
  CHECK(error_of("é: 'un''closed\n") == "x.yaml:1:5: a quote that is never closed");  // columns are bytes
  CHECK(error_of("a: 'it''s'\nb: \"\\\"\"\nc: |\n  'x\n") == "");
  CHECK(error_of("{a: 1} }\n").starts_with("x.yaml:1:"));
  CHECK(error_of(std::string(500, '[') + std::string(500, ']')).find("nested deeper than 100 levels") !=
        std::string::npos);
  CHECK(error_of("a: µs and 中文\n") == "");
  CHECK(error_of("a: 1\nplan\n  batch: 2\n") == "x.yaml:2:5: \":\" expected after \"plan\"");
  CHECK(error_of("plan:\n  batch:8  # all\n\n  micro: 2\n") == "x.yaml:2:9: a space is missing after \":\"");
  CHECK(error_of("plan:\n  batch: {a: 8}\n   micro: 2\n") ==
        "x.yaml:3:4: indented deeper than line 2, which has a value already");
  CHECK(error_of("plan:\n  batch: 8\n   micro: 2\n") ==
        "x.yaml:3:4: indented deeper than line 2, which has a value already");
  CHECK(error_of("a: b: c\n").ends_with("illegal map value"));
}

TEST_CASE("files that cannot be read are named", "[document]") {
  const test::TemporaryFolder folder;
  std::ofstream(folder.path() / "gpt2.yaml") << "a: 1\n";
  CHECK(read_document(folder.path() / "gpt2.yaml").find("a")->scalar == "1");
  CHECK_THROWS_WITH(read_document(folder.path() / "gpt3.yaml"), (folder.path() / "gpt3.yaml").string() +
                                                                    ": no such file; did you mean \"" +
                                                                    (folder.path() / "gpt2.yaml").string() + "\"?");
  CHECK_THROWS_WITH(read_document(folder.path() / "other"), (folder.path() / "other").string() + ": no such file");
  CHECK_THROWS_WITH(read_document(folder.path() / "no" / "x.yaml"), Catch::EndsWith("x.yaml: no such file"));
  CHECK_THROWS_WITH(read_document(folder.path()), folder.path().string() + ": is a folder, not a file");
}

TEST_CASE("nearest finds misspellings, swaps and beginnings, and nothing else", "[document]") {
  const std::vector<std::string> names{"nodes", "node", "fabric", "a100-sxm4-80gb"};
  CHECK(nearest("nodez", names) == "nodes");
  CHECK(nearest("fabirc", names) == "fabric");
  CHECK(nearest("a100", names) == "a100-sxm4-80gb");
  CHECK(nearest("A100_SXM4_80GB", names) == "a100-sxm4-80gb");
  CHECK_FALSE(nearest("tensor_parallel", names));
  CHECK_FALSE(nearest("x", names));
  CHECK_FALSE(nearest("", names));
  // The family of a chip in the name decides before single letters do.
  const std::vector<std::string> nodes{"dgx-b300", "dgx-b200", "gb200-nvl72", "gb300-nvl72", "gh200-4x", "mi300x-8x"};
  CHECK(nearest("dgx-gb300", nodes) == "gb300-nvl72");
  CHECK(nearest("gb300-4x", nodes) == "gb300-nvl72");
  CHECK(nearest("8xb200", nodes) == "dgx-b200");
  CHECK(nearest("mi300-8x", nodes) == "mi300x-8x");
  CHECK(nearest("dgx-b30", nodes) == "dgx-b300");
  CHECK(nearest("llama-3-405b", {"llama-3-70b", "llama-3.1-405b"}) == "llama-3.1-405b");
  CHECK(hint("fabirc", names) == "; did you mean \"fabric\"?");
  CHECK(hint("tensor_parallel", names) == "; known: nodes, node, fabric, a100-sxm4-80gb");
  CHECK(hint("x", {}).empty());
  // A beginning of several names has them all; a wrong last character counts as one, whatever follows it in the name.
  CHECK(hint("dgx-b", nodes) == "; 2 names begin so: dgx-b300, dgx-b200");
  CHECK(hint("step", {"steps_per_epoch", "steps"}) == "; did you mean \"steps\"?");
  CHECK(hint("dgx-b3", nodes) == "; did you mean \"dgx-b300\"?");
  CHECK(nearest("dgx-h9", {"dgx-1p", "dgx-h100"}) == "dgx-h100");
}

TEST_CASE("set_field replaces, adds, and turns a catalog name into a changed entry", "[document]") {
  Node root = parse_document("cluster: {nodes: 4, node: dgx-a100, sizes: [1, 2]}\nrate: {value: 1 GB/s, source: a}\n",
                             "x.yaml");
  set_field(root, "cluster.nodes", "8");
  CHECK(root.find("cluster")->find("nodes")->scalar == "8");
  CHECK(root.find("cluster")->find("nodes")->place.text() == "--set cluster.nodes");
  set_field(root, "cluster.node.gpu.memory_capacity", "40 GiB");
  const Node* node = root.find("cluster")->find("node");
  CHECK(node->find("base")->scalar == "dgx-a100");
  CHECK(node->find("base")->place.text() == "x.yaml:1:27");
  CHECK(node->find("gpu")->find("memory_capacity")->scalar == "40 GiB");
  set_field(root, "plan.data_parallel", "{bucket: 25 MiB}");
  CHECK(root.find("plan")->find("data_parallel")->find("bucket")->scalar == "25 MiB");
  set_field(root, "cluster.sizes.1", "3");
  CHECK(root.find("cluster")->find("sizes")->items.at(1).scalar == "3");
  set_field(root, "rate", "2 GB/s");
  CHECK(root.find("rate")->kind == Node::Kind::scalar);

  CHECK_THROWS_WITH(set_field(root, "cluster.sizes.2", "3"),
                    "--set cluster.sizes.2: \"2\" is no item of a list of 2 (counted from 0)");
  CHECK_THROWS_WITH(set_field(root, "cluster..x", "3"), "--set cluster..x: an empty name in the path");
  CHECK_THROWS_WITH(set_field(root, "", "3"), "--set : an empty name in the path");
  CHECK_THROWS_WITH(set_field(root, "a.", "3"), "--set a.: an empty name in the path");
  CHECK_THROWS_WITH(set_field(root, "a", ""), "--set a: empty, nothing to read");
  CHECK_THROWS_WITH(set_field(root, "a", "[1"), Catch::StartsWith("--set a: "));
}

TEST_CASE("merge_nodes merges maps key by key, and replaces a figure as a whole", "[document]") {
  const Node base =
      parse_document("gpu: {count: 8, type: a100}\nrate: {value: 1 GB/s, source: a}\nkeep: 1\n", "base.yaml");
  const Node over = parse_document("gpu: {type: {memory: 2}}\nrate: {value: 2 GB/s}\n", "over.yaml");
  const Node result = merge_nodes(base, over);
  CHECK(result.find("gpu")->find("count")->scalar == "8");
  CHECK(result.find("gpu")->find("type")->find("base")->scalar == "a100");
  CHECK(result.find("gpu")->find("type")->find("memory")->scalar == "2");
  CHECK(result.find("rate")->find("value")->scalar == "2 GB/s");
  CHECK(result.find("rate")->find("source") == nullptr);
  CHECK(result.find("keep")->scalar == "1");
  CHECK(merge_nodes(base, *over.find("rate")->find("value")).scalar == "2 GB/s");
}

}  // namespace models_test_document
