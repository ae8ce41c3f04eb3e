// Reads measured steps from tables, families of measured runs and logs of trainings.
#include <fmt/format.h>

#include <fstream>

#include "models/fitted/fitting.hpp"
#include "models/fitted/measured_family.hpp"
#include "models/fitted/measured_table.hpp"
#include "models/reading/pattern.hpp"
#include "scenarios/src/studies/measured/anchor.hpp"
#include "sim/error.hpp"

namespace trainyard {
namespace {

namespace fs = std::filesystem;

/// The line of a framework's log that states the time or the rate of a step.
struct LogForm {
  const char* framework;
  const char* pattern;
  const char* key;  ///< field of `measured` that the number fills
  double factor;    ///< factor that turns the number into the unit of the key
  const char* unit;
};

constexpr LogForm kLogForms[] = {
    {"Megatron-LM", R"(elapsed time per iteration \(ms\): *([0-9][0-9.]*))", "step_time", 1e-3, " s"},
    {"NeMo", R"(train_step_timing in s[=:] *([0-9][0-9.]*))", "step_time", 1, " s"},
    {"MaxText", R"(completed step: *[0-9]+, seconds: *([0-9][0-9.]*))", "step_time", 1, " s"},
    {"torchtitan", R"(step: *[0-9]+ .*tps: *([0-9][0-9.,]*))", "tokens_per_s", 1, ""},
    {"DeepSpeed", R"(CurrSamplesPerSec=([0-9][0-9.]*))", "samples_per_s", 1, ""},
};
/// A property of the run that a framework's log states.
struct LogProperty {
  const char* words;
  const char* key;  ///< key of the scenario that states it; null: several keys do
  const char* pattern;
  double (*value)(const Scenario&);
};

constexpr LogProperty kLogProperties[] = {
    {"global batch size", "plan.global_batch_size",
     R"([Gg]lobal[ _]batch[ _]size(?:_to_train_on)?['\": =.]+([0-9]{1,15}))",
     [](const Scenario& s) { return static_cast<double>(s.global_batch_size); }},
    {"sequence length", "plan.seq_length",
     R"((?:\bseq_length|\bseq_len|[Ss]equence length|max_target_length)['\": =.]+([0-9]{1,15}))",
     [](const Scenario& s) { return static_cast<double>(s.model.seq_length); }},
    {"number of devices", nullptr, R"([Ww]orld[ _]size['\": =.]+([0-9]{1,15}))",
     [](const Scenario& s) { return static_cast<double>(s.ranks()); }},
    {"tensor-parallel size", "plan.tensor_parallel", R"(tensor[-_]model[-_]parallel[-_ ]size['\": =.]+([0-9]{1,15}))",
     [](const Scenario& s) { return static_cast<double>(s.plan.mesh.widest(Axis::tensor)); }},
    {"pipeline-parallel size", "plan.pipeline_parallel",
     R"(pipeline[-_]model[-_]parallel[-_ ]size['\": =.]+([0-9]{1,15}))",
     [](const Scenario& s) { return static_cast<double>(s.plan.mesh.pipeline); }},
};

/// Number of first steps that do not count: they compile, allocate and start communicators.
constexpr std::size_t kWarmUpSteps = 3;

void set_measured(Node& document, const std::string& key, const std::string& value, const std::string& source) {
  Node measured = Node::empty_map();
  measured.fields.emplace_back(key, Node::scalar_node(value, Place::named(source)));
  measured.fields.emplace_back("source", Node::scalar_node(source));
  set_field(document, "measured", std::move(measured));
}

AnchorStep step_of(Node document, const std::string& id) {
  const Scenario s = read_scenario(document, id);
  name_stack(document, s.software.name);
  if (!s.measured_run.is_given()) throw UserError(fmt::format("{}: no measured step time", id));
  return {id, std::move(document), s.measured_run.step_time.value};
}

/// Throws UserError if the log states another batch, length or layout than the scenario has. The last statement of each
/// counts, because a batch may grow at the start of a training.
void check_properties(const Scenario& s, const fs::path& file) {
  struct Statement {
    const LogProperty* property;
    Pattern pattern;
    double value = 0;
    int line = 0;  ///< 0: the log does not state it
  };
  std::vector<Statement> statements;
  for (const LogProperty& property : kLogProperties) statements.push_back({&property, Pattern(property.pattern)});
  std::ifstream in(file);
  int line_number = 0;
  for (std::string line; std::getline(in, line);) {
    ++line_number;
    for (Statement& statement : statements)
      if (const Pattern::Groups match = statement.pattern.find(line); !match.empty())
        statement.value = std::stod(match[1]), statement.line = line_number;
  }
  for (const Statement& statement : statements) {
    const LogProperty& property = *statement.property;
    const double expected = property.value(s);
    if (statement.line > 0 && statement.value != expected)
      throw UserError(fmt::format(
          "{}:{}: {} {:.0f}; the scenario has {:.0f}{}", file.string(), statement.line, property.words, statement.value,
          expected, property.key ? fmt::format(" (--set {}={:.0f})", property.key, statement.value) : ""));
  }
}

AnchorStep step_of_log(const Node& scenario, const std::string& name, const fs::path& file) {
  std::ifstream in(file);
  std::vector<std::vector<double>> numbers(std::size(kLogForms));
  std::vector<Pattern> patterns;
  for (const LogForm& form : kLogForms) patterns.emplace_back(form.pattern);
  for (std::string line; std::getline(in, line);)
    for (std::size_t f = 0; f < patterns.size(); ++f)
      if (const Pattern::Groups match = patterns[f].find(line); !match.empty()) {
        std::string number = match[1];
        std::erase(number, ',');
        numbers[f].push_back(std::stod(number));
      }
  for (std::size_t f = 0; f < patterns.size(); ++f) {
    std::vector<double>& values = numbers[f];
    if (values.empty()) continue;
    if (values.size() <= kWarmUpSteps)
      throw UserError(fmt::format("{}: {} step{} of {}: more than {} expected, because the first are warm-up",
                                  file.string(), values.size(), values.size() == 1 ? "" : "s", kLogForms[f].framework,
                                  kWarmUpSteps));
    values.erase(values.begin(), values.begin() + kWarmUpSteps);
    Node document = scenario;
    check_properties(read_scenario(document, name), file);
    set_measured(document, kLogForms[f].key,
                 fmt::format("{:.6g}{}", median_of(values) * kLogForms[f].factor, kLogForms[f].unit), file.string());
    return step_of(std::move(document), name);
  }
  std::vector<std::string> names;
  for (const LogForm& form : kLogForms) names.emplace_back(form.framework);
  throw UserError(fmt::format("{}: no step time found; expected a log of {}, a table (.csv) or a family (.yaml)",
                              file.string(), fmt::join(names, ", ")));
}

std::vector<AnchorStep> steps_of_table(const Node& scenario, const fs::path& file) {
  MeasuredTable table(file, {"step_time_s"});
  std::vector<AnchorStep> steps;
  while (table.next()) {
    Node document = scenario;
    for (const std::string& column : table.header())
      if (column != "step_time_s" && column != "id" && !table.text(column).empty())
        set_field(document, column, table.text(column));
    const std::string place = fmt::format("{}:{}", file.string(), table.line());
    set_measured(document, "step_time", fmt::format("{} s", table.positive("step_time_s")), place);
    steps.push_back(step_of(std::move(document), table.has_column("id") ? table.text("id") : place));
  }
  return steps;
}

}  // namespace

void name_stack(Node& scenario, const std::string& name) {
  if (!scenario.find("software")) set_field(scenario, "software", name);
}

std::vector<AnchorStep> read_anchor_steps(const Node& scenario, const std::string& name, const fs::path& file) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) throw UserError(fmt::format("{}: no such file", file.string()));
  if (file.extension() == ".csv") return steps_of_table(scenario, file);
  if (file.extension() != ".yaml") return {step_of_log(scenario, name, file)};
  const MeasuredFamily family(file);
  std::vector<AnchorStep> steps;
  for (std::size_t row = 0; row < family.ids.size(); ++row)
    steps.push_back(step_of(family.scenario(row), family.ids[row]));
  return steps;
}

}  // namespace trainyard
