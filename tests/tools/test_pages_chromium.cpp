// Pages in a real browser (tools/test --ci installs it): they draw without an error, and show the answer's numbers.
#include <catch2/catch.hpp>
#include <map>
#include <regex>

#include "sim/json_text.hpp"
#include "tests/tools/chromium_pages.hpp"
#include "tests/tools/served_page.hpp"

namespace tools_test_pages_chromium {

using namespace trainyard::test;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

/// Returns the elements of a page without the scripts, which have all sentences in them.
std::string without_scripts(std::string dom) {
  for (std::size_t at = 0; (at = dom.find("<script", at)) != std::string::npos;)
    dom.erase(at, dom.find("</script>", at) - at);
  return dom;
}

json at_path(json value, const std::string& path) {
  std::size_t from = 0;
  while (from <= path.size()) {
    const std::size_t dot = std::min(path.find('.', from), path.size());
    const std::string key = path.substr(from, dot - from);
    value = value.is_array() ? value.at(std::stoul(key)) : value.at(key);
    from = dot + 1;
  }
  return value;
}

/// Reads a number with its unit: "917 ms" in seconds, "17.3 min" in days, "52.5 GiB" in bytes, "53.5 %" as a share, "17,876" as 17876.
double read_number(std::string text) {
  static const std::map<std::string, double> units{
      {"", 1},         {"min", 1.0 / 1440}, {"%", 0.01},     {"d", 86400},   {"h", 3600},
      {"s", 1},        {"ms", 1e-3},        {"µs", 1e-6},    {"ns", 1e-9},   {"B", 1},
      {"KiB", 0x1p10}, {"MiB", 0x1p20},     {"GiB", 0x1p30}, {"TiB", 0x1p40}};
  std::erase(text, ',');
  std::size_t end = 0;
  const double number = std::stod(text, &end);
  const std::string unit = text.substr(std::min(text.size(), end + (end < text.size() && text[end] == ' ')));
  INFO(text);
  REQUIRE(units.contains(unit));
  return number * units.at(unit);
}

}  // namespace

TEST_CASE("pages draw in Chromium, and show the numbers of the answer", "[.chromium]") {
  const PageFolder folder;
  for (const PageCommand& command : page_commands()) {
    INFO(command.words);
    const int late = command.words.starts_with("fleet") ? 1 : 0;  // a training of this fleet is late
    REQUIRE(folder.trainyard(command.words + " --html p.html --json p.json").exit == late);
    const json answer = trainyard::parse_json(folder.text("p.json"));
    const PageDump page = render(folder, "p.html");
    CHECK_THAT(page.console, !Contains("CONSOLE"));
    CHECK(attribute(page.dom, "data-problems").empty());
    CHECK(std::stoi(attribute(page.dom, "data-charts")) >= command.charts);
    if (command.words.starts_with("run ")) {
      CHECK_THAT(page.dom, Contains("id=\"verdict\""));
      const std::string limit = answer.at("/bottleneck/resource"_json_pointer).get<std::string>();
      CHECK((limit.empty() || page.dom.find("What limits it most is " + limit) != std::string::npos));
    }
    const std::regex figure("data-path=\"([^\"]+)\" data-value=\"([^\"]*)\"[^>]*>([^<]*)<");
    int figures = 0;
    for (std::sregex_iterator at(page.dom.begin(), page.dom.end(), figure), none; at != none; ++at, ++figures) {
      const std::string path = (*at)[1], shown = (*at)[3];
      CAPTURE(path, shown);
      const json value = at_path(answer, path);
      CHECK(trainyard::parse_json((*at)[2].str()) == value);
      if (!shown.starts_with("&lt;"))
        CHECK(read_number(shown) == Approx(value.get<double>()).epsilon(6e-3).margin(1e-6));
    }
    CHECK(figures >= 2);
  }
}

TEST_CASE("sentences of pages about intervals, passes and small differences follow the answer", "[.chromium]") {
  const PageFolder folder;
  const auto run_page = [&folder](const std::string& words) {
    REQUIRE(folder.trainyard(words + " --html p.html --json p.json").exit == 0);
    return without_scripts(render(folder, "p.html").dom);
  };
  const std::string scenarios = TRAINYARD_SOURCE_DIR "/scenarios/";
  const std::string engines = "run " + scenarios + "generation-llama3-70b-2xh100.yaml --no-what-if";
  const std::string loop = "run " + scenarios + "post-training-llama3-8b-16xh100.yaml --no-what-if";
  const std::string uncovered = "The interval does not cover what no measured ";
  for (const bool is_measured : {true, false}) {
    CAPTURE(is_measured);
    const std::string of_engines = run_page(engines + (is_measured ? "" : " --set cluster.node=mi300x-8x"));
    const std::string gpu = trainyard::parse_json(folder.text("p.json"))["generation"]["unmeasured"];
    CHECK(gpu.empty() == is_measured);
    CHECK_THAT(of_engines, Contains("Of a forward pass of the plan."));
    CHECK((of_engines.find(uncovered + "engine has: " + gpu + ".") != std::string::npos) == !is_measured);
    const std::string of_loop = run_page(loop + (is_measured ? "" : " --set cluster.node=dgx-b200"));
    const std::string chip = trainyard::parse_json(folder.text("p.json"))["post_training"]["unmeasured"];
    CHECK(chip.empty() == is_measured);
    CHECK_THAT(of_loop,
               !Contains("Of a forward pass of the plan.") && Contains("Of an optimizer step of the training half."));
    CHECK((of_loop.find(uncovered + "loop has: " + chip + ".") != std::string::npos) == !is_measured);
  }
  CHECK_THAT(run_page("run small.yaml"), !Contains("Of a forward pass of the plan.") && !Contains(uncovered));
  CHECK_THAT(run_page("run " + scenarios + "post-training-dpo-llama3-8b-8xh100.yaml --no-what-if"),
             Contains("Of an optimizer step of the training step.") && !Contains("training half<"));
  // Scenarios that are alike but for 0.1 % of a rate, and others.
  std::string close = folder.text("small.yaml");
  const std::string node = "node: dgx-1v";
  close.replace(close.find(node), node.size(), "node: {base: dgx-1v, gpu: {memory_bandwidth: 901 GB/s}}");
  folder.write("close.yaml", close);
  for (const char* other : {"close.yaml", "other.yaml"}) {
    CAPTURE(other);
    const std::string page = run_page(std::string("compare small.yaml ") + other);
    const json all = trainyard::parse_json(folder.text("p.json"))["scenarios"];
    const double ratio = all[0]["tokens_per_s"].get<double>() / all[1]["tokens_per_s"].get<double>();
    const bool is_tie = std::abs(std::max(ratio, 1 / ratio) - 1) < 0.005;
    CHECK(is_tie == (std::string(other) == "close.yaml"));
    CHECK((page.find("differ by less than 0.5 %") != std::string::npos) == is_tie);
  }
}

// Regression: page and screen of `size` rounded thresholds apart, and both chose labels of compared figures themselves.
TEST_CASE("pages have the labels and the thresholds of the screen", "[.chromium]") {
  const PageFolder folder;
  const std::string scenarios = TRAINYARD_SOURCE_DIR "/scenarios/";
  const std::string loop = scenarios + "post-training-llama3-8b-16xh100.yaml",
                    engines = scenarios + "generation-llama3-70b-2xh100.yaml";
  for (const std::string& words : {loop + " " + loop, engines + " " + engines, loop + " " + engines + " small.yaml"}) {
    CAPTURE(words);
    const TopoAnswer answer = folder.trainyard("compare " + words + " --html p.html");
    REQUIRE(answer.exit == 0);
    const std::string page = without_scripts(render(folder, "p.html").dom);
    const json labels = data_of_page(folder.text("p.html"))["labels"];
    for (const char* label : {"time", "loop_pass", "engine_pass"}) {
      const std::string text = labels[label];
      if (text.empty()) continue;
      CHECK_THAT(answer.out, Contains("\n" + text + " "));
      CHECK_THAT(page, Contains("<td>" + text + "</td>") || Contains(">" + text + "<"));
    }
    CHECK_THAT(answer.out, Contains("\nMFU" + labels["of_pass"].get<std::string>() + " "));
    CHECK_THAT(page, Contains(">MFU" + labels["of_pass"].get<std::string>() + "<"));
  }
  const std::string size =
      "size small.yaml --tokens 10M --days 30 --gpus 8 --nodes-of dgx-a100,dgx-h100 --work 100K "
      "--prices " +
      scenarios + "prices-example.yml";
  const TopoAnswer answer = folder.trainyard(size + " --html p.html");
  const json amounts = data_of_page(folder.text("p.html"))["threshold_amounts"];
  REQUIRE(amounts.size() >= 2);
  const std::string page = without_scripts(render(folder, "p.html").dom);
  for (const json& amount : amounts) {
    const std::string text = amount["threshold"];
    CHECK((answer.out.find("below " + text) != std::string::npos ||
           answer.out.find("above " + text) != std::string::npos));
    CHECK_THAT(page, Contains(">" + text + "<"));
  }
}

TEST_CASE("pages and lessons draw in Chromium on a phone and in dark colours, and print on two sides", "[.chromium]") {
  const PageFolder folder;
  REQUIRE(folder.trainyard("run small.yaml --html p.html").exit == 0);
  REQUIRE(folder
              .trainyard("run " TRAINYARD_SOURCE_DIR "/scenarios/llama3-70b-tp8-pp4.yaml --prices prices-example "
                         "--html large.html")
              .exit == 0);
  REQUIRE(folder.trainyard("plan small.yaml --vary plan.data_parallel.zero_stage=0,1 --html plan.html").exit == 0);
  REQUIRE(folder
              .trainyard("size small.yaml --tokens 1.5T --days 30 --gpus 16 --nodes-of dgx-h100 --purchase --network "
                         "choose --work 100K --prices " TRAINYARD_SOURCE_DIR
                         "/scenarios/prices-example.yml --html size.html")
              .exit == 0);
  REQUIRE(folder.trainyard("fleet fleet.yaml --prices prices.yml --html fleet.html").exit == 1);
  REQUIRE(folder.trainyard("compare small.yaml other.yaml --prices prices.yml --html compare.html").exit == 0);
  REQUIRE(folder.trainyard("sweep small.yaml --set cluster.nodes=1,2 --prices prices.yml --html sweep.html").exit == 0);
  REQUIRE(
      folder.trainyard("run " TRAINYARD_SOURCE_DIR "/scenarios/post-training-llama3-8b-16xh100.yaml --html loop.html")
          .exit == 0);
  REQUIRE(folder.trainyard("teach all-reduce --ranks 4 --html lesson.html").exit == 0);
  REQUIRE(folder.trainyard("teach pipeline --stages 2 --micro-batches 2 --html pipeline.html").exit == 0);
  for (const std::string name : {"p.html", "large.html", "loop.html", "size.html", "plan.html", "fleet.html",
                                 "compare.html", "sweep.html", "lesson.html", "pipeline.html"}) {
    const bool is_lesson = name == "lesson.html" || name == "pipeline.html";
    for (const int width : {390, 1400}) {
      INFO(name << " " << width);
      const PageDump page =
          render_framed(folder, name, width, width == 390 ? "" : "--blink-settings=preferredColorScheme=0");
      CHECK_THAT(page.console, !Contains("CONSOLE"));
      CHECK(attribute(page.dom, "data-width") == std::to_string(width));
      CHECK(attribute(page.dom, "data-wider") == "0");
      if (is_lesson) continue;
      CHECK(attribute(page.dom, "data-problems").empty());
      CHECK(attribute(page.dom, "data-too-wide") == "0");
      CHECK(attribute(page.dom, "data-cut-off").empty());
    }
    if (is_lesson) continue;
    INFO(name);
    // A switch to the other colours reaches all charts.
    const PageDump dark = render(folder, name + "#dark", "--virtual-time-budget=5000");
    CHECK_THAT(dark.dom.substr(0, 2000), Contains("data-theme=\"dark\""));
    CHECK(attribute(dark.dom, "data-stale-colours") == "0");
    const std::size_t sides = printed_sides(folder, name);
    CHECK((sides == 1 || sides == 2));
    // The page as it is printed: no text is below 8 pt, and nothing is wider than the paper, which a browser would shrink.
    const PageDump paper = render(folder, name + "#paper", "--virtual-time-budget=5000 --window-size=1400,1000");
    CHECK(std::stod(attribute(paper.dom, "data-smallest-text")) >= 8);
    CHECK(attribute(paper.dom, "data-wider-than-paper") == "0");
    CHECK(attribute(paper.dom, "data-hidden-rows") == "0");  // a sum has all of its parts
  }
  // Prices have their units and sources, and the parts of owning sum to their totals, or the page would have problems.
  const std::string compared = render(folder, "compare.html").dom;
  CHECK_THAT(compared,
             Contains("rent of one v100-sxm2-16gb") && Contains("an offer of May") && Contains("USD an hour") &&
                 Contains("default: the prices state none") && Contains("nodes, depreciation") &&
                 Contains("data-sum=\"scenarios.0.money.ownership.year\"") && Contains("buying costs less than"));
  const std::string size = render(folder, "size.html").dom;
  CHECK_THAT(size, Contains("example: a round figure, not an offer") && Contains("storage, depreciation"));
  CHECK_THAT(size, Contains("class=\"track\"") && Contains("deadline"));
  for (const char* key : {" in % of the simulated", "gpu_hour of", "purchase of", "site."}) {
    const std::size_t end = size.find("id=\"in-the-terminal\""), begin = size.find("id=\"verdict\"");
    REQUIRE(begin < end);
    CHECK_THAT(size.substr(begin, end - begin), !Contains(key));
  }
}

TEST_CASE("the what-if page answers a change in Chromium, and shows the error of a bad change", "[.chromium]") {
  const PageFolder folder;
  const ServedProcess served(folder);
  const std::string wait = "--virtual-time-budget=60000";
  const PageDump plain = render_url(folder, served.url, wait);
  CHECK_THAT(plain.console, !Contains("CONSOLE"));
  CHECK(attribute(plain.dom, "data-problems").empty());
  CHECK(std::stoi(attribute(plain.dom, "data-charts")) >= 3);
  CHECK(attribute(plain.dom, "data-too-wide") == "0");
  CHECK_THAT(plain.dom, Contains("id=\"of-cluster.nodes\"") && Contains("id=\"of-plan.micro_batch_size\""));
  CHECK_THAT(plain.dom, Contains("What would help most: ") || Contains("No single faster resource saves"));

  const PageDump changed = render_url(folder, served.url + "#scenario=small&set=plan.micro_batch_size%3D2", wait);
  const json answer = served.ask(R"([["plan.micro_batch_size","2"]])")["answer"];
  std::smatch step;
  REQUIRE(std::regex_search(changed.dom, step, std::regex("data-path=\"step_time_s\" data-value=\"([^\"]*)\"")));
  CHECK(trainyard::parse_json(step[1].str()) == answer["step_time_s"]);

  // Another node's controls show that node's figures.
  const auto value_of = [](const PageDump& page, const std::string& control) {
    std::smatch found;
    const std::regex input("<input id=\"of-" + control + "\"[^>]*>");
    CHECK(std::regex_search(page.dom, found, input));
    return found.empty() ? "" : found[0].str();
  };
  const PageDump other = render_url(folder, served.url + "#scenario=small&set=cluster.node%3Ddgx-h100", wait);
  const json controls = served.ask(R"([["cluster.node","dgx-h100"]])")["controls"];
  int rates = 0;
  for (const json& control : controls) {
    const std::string path = control["path"];
    if (!path.starts_with("cluster.") || !path.ends_with("rate")) continue;
    const std::string value = control["value"] != "" ? control["value"] : control["fallback"];
    CHECK_THAT(value_of(other, path), Contains(" value=\"" + value + "\""));
    ++rates;
  }
  CHECK(rates > 2);

  const PageDump bad = render_url(folder, served.url + "#scenario=small&set=plan.micro_batch_size%3D3", wait);
  CHECK_THAT(bad.dom, Contains("32 is not a multiple of 48") && Contains("id=\"error-of-plan.micro_batch_size\"") &&
                          Contains("aria-invalid=\"true\""));
  CHECK_THAT(plain.dom,
             Contains(">Number of nodes<") && Contains("Plan: data parallel") && !Contains("aria-invalid=\"true\""));
  const PageDump phone = render_url(folder, served.url, wait + " --window-size=500,900");
  CHECK(attribute(phone.dom, "data-too-wide") == "0");
}

TEST_CASE("undo brings back the state before in Chromium, and a pinned answer stays beside the changed one",
          "[.chromium]") {
  const PageFolder folder;
  const ServedProcess served(folder);
  // The page asks a table of the server's answers in place of the server, so that a script may work its controls.
  json answers;
  for (const char* set : {"[]", R"([["plan.micro_batch_size","2"]])"}) answers[set] = served.ask(set);
  std::string html = served.page();
  html.erase(0, html.find("<!"));
  const std::string before =
      "<script>const answers = " + trainyard::json_text(answers) +
      ";\nwindow.fetch = async (url, o) => { const q = JSON.parse(o.body); return {ok: true, text: async () => "
      "JSON.stringify(q.want === 'answer' ? answers[JSON.stringify(q.set)] : {})}; };</script>\n";
  const std::string after = R"(<script>(async () => {
  const until = async holds => { while (!holds()) await new Promise(r => setTimeout(r, 10)); };
  const says = words => until(() => document.getElementById('message').textContent.includes(words));
  const named = words => [...document.querySelectorAll('button')].find(b => b.textContent === words);
  const size = () => document.getElementById('of-plan.micro_batch_size');
  const shown = () => document.querySelector('[data-path="step_time_s"]').dataset.value;
  const log = [], note = words => log.push(words);
  await says('A step takes');
  note('undo first ' + !named('undo').disabled);
  named('pin this answer').click();
  size().value = '2';
  size().dispatchEvent(new Event('change'));
  await says('to the answer before');
  note('step ' + shown());
  note('undo then ' + !named('undo').disabled);
  note('pinned ' + [...document.querySelector('#pinned tbody tr').children].map(e => e.innerText).join(' | '));
  named('undo').click();
  await until(() => named('undo').disabled && size() && size().value === '1');
  await says('to the answer before');
  note('step ' + shown());
  named('remove').click();
  note('removed ' + document.getElementById('pinned').hidden);
  document.documentElement.dataset.log = log.join('; ');
})();</script>)";
  html.insert(html.find("<head>") + 6, before);
  html.insert(html.rfind("</body>"), after);
  folder.write("worked.html", html);
  const PageDump worked = render(folder, "worked.html", "--virtual-time-budget=60000");
  CHECK_THAT(worked.console, !Contains("CONSOLE"));
  const std::string log = attribute(worked.dom, "data-log");
  const auto step_of = [&answers](const char* set) {
    return trainyard::json_text(answers[set].at("answer").at("step_time_s"));
  };
  const std::string first = step_of("[]"), changed = step_of(R"([["plan.micro_batch_size","2"]])");
  REQUIRE(first != changed);
  CHECK_THAT(log, Contains("undo first false") &&
                      Contains("step " + changed + "; undo then true; pinned step time | ") &&
                      Contains("step " + first + "; removed true"));
}

TEST_CASE("a task on the what-if page shows its criteria and controls, and once solved its explanation",
          "[.chromium]") {
  const PageFolder folder;
  const ServedProcess served(folder, "--task=1");
  const std::string wait = "--virtual-time-budget=60000";
  const PageDump start = render_url(folder, served.url, wait);
  CHECK_THAT(start.console, !Contains("CONSOLE"));
  CHECK(attribute(start.dom, "data-problems").empty());
  CHECK(attribute(start.dom, "data-too-wide") == "0");
  CHECK_THAT(start.dom, Contains("data-solved=\"false\"") && Contains("hint 1 of") &&
                            Contains("id=\"of-plan.data_parallel.all_reduce\"") &&
                            !Contains("id=\"of-cluster.nodes\"") && !Contains("id=\"explanation\""));
  const PageDump solved = render_url(
      folder, served.url + "#scenario=task+1%3A+ring-for-master&set=plan.data_parallel.all_reduce%3Dring", wait);
  CHECK_THAT(solved.dom, Contains("data-solved=\"true\"") && Contains("id=\"explanation\""));
}

TEST_CASE("pages of the course draw without errors, on a desk and on a phone", "[.chromium]") {
  const PageFolder folder;
  REQUIRE(folder.trainyard("course --html course --lessons ring-all-reduce,fewer-nodes,gpipe").exit == 0);
  for (const auto& entry : std::filesystem::directory_iterator(folder.path() / "course"))
    for (const int width : {1400, 390}) {
      const std::string page = "course/" + entry.path().filename().string();
      INFO(page << " " << width);
      const PageDump shown = render_framed(folder, page, width, "--virtual-time-budget=20000");
      CHECK_THAT(shown.console, !Contains("CONSOLE"));
      CHECK_THAT(shown.dom, Contains("<h1>"));
      CHECK(attribute(shown.dom, "data-wider") == "0");
    }
}

TEST_CASE("pages of the manual draw without errors, on a desk and on a phone", "[.chromium]") {
  const PageFolder folder;
  REQUIRE(folder.trainyard("help --html manual").exit == 0);
  for (const char* page : {"manual/index.html", "manual/validation.html", "manual/help-scenario.html"})
    for (const int width : {1400, 390}) {
      INFO(page << " " << width);
      const PageDump shown = render_framed(folder, page, width);
      CHECK_THAT(shown.console, !Contains("CONSOLE"));
      CHECK_THAT(shown.dom, Contains("<h1"));
      CHECK(attribute(shown.dom, "data-wider") == "0");
    }
}

TEST_CASE("the sliders of all schedules give the times of the simulator, and the scale ends where useful ones end",
          "[.chromium]") {
  const PageFolder folder;
  REQUIRE(folder.trainyard("teach pipeline --schedule all --stages 4 --micro-batches 8 --html all.html").exit == 0);
  const std::string slower = "#forward=1.5&backward=4&weights=0.3&transfer=0.6", uncut = "#whole=yes";
  for (const std::string& changed : {std::string(), slower, uncut}) {
    CAPTURE(changed);
    const PageDump page = render_url(folder, "file://$PWD/all.html" + changed, "--virtual-time-budget=2000");
    REQUIRE(attribute(page.dom, "data-ready") == "yes");
    std::string text = attribute(page.dom, "data-times");
    for (std::size_t quote; (quote = text.find("&quot;")) != std::string::npos;) text.replace(quote, 6, "\"");
    const json times = trainyard::parse_json(text);
    const std::string flags = changed == slower ? " --forward 1.5 --backward 4 --weights 1.2 --transfer " +
                                                      attribute(page.dom, "data-transfer")
                                                : "";
    REQUIRE(
        folder.trainyard("teach pipeline --schedule all --stages 4 --micro-batches 8 --json all.json" + flags).exit ==
        0);
    const json simulated = trainyard::parse_json(folder.text("all.json"));
    CHECK(times.size() == simulated.at("schedules").size());
    for (const json& schedule : simulated.at("schedules")) {
      CAPTURE(schedule.at("schedule"));
      if (schedule.at("schedule") == "zb-auto" && changed == slower) continue;  // the page keeps its order
      CHECK(times.at(schedule.at("schedule").get<std::string>()).get<double>() ==
            Approx(schedule.at("time").get<double>()).epsilon(1e-9));
    }
    const auto scale = Approx(std::stod(attribute(page.dom, "data-scale"))).epsilon(1e-9);
    CHECK(times.at(changed == slower ? "v-min" : changed == uncut ? "naive" : "gpipe").get<double>() == scale);
    CHECK((page.dom.find("class=\"cut\" d=\"M999") == std::string::npos) == (changed == uncut));
  }
}

}  // namespace tools_test_pages_chromium
