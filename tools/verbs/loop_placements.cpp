#include "tools/verbs/loop_placements.hpp"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "models/reading/document_text.hpp"
#include "scenarios/src/studies/measured/post_training_errors.hpp"
#include "sim/observers/progress.hpp"
#include "sim/process/job.hpp"
#include "tools/reports/loop_plan_report.hpp"
#include "tools/verbs/search_limits.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {

bool has_loop(const Node& document) {
  const Node* loop = document.find("post_training");
  return loop && loop->kind != Node::Kind::null;
}

double read_loop_confidence(const std::string& text) {
  if (text.empty()) return 0.5;
  const double confidence = parse_share("--confidence", text), most = most_loop_confidence();
  if (confidence < 0.5 || confidence > most)
    throw UserError(fmt::format("--confidence {}: 50 % to {:.0f} % expected, which {} measured loops can show", text,
                                std::floor(most * 100), LoopDoubt::shipped().rows().size()));
  return confidence;
}

void write_scenario(const std::string& file, const std::string& remark, const Node& document) {
  Node written = document;
  std::error_code ignored;
  // A price file that was named in this folder is found from any other one.
  const Node* prices = document.find("prices");
  for (const auto& [path, name] : {std::pair<const char*, const Node*>{"prices", prices},
                                   {"prices.base", prices ? prices->find("base") : nullptr}})
    if (name && name->kind == Node::Kind::scalar && std::filesystem::is_regular_file(name->scalar, ignored))
      set_field(written, path, "\"" + std::filesystem::absolute(name->scalar).lexically_normal().string() + "\"");
  const std::string text = "# " + remark + ".\n" + yaml_text(written);
  if (file != "-") {
    try {
      read_scenario_text(text, file);
    } catch (const UserError& e) {
      throw UserError(
          fmt::format("--write {}: it would not read back there ({}); write it beside the scenario", file, e.what()));
    }
  }
  write_atomically(file, text);
}

namespace {

/// Prints and writes an answer about the loop of a document.
int show_answer(const Node& document, const LoopAnswer& answer, const LoopOutputs& outputs) {
  if (outputs.json != "-" && outputs.write != "-")
    print(loop_plan_screen(answer, static_cast<std::size_t>(outputs.rows)));
  write_json(outputs.json, loop_answer_fields().json(answer));
  const LoopRow* best = answer.best();
  if (!best) return kFailsLimit;
  if (!outputs.write.empty()) {
    Node placed = document;
    for (const auto& [path, value] : best->changes) set_field(placed, path, value);
    write_scenario(outputs.write, answer.scenario + ": the placement that `trainyard` found", placed);
  }
  return kGood;
}

}  // namespace

int answer_loop(const Node& document, const std::string& name, const LoopQuestion& question,
                const LoopOutputs& outputs) {
  watch_interrupts();
  return show_answer(document, search_loops(read_scenario(document, name), question), outputs);
}

int answer_loop_layouts(const Node& document, const std::string& name, const LoopLayoutOptions& options,
                        const LoopOutputs& outputs) {
  watch_interrupts();
  LoopAnswer answer;
  {
    ProgressLine line;
    LoopLayoutOptions shown = options;
    shown.progress = [&line](const std::string& text) { line.show(text); };
    answer = search_loop_layouts(read_scenario(document, name), shown);
  }
  return show_answer(document, answer, outputs);
}

}  // namespace trainyard
