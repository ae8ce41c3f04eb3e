// Measurements of what a stack does on the machine: memory of a run, and the kernels of a trace.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "models/fitted/measured_table.hpp"
#include "models/reading/pattern.hpp"
#include "scenarios/src/planning/device_memory.hpp"
#include "scenarios/src/running/program_memory.hpp"
#include "scenarios/src/studies/measured/part_fitter.hpp"
#include "scenarios/src/traces/kineto_comparison.hpp"
#include "sim/error.hpp"

namespace trainyard {
namespace {

namespace fs = std::filesystem;

// Spreads of ln(measured / predicted), unverified. CUDA's context takes 0.5 to 1.6 GiB. An allocator reserves 1.0 to
// 1.3 times the allocated memory. Kernels of a kind differ from the catalog's more than all kernels of a step together
// (8 %).
constexpr double kContextPrior = 0.5, kReservePrior = 0.15, kMemoryError = 0.01;
constexpr double kKernelPrior = 0.15, kKernelError = 0.02;

/// The memory of the fullest GPU, and how the measured run changes the scenario.
struct MeasuredMemory {
  std::string name;
  Overrides changes;
  Bytes used;
};

/// Reads nvidia-smi's screen: "| N/A  35C  P0  70W / 700W | 71234MiB / 81559MiB |". The fullest GPU counts.
Bytes used_on_screen(const std::string& file) {
  static const Pattern memory_use(R"(([0-9]+)MiB */ *[0-9]+MiB)");
  std::ifstream in(file);
  Bytes most;
  for (std::string line; std::getline(in, line);)
    if (const Pattern::Groups match = memory_use.find(line); !match.empty())
      most = std::max(most, Bytes{std::stod(match[1]) * 1024 * 1024});
  if (most.value <= 0) throw UserError(fmt::format("{}: no memory of a GPU found, such as 71234MiB / 81559MiB", file));
  return most;
}

Bytes memory_in(const MeasuredTable& table, std::size_t column, std::string text) {
  const std::string& heading = table.header()[column];
  if (heading.find("[MiB]") != std::string::npos && text.find_first_not_of("0123456789. ") == std::string::npos)
    text += " MiB";
  const std::optional<Bytes> used = amount_of(std::string(trim(text)));
  if (used && used->value > 0) return *used;
  table.refuse(
      fmt::format("{}: \"{}\" is no amount of memory; expected one such as 71234 MiB", trim(heading), trim(text)),
      column);
}

std::vector<MeasuredMemory> read_memories(const std::string& file) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return {{file, {}, *amount_of(file)}};
  if (fs::path(file).extension() != ".csv") return {{file, {}, used_on_screen(file)}};
  MeasuredTable table(file);
  std::vector<MeasuredMemory> memories;
  if (const std::size_t used = used_column(table.header()); used < table.header().size()) {
    MeasuredMemory fullest{file, {}, {}};
    while (table.next()) fullest.used = std::max(fullest.used, memory_in(table, used, table.text(used)));
    memories.push_back(std::move(fullest));
  } else {
    while (table.next()) {
      MeasuredMemory memory{fmt::format("{}:{}", file, table.line()), {}, {}};
      for (std::size_t c = 0; c < table.header().size(); ++c) {
        const std::string& column = table.header()[c];
        if (column == "device_memory")
          memory.used = memory_in(table, c, table.text(c));
        else if (column == "id")
          memory.name = table.text(c);
        else if (!table.text(c).empty())
          memory.changes.emplace_back(column, table.text(c));
      }
      memories.push_back(std::move(memory));
    }
  }
  if (memories.empty() || memories.front().used.value <= 0)
    throw UserError(fmt::format("{}: no rows; expected the memory of a GPU", file));
  return memories;
}

}  // namespace

void fit_memory(PartFitter& fitter, const std::vector<std::string>& files) {
  std::vector<MeasuredMemory> memories;
  for (const std::string& file : files)
    for (MeasuredMemory& memory : read_memories(file)) memories.push_back(std::move(memory));
  PartRows rows;
  const Gpu gpu = fitter.scenario().cluster.node.gpu;
  for (const MeasuredMemory& memory : memories)
    if (memory.used.value <= 0 || memory.used > gpu.memory_capacity)
      throw UserError(fmt::format("{}: {} used; {} has {}, so more than 0 and at most that expected", memory.name,
                                  show(memory.used), gpu.name, show(gpu.memory_capacity)));
  for (const MeasuredMemory& memory : memories) rows.add(memory.name, memory.used.value);
  rows.words = fmt::format("memory of {} run{}", memories.size(), memories.size() == 1 ? "" : "s");
  rows.predict = [&memories](const Scenario& trial) {
    std::vector<double> used;
    for (const MeasuredMemory& memory : memories)
      used.push_back(
          memory_of_step(memory.changes.empty() ? trial : read_again(trial, memory.changes)).memory.device.value);
    return used;
  };
  const SoftwareStack stack = fitter.scenario().software;
  const Bytes context = stack.context ? *stack.context : std::max(Bytes{}, kCudaContext - stack.workspace);
  fitter.fit(rows,
             {{"memory: CUDA's context and libraries",
               kContextPrior,
               {{"software.context", context.value, 0, HUGE_VAL, false, " B"}}},
              {"memory: the allocator's reserve over what is allocated",
               kReservePrior,
               {{"software.reserved_memory", stack.reserved_memory, 1, 10, false, ""}}}},
             {.row_error = kMemoryError});
}

namespace {

/// A constant of the stack, and the families of kernels (of a trace) whose times it multiplies.
struct KernelConstant {
  const char* words;
  const char* key;
  double SoftwareStack::Slowdowns::*value;
  std::vector<std::string> families;
};

const std::vector<KernelConstant>& kernel_constants() {
  using S = SoftwareStack::Slowdowns;
  static const std::vector<KernelConstant> constants{
      {"kernels: matrix products", "products", &S::products, {"matrix products"}},
      {"kernels: attention", "attention", &S::attention, {"attention"}},
      {"kernels: element-wise, norms, embeddings, copies",
       "elementwise",
       &S::elementwise,
       {"elementwise", "normalization", "embedding", "copies"}},
      {"kernels: optimizer", "optimizer", &S::optimizer, {"optimizer"}}};
  return constants;
}

/// The time of the kernels of each constant, in the trace and in the simulation.
struct KernelTimes {
  std::vector<double> measured, predicted;
};

KernelTimes kernel_times(const Scenario& s, const std::string& file, int steps) {
  const KinetoComparison comparison = compare_kineto(s, file, {}, steps, true);
  if (const std::string other = comparison.gpu.empty() ? "" : other_gpu(s.cluster.node.gpu, comparison.gpu, 0);
      !other.empty())
    throw UserError(fmt::format("{}: recorded on \"{}\", {}", file, comparison.gpu, other));
  if (comparison.measured_flops > 0 && !comparison.doubts.empty())
    throw UserError(fmt::format("{}: not a trace of this scenario's step: {}", file, comparison.doubts));
  KernelTimes times;
  for (const KernelConstant& constant : kernel_constants()) {
    double measured = 0, predicted = 0;
    for (const KinetoComparison::Family& family : comparison.families)
      if (std::ranges::find(constant.families, family.name) != constant.families.end()) {
        measured += family.measured;
        predicted += family.predicted;
      }
    times.measured.push_back(measured);
    times.predicted.push_back(predicted);
  }
  return times;
}

}  // namespace

void fit_traced_kernels(PartFitter& fitter, const std::vector<std::string>& files) {
  PartRows rows;
  // The profiler times a kernel on the GPU alone, without the wait for the host's next launch.
  rows.conditions = {{"software.kernel_dispatch", "0 us"}};
  const Scenario s = fitter.scenario(rows.conditions);
  std::vector<std::vector<bool>> usable;
  for (const std::string& file : files) {
    const KernelTimes times = kernel_times(s, file, fitter.traced_steps);
    std::vector<bool>& usable_kinds = usable.emplace_back();
    for (std::size_t k = 0; k < times.measured.size(); ++k) {
      usable_kinds.push_back(times.measured[k] > 0 && times.predicted[k] > 0);
      if (usable_kinds.back()) rows.add(fmt::format("{}, {}", kernel_constants()[k].words, file), times.measured[k]);
    }
  }
  if (rows.measured.empty())
    throw UserError(fmt::format("{}: no kernels of the kinds that the scenario has", files.front()));
  rows.words = fmt::format("kernels of {} trace{}", files.size(), files.size() == 1 ? "" : "s");
  rows.predict = [&files, &usable, steps = fitter.traced_steps](const Scenario& trial) {
    std::vector<double> all;
    for (std::size_t f = 0; f < files.size(); ++f) {
      const std::vector<double> predicted = kernel_times(trial, files[f], steps).predicted;
      for (std::size_t k = 0; k < predicted.size(); ++k)
        if (usable[f][k]) all.push_back(predicted[k]);
    }
    return all;
  };
  std::vector<ScaleRule> rules;
  for (const KernelConstant& constant : kernel_constants())
    rules.push_back({constant.words,
                     kKernelPrior,
                     {{std::string("software.slowdowns.") + constant.key, s.software.slowdowns.*constant.value, 0.1, 10,
                       false, ""}}});
  fitter.fit(rows, rules, {.row_error = kKernelError});
}

}  // namespace trainyard
