// Pages of --html are complete, hold the answer of --json, and need no network.
#include <catch2/catch.hpp>
#include <filesystem>

#include "sim/json_text.hpp"
#include "tests/tools/html_pages.hpp"

namespace tools_test_pages {

using namespace trainyard::test;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

/// The text of the page without the library of charts.
std::string without_charts(const std::string& page) {
  const std::size_t begin = page.find("Chart.js v"), end = page.find("</script>", begin);
  REQUIRE(end != std::string::npos);
  return page.substr(0, begin) + page.substr(end);
}

struct WrittenPage {
  json answer, pictures;
  std::string text;  ///< text of the page
};
WrittenPage page_of(const PageFolder& folder, const std::string& words) {
  const TopoAnswer ended = folder.trainyard(words + " --html p.html --json p.json");
  INFO(ended.err);
  REQUIRE(ended.exit == (words.starts_with("fleet") ? 1 : 0));  // a training of this fleet is late
  WrittenPage page{trainyard::parse_json(folder.text("p.json")), {}, folder.text("p.html")};
  json data = data_of_page(page.text);
  CHECK(data["answer"] == page.answer);
  page.pictures = data["pictures"];
  if (data.contains("screen")) CHECK(data["screen"] == ended.out);
  return page;
}

/// Sums every `width`-th number from the second on. These numbers are lengths in ticks.
double length_of(const json& flat, std::size_t width) {
  double sum = 0;
  for (std::size_t i = 1; i < flat.size(); i += width) sum += flat[i].get<double>();
  return sum;
}

}  // namespace

TEST_CASE("a page is complete, holds the answer of --json and loads nothing", "[pages][cli]") {
  const PageFolder folder;
  for (const PageCommand& command : page_commands()) {
    INFO(command.words);
    const std::string page = page_of(folder, command.words).text;
    CHECK(page.starts_with("<!DOCTYPE html>\n"));
    CHECK(page.ends_with("</body>\n</html>\n"));
    CHECK_THAT(page, Contains("<meta name=\"viewport\"") && !Contains("@style@") && !Contains("@body@"));
    for (const char* reference : {"src=", "href=", "url(", "@import", "fetch("})
      CHECK(without_charts(page).find(reference) == std::string::npos);
  }
}

TEST_CASE("the pictures of a run agree with its answer", "[pages][cli]") {
  const PageFolder folder;
  for (const std::string& words :
       {std::string("small.yaml"), std::string(TRAINYARD_SOURCE_DIR "/scenarios/naive-vs-gpipe.yaml")}) {
    INFO(words);
    const WrittenPage page = page_of(folder, "run " + words);
    const json& t = page.pictures["timeline"];
    const double tick = t["tick_s"];
    CHECK(t["end"].get<double>() * tick == Approx(page.answer["step_time_s"].get<double>()).epsilon(1e-9));
    double peak = 0;
    for (const json& rank : t["ranks"])
      for (std::size_t i = 1; i < rank["memory"].size(); i += 2) peak = std::max(peak, rank["memory"][i].get<double>());
    CHECK(peak == page.answer["memory_bytes"]["peak"]);
    CHECK(length_of(t["path"]["pieces"], 5) * tick == Approx(page.answer["step_time_s"].get<double>()).epsilon(1e-5));
    for (const auto& [kind, bytes] : page.answer["traffic_bytes"]["by_link_kind"].items()) {
      double sum = 0;
      for (const json& links : page.pictures["machine"]["links"])
        if (links["kind"] == kind) sum += links["bytes"].get<double>();
      if (sum > 0) CHECK(sum == Approx(bytes.get<double>()).epsilon(1e-9));
    }
    CHECK_THAT(page.pictures["machine"]["svg"].get<std::string>(), Contains("data-busy="));
  }
}

TEST_CASE("a page lists the figures that it assumes, with their units and sources", "[pages][cli]") {
  const PageFolder folder;
  REQUIRE(folder.trainyard("run small.yaml --no-what-if --prices prices.yml --html p.html").exit == 0);
  const json figures = data_of_page(folder.text("p.html"))["assumptions"];
  const auto source_of = [&figures](const std::string& item, const std::string& figure, const std::string& unit) {
    for (const json& each : figures)
      if (each["item"] == item && each["figure"] == figure && each["unit"] == unit)
        return each["source"].get<std::string>();
    return "no " + item;
  };
  CHECK(source_of("rent of one v100-sxm2-16gb", "1.25", "USD an hour") == "an offer of May");
  CHECK(source_of("node dgx-1v", "50000", "USD each") == "a test");
  CHECK(source_of("interest of a year", "0.05", "share") == "a test");
  CHECK(source_of("depreciation", "4", "years") == "default: the prices state none");
  // A price without any source is named by its place; prices of other nodes are left out.
  folder.write("bare.yml", "gpu_hour: {v100-sxm2-16gb: 1.25, h100-sxm5-80gb: 2}\n");
  REQUIRE(folder.trainyard("run small.yaml --no-what-if --prices bare.yml --html p.html").exit == 0);
  const json bare = data_of_page(folder.text("p.html"))["assumptions"];
  REQUIRE(bare.size() == 1);
  CHECK(bare[0]["source"] == "bare.yml:1, which names no source");
  // The shipped examples state that they are examples, or name their vendors.
  REQUIRE(
      folder
          .trainyard("size small.yaml --tokens 10M --days 30 --gpus 8 --nodes-of dgx-a100 --work 100K --html p.html "
                     "--prices " TRAINYARD_SOURCE_DIR "/scenarios/prices-example.yml")
          .exit == 0);
  int examples = 0;
  const json shipped = data_of_page(folder.text("p.html"))["assumptions"];
  for (const json& each : shipped) examples += each["source"].get<std::string>().starts_with("example: ") ? 1 : 0;
  CHECK(examples > 15);
}

TEST_CASE("a page that cannot be written is refused before anything is computed", "[pages][cli]") {
  const PageFolder folder;
  for (const std::string verb :
       {"run small.yaml", "sweep small.yaml --set cluster.nodes=1,2", "plan small.yaml",
        "compare small.yaml other.yaml", "learn " TRAINYARD_SOURCE_DIR "/scenarios/learn-local-sgd.yaml",
        "validate training"}) {
    INFO(verb);
    const TopoAnswer nowhere = folder.trainyard(verb + " --html nowhere/p.html --json p.json");
    CHECK(nowhere.exit == 2);
    CHECK(nowhere.out.empty());
    CHECK_THAT(nowhere.err, Contains("nowhere"));
    CHECK(folder.trainyard(verb + " --html p.json --json p.json").exit == 2);
    CHECK(folder.trainyard(verb + " --html - --json -").exit == 2);
    CHECK_FALSE(std::filesystem::exists(folder.path() / "p.json"));
  }
  CHECK_THAT(folder.trainyard("run small.yaml --html small.yaml").err, Contains("would overwrite small.yaml"));
  CHECK_THAT(folder.trainyard("validate horovod --html p.html").err, Contains("only with validate collectives"));
  CHECK_FALSE(std::filesystem::exists(folder.path() / "p.html"));
  // The old file stays unchanged if the new page cannot be finished.
  folder.write("old.html", "old");
  CHECK(folder.trainyard("run small.yaml --set model.n_layer=0 --html old.html").exit == 2);
  CHECK(folder.text("old.html") == "old");
  CHECK(folder.trainyard("run small.yaml --no-what-if --html -").out.starts_with("<!DOCTYPE html>"));
}

TEST_CASE("the page of 1,024 GPUs stays below 5 MB", "[pages][cli][.deep]") {
  const PageFolder folder;
  const WrittenPage page =
      page_of(folder, "run " TRAINYARD_SOURCE_DIR "/scenarios/gpt3-175b-1024xa100.yaml --no-what-if");
  CHECK(page.text.size() < 5'000'000);
  CHECK(page.pictures["timeline"]["ranks"].size() == 8);
}

}  // namespace tools_test_pages
