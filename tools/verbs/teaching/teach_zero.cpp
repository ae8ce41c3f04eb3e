// `trainyard teach zero`.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "scenarios/src/lessons/data_size.hpp"
#include "scenarios/src/lessons/held_memory.hpp"
#include "scenarios/src/pictures/svg.hpp"
#include "sim/json_text.hpp"
#include "sim/process/output.hpp"
#include "sim/units.hpp"
#include "strategies/plan/training_plan.hpp"
#include "tools/verbs/arguments.hpp"
#include "tools/verbs/teaching/teach.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

constexpr int kZeroStages = 4, kMostZeroRanks = 4096;
constexpr MemoryClass kStates[] = {MemoryClass::parameters, MemoryClass::gradients, MemoryClass::optimizer};
constexpr const char* kStateFills[] = {"#7aa6dc", "#f2b279", "#8fcf8f"};  // as in the paper's figure
constexpr const char* kStateLetters = "PGO";

/// What a rank holds at each ZeRO stage, 0 being plain data parallel.
struct ZeroLesson {
  double parameters = 0;
  int ranks = 1, stage = -1;  ///< stage −1: none in particular
  std::string precision, optimizer;
  std::array<MemoryUse::ByClass, kZeroStages> rank{};  // bytes, of the fullest rank
  std::array<double, kZeroStages> all{};               // bytes, of all ranks together

  double state(int zero, MemoryClass of) const {
    return rank[static_cast<std::size_t>(zero)][static_cast<std::size_t>(of)];
  }
  double of_rank(int zero) const {
    double sum = 0;
    for (const MemoryClass of : kStates) sum += state(zero, of);
    return sum;
  }
  /// Is that state shared out among the ranks at that stage?
  bool parted(int zero, MemoryClass of) const { return state(zero, of) < state(0, of); }
};

std::string parameter_words(double count) {
  if (count >= 1e12) return fmt::format("{:.4g} trillion", count * 1e-12);
  if (count >= 1e9) return fmt::format("{:.4g} billion", count * 1e-9);
  if (count >= 1e6) return fmt::format("{:.4g} million", count * 1e-6);
  return fmt::format("{:.0f}", count);
}

std::string zero_title(const ZeroLesson& lesson) {
  return fmt::format("ZeRO: {} parameters in {} with {}, {} rank{}", parameter_words(lesson.parameters),
                     lesson.precision, lesson.optimizer, lesson.ranks, lesson.ranks == 1 ? "" : "s");
}

std::string zero_name(int zero) { return zero == 0 ? "data parallel" : fmt::format("ZeRO stage {}", zero); }

std::vector<std::string> zero_sums(const ZeroLesson& lesson) {
  std::vector<std::string> sums;
  for (int zero = 0; zero < kZeroStages; ++zero) {
    if (lesson.stage >= 0 && zero != lesson.stage) continue;
    std::string parts;
    for (const MemoryClass of : kStates)
      parts += fmt::format("{}{} {} ({})", parts.empty() ? "" : ", ", name_of(of),
                           lesson.state(zero, of) == 0 ? "none"
                           : lesson.parted(zero, of)   ? fmt::format("1/{}", lesson.ranks)
                                                       : "all",
                           show(Bytes{lesson.state(zero, of)}));
    sums.push_back(fmt::format("{}: {}", zero_name(zero), parts));
  }
  const int last = lesson.stage >= 0 ? lesson.stage : kZeroStages - 1;
  const double saving = lesson.of_rank(0) / lesson.of_rank(last);
  sums.push_back(fmt::format("{}: {} a rank, {:.4g} bytes a parameter{}", zero_name(last),
                             show(Bytes{lesson.of_rank(last)}), lesson.of_rank(last) / lesson.parameters,
                             last == 0       ? ""
                             : saving == 1.0 ? ", as much as data parallel: there is one rank"
                                             : fmt::format(", {:.4g} times less than data parallel", saving)));
  sums.push_back(fmt::format("all ranks together: {}", show(Bytes{lesson.all[last]})));
  std::string decimal;
  for (int zero = 0; zero < kZeroStages; ++zero)
    // As the ZeRO paper counts: its 120 GB are to be found again.
    decimal += fmt::format("{}{}", zero == 0 ? "" : ", ", decimal_size(lesson.of_rank(zero)));
  sums.push_back("a rank by stage in powers of 1000, as the ZeRO paper counts: " + decimal);
  return sums;
}

std::string zero_text(const ZeroLesson& lesson) {
  constexpr double kBar = 60;
  std::string text = zero_title(lesson) + "\n\n";
  for (int zero = 0; zero < kZeroStages; ++zero) {
    std::string bar;
    double sum = 0;
    for (std::size_t i = 0; i < std::size(kStates); ++i) {
      sum += lesson.state(zero, kStates[i]);
      const auto end = static_cast<std::size_t>(std::lround(sum / lesson.of_rank(0) * kBar));
      if (end > bar.size()) bar.append(end - bar.size(), kStateLetters[i]);
    }
    text += fmt::format("{} {:<14}{:<60} {}\n", zero == lesson.stage ? ">" : " ", zero_name(zero), bar,
                        show(Bytes{lesson.of_rank(zero)}));
  }
  text += "\n  P: parameters   G: gradients   O: optimizer\n\n";
  for (const std::string& sentence : zero_sums(lesson)) text += sentence + "\n";
  return text;
}

std::string zero_svg(const ZeroLesson& lesson) {
  constexpr double kLeft = 130, kBar = 600, kRowHeight = 34, kBegin = 50;
  const std::vector<std::string> sums = zero_sums(lesson);
  double width = kLeft + kBar + 100;
  for (const std::string& text : sums) width = std::max(width, 1.2 * Svg::text_width(text, 11) + 32);
  Svg svg(width, kBegin + kRowHeight * kZeroStages + 50 + 18 * static_cast<double>(sums.size()), zero_title(lesson),
          "Bars of what one rank holds: parameters, gradients, optimizer");
  svg.text(16, 24, zero_title(lesson), {15, "#222222", Svg::Anchor::start, true});
  double y = kBegin;
  for (int zero = 0; zero < kZeroStages; ++zero, y += kRowHeight) {
    svg.text(16, y + 18, zero_name(zero), {12, "#222222", Svg::Anchor::start, zero == lesson.stage});
    double x = kLeft;
    for (std::size_t i = 0; i < std::size(kStates); ++i) {
      const double part = lesson.state(zero, kStates[i]) / lesson.of_rank(0) * kBar;
      svg.rect(x, y, part, kRowHeight - 8, kStateFills[i]);
      x += part;
    }
    if (zero == lesson.stage) svg.frame(kLeft, y, x - kLeft, kRowHeight - 8, "#222222");
    svg.text(x + 8, y + 18, show(Bytes{lesson.of_rank(zero)}), {11});
  }
  double x = kLeft;
  for (std::size_t i = 0; i < std::size(kStates); ++i, x += 120) {
    svg.rect(x, y + 4, 14, 14, kStateFills[i]);
    svg.text(x + 20, y + 15, name_of(kStates[i]), {11});
  }
  y += 44;
  for (const std::string& sentence : sums) {
    svg.text(16, y, sentence, {11});
    y += 18;
  }
  return svg.finish();
}

nlohmann::ordered_json zero_report(const ZeroLesson& lesson) {
  nlohmann::ordered_json j{{"parameters", lesson.parameters},
                           {"ranks", lesson.ranks},
                           {"precision", lesson.precision},
                           {"optimizer", lesson.optimizer},
                           {"stages", nlohmann::ordered_json::array()}};
  for (int zero = 0; zero < kZeroStages; ++zero) {
    nlohmann::ordered_json of_stage{{"stage", zero}};
    for (const MemoryClass of : kStates) of_stage[fmt::format("{}_bytes", name_of(of))] = lesson.state(zero, of);
    of_stage["rank_bytes"] = lesson.of_rank(zero);
    of_stage["bytes_per_parameter"] = lesson.of_rank(zero) / lesson.parameters;
    of_stage["all_ranks_bytes"] = lesson.all[zero];
    j["stages"].push_back(of_stage);
  }
  return j;
}

struct ZeroFlags {
  std::string parameters = "7.5e9", precision = "bf16", optimizer = "adam", stage, svg, json;
  int ranks = 64;
};

/// All ranks at every stage, each run on its own.
void simulate_stages(ZeroLesson& lesson, Precision precision, const Optimizer& optimizer) {
  for (int zero = 0; zero < kZeroStages; ++zero) {
    const HeldElements share =
        held_elements(lesson.parameters, zero_shares(static_cast<ZeroStage>(zero), lesson.ranks));
    const auto held = held_memory(model_states(share, precision, optimizer), lesson.ranks);
    const auto sum = [](const MemoryUse::ByClass& parts) {
      double bytes = 0;
      for (const double part : parts) bytes += part;
      return bytes;
    };
    lesson.rank[zero] =
        *std::max_element(held.begin(), held.end(), [&](const auto& a, const auto& b) { return sum(a) < sum(b); });
    for (const auto& parts : held) lesson.all[zero] += sum(parts);
  }
}

ZeroLesson zero_lesson(const ZeroFlags& flags) {
  ZeroLesson lesson;
  try {
    lesson.parameters = parse_number(flags.parameters);
  } catch (const UserError& e) {
    throw UserError(fmt::format("--parameters: {}", e.what()));
  }
  if (lesson.parameters != std::floor(lesson.parameters))
    throw UserError(fmt::format("--parameters {}: a whole number expected", flags.parameters));
  if (lesson.parameters < 1 || lesson.parameters > 1e18)
    throw UserError(fmt::format("--parameters {}: 1 to 1e18 expected", flags.parameters));
  if (flags.ranks < 1 || flags.ranks > kMostZeroRanks)
    throw UserError(fmt::format("--ranks {}: 1 to {} can be shown", flags.ranks, kMostZeroRanks));
  if (!flags.stage.empty()) {
    if (flags.stage.size() != 1 || flags.stage[0] < '0' || flags.stage[0] >= '0' + kZeroStages)
      throw UserError(
          fmt::format("--stage {}: 0 (data parallel), 1 (optimizer), 2 (and gradients) or 3 (and parameters) "
                      "expected",
                      flags.stage));
    lesson.stage = flags.stage[0] - '0';
  }
  Place place;
  place.file = std::make_shared<const std::string>("--optimizer " + flags.optimizer);
  const Optimizer& optimizer = find_optimizer(flags.optimizer, place);
  Precision precision{};
  try {
    precision = parse_precision(flags.precision);
    has_master_weights(precision);  // says so where nothing is trained in it
  } catch (const UserError& e) {
    throw UserError(fmt::format("--precision {}: {}", flags.precision, e.what()));
  }
  lesson.ranks = flags.ranks;
  lesson.precision = flags.precision;
  lesson.optimizer = optimizer.name;
  simulate_stages(lesson, precision, optimizer);
  return lesson;
}

int teach_zero(const std::string&, const std::vector<std::string>& words) {
  Arguments arguments("teach zero", "What one rank holds under ZeRO's stages: parameters, gradients, optimizer.",
                      "teach zero --stage 3 --ranks 64 --parameters 7.5e9");
  ZeroFlags flags;
  arguments.option("--stage", flags.stage, "0-3", "the one to explain (default: all)");
  arguments.option("--ranks", flags.ranks, "N", "ranks that partition the states, 1 to 4096");
  arguments.option("--parameters", flags.parameters, "N", "parameters of the model (default 7.5e9)");
  arguments.option("--precision", flags.precision, "NAME", "precision of parameters and gradients (default bf16)");
  arguments.option("--optimizer", flags.optimizer, "NAME", "adam, momentum, sgd, … (default adam)");
  arguments.output("--svg", flags.svg, "the bars as a picture; - is stdout");
  arguments.output("--json", flags.json, "the figures as data; - is stdout");
  if (!arguments.parse(words)) return kGood;
  const ZeroLesson lesson = zero_lesson(flags);
  if (!flags.svg.empty()) write_atomically(flags.svg, zero_svg(lesson));
  if (!flags.json.empty()) write_atomically(flags.json, json_text(zero_report(lesson), 2) + "\n");
  if (flags.svg != "-" && flags.json != "-") write_atomically("-", zero_text(lesson));
  return kGood;
}

const RegisterTeachTopic registered_zero{"zero", "what one rank holds under ZeRO's stages", teach_zero};

}  // namespace
}  // namespace trainyard
