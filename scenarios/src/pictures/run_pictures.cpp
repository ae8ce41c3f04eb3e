#include "scenarios/src/pictures/run_pictures.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "scenarios/src/pictures/link_use.hpp"
#include "scenarios/src/pictures/step_timeline.hpp"
#include "scenarios/src/planning/size.hpp"
#include "sim/error.hpp"
#include "sim/json_text.hpp"

namespace trainyard {
namespace {

using nlohmann::ordered_json;

ordered_json pictures_of(const StepRun& run, const MemoryUse& memory) {
  ordered_json all;
  if (run.records())
    all["timeline"] = step_timeline(run, memory);
  else
    all["left_out"] = fmt::format("{:.2g} million operations are too many to draw: fewer layers or micro-batches do",
                                  run.operations() * run.simulated_ranks() / run.scenario.ranks() * 1e-6);
  all["machine"] = link_use(run);
  return all;
}

}  // namespace

RunPictures::RunPictures(const Scenario& s, const Plan& laid_out, SimulateOptions& options)
    : kept_(std::tmpfile(), [](std::FILE* file) { file ? std::fclose(file) : 0; }) {
  if (!kept_) throw UserError("no place for a temporary file");
  const auto memory = std::make_shared<std::optional<MemoryUse>>();
  const auto tell = [memory, file = kept_](const StepRun& run) {
    const std::string text = json_text(pictures_of(run, **memory));
    std::rewind(file.get());
    const bool fresh = ftruncate(fileno(file.get()), 0) == 0;
    if (!fresh || std::fwrite(text.data(), 1, text.size(), file.get()) != text.size() || std::fflush(file.get()) != 0)
      throw UserError("no room for a temporary file");
  };
  options.observe.emplace_back([memory](const StepRun& run) { return &memory->emplace(run.records()); });
  options.path_pieces = true;
  // Where ranks are out of step there is no path for whose sake operations would be kept.
  const bool in_step = s.plan.mechanism->in_step();
  (in_step || estimated_operations(laid_out) > kMostKept ? options.after : options.watch) = tell;
}

ordered_json RunPictures::read() const {
  std::string text;
  char part[65536];
  std::rewind(kept_.get());
  for (std::size_t n = 0; (n = std::fread(part, 1, sizeof part, kept_.get())) > 0;) text.append(part, n);
  return text.empty() ? ordered_json() : parse_ordered_json(text);
}

}  // namespace trainyard
