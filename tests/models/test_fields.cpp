#include <catch2/catch.hpp>

#include "models/reading/document.hpp"
#include "tests/user_errors.hpp"

namespace models_test_fields {

using namespace trainyard;

TEST_CASE("fields are read by name and type", "[fields]") {
  const Node root = parse_document(
      "name: x\ncount: {value: 8, source: s}\nrate: 400 Gbit/s\nsize: 1 GiB\ntime: 0 s\n"
      "on: true\nshare: 0.5\npeak: {value: 2 TFLOP/s, source: s, unverified: true}\n"
      "kind: two_words\nnothing: ~\n",
      "x.yaml");
  Fields f(root, "cluster");
  CHECK(f.text("name") == "x");
  CHECK(f.integer("count", 1) == 8);
  CHECK(f.bandwidth("rate") == BytesPerSecond{50e9});
  CHECK(f.bytes("size") == Bytes{1073741824.0});
  CHECK(f.seconds("time") == Seconds{0});
  CHECK(f.boolean("on", false));
  CHECK(f.number("share", 0, 1) == 0.5);
  CHECK(f.flops_rate("peak") == FlopsPerSecond{2e12});
  CHECK(f.choice("kind", {"one", "two-words"}) == "two-words");
  CHECK_FALSE(f.has("nothing"));
  CHECK_FALSE(f.has("absent"));
  CHECK(f.integer("nothing", 0, 7) == 7);
  CHECK(f.text("absent", "y") == "y");
  CHECK_NOTHROW(f.finish());
  CHECK(f.place_of("rate").text() == "x.yaml:3:7");
}

TEST_CASE("a key after which nothing is written is refused at its place, and a written null is absent", "[fields]") {
  for (const char* text : {"a: 1\nb:\nc: 2\n", "a: 1\nb: # words\nc: 2\n", "{a: 1, b: , c: 2}", "a: 1\nb:"}) {
    CAPTURE(text);
    const Node root = parse_document(text, "x.yaml");
    Fields f(root, "cluster");
    CHECK(f.integer("a", 0, 0) == 1);
    CHECK_THROWS_WITH(f.integer("b", 0, 7), Catch::EndsWith("cluster.b: no value; leave the key out if its default "
                                                            "is meant"));
    CHECK_THROWS_WITH(f.has("b"), Catch::StartsWith("x.yaml:"));
  }
  for (const char* text :
       {"b: ~\nc: 2\n", "b: null\n", "b: Null # words\n", "{b: NULL, c: 2}", "{\"b\": null}", "b: ~"}) {
    CAPTURE(text);
    const Node root = parse_document(text, "x.yaml");
    CHECK(Fields(root, "cluster").integer("b", 0, 7) == 7);
  }
}

TEST_CASE("an unread key is refused with the nearest known one", "[fields]") {
  const Node root = parse_document("cluster:\n  nodez: 4\n", "x.yaml");
  Fields f(*root.find("cluster"), "cluster");
  f.integer("nodes", 1, 1);
  f.has("fabric");
  CHECK_THROWS_WITH(f.finish(), "x.yaml:2:3: unknown key \"nodez\" in cluster; did you mean \"nodes\"?");

  const Node other = parse_document("zzz: 4\n", "x.yaml");
  Fields g(other, "cluster");
  g.has("nodes");
  g.has("fabric");
  CHECK_THROWS_WITH(g.finish(), "x.yaml:1:1: unknown key \"zzz\" in cluster; known: nodes, fabric");
}

TEST_CASE("a missing key is named, or the misspelt key in its place", "[fields]") {
  const Node root = parse_document("cluster:\n  nodez: 4\n", "x.yaml");
  Fields f(*root.find("cluster"), "cluster");
  CHECK_THROWS_WITH(f.integer("nodes", 1), "x.yaml:2:3: unknown key \"nodez\" in cluster; did you mean \"nodes\"?");
  Fields g(*root.find("cluster"), "cluster");
  CHECK_THROWS_WITH(g.text("fabric"), "x.yaml:2:3: cluster: missing key \"fabric\"");
}

TEST_CASE("the error for a value of the wrong kind names the expected kind", "[fields]") {
  const auto error_of = [](std::string_view text, auto read, const char* what = "cluster.hca") {
    const Node root = parse_document(text, "x.yaml");
    Fields f(root, what);
    return test::user_error([&] { read(f); });
  };
  const auto rate = [](Fields& f) { f.bandwidth("rate"); };
  const auto count = [](Fields& f) { f.integer("count", 1); };
  CHECK(
      error_of("rate: 400 Gbs\n", rate) ==
      "x.yaml:1:7: cluster.hca.rate: \"400 Gbs\": unknown unit \"Gbs\"; expected a rate such as 400 Gbit/s or 25 GB/s");
  CHECK(error_of("rate: 400 Gbs\n", rate, "gpu t4").starts_with("x.yaml:1:7: gpu t4: rate: \"400 Gbs\""));
  CHECK(error_of("rate: 0 Gbit/s\n", rate) == "x.yaml:1:7: cluster.hca.rate: \"0 Gbit/s\" must be greater than 0");
  CHECK(error_of("rate: -1 Gbit/s\n", rate) == "x.yaml:1:7: cluster.hca.rate: \"-1 Gbit/s\" must be greater than 0");
  CHECK(error_of("rate: 1e305 TB/s\n", rate) == "x.yaml:1:7: cluster.hca.rate: \"1e305 TB/s\" is too large");
  CHECK(error_of("rate: [1]\n", rate) ==
        "x.yaml:1:7: cluster.hca.rate: expected a rate such as 400 Gbit/s or 25 GB/s, got a list");
  CHECK(error_of("rate:\n", rate).ends_with("no value; leave the key out if its default is meant"));
  CHECK(error_of("rate: {value: 1 GB/s, sauce: x}\n", rate) ==
        "x.yaml:1:23: cluster.hca.rate: unknown key \"sauce\" of a figure; did you mean \"source\"?");
  CHECK(error_of("rate: {value: 1 GB/s, source: x, unverified: maybe}\n", rate).ends_with("expected true or false"));
  CHECK(error_of("count: 1.5\n", count) == "x.yaml:1:8: cluster.hca.count: \"1.5\" is not a whole number");
  CHECK(error_of("count: 2e3\n", count) ==
        "x.yaml:1:8: cluster.hca.count: \"2e3\": whole numbers are written as digits; expected 2000");
  CHECK(error_of("count: 99999999999999999999\n", count) ==
        "x.yaml:1:8: cluster.hca.count: \"99999999999999999999\" is too large");
  CHECK(error_of("count: 1e18\n", count) == "x.yaml:1:8: cluster.hca.count: \"1e18\" is too large");
  CHECK(error_of("count: 0\n", count) == "x.yaml:1:8: cluster.hca.count: 0 is too small; the least is 1");
  CHECK(error_of("share: 2\n", [](Fields& f) { f.number("share", 0, 1); }) ==
        "x.yaml:1:8: cluster.hca.share: 2 is out of range; expected a number from 0 to 1");
  CHECK(error_of("on: maybe\n", [](Fields& f) { f.boolean("on", true); }) ==
        "x.yaml:1:5: cluster.hca.on: expected true or false, got \"maybe\"");
  CHECK(error_of("kind: rng\n", [](Fields& f) {
          f.choice("kind", {"ring", "tree"});
        }) == "x.yaml:1:7: cluster.hca.kind: unknown value \"rng\"; did you mean \"ring\"?");
  CHECK(error_of("time: -1 us\n", [](Fields& f) { f.seconds("time"); }) ==
        "x.yaml:1:7: cluster.hca.time: \"-1 us\" must be 0 or more");
  CHECK_THROWS_WITH(Fields(*parse_document("a: b\n", "x.yaml").find("a"), "cluster"),
                    "x.yaml:1:4: cluster: expected a map of keys, got \"b\"");
}

}  // namespace models_test_fields
