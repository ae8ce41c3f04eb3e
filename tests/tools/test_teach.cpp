// `trainyard teach` shows what the simulation did.
#include <algorithm>
#include <regex>

#include "scenarios/src/lessons/slot_symbols.hpp"
#include "scenarios/src/lessons/teach_collective.hpp"
#include "sim/json_text.hpp"
#include "tests/support.hpp"
#include "tests/svg_checks.hpp"
#include "tests/tools/teach_shell.hpp"
#include "topologies/machines/ideal_machine.hpp"

namespace tools_test_teach {

using namespace trainyard;
using namespace trainyard::test;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

namespace {

using Buffers = std::vector<std::string>;

// Acceptance cases RING-01 and RING-02: every buffer at the beginning and after every step.
const Buffers kRing[] = {
    {"a0 b0 c0 d0", "a1 b1 c1 d1", "a2 b2 c2 d2", "a3 b3 c3 d3"},
    {"a0 b0 c0 d0+d3", "a0+a1 b1 c1 d1", "a2 b1+b2 c2 d2", "a3 b3 c2+c3 d3"},
    {"a0 b0 c0+c2+c3 d0+d3", "a0+a1 b1 c1 d0+d1+d3", "a0+a1+a2 b1+b2 c2 d2", "a3 b1+b2+b3 c2+c3 d3"},
    {"a0 b0+b1+b2+b3 c0+c2+c3 d0+d3", "a0+a1 b1 c0+c1+c2+c3 d0+d1+d3", "a0+a1+a2 b1+b2 c2 d0+d1+d2+d3",
     "a0+a1+a2+a3 b1+b2+b3 c2+c3 d3"},
    {"a0+a1+a2+a3 b0+b1+b2+b3 c0+c2+c3 d0+d3", "a0+a1 b0+b1+b2+b3 c0+c1+c2+c3 d0+d1+d3",
     "a0+a1+a2 b1+b2 c0+c1+c2+c3 d0+d1+d2+d3", "a0+a1+a2+a3 b1+b2+b3 c2+c3 d0+d1+d2+d3"},
    {"a0+a1+a2+a3 b0+b1+b2+b3 c0+c2+c3 d0+d1+d2+d3", "a0+a1+a2+a3 b0+b1+b2+b3 c0+c1+c2+c3 d0+d1+d3",
     "a0+a1+a2 b0+b1+b2+b3 c0+c1+c2+c3 d0+d1+d2+d3", "a0+a1+a2+a3 b1+b2+b3 c0+c1+c2+c3 d0+d1+d2+d3"},
    {"a0+a1+a2+a3 b0+b1+b2+b3 c0+c1+c2+c3 d0+d1+d2+d3", "a0+a1+a2+a3 b0+b1+b2+b3 c0+c1+c2+c3 d0+d1+d2+d3",
     "a0+a1+a2+a3 b0+b1+b2+b3 c0+c1+c2+c3 d0+d1+d2+d3", "a0+a1+a2+a3 b0+b1+b2+b3 c0+c1+c2+c3 d0+d1+d2+d3"},
};
const Buffers kLiteral[] = {
    {"a0 b0 c0 d0", "a1 b1 c1 d1", "a2 b2 c2 d2", "a3 b3 c3 d3"},
    {"d3 b0 c0 d0+d3", "a0+a1 a0 c1 d1", "a2 b1+b2 b1 d2", "a3 b3 c2+c3 c2"},
    {"d3 b0 c0+c2+c3 c2+c3", "d0+d3 a0 c1 d0+d1+d3", "a0+a1+a2 a0+a1 b1 d2", "a3 b1+b2+b3 b1+b2 c2"},
    {"d3 b0+b1+b2+b3 b1+b2+b3 c2+c3", "d0+d3 a0 c0+c1+c2+c3 c0+c2+c3", "d0+d1+d3 a0+a1 b1 d0+d1+d2+d3",
     "a0+a1+a2+a3 a0+a1+a2 b1+b2 c2"},
    {"a0+a1+a2+a3 b0+b1+b2+b3 b1+b2+b3 c2+c3", "d0+d3 b0+b1+b2+b3 c0+c1+c2+c3 c0+c2+c3",
     "d0+d1+d3 a0+a1 c0+c1+c2+c3 d0+d1+d2+d3", "a0+a1+a2+a3 a0+a1+a2 b1+b2 d0+d1+d2+d3"},
    {"a0+a1+a2+a3 b0+b1+b2+b3 b1+b2+b3 d0+d1+d2+d3", "a0+a1+a2+a3 b0+b1+b2+b3 c0+c1+c2+c3 c0+c2+c3",
     "d0+d1+d3 b0+b1+b2+b3 c0+c1+c2+c3 d0+d1+d2+d3", "a0+a1+a2+a3 a0+a1+a2 c0+c1+c2+c3 d0+d1+d2+d3"},
    {"a0+a1+a2+a3 b0+b1+b2+b3 c0+c1+c2+c3 d0+d1+d2+d3", "a0+a1+a2+a3 b0+b1+b2+b3 c0+c1+c2+c3 d0+d1+d2+d3",
     "a0+a1+a2+a3 b0+b1+b2+b3 c0+c1+c2+c3 d0+d1+d2+d3", "a0+a1+a2+a3 b0+b1+b2+b3 c0+c1+c2+c3 d0+d1+d2+d3"},
};

CollectiveLesson lesson(Operation operation, const std::string& algorithm, int ranks,
                        Reduction reduction = Reduction::sum, double bytes = 4 << 20) {
  TeachOptions o;
  o.operation = operation;
  o.algorithm = algorithm;
  o.ranks = ranks;
  o.options.size = Bytes{bytes};
  o.options.settings.reduction = reduction;
  return teach_collective(star_cluster(ranks, kRate), o);
}

Buffers words_of(const std::vector<std::vector<SlotContent>>& buffers) {
  Buffers words;
  for (const auto& buffer : buffers) {
    std::string& line = words.emplace_back();
    for (const SlotContent& content : buffer) line += (line.empty() ? "" : " ") + content.text;
  }
  return words;
}

template <std::size_t n>
void check_steps(const CollectiveLesson& lesson, const Buffers (&expected)[n]) {
  CHECK(words_of(lesson.initial) == expected[0]);
  REQUIRE(lesson.steps.size() == n - 1);
  for (std::size_t step = 1; step < n; ++step) {
    CAPTURE(step);
    CHECK(words_of(lesson.steps[step - 1].buffers) == expected[step]);
  }
}

struct Shell : Teacher {
  void check_refused(const std::string& arguments, const std::string& why) const {
    Teacher::check_refused(arguments + " --json out.json", why);
  }
};

/// The data of a slot that the operation promises, in words; "" if it may hold anything.
std::string promised_word(Operation operation, int ranks, int rank, int slot, const std::string& slot_name,
                          int slots_per_block) {
  const int block = slot / slots_per_block;
  std::string sum;
  for (int i = 0; i < ranks; ++i) sum += (i > 0 ? "+" : "") + slot_name + std::to_string(i);
  if (ranks >= 5) sum = slot_name + "0+…+" + slot_name + std::to_string(ranks - 1);
  switch (operation) {
    case Operation::all_reduce:
      return sum;
    case Operation::reduce:
      return rank == 0 ? sum : "";
    case Operation::reduce_scatter:
      return block == rank ? sum : "";
    case Operation::all_gather:
      return slot_name + std::to_string(block);
    case Operation::gather:
      return rank == 0 ? slot_name + std::to_string(block) : "";
    case Operation::broadcast:
      return slot_name + "0";
    case Operation::scatter:
      return block == rank ? slot_name + "0" : "";
    case Operation::send_recv:
      return slot_name + std::to_string((rank + ranks - 1) % ranks);
    default:
      return std::to_string(block) + "→" + std::to_string(rank) +
             (slots_per_block > 1 ? slot_name.substr(slot_name.find_first_not_of("block 0123456789")) : "");
  }
}

/// Checks the final buffers of a lesson. Returns false if the algorithm does not support so many ranks.
bool check_promise(Operation operation, const std::string& algorithm, int ranks) {
  CAPTURE(name_of(operation), algorithm, ranks);
  CollectiveLesson finished;
  try {
    finished = lesson(operation, algorithm, ranks);
  } catch (const UserError&) {
    return false;
  }
  CHECK(finished.kept);
  CHECK((finished.hazards.empty() || algorithm == "ring-literal"));
  REQUIRE_FALSE(finished.steps.empty());
  CHECK(finished.steps.back().end == near(finished.time));
  std::vector<double> sent(finished.members.size(), 0.0);
  for (const LessonStep& step : finished.steps)
    for (const LessonTransfer& t : step.transfers) {
      CHECK((t.begin >= 0 && t.begin <= t.end && t.end <= step.end * (1 + 1e-9)));
      sent[static_cast<std::size_t>(t.from)] += t.bytes;
    }
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank)
    CHECK(sent[rank] == near(finished.sent[rank]));
  const int slots = static_cast<int>(finished.slots.size());
  for (int rank = 0; rank < ranks; ++rank)
    for (int slot = 0; slot < slots; ++slot) {
      const std::string& name = finished.slots[static_cast<std::size_t>(slot)];
      const std::string promised = promised_word(operation, ranks, rank, slot, name, std::max(1, slots / ranks));
      const auto& actual =
          finished.steps.back().buffers[static_cast<std::size_t>(rank)][static_cast<std::size_t>(slot)];
      if (!promised.empty()) CHECK(actual.text == promised);
    }
  return true;
}

void check_every_algorithm(const std::vector<int>& counts) {
  for (int i = 0; i < kOperations; ++i) {
    const auto operation = static_cast<Operation>(i);
    for (const std::string& algorithm : collectives(operation).names())
      for (const int ranks : counts) check_promise(operation, algorithm, ranks);
  }
}

}  // namespace

TEST_CASE("teach shows the ring all-reduce with the buffers of RING-01", "[teach]") {
  const CollectiveLesson ring = lesson(Operation::all_reduce, "ring", 4);
  check_steps(ring, kRing);
  CHECK(ring.hazards.empty());
  const LessonTransfer& first = ring.steps[1].transfers[0];
  CHECK((first.from == 0 && first.to == 1 && first.slots == "slot d" && first.content == "d0+d3" && first.adds));
  CHECK(first.link == "node0/gpu0 -> node0/nvswitch");
  for (std::size_t i = 0; i < ring.steps.size(); ++i) {
    CHECK(ring.steps[i].end - ring.steps[i].begin == near((1 << 20) / 1e9));
    CHECK(ring.steps[i].sent == std::vector<double>(4, static_cast<double>(i + 1) * (1 << 20)));
  }
  CHECK(ring.total == ring.least_total);
  CHECK(ring.sent == std::vector<double>(4, ring.least_rank));
}

TEST_CASE("a step whose messages are mostly latency is not said to be limited by a link", "[teach]") {
  const Teacher shell;
  const std::string ring = "all-reduce --algorithm ring --ranks 4 --size ";
  CHECK_THAT(shell.teach(ring + "1kB").out,
             Contains("limited by a latency of 1.00 us") && !Contains("limited by node0"));
  CHECK_THAT(shell.teach(ring + "100MB").out, Contains("limited by node0") && !Contains("limited by a latency"));
}

TEST_CASE("teach numbers ranks from 1 with --labels-from 1", "[teach]") {
  const Shell shell;
  const TopoAnswer from_1 = shell.teach("all-reduce --ranks 3 --labels-from 1 --json 1.json --svg 1.svg");
  CHECK(from_1.exit == 0);
  CHECK_THAT(from_1.out, Contains("GPU1→GPU2 slot a: a1") && Contains("a1+a2+a3") && !Contains("GPU0"));
  CHECK_THAT(shell.text("1.svg"), Contains("GPU3") && !Contains("GPU0"));
  // The names of contributors are those of ranks from 0.
  REQUIRE(shell.teach("all-reduce --ranks 3 --json 0.json").exit == 0);
  const json one = parse_json(shell.text("1.json")), zero = parse_json(shell.text("0.json"));
  for (std::size_t i = 0; i < zero["steps"].size(); ++i)
    for (std::size_t rank = 0; rank < 3; ++rank)
      for (std::size_t slot = 0; slot < 3; ++slot)
        CHECK(one["steps"][i]["buffers"][rank][slot]["parts"] == zero["steps"][i]["buffers"][rank][slot]["parts"]);
  CHECK_THAT(shell.teach("broadcast --ranks 3 --root 2 --labels-from 1").out, Contains("root 3"));
  shell.check_refused("all-reduce --labels-from 2", "--labels-from 2: 0 or 1 expected");
}

TEST_CASE("teach shows the literal listing with the buffers, stale slots and hazards of RING-02", "[teach]") {
  const CollectiveLesson literal = lesson(Operation::all_reduce, "ring-literal", 4);
  check_steps(literal, kLiteral);
  CHECK(literal.hazards.size() == 12);
  CHECK(literal.steps[0].buffers[0][0].stale);
  CHECK_FALSE(literal.steps[0].buffers[0][3].stale);
  CHECK(literal.kept);
  const Shell shell;
  const TopoAnswer answer = shell.teach("all-reduce --listing literal");
  CHECK(answer.exit == 0);
  CHECK_THAT(answer.out, Contains("stale, from another slot: GPU0 a   GPU1 b   GPU2 c   GPU3 d\n") &&
                             Contains("copying, then reducing") && Contains("12 hazards: a receive overwrites"));
}

TEST_CASE("teach reverses the direction of a ring", "[teach]") {
  const Shell shell;
  for (const char* operation : {"all-reduce", "reduce-scatter", "all-gather"}) {
    CAPTURE(operation);
    const json forward = parse_json(shell.teach(operation + std::string(" --direction forward --json -")).out);
    const json back = parse_json(shell.teach(operation + std::string(" --direction reversed --json -")).out);
    CHECK(forward == parse_json(shell.teach(operation + std::string(" --algorithm ring --json -")).out));
    CHECK(back["algorithm"] == "ring-reversed");
    CHECK(back["time_s"] == near(forward["time_s"].get<double>()));
    REQUIRE(back["steps"].size() == forward["steps"].size());
    for (const json& step : back["steps"])
      for (const json& t : step["transfers"]) CHECK((t["from"].get<int>() + 3) % 4 == t["to"].get<int>());
  }
  shell.check_refused("all-reduce --direction left", "--direction left: unknown; known: forward, reversed");
  shell.check_refused("all-reduce --direction reversed --algorithm binary-tree",
                      "--direction reversed: a single ring has a direction; binary-tree is none");
  shell.check_refused("all-reduce --direction reversed --listing literal",
                      "--direction: the textbooks' listing goes forward; leave out --direction or --listing");
}

TEST_CASE("every algorithm's lesson ends with the result of its operation", "[teach]") {
  check_every_algorithm({2, 5, 8});
  CHECK(check_promise(Operation::all_reduce, "nvls", 4));
}

TEST_CASE("every algorithm's lesson of 3 to 16 ranks ends with the result of its operation", "[teach][.deep]") {
  check_every_algorithm({3, 4, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16});
}

TEST_CASE("teach writes each reduction in its own words", "[teach]") {
  const auto last = [](Reduction reduction, int ranks) {
    const CollectiveLesson finished = lesson(Operation::all_reduce, "ring", ranks, reduction);
    CHECK(finished.kept);
    return finished.steps.back().buffers[0][0].text;
  };
  CHECK(last(Reduction::average, 3) == "(a0+a1+a2)/3");
  CHECK(last(Reduction::average, 16) == "(a0+…+a15)/16");
  CHECK(last(Reduction::maximum, 3) == "max(a0,a1,a2)");
  CHECK(last(Reduction::product, 3) == "a0·a1·a2");
  CHECK(last(Reduction::product, 16) == "a0·…·a15");
}

TEST_CASE("symbols show contributions that are counted twice, mixed or of another slot", "[teach]") {
  const SlotSymbols sums(Operation::all_reduce, {}, 3, 3);
  const Eigen::Index each = sums.numbers_per_slot();
  Eigen::VectorXd buffer = sums.initial(0) + sums.initial(0) + sums.initial(2);
  CHECK(sums.read(buffer, 1, 0).text == "2·b0+b2");
  CHECK_FALSE(sums.read(buffer, 1, 0).complete);
  buffer.segment(0, each) += buffer.segment(2 * each, each);
  CHECK(sums.read(buffer, 0, 0).unknown);  // a and c together do not count as b
  buffer.segment(each, each) = sums.initial(1).segment(2 * each, each);
  CHECK(sums.read(buffer, 1, 0).text == "c1");
  CHECK(sums.read(buffer, 1, 0).stale);
  CHECK(sums.read(sums.empty(), 1, 0).text == "·");
}

TEST_CASE("switches that hold data are shown, too", "[teach]") {
  const CollectiveLesson nvls = lesson(Operation::all_reduce, "nvls", 4);
  REQUIRE(nvls.members.size() == 5);
  CHECK(nvls.members[4].holds_data);
  CHECK(nvls.initial[4][0].text == "·");
  CHECK(nvls.steps.back().buffers[4][0].text == "a0+a1+a2+a3");
}

TEST_CASE("teach fits a terminal and prints no colours into a pipe", "[teach]") {
  const Shell shell;
  for (const char* arguments : {"all-reduce", "all-reduce --ranks 16", "all_to_all --ranks 16", "alltoall --ranks 3",
                                "all-reduce --ranks 6 --op max", "barrier --ranks 5", "broadcast --root 2"}) {
    CAPTURE(arguments);
    const TopoAnswer answer = shell.teach(arguments);
    CHECK(answer.exit == 0);
    CHECK(answer.err.empty());
    CHECK(answer.out.find('\x1b') == std::string::npos);
    CHECK(widest_line(answer.out) <= 100);
  }
  CHECK_THAT(shell.teach("barrier").out, Contains("1.00 us from GPU to GPU") && Contains("2.00 us in 2 steps"));
  CHECK_THAT(shell.teach("all-reduce").out, Contains("step 2 of 6, reducing: 42.9 us to 85.9 us, takes 42.9 us\n") &&
                                                Contains("GPU1  a0+a1     b1        c1        d0+d1+d3  2.00 MiB\n") &&
                                                Contains("receives 6.00 MiB; closed-form minimum: 6.00 MiB"));
  CHECK_THAT(shell.teach("all-reduce --ranks 8 --on dgx-1v --algorithm multi-ring").out, Contains("on 1 × dgx-1v"));
}

TEST_CASE("a collective's views show sizes in the unit of --size", "[teach]") {
  const Shell shell;
  const std::regex binary("[0-9.] [KMGT]iB"), decimal("[0-9.] [kMGT]B(?!/s)");
  for (const auto& [size, thousands] : {std::pair<std::string, bool>{"--size 160MB", true},
                                        {"--size '4 kB'", true},
                                        {"--size 4MiB", false},
                                        {"", false}}) {
    CAPTURE(size);
    for (const std::string topic : {"all-reduce", "broadcast", "all-to-all"}) {
      CAPTURE(topic);
      const TopoAnswer answer = shell.teach(topic + " " + size);
      CHECK(shell.teach(topic + " " + size + " --html l.html --svg l.svg").exit == 0);
      for (const std::string& view : {answer.out, shell.text("l.html"), shell.text("l.svg")}) {
        CHECK(std::regex_search(view, thousands ? decimal : binary));
        CHECK_FALSE(std::regex_search(view, thousands ? binary : decimal));
      }
    }
  }
  for (const std::string number : {"2", "3", "4", "6", "7"}) {
    const std::string out = shell.trainyard("lesson " + number).out;
    CAPTURE(number, out);
    CHECK(std::regex_search(out, decimal));
    CHECK_FALSE(std::regex_search(out, binary));
  }
}

TEST_CASE("a lesson's page and picture hold every step and stand alone", "[teach]") {
  const Shell shell;
  CHECK(shell.teach("all-reduce --html l.html --svg l.svg --json l.json").exit == 0);
  const std::string page = shell.text("l.html"), picture = shell.text("l.svg");
  const json lesson = parse_json(shell.text("l.json"));
  REQUIRE(lesson["steps"].size() == 6);
  CHECK(lesson["time_s"] == lesson["steps"][5]["end_s"]);
  CHECK(lesson["size_bytes"] == 4194304);
  for (int step = 1; step <= 6; ++step) {
    const std::string head = "step " + std::to_string(step) + " of 6";
    CHECK_THAT(page, Contains(head));
    CHECK_THAT(picture, Contains(head));
  }
  for (const char* reference : {"http", "src=", "href", "url(", "@import"})
    CHECK(page.find(reference) == std::string::npos);
  for (const char* control : {"id=\"back\"", "id=\"on\"", "id=\"play\"", "ArrowRight", "ArrowLeft"})
    CHECK_THAT(page, Contains(control));
  std::smatch data;
  REQUIRE(std::regex_search(page, data, std::regex("id=\"lesson\">([^<]*)</script>")));
  CHECK(parse_json(data[1].str())["frames"].size() == 7);
  well_formed(picture);
  CHECK(shell.teach("all-reduce --json -").out == shell.text("l.json"));
}

TEST_CASE("every topic has a picture, and a page with the same content", "[teach]") {
  const Shell shell;
  for (const char* topic : {"barrier", "all-to-all --ranks 3", "alltoall --algorithm bruck",
                            "pipeline --schedule zb-2p", "server --workers 2", "threads", "tasks --stages 3",
                            "matrix-product --shape 20x3x4", "zero", "learning --how gossip",
                            "step '" TRAINYARD_SOURCE_DIR "/scenarios/lessons/4-pipelines-and-tensor-parallelism/"
                            "37-data-or-model.yaml' --set 'model={mlp: {widths: [8, 8]}}'"}) {
    CAPTURE(topic);
    const TopoAnswer answer = shell.teach(std::string(topic) + " --svg t.svg --html t.html");
    CHECK(answer.exit == 0);
    const std::string picture = shell.text("t.svg"), page = shell.text("t.html"),
                      title = answer.out.substr(0, answer.out.find('\n'));
    well_formed(picture);
    CHECK(rectangles_within(picture) > 0);
    CHECK_THAT(picture, Contains(">" + title + "<"));
    CHECK_THAT(page, Contains("<title>" + title + "</title>") && EndsWith("</html>\n"));
    const bool steps = page.find("id=\"play\"") != std::string::npos;
    CHECK((steps || page.find(picture) != std::string::npos));
  }
}

TEST_CASE("teach refuses impossible lessons of collectives in one line", "[teach]") {
  const Shell shell;
  shell.check_refused("all-reduce --ranks 1", "--ranks 1: 2 to 16 expected");
  shell.check_refused("all-reduce --ranks 17", "--ranks 17: 2 to 16 expected");
  shell.check_refused("all-reduce --algorithm rong",
                      "--algorithm rong: unknown all-reduce algorithm \"rong\"; did you mean \"ring\"?");
  shell.check_refused("all-reduce --listing literal --algorithm direct",
                      "--listing literal: it lists the all-reduce by ring, not the all-reduce by direct");
  shell.check_refused("all-gather --listing literal",
                      "--listing literal: it lists the all-reduce by ring, not the all-gather by ring");
  shell.check_refused("all-reduce --listing right", "--listing right: unknown; literal is the only listing");
  shell.check_refused("switch --frames 0-4", "--frames 0-4: two hosts from 0 to 3 expected, such as 0-1");
  shell.check_refused("switch --frames 0-0", "--frames 0-0: a host sends to another one");
  shell.check_refused("all-redoce", "trainyard teach: unknown topic \"all-redoce\"; did you mean \"all-reduce\"?");
  shell.check_refused("all-reduce --algorithm auto", "--algorithm auto: name one (trainyard list collectives)");
  shell.check_refused("all-reduce --on dgx-a100 --ranks 9", "--ranks 9: dgx-a100 has 8 GPUs");
  shell.check_refused("all-reduce --size 0B", "--size 0B: more than 0 expected");
  shell.check_refused("broadcast --root 4", "--root 4: a broadcast of 4 ranks has the roots 0 to 3");
  shell.check_refused("all-reduce --root 1",
                      "--root 1: all-reduce has no root; broadcast, reduce, gather and "
                      "scatter have one");
  shell.check_refused("all-reduce --nodes 2", "trainyard teach: on which machine? --on NODE or SCENARIO expected");
  shell.check_refused("all-reduce --algorithm binary-tree --ranks 8 --chunk 16KiB",
                      "3,584 writes to 8 ranks' buffers of 256 slots are more than 1,000,000 slots to show: take "
                      "--chunk 64KiB, or fewer --ranks");
  CHECK(shell.teach("all-reduce --algorithm binary-tree --ranks 8 --chunk 64KiB").exit == 0);
  shell.check_refused("all-reduce --algorithm chain-pipelined --chunk 1kB",
                      "the buffers would have 4195 slots or more, at most 512 are shown: take --chunk 31.25KiB, or "
                      "fewer --ranks");
  for (const char* algorithm : {"bidirectional-ring", "torus-2d"})
    for (const char* ranks : {"13", "14", "16"}) {
      CAPTURE(algorithm, ranks);
      CHECK(shell.teach("all-reduce --algorithm " + std::string(algorithm) + " --ranks " + ranks).exit == 0);
    }
  shell.check_refused("all-reduce --algorithm multi-ring",
                      "--algorithm multi-ring: all-reduce by multi-ring: there are no rings to run on; expected GPUs "
                      "of one node that a mesh of links joins, such as dgx-1v, or another algorithm, such as ring");
  const TopoAnswer help = shell.teach("--help");
  CHECK(help.exit == 0);
  CHECK_THAT(help.out, Contains("all-reduce") && Contains("barrier"));
  CHECK(shell.teach("").exit == 2);
}

TEST_CASE("blocking sends of a ring deadlock, and the error names the ranks", "[teach]") {
  const TopoFolder folder;
  const TopoAnswer answer = folder.trainyard("teach all-reduce --algorithm ring --blocking");
  CHECK(answer.exit == 2);
  CHECK_THAT(answer.err, Contains("rank 0 (node0/gpu0) sends to rank 1 (node0/gpu1)") && Contains("again"));
  CHECK(folder.trainyard("teach broadcast --algorithm chain --blocking").exit == 0);
}

TEST_CASE("teach switch floods frames to addresses that it has not learned", "[teach]") {
  const TopoFolder folder;
  const TopoAnswer answer = folder.trainyard("teach switch --hosts 5 --frames 0-1,1-0,2-3,0-1");
  CHECK(answer.exit == 0);
  CHECK_THAT(answer.out, Contains("2 of 4 frames flooded, 10 copies"));
  CHECK_THAT(folder.trainyard("teach switch --hosts 3 --frames 0-1").out,
             Contains("a switch with 3 hosts, 1 frame\n") && Contains("1 of 1 frame flooded, "));
  CHECK_THAT(folder.trainyard("teach switch --hosts 5 --frames 0-1,1-0,2-3,0-1 --kind hub").out,
             Contains("4 of 4 frames flooded, 16 copies"));
}

TEST_CASE("teach server names the pushes whose staleness it counts", "[teach]") {
  const TopoFolder folder;
  const TopoAnswer answer =
      folder.trainyard("teach server --workers 2 --consistency stale --staleness 1 --slower 1,2 --steps 4");
  CHECK(answer.exit == 0);
  std::smatch found;
  REQUIRE(
      std::regex_search(answer.out, found, std::regex("of the (\\d+) of 8 pushes in the steady part: after every")));
  const int window = std::stoi(found[1]);
  int counted = 0;
  const std::size_t line = answer.out.find("staleness (updates missed: pushes): ");
  REQUIRE(line != std::string::npos);
  const std::string counts = answer.out.substr(line + 36, answer.out.find('\n', line) - line - 36);
  const std::regex each("\\d+: (\\d+)");
  for (std::sregex_iterator i(counts.begin(), counts.end(), each), end; i != end; ++i) counted += std::stoi((*i)[1]);
  CHECK(counted == window);
}

}  // namespace tools_test_teach
