#include <fmt/format.h>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/reading/shipped_files.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/studies/measured/left_out.hpp"
#include "sim/process/job.hpp"
#include "tools/reports/table.hpp"
#include "tools/verbs/fits/fit.hpp"
#include "tools/verbs/validation/validation.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

/// Runs `fit all`: fits every fitted constant of the catalog, from the shipped tables and runs, part by part.
int fit_everything() {
  const auto part = [](const char* title) { write_atomically("-", fmt::format("\n== {}\n", title)); };
  const std::filesystem::path tables = shipped_file("scenarios/measured/tables/gemm.csv").parent_path();
  const auto table = [&tables](const char* name) { return (tables / name).string(); };
  part("fit kernels: matrix products and attention by their shape");
  FitRequest request;
  request.files = {table("gemm.csv"), table("attention.csv"), table("attention_training.csv")};
  request.skip_impossible = true;
  fit_kernels(request);
  part("fit roofline: efficiencies of kernels without a shape");
  request = {};
  request.data = tables.string();
  fit_rooflines(request);
  request = {};
  part("fit nccl --networks: NCCL between nodes");
  fit_nccl_networks(request);
  part("fit nccl --launch: the time in which a host thread launches a call");
  fit_nccl_launch(request);
  part("fit nccl: NCCL in one node");
  request.files = {table("nccl.csv")};
  fit_nccl_logs(request);
  part("validate horovod --fit: a step of Horovod over TCP");
  ValidationRequest horovod;
  horovod.fit = true;
  validate_horovod(horovod);
  part("fit training: what is fitted to measured steps");
  return fit_training("");
}

/// A flag, whether it was given, and the fits that take it.
struct FlagUse {
  const char* flag;
  bool is_given;
  std::vector<std::string> fits;
};

/// Throws UserError for the first flag that the fit does not take, and names those that do.
void require_its_flags(const std::string& what, const std::string& which, const std::vector<FlagUse>& all) {
  for (const FlagUse& use : all)
    if (use.is_given && std::ranges::find(use.fits, which) == use.fits.end())
      throw UserError(
          fmt::format("trainyard fit {}: {}: only with fit {}", what, use.flag, fmt::join(use.fits, ", fit ")));
}

int fit(const std::vector<std::string>& words) {
  Arguments arguments(
      "fit", "Fits constants of the catalog to one half of the measurements, and judges them by the other half.",
      "fit roofline --data DIR --gpu a100-sxm4-80gb\n  trainyard fit nccl all_reduce.log --svg fit.svg");
  std::string what;
  FitRequest request;
  arguments.positional(
      "WHAT", what,
      "what to fit. roofline: efficiencies and shortest launch time of kernels; kernels: matrix products by their "
      "shape, and attention; nccl: NCCL's protocols on one kind of GPU; training: the constants that depend on "
      "measured runs, to all these runs again; all: every fit from the shipped tables and runs (a minute or two)");
  arguments.positionals("FILE", request.files,
                        "tables and logs. nccl: nccl.csv, or logs of nccl-tests; kernels: gemm.csv, attention.csv, "
                        "attention_training.csv");
  arguments.option("--data", request.data, "DIR",
                   "roofline: folder of the tables gemm.csv and attention.csv (default: TRAINYARD_DATA)");
  arguments.option(
      "--gpu", request.gpu, "NAME",
      "roofline: fit only this GPU (default: all GPUs in the tables). nccl: the catalog's GPU that the log "
      "was measured on, if the log does not name it; with nccl.csv, fit only this GPU");
  arguments.option("--gpus", request.gpus, "N", "nccl: number of GPUs, if the log does not state it");
  arguments.option("--operation", request.operation, "NAME",
                   "nccl: the collective, for example all_reduce, if the log does not state it");
  bool networks = false, launch = false;
  arguments.flag("--skip-impossible", request.skip_impossible,
                 "kernels: leave out rows that are faster than the chip's peak");
  arguments.flag("--networks", networks,
                 "nccl: fit the networks between nodes, from two tables of systems and sweeps (default: the shipped "
                 "ones); --out is a folder");
  arguments.flag("--launch", launch,
                 "nccl: fit the time that a host thread takes to launch a call on a GPU, from the same two tables");
  arguments.option("--system", request.system, "NAME", "nccl: fit this system of a table of sweeps");
  arguments.output(
      "--out", request.out,
      "nccl, kernels: write the catalog entry (FILE.yaml; - is stdout; with nccl, a folder takes a file for "
      "each GPU)",
      true);
  arguments.output("--svg", request.svg, "nccl: draw every curve, measured and fitted");
  arguments.output("--json", request.json, "write the fits as JSON; - is stdout");
  if (!arguments.parse(words)) return kGood;
  const std::vector<std::string> fits{"roofline", "kernels", "nccl", "training", "all"};
  if (std::ranges::find(fits, what) == fits.end())
    throw UserError(fmt::format("trainyard fit: cannot fit \"{}\"{}", what, hint(what, fits)));
  std::string which = what;
  if (networks) which += " --networks";
  if (launch) which += " --launch";
  const std::string networks_fit = "nccl --networks", launch_fit = "nccl --launch";
  require_its_flags(
      what, which,
      {{"--networks", networks, {networks_fit}},
       {"--launch", launch, {launch_fit}},
       {"FILE", !request.files.empty(), {"nccl", "kernels", networks_fit, launch_fit}},
       {"--data", !request.data.empty(), {"roofline"}},
       {"--gpu", !request.gpu.empty(), {"roofline", "kernels", "nccl"}},
       {"--gpus", request.gpus != 0, {"nccl"}},
       {"--operation", !request.operation.empty(), {"nccl"}},
       {"--skip-impossible", request.skip_impossible, {"kernels"}},
       {"--system", !request.system.empty(), {"nccl"}},
       {"--out", !request.out.empty(), {"nccl", "kernels", networks_fit}},
       {"--svg", !request.svg.empty(), {"nccl"}},
       {"--json", !request.json.empty(), {"roofline", "kernels", "nccl", "training", networks_fit, launch_fit}}});
  watch_interrupts();
  if (networks) return fit_nccl_networks(request);
  if (launch) return fit_nccl_launch(request);
  if (what == "nccl") return fit_nccl_logs(request);
  if (what == "kernels") return fit_kernels(request);
  if (what == "training") return fit_training(request.json);
  return what == "all" ? fit_everything() : fit_rooflines(request);
}

const RegisterVerb registered_fit{"fit", VerbGroup::measure, "fit the constants of models to measurements", fit};

std::vector<FieldRow> fit_training_json_rows() {
  return {{"constants", "list", "constants that were fitted again", ""},
          {"constants[].constant", "text", "name of the constant", ""},
          {"constants[].value", "text", "value of the catalog", ""},
          {"constants[].again", "text", "fitted value; null: the runs do not determine it", ""},
          {"families", "list", "families of measured runs", ""},
          {"families[].family", "text", "name of the family", ""},
          {"families[].n", "number", "number of its runs", ""},
          {"families[].now", "share", "mean error with the constants of the catalog", ""},
          {"families[].again", "share", "mean error with the fitted constants", ""}};
}
const RegisterJsonReference fit_training_json_reference{"fit training", "constants fitted to measured training runs",
                                                        fit_training_json_rows};

}  // namespace

int fit_training(const std::string& json) {
  using FitJson = nlohmann::ordered_json;
  const std::vector<RefittedFamily> all = refit_to_all(measured_families({"training"}));
  TextTable constants{"constant", ">catalog", ">fitted again"};
  FitJson values = FitJson::array(), families = FitJson::array();
  for (const RefittedConstant& c : all.front().constants) {
    constants.rows.push_back({c.name, c.value, c.refitted.empty() ? "not determined by the runs" : c.refitted});
    values.push_back(
        {{"constant", c.name}, {"value", c.value}, {"again", c.refitted.empty() ? FitJson() : FitJson(c.refitted)}});
  }
  TextTable errors{"family", ">n", ">catalog", ">fitted again"};
  double now = 0, again = 0;
  int count = 0;
  for (const RefittedFamily& family : all) {
    const auto before = family.now.step_times(), after = family.refitted.step_times();
    if (!before || !after) continue;
    now += before->mean_abs;
    again += after->mean_abs;
    ++count;
    errors.rows.push_back(
        {family.now.name, fmt::format("{}", before->n), percent(before->mean_abs), percent(after->mean_abs)});
    families.push_back(
        {{"family", family.now.name}, {"n", before->n}, {"now", before->mean_abs}, {"again", after->mean_abs}});
  }
  if (json != "-")
    write_atomically("-", fmt::format("constants fitted to measured training runs, one step along the derivatives of "
                                      "step times\n{}\n{}mean over {} families, each once: {}, fitted again {}\n",
                                      constants.text(), errors.text(), count, percent(now / std::max(1, count)),
                                      percent(again / std::max(1, count))));
  write_json(json, FitJson{{"constants", values}, {"families", families}});
  return kGood;
}

}  // namespace trainyard
