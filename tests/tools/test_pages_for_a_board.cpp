// Pages in a real browser, as those who decide read them: on paper, and by their first sentences.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sim/json_text.hpp"
#include "tests/tools/chromium_pages.hpp"

namespace tools_test_pages_for_a_board {

using namespace trainyard::test;
using Catch::Matchers::Contains;
using nlohmann::json;
using nlohmann::literals::json_literals::operator""_json_pointer;

namespace {

const std::string kPrices = " --prices " TRAINYARD_SOURCE_DIR "/scenarios/prices-example.yml";

/// Returns the text of a section without its tags; empty: the page has no such section, or paper leaves it out.
std::string section_text(const std::string& dom, const std::string& id) {
  const std::size_t begin = dom.find("<section id=\"" + id + "\"");
  if (begin == std::string::npos) return "";
  const std::string text = dom.substr(begin, dom.find("</section>", begin) - begin);
  if (text.substr(0, text.find('>')).find("folded") != std::string::npos) return "";
  return std::regex_replace(text, std::regex("<[^>]*>"), "");
}

}  // namespace

TEST_CASE("the two sides of a size have the decision, the ways to pay, what would change it, and the assumptions",
          "[.chromium]") {
  const PageFolder folder;
  REQUIRE(folder
              .trainyard("size small.yaml --tokens 1.5T --days 30 --gpus 16 --nodes-of dgx-h100,dgx-a100 --purchase "
                         "--network nonblocking,2:1 --work 100K" +
                         kPrices + " --html p.html --json p.json")
              .exit == 0);
  const json answer = trainyard::parse_json(folder.text("p.json"));
  const std::string paper = render(folder, "p.html#paper", "--virtual-time-budget=5000 --window-size=1400,1000").dom;
  CHECK_THAT(section_text(paper, "verdict"), Contains(answer["verdict"]["decision"].get<std::string>()));
  CHECK_THAT(section_text(paper, "ways-to-pay"), Contains("reserved 12 months"));
  CHECK_THAT(section_text(paper, "what-would-change-the-decision"),
             Contains("deadline") && Contains("of the value now"));
  CHECK_THAT(section_text(paper, "assumptions"),
             Contains("rent of one h100-sxm5-80gb") && Contains("USD an hour") && Contains("not an offer"));
  CHECK(printed_sides(folder, "p.html") == 2);
}

TEST_CASE("the page of a plan opens with what it takes, what limits it, and what to change with what that saves",
          "[.chromium]") {
  const PageFolder folder;
  for (const std::string size : {"2", "8"}) {  // the scenario's own plan is slower than the best, or not
    REQUIRE(
        folder.trainyard("plan small.yaml --set plan.micro_batch_size=" + size + " --html p.html --json p.json").exit ==
        0);
    const json answer = trainyard::parse_json(folder.text("p.json"));
    const PageDump page = render(folder, "p.html", "--virtual-time-budget=5000");
    CHECK(attribute(page.dom, "data-problems").empty());
    const std::string verdict = section_text(page.dom, "verdict");
    CHECK(std::ranges::count(page.dom.substr(page.dom.find("<section id=\"verdict\""), 4000), '.') >= 3);
    CHECK_THAT(verdict, Contains("The fastest plan that was found takes ") &&
                            Contains(" a step: " + answer["best"][0]["plan"].get<std::string>() + "."));
    CHECK_THAT(verdict,
               Contains("What limits it most is " + answer["bottleneck"]["resource"].get<std::string>() + ", ") &&
                   Contains(" of its critical path."));
    const double best = answer["best"][0]["step_time_s"];
    const bool is_slower =
        answer.contains("own") && answer["own"]["fits"] == true && answer["own"]["step_time_s"] > best;
    CHECK(is_slower == (verdict.find("in place of the scenario's own plan, which takes ") != std::string::npos));
    double most = 0;
    for (const json& each : answer["what_if"]) most = std::max(most, each["saves_share"].get<double>());
    CHECK_THAT(verdict,
               Contains("What to change: ") &&
                   Contains(most >= 0.005 ? " of a step." : "no single faster resource saves 0.5 % of a step."));
  }
}

TEST_CASE("pages open with a verdict of three sentences, which say what the answer says", "[.chromium]") {
  const PageFolder folder;
  const std::string scenarios = TRAINYARD_SOURCE_DIR "/scenarios/";
  /// The paragraphs of the verdict; words in quiet colours come behind them.
  const auto verdict = [&folder](const std::string& command) {
    CAPTURE(command);
    REQUIRE(folder.trainyard(command + " --html p.html --json p.json").exit < 2);
    const std::string dom = render(folder, "p.html", "--virtual-time-budget=5000").dom;
    const std::size_t begin = dom.find("<section id=\"verdict\"");
    REQUIRE(begin != std::string::npos);
    const std::string section = dom.substr(begin, dom.find("</section>", begin) - begin);
    const std::regex paragraph("<p( id=\"help\")?>(.*?)</p>");
    std::vector<std::string> all;
    for (std::sregex_iterator each(section.begin(), section.end(), paragraph), end; each != end; ++each)
      all.push_back(std::regex_replace((*each)[2].str(), std::regex("<[^>]*>"), ""));
    REQUIRE(all.size() == 3);
    for (const std::string& sentence : all) CHECK(sentence.ends_with('.'));
    return all;
  };
  const auto first_of = [](const json& text) {
    const std::string all = text.get<std::string>();
    return all.substr(0, all.find(". ") + (all.find(". ") == std::string::npos ? 0 : 1));
  };
  verdict("run " + scenarios + "gpt2-xl-ddp-dgx-a100.yaml");
  verdict("sweep " + scenarios + "gpt2-xl-ddp-dgx-a100.yaml --set cluster.nodes=2,4" + kPrices);
  const std::vector<std::string> size =
      verdict("size small.yaml --tokens 1.5T --days 30 --gpus 16 --nodes-of dgx-h100,dgx-a100 --purchase --work 100K" +
              kPrices);
  const json sized = trainyard::parse_json(folder.text("p.json"))["verdict"];
  CHECK(size[0] == sized["decision"]);
  CHECK(size[1] == first_of(sized["reason"]));
  CHECK(size[2] == first_of(sized["changes"]));
  for (const std::string nodes : {"3", "1"}) {
    const std::vector<std::string> fleet = verdict("fleet fleet.yaml --nodes " + nodes);
    const json answer = trainyard::parse_json(folder.text("p.json"));
    CHECK(fleet[0] == first_of(answer["verdict"]));
    CHECK(fleet[1] == first_of(answer["limit"]));
    CHECK_THAT(answer["verdict"].get<std::string>(), Contains(fleet[2]));
  }
  const std::vector<std::string> compared = verdict("compare " + scenarios + "gpt2-xl-ddp-dgx-a100.yaml " + scenarios +
                                                    "llama3-8b-fsdp-64xh100.yaml" + kPrices);
  const json sides = trainyard::parse_json(folder.text("p.json"))["scenarios"];
  const auto best = [&sides](const json::json_pointer& figure, bool is_least) {
    const bool is_first = (sides[0][figure] < sides[1][figure]) == is_least;
    return sides[is_first ? 0 : 1]["scenario"].get<std::string>();
  };
  CHECK_THAT(compared[0], Contains(best("/tokens_per_s"_json_pointer, false) + " has the most tokens a second: "));
  CHECK_THAT(compared[1],
             Contains(best("/money/per_million"_json_pointer, true) + " costs least to rent for a million") &&
                 Contains("; " + best("/money/ownership/per_million"_json_pointer, true) +
                          " costs least to own for a million tokens (USD): "));
  CHECK_THAT(compared[2], Contains(best("/tokens_per_J"_json_pointer, false) + " has the most tokens a joule: "));
}

TEST_CASE("the page of a sweep opens with its ends and what limits them, and its axes have words", "[.chromium]") {
  const PageFolder folder;
  REQUIRE(folder
              .trainyard("sweep " TRAINYARD_SOURCE_DIR
                         "/scenarios/llama3-70b-tp8-pp4.yaml --set \"cluster.hca.rate=400 Gbit/s,800 Gbit/s\"" +
                         kPrices + " --html p.html --json p.json")
              .exit == 0);
  const json points = trainyard::parse_json(folder.text("p.json"))["points"];
  REQUIRE(points.size() == 2);
  // The two steps differ by less than a per cent, so that ticks of three digits would all be alike.
  const double slow = points[0]["step_time_s"], fast = points[1]["step_time_s"];
  REQUIRE((fast < slow && slow < 1.01 * fast));
  const PageDump page = render(folder, "p.html", "--virtual-time-budget=5000");
  CHECK(attribute(page.dom, "data-problems").empty());
  const std::string verdict = section_text(page.dom, "verdict");
  CHECK(points[0]["bottleneck"] == points[1]["bottleneck"]);
  CHECK_THAT(verdict, Contains("HCA rate = 800 Gbit/s has the most samples/s") &&
                          Contains("beside HCA rate = 400 Gbit/s, which has the fewest") &&
                          Contains("What limits the step most is " + points[0]["bottleneck"].get<std::string>() +
                                   ", at all points."));
  REQUIRE(points[1]["money_per_million"] < points[0]["money_per_million"]);
  CHECK_THAT(verdict, Contains("HCA rate = 800 Gbit/s costs least to rent for a million tokens or samples (USD)"));
  CHECK_THAT(page.dom, Contains("2 points over HCA rate") && Contains("cost of a step in USD"));

  // A point that may run out of memory is no point that fits.
  REQUIRE(folder
              .trainyard("sweep " TRAINYARD_SOURCE_DIR
                         "/scenarios/failures-llama3-16k.yaml --set \"faults.checkpoint.every=10 min,1 h\" --html "
                         "p.html --json p.json")
              .exit == 0);
  const json risky = trainyard::parse_json(folder.text("p.json"))["points"];
  REQUIRE(risky[0]["out_of_memory_probability"] > 0.05);
  REQUIRE(risky[0]["effective_step_time_s"] < risky[1]["effective_step_time_s"]);
  CHECK_THAT(section_text(render(folder, "p.html", "--virtual-time-budget=5000").dom, "verdict"),
             Contains("Checkpoint every = 10 min has the shortest step with failures") &&
                 Contains("Checkpoint every = 10 min runs out of memory with a probability of") &&
                 Contains("2 of 2 run out of it with a probability of 5 % or more"));
}

}  // namespace tools_test_pages_for_a_board
