// `trainyard teach zero`.
#include <fmt/format.h>

#include <cmath>

#include "scenarios/src/lessons/teach_zero.hpp"
#include "tools/verbs/teaching/teach.hpp"

namespace trainyard {
namespace {

struct ZeroFlags {
  std::string parameters = "7.5e9", precision = "bf16", optimizer = "adam", stage;
  int ranks = 64;
};

double parameters_of(const std::string& text) {
  const double parameters = read_flag("--parameters", text, parse_number);
  if (parameters != std::floor(parameters))
    throw UserError(fmt::format("--parameters {}: a whole number expected", text));
  if (parameters < 1 || parameters > 1e18) throw UserError(fmt::format("--parameters {}: 1 to 1e18 expected", text));
  return parameters;
}

Precision precision_of(const std::string& text) {
  return read_flag("--precision " + text, text, [](const std::string& name) {
    const Precision precision = parse_precision(name);
    has_master_weights(precision);  // throws UserError if no training uses this precision
    return precision;
  });
}

int stage_of(const std::string& text) {
  if (text.empty()) return -1;
  if (text.size() != 1 || text[0] < '0' || text[0] >= '0' + kZeroStages)
    throw UserError(fmt::format(
        "--stage {}: 0 (data parallel), 1 (optimizer), 2 (and gradients) or 3 (and parameters) expected", text));
  return text[0] - '0';
}

std::function<LessonView()> zero(const std::string&, Arguments& arguments) {
  const auto flags = std::make_shared<ZeroFlags>();
  arguments.option("--stage", flags->stage, "0-3", "stage to explain (default: all)");
  arguments.option("--ranks", flags->ranks, "N", "number of ranks that partition the states, 1 to 4096", 1, 4096);
  arguments.option("--parameters", flags->parameters, "N", "number of parameters of the model (default 7.5e9)");
  arguments.option("--precision", flags->precision, "NAME", "precision of parameters and gradients (default bf16)");
  arguments.option("--optimizer", flags->optimizer, "NAME", "optimizer: adam, momentum, sgd, … (default adam)");
  return [flags] {
    const Place place = Place::named("--optimizer " + flags->optimizer);
    return lesson_view(
        teach_zero({parameters_of(flags->parameters), flags->ranks, stage_of(flags->stage), flags->precision,
                    precision_of(flags->precision), &find_optimizer(flags->optimizer, place)}));
  };
}

const RegisterTeachTopic registered_zero{
    {"zero", "show what one rank holds under ZeRO's stages",
     "Shows what one rank holds under ZeRO's stages: parameters, gradients, optimizer.",
     "teach zero --stage 3 --ranks 64 --parameters 7.5e9", zero}};

}  // namespace
}  // namespace trainyard
