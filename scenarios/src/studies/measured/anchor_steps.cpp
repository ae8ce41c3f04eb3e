// Reads measured steps from tables, families of measured runs and logs of trainings.
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <sstream>

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
  std::string (*value)(const Scenario&);  ///< as the log states it; "": the scenario does not have it
};

std::string number_text(std::int64_t number) { return fmt::format("{}", number); }

/// Returns the number of layers of a transformer without a decoder of its own; "": another network.
std::string layers_of(const Scenario& s) {
  const TransformerConfig* transformer = s.model.entry.transformer();
  const bool has_layers = transformer && transformer->num_decoder_layers == 0 && transformer->num_hidden_layers > 0;
  return has_layers ? number_text(transformer->num_hidden_layers) : "";
}

/// Returns the type of the parameters as Megatron-LM names it: products in fp8 have parameters in bf16.
std::string type_of_parameters(const Scenario& s) {
  return s.precision == Precision::bf16   ? "torch.bfloat16"
         : s.precision == Precision::fp16 ? "torch.float16"
         : s.precision == Precision::fp32 ? "torch.float32"
                                          : "";
}

constexpr LogProperty kLogProperties[] = {
    {"global batch size", "plan.global_batch_size",
     R"([Gg]lobal[ _]batch[ _]size(?:_to_train_on)?['\": =.]+([0-9]{1,15}))",
     [](const Scenario& s) { return number_text(s.global_batch_size); }},
    {"micro-batch size", "plan.micro_batch_size", R"(\bmicro_batch_size['\": =.]+([0-9]{1,15}))",
     [](const Scenario& s) { return number_text(s.micro_batch_size); }},
    {"sequence length", "plan.seq_length",
     R"((?:\bseq_length|\bseq_len|[Ss]equence length|max_target_length)['\": =.]+([0-9]{1,15}))",
     [](const Scenario& s) { return number_text(s.model.seq_length); }},
    {"number of layers", nullptr, R"((?:^|[ '\"])(?:num_layers|n_layers|num_decoder_layers)['\": =.]+([0-9]{1,15}))",
     layers_of},
    {"type of the parameters", nullptr, R"(\bparams_dtype['\": =.]+(torch\.[a-z]+[0-9]*))", type_of_parameters},
    {"number of devices", nullptr, R"([Ww]orld[ _]size['\": =.]+([0-9]{1,15}))",
     [](const Scenario& s) { return number_text(s.ranks()); }},
    {"tensor-parallel size", "plan.tensor_parallel", R"(tensor[-_]model[-_]parallel[-_ ]size['\": =.]+([0-9]{1,15}))",
     [](const Scenario& s) { return number_text(s.plan.mesh.widest(Axis::tensor)); }},
    {"pipeline-parallel size", "plan.pipeline_parallel",
     R"(pipeline[-_]model[-_]parallel[-_ ]size['\": =.]+([0-9]{1,15}))",
     [](const Scenario& s) { return number_text(s.plan.mesh.pipeline); }},
    {"context-parallel size", "plan.context_parallel", R"(context[-_]parallel[-_ ]size['\": =.]+([0-9]{1,15}))",
     [](const Scenario& s) { return number_text(s.plan.mesh.widest(Axis::context)); }},
};
constexpr std::size_t kProperties = std::size(kLogProperties);

/// Number of first steps that do not count: they compile, allocate and start communicators.
constexpr std::size_t kWarmUpSteps = 3;

void set_measured(Node& document, const std::string& key, const std::string& value, const std::string& source) {
  Node measured = Node::empty_map();
  measured.fields.emplace_back(key, Node::scalar_node(value, Place::named(source)));
  measured.fields.emplace_back("source", Node::scalar_node(source));
  set_field(document, "measured", std::move(measured));
}

/// `place`: file and line of the measured time.
AnchorStep step_of(Node document, const std::string& id, std::string place) {
  const Scenario s = read_scenario(document, id);
  name_stack(document, s.software.name);
  if (!s.measured_run.is_given()) throw UserError(fmt::format("{}: no measured step time", id));
  AnchorStep step{id, std::move(document), s.measured_run.step_time.value};
  step.place = std::move(place);
  return step;
}

/// The statement of a log about a property, up to a line.
struct Statement {
  std::string value;
  int line = 0;  ///< 0: nothing
};
using Statements = std::array<Statement, kProperties>;

/// A step of a log, and what the log had stated up to it.
struct LoggedStep {
  double number;  ///< its time or rate
  int line;
  Statements statements;
};

struct TrainingLog {
  std::array<std::vector<LoggedStep>, std::size(kLogForms)> steps;  ///< indexed by framework
  Statements statements;                                            ///< the last ones
};

/// Reads a number of a log such as "1,250.0". A point at its end closes a sentence.
double number_of_log(std::string text, const std::string& place) {
  std::erase(text, ',');
  if (text.ends_with('.')) text.pop_back();
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number <= 0)
    throw UserError(fmt::format("{}: \"{}\" is no positive number", place, text));
  return number;
}

TrainingLog read_log(const fs::path& file) {
  std::vector<Pattern> forms, properties;
  for (const LogForm& form : kLogForms) forms.emplace_back(form.pattern);
  for (const LogProperty& property : kLogProperties) properties.emplace_back(property.pattern);
  TrainingLog log;
  std::ifstream in(file);
  int line_number = 0;
  const auto take = [&](const std::string& line) {
    for (std::size_t p = 0; p < kProperties; ++p)
      if (const Pattern::Groups match = properties[p].find(line); !match.empty())
        log.statements[p] = {match[1] == "torch.half"    ? "torch.float16"
                             : match[1] == "torch.float" ? "torch.float32"
                                                         : match[1],
                             line_number};
    for (std::size_t f = 0; f < forms.size(); ++f)
      if (const Pattern::Groups match = forms[f].find(line); !match.empty())
        log.steps[f].push_back(
            {number_of_log(match[1], fmt::format("{}:{}", file.string(), line_number)), line_number, log.statements});
  };
  for (std::string text; std::getline(in, text);) {
    ++line_number;
    // A progress bar overwrites its line by carriage returns.
    std::istringstream states(text);
    for (std::string line; std::getline(states, line, '\r');) take(line);
  }
  return log;
}

/// Throws UserError if the log states another batch, length, model or layout than the scenario has. The last statement
/// of each counts, because a batch may grow at the start of a training.
void check_properties(const Scenario& s, const TrainingLog& log, const fs::path& file) {
  for (std::size_t p = 0; p < kProperties; ++p) {
    const LogProperty& property = kLogProperties[p];
    const Statement& statement = log.statements[p];
    const std::string expected = property.value(s);
    if (statement.line > 0 && !expected.empty() && statement.value != expected)
      throw UserError(fmt::format("{}:{}: {} {}; the scenario has {}{}", file.string(), statement.line, property.words,
                                  statement.value, expected,
                                  property.key ? fmt::format(" (--set {}={})", property.key, statement.value) : ""));
  }
}

/// Returns the steps after the warm-up that ran as the log says at its end.
std::vector<LoggedStep> counted_steps(const TrainingLog& log, std::size_t framework, const fs::path& file) {
  std::vector<LoggedStep> steps = log.steps[framework];
  if (steps.size() <= kWarmUpSteps)
    throw UserError(fmt::format("{}: {} step{} of {}: more than {} expected, because the first are warm-up",
                                file.string(), steps.size(), steps.size() == 1 ? "" : "s",
                                kLogForms[framework].framework, kWarmUpSteps));
  steps.erase(steps.begin(), steps.begin() + kWarmUpSteps);
  std::erase_if(steps, [&log](const LoggedStep& step) {
    for (std::size_t p = 0; p < kProperties; ++p)
      if (step.statements[p].line > 0 && step.statements[p].value != log.statements[p].value) return true;
    return false;
  });
  if (steps.empty())
    throw UserError(
        fmt::format("{}: no step after the first {} ran as the log says at its end", file.string(), kWarmUpSteps));
  return steps;
}

AnchorStep step_of_log(const Node& scenario, const std::string& name, const fs::path& file) {
  const TrainingLog log = read_log(file);
  for (std::size_t f = 0; f < log.steps.size(); ++f) {
    if (log.steps[f].empty()) continue;
    std::vector<double> numbers;
    const std::vector<LoggedStep> steps = counted_steps(log, f, file);
    for (const LoggedStep& step : steps) numbers.push_back(step.number);
    Node document = scenario;
    check_properties(read_scenario(document, name), log, file);
    set_measured(document, kLogForms[f].key,
                 fmt::format("{:.6g}{}", median_of(numbers) * kLogForms[f].factor, kLogForms[f].unit), file.string());
    return step_of(std::move(document), name, fmt::format("{}:{}", file.string(), steps.front().line));
  }
  std::vector<std::string> names;
  for (const LogForm& form : kLogForms) names.emplace_back(form.framework);
  throw UserError(fmt::format("{}: no step time found; expected a log of {}, a table (.csv) or a family (.yaml)",
                              file.string(), fmt::join(names, ", ")));
}

/// A column of a table that states the time of a step.
struct StepColumn {
  const char* name;
  const char* unit;
};
constexpr StepColumn kStepColumns[] = {{"step_time_s", "s"}, {"step_time_ms", "ms"}};

const StepColumn& step_column(const MeasuredTable& table) {
  const auto& [seconds, milliseconds] = kStepColumns;
  if (table.has_column(seconds.name) && table.has_column(milliseconds.name))
    throw UserError(fmt::format("{}: both step_time_s and step_time_ms; expected one of these columns", table.name()));
  for (const StepColumn& column : kStepColumns)
    if (table.has_column(column.name)) return column;
  throw UserError(fmt::format("{}: no step time; expected a column step_time_s or step_time_ms", table.name()));
}

std::vector<AnchorStep> steps_of_table(const Node& scenario, const fs::path& file) {
  MeasuredTable table(file);
  const StepColumn& time = step_column(table);
  std::vector<AnchorStep> steps;
  while (table.next()) {
    const std::string place = fmt::format("{}:{}", file.string(), table.line());
    Overrides values;
    for (const std::string& column : table.header())
      if (column != time.name && column != "id" && !table.text(column).empty())
        values.emplace_back(column, table.text(column));
    const auto measured_document = [&](Node document) {
      for (const auto& [column, value] : values)
        set_field(document, column, parse_override(value, fmt::format("{}, column {}", place, column)));
      set_measured(document, "step_time", fmt::format("{} {}", table.positive(time.name), time.unit), place);
      return document;
    };
    const std::string id = table.has_column("id") ? table.text("id") : place;
    try {
      steps.push_back(step_of(measured_document(scenario), id, place));
    } catch (const UserError& e) {
      if (std::string_view(e.what()).starts_with(place)) throw;
      read_scenario(scenario, id);  // an error of the scenario itself comes first
      throw UserError(fmt::format("{}: {}", place, e.what()));
    }
  }
  if (steps.empty()) throw UserError(fmt::format("{}: no rows; expected a measured step in each", file.string()));
  return steps;
}

}  // namespace

void name_stack(Node& scenario, const std::string& name) {
  if (!scenario.find("software")) set_field(scenario, "software", name);
}

std::vector<AnchorStep> read_anchor_steps(const Node& scenario, const std::string& name, const fs::path& file) {
  std::error_code error;
  if (fs::exists(file, error) && !fs::is_regular_file(file, error))
    throw UserError(
        fmt::format("{}: is no file of measurements; expected a log, or a table in CSV or YAML", file.string()));
  if (!fs::is_regular_file(file, error)) throw UserError(fmt::format("{}: no such file", file.string()));
  if (file.extension() == ".csv") return steps_of_table(scenario, file);
  if (file.extension() != ".yaml") return {step_of_log(scenario, name, file)};
  const MeasuredFamily family(file);
  std::vector<AnchorStep> steps;
  for (std::size_t row = 0; row < family.ids.size(); ++row)
    steps.push_back(
        step_of(family.scenario(row), family.ids[row], fmt::format("{}: {}", file.string(), family.ids[row])));
  return steps;
}

}  // namespace trainyard
