#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "models/fitted/measured_family.hpp"
#include "models/reading/shipped_files.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/studies/measured/anchor.hpp"
#include "scenarios/src/studies/measured/step_doubt.hpp"
#include "sim/process/job.hpp"
#include "tools/reports/report_lines.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

namespace fs = std::filesystem;

std::string steps_table(const std::vector<AnchorStep>& steps) {
  TextTable table{"step", ">measured", ">before", ">error", ">anchored", ">error"};
  for (const AnchorStep& step : steps)
    table.rows.push_back({step.id, show(Seconds{step.measured}), show(Seconds{step.before}),
                          signed_percent(step.error_before()), show(Seconds{step.after}),
                          signed_percent(step.error_after())});
  return table.text("  ");
}

std::string means_of(const std::vector<AnchorStep>& steps) {
  return fmt::format("mean error {} before, {} anchored", percent(Anchor::mean_error(steps, &AnchorStep::error_before)),
                     percent(Anchor::mean_error(steps, &AnchorStep::error_after)));
}

std::string structure_lines(const Anchor& a) {
  if (a.structures.size() < 2) return "";
  std::vector<std::string> possible, given_up;
  for (std::size_t i = 1; i < a.structures.size(); ++i)
    (a.structures[i].is_told_apart ? given_up : possible).push_back(a.structures[i].words);
  std::string text = wrapped(report_label("overlap"), {a.structures.front().words}, "");
  if (!possible.empty()) text += wrapped(report_label("") + "as likely: ", possible, ";");
  if (!given_up.empty()) text += wrapped(report_label("") + "given up: ", given_up, ";");
  return text;
}

/// Throws UserError if a name cannot be that of a file of a catalog, or is that of a shipped stack or node.
void check_name(const std::string& name) {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
  };
  if (name.empty() || name.front() == '.' || name.front() == '-' || !std::ranges::all_of(name, is_allowed))
    throw UserError(fmt::format("--name {}: letters, digits, \"-\", \"_\" and \".\" expected, as in my-cluster", name));
  for (const char* kind : {"stacks", "nodes"}) {
    const std::vector<fs::path> files = shipped_yaml_files(std::string("models/catalog/") + kind);
    if (std::ranges::any_of(files, [&name](const fs::path& entry) { return entry.stem() == name; }))
      throw UserError(fmt::format("--name {}: the catalog has {} of this name; another one expected, as in my-{}", name,
                                  kind == std::string("stacks") ? "a stack" : "a node", name));
  }
}

/// Removes files with equal contents but the first of them. Returns a warning for each.
std::vector<std::string> remove_copies(std::vector<std::string>& files) {
  std::vector<std::string> unique_files, texts, warnings;
  for (const std::string& file : files) {
    std::error_code error;
    std::string text = file;
    if (fs::is_regular_file(file, error)) {
      std::ifstream in(file, std::ios::binary);
      text.assign(std::istreambuf_iterator<char>(in), {});
    }
    const auto found = std::ranges::find(texts, text);
    if (found != texts.end()) {
      warnings.push_back(fmt::format("{} is a copy of {} and does not count", file,
                                     unique_files[static_cast<std::size_t>(found - texts.begin())]));
      continue;
    }
    unique_files.push_back(file);
    texts.push_back(std::move(text));
  }
  files = std::move(unique_files);
  return warnings;
}

std::string anchor_screen(const Anchor& a) {
  std::string text;
  if (!a.steps.empty())
    text += fmt::format("{}: {}\n{}", counted_noun(a.steps.size(), "measured step"), means_of(a.steps),
                        steps_table(a.steps));
  for (const AnchorPart& part : a.parts)
    text += fmt::format("{}: mean error {} before, {} anchored; worst {}: {}\n", part.words, percent(part.before),
                        percent(part.after), part.worst, signed_percent(part.worst_error));
  if (!a.judged.empty())
    text += fmt::format("{} that {} not used: {}\n{}", counted_noun(a.judged.size(), "step"),
                        a.judged.size() == 1 ? "was" : "were", means_of(a.judged), steps_table(a.judged));
  text += structure_lines(a);
  for (const AnchorScale& scale : a.scales)
    text += report_label(&scale == &a.scales.front() ? "scales" : "") +
            (scale.is_determined()
                 ? fmt::format("{}: times {:.3f} (± {})\n", scale.words, scale.factor, percent(scale.spread))
                 : fmt::format("{}: not determined by these measurements\n", scale.words));
  if (a.basis.exists())
    text += fmt::format(
        "{}±{} with a probability of 80 % for steps like these, on up to {:.0f} GPUs; explain --doubt "
        "says what widens it for others\n",
        report_label("interval"), percent(DoubtModel::shipped().range({a.basis.spread}, kLikely).half_width()),
        2 * a.basis.devices);
  std::vector<std::string> warnings;
  if (a.steps.size() == 1) warnings.emplace_back("a single step may be odd; steps of two different plans tell more");
  warnings.insert(warnings.end(), a.contradictions.begin(), a.contradictions.end());
  for (const std::string& odd : a.odd) warnings.push_back(odd + " is off by more than about 16 % after the fit");
  if (!a.judged.empty() &&
      Anchor::mean_error(a.judged, &AnchorStep::error_after) > Anchor::mean_error(a.judged, &AnchorStep::error_before))
    warnings.emplace_back("the steps that were not used became worse: do not use this anchor");
  if (!warnings.empty()) text += wrapped(report_label("warning"), warnings, ";");
  return text;
}

/// Writes the entries into the folder and returns the lines that say how to use them.
std::string write_entries(const Anchor& a, const std::string& name, const std::string& from, const fs::path& folder) {
  std::string text;
  const auto write = [&](const char* kind, const char* key, const std::string& yaml) {
    if (yaml.empty()) return;
    const fs::path file = folder / kind / (name + ".yaml");
    std::error_code error;
    fs::create_directories(file.parent_path(), error);
    if (error) throw UserError(fmt::format("{}: {}", file.parent_path().string(), error.message()));
    write_atomically(file.string(), yaml);
    text += fmt::format("{}{}: {} is {}\n", report_label(text.empty() ? "written" : ""), key, name, file.string());
  };
  write("stacks", "software", anchored_stack_yaml(a, from));
  write("nodes", "cluster.node", anchored_node_yaml(a, from));
  if (text.empty()) return fmt::format("{}nothing: no constant is determined\n", report_label("written"));
  return text + fmt::format("{}found in a folder catalog beside a scenario, or by TRAINYARD_PATH={}\n",
                            report_label(""), folder.string());
}

int anchor_verb(const std::vector<std::string>& words) {
  Arguments arguments("anchor",
                      "Fits a software stack and a node to what you have measured, so that other plans and more nodes "
                      "are predicted from it. Prints what the measurements determine and what they do not.",
                      "anchor --measured scenarios/measured/training-2026/internevo-7b.yaml --first 2");
  std::string file, judge, only, name = "anchored", out, json;
  std::vector<std::string> measured, sets;
  int first = 0, steps_of_traces = 0;
  arguments.positional("SCENARIO", file,
                       "scenario file (YAML) of the measured machine; not with a family, which brings its own", false);
  arguments.repeated_flag(
      "--measured", measured, "FILE",
      "measurements; may be repeated. Steps: a table (.csv) with step_time_s or step_time_ms and columns that are "
      "paths of the "
      "scenario; a family of measured runs (.yaml, see validate); or the log of a training with the scenario's plan by "
      "Megatron-LM, NeMo, DeepSpeed, torchtitan or MaxText. Parts of the machine: a log of nccl-tests, or nccl.csv; "
      "matrix products (.csv: m, n, k, precision or dtype, and time_us, time_s, latency_us or tflops); the memory of "
      "the fullest GPU (nvidia-smi's screen or --format=csv, a table with device_memory, or an amount such as "
      "\"71.2 GiB\"); a trace of the scenario's step by torch.profiler (.json, .json.gz) or Nsight Systems "
      "(nsys export --type sqlite: .sqlite), or a summary of its kernels (nsys stats -r cuda_gpu_kern_sum --format "
      "csv, "
      "with --steps)");
  arguments.option("--steps", steps_of_traces, "N",
                   "number of steps in a trace or summary of kernels (default: those that a trace marks, or one)", 1);
  arguments.option("--only", only, "TEXT", "use only steps whose name contains this text, for example a release");
  arguments.option("--first", first, "N", "fit only the first N steps, and judge by the others", 1);
  arguments.option("--judge", judge, "FILE", "judge by the steps of this file, which are not used");
  arguments.option("--name", name, "NAME", "name of the anchored stack and node (default: anchored)");
  arguments.option("--out", out, "FOLDER",
                   "write the stack and the node, if measurements determine them, as entries of this catalog folder");
  arguments.repeated_flag("--set", sets, "PATH=VALUE",
                          "override a field of the scenario, or of each scenario of a family; may be repeated");
  arguments.output("--json", json, "write the answer as JSON; - is stdout");
  if (!arguments.parse(words)) return kGood;
  if (measured.empty()) throw UserError("anchor: --measured FILE expected");
  check_name(name);
  const std::vector<std::string> copies = remove_copies(measured);
  for (const std::string& from : measured)
    if (std::error_code error; !judge.empty() && fs::equivalent(from, judge, error))
      throw UserError(fmt::format("--judge {}: it is also measured; steps that the fit does not use expected", judge));
  const auto is_family = [](const std::string& from) { return from.ends_with(".yaml"); };
  if (!file.empty() && std::ranges::all_of(measured, is_family) && (judge.empty() || is_family(judge)))
    throw UserError(
        fmt::format("anchor: {} would not be used: the runs of {} bring their own scenarios, and --set "
                    "changes them",
                    file, measured.front()));
  const Overrides overrides = parse_overrides(sets);
  const auto override_fields = [&](Node document) {
    for (const auto& [path, value] : overrides) set_field(document, path, value);
    return document;
  };
  const Node document = file.empty() ? Node::empty_map() : override_fields(read_scenario_document(file));
  std::vector<AnchorStep> steps, judged;
  std::vector<std::string> parts, names;
  const auto add = [&](const std::string& from, std::vector<AnchorStep>& to) {
    if (file.empty() && !is_family(from))
      throw UserError(fmt::format("anchor: {}: a SCENARIO expected, whose machine was measured", from));
    if (measures_part(from)) {
      if (&to == &judged) throw UserError(fmt::format("anchor: --judge {}: steps expected, not parts", from));
      parts.push_back(from);
      return;
    }
    for (AnchorStep& step : read_anchor_steps(document, fs::path(from).stem().string(), from)) {
      names.push_back(step.id);
      if (step.id.find(only) == std::string::npos) continue;
      if (is_family(from)) step.document = override_fields(std::move(step.document));
      to.push_back(std::move(step));
    }
  };
  for (const std::string& from : measured) add(from, steps);
  if (!judge.empty()) add(judge, judged);
  if (!only.empty() && steps.empty())
    throw UserError(fmt::format("--only {}: no measured step has such a name{}", only, hint(only, names)));
  if (first > 0) {
    if (static_cast<std::size_t>(first) >= steps.size())
      throw UserError(fmt::format("--first {}: {} measured; fewer than that expected, so that others judge", first,
                                  counted_noun(steps.size(), "step")));
    judged.insert(judged.begin(), steps.begin() + first, steps.end());
    steps.erase(steps.begin() + first, steps.end());
  }
  watch_interrupts();
  const AnchorParts fitted =
      parts.empty() ? AnchorParts{} : fit_parts(document, fs::path(file).stem().string(), parts, steps_of_traces);
  Anchor anchor = anchor_steps(std::move(steps), std::move(judged), fitted);
  anchor.contradictions.insert(anchor.contradictions.end(), copies.begin(), copies.end());
  const std::string from = fs::path(measured.front()).filename().string();
  std::string text = anchor_screen(anchor);
  if (!out.empty()) text += write_entries(anchor, name, from, out);
  if (json != "-") print(text);
  write_json(json, anchor_fields().json(anchor));
  return kGood;
}

const RegisterVerb registered_anchor{"anchor", VerbGroup::measure, "fit a stack and a node to what you measured",
                                     anchor_verb};

}  // namespace
}  // namespace trainyard
