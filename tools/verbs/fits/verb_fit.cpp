#include "tools/verbs/fits/fit.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "models/reading/shipped_files.hpp"
#include "sim/process/output.hpp"
#include "tools/verbs/arguments.hpp"
#include "tools/verbs/validation/validation.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

/// `fit all`: every constant of the catalog that is a fit, from the tables and runs that come along, part by part.
int fit_everything() {
  const auto part = [](const char* title) { write_atomically("-", fmt::format("\n== {}\n", title)); };
  const std::filesystem::path tables = shipped_file("scenarios/measured/tables/gemm.csv").parent_path();
  const auto table = [&tables](const char* name) { return (tables / name).string(); };
  part("fit kernels: matrix products and attention by their shape");
  FitRequest request;
  request.files = {table("gemm.csv"), table("attention.csv")};
  request.skip_impossible = true;
  fit_kernels(request);
  part("fit roofline: efficiencies of kernels without a shape");
  request = {};
  request.data = tables.string();
  fit_rooflines(request);
  request = {};
  part("fit nccl --networks: NCCL between nodes");
  fit_nccl_networks(request);
  part("fit nccl --launch: what a thread of the host takes for a call");
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
struct Asked {
  const char* flag;
  bool given;
  std::vector<std::string> fits;
};

/// Throws UserError for the first flag that the fit does not take, and names those that do.
void require_its_flags(const std::string& what, const std::string& which, const std::vector<Asked>& all) {
  for (const Asked& asked : all)
    if (asked.given && std::find(asked.fits.begin(), asked.fits.end(), which) == asked.fits.end())
      throw UserError(
          fmt::format("trainyard fit {}: {}: only with fit {}", what, asked.flag, fmt::join(asked.fits, ", fit ")));
}

int fit(const std::vector<std::string>& words) {
  Arguments arguments(
      "fit", "Fits constants of the catalog to measurements, on one half of them, and judges them on the other.",
      "fit roofline --data DIR --gpu a100-sxm4-80gb\n  trainyard fit nccl all_reduce.log --svg fit.svg");
  std::string what;
  FitRequest asked;
  arguments.positional(
      "WHAT", what,
      "roofline: efficiencies and launch floor of kernels; kernels: matrix products by their shape, and attention; "
      "nccl: NCCL's protocols on one kind of GPU; training: what is fitted to measured runs, to all of them again; "
      "all: every fit from the tables and runs that come along, one after the other (a minute or two)");
  arguments.positionals("FILE", asked.files, "nccl: nccl.csv, or logs of nccl-tests; kernels: gemm.csv, attention.csv");
  arguments.option("--data", asked.data, "DIR",
                   "roofline: folder of the tables gemm.csv and attention.csv (default: TRAINYARD_DATA)");
  arguments.option("--gpu", asked.gpu, "NAME",
                   "roofline: only this GPU; default: all in the tables. nccl: the GPU of the catalog that the "
                   "log is of, where its name does not tell; of nccl.csv only this one");
  arguments.option("--gpus", asked.gpus, "N", "nccl: number of GPUs, if the log does not state it");
  arguments.option("--operation", asked.operation, "NAME", "nccl: such as all_reduce, if the log does not state it");
  bool networks = false, launch = false;
  arguments.flag("--skip-impossible", asked.skip_impossible,
                 "kernels: leave out rows that are faster than the chip's peak");
  arguments.flag("--networks", networks,
                 "nccl: the networks between nodes, from two tables of systems and sweeps (default: those that come "
                 "along); --out is a folder");
  arguments.flag("--launch", launch,
                 "nccl: what a thread of the host takes to launch a call on a GPU, from the same two tables");
  arguments.option("--system", asked.system, "NAME", "nccl: of a table of sweeps, this system");
  arguments.output("--out", asked.out,
                   "nccl, kernels: the catalog entry (FILE.yaml; - is stdout; of nccl a folder takes one file a GPU)",
                   true);
  arguments.output("--svg", asked.svg, "nccl: every curve, measured and fitted, as a picture");
  arguments.output("--json", asked.json, "write the fits as JSON; - is stdout");
  if (!arguments.parse(words)) return kGood;
  const std::vector<std::string> known{"roofline", "kernels", "nccl", "training", "all"};
  if (std::find(known.begin(), known.end(), what) == known.end())
    throw UserError(fmt::format("trainyard fit: cannot fit \"{}\"{}", what, hint(what, known)));
  std::string which = what;
  if (networks) which += " --networks";
  if (launch) which += " --launch";
  const std::string of_networks = "nccl --networks", of_launch = "nccl --launch";
  require_its_flags(
      what, which,
      {{"--networks", networks, {of_networks}},
       {"--launch", launch, {of_launch}},
       {"FILE", !asked.files.empty(), {"nccl", "kernels", of_networks, of_launch}},
       {"--data", !asked.data.empty(), {"roofline"}},
       {"--gpu", !asked.gpu.empty(), {"roofline", "kernels", "nccl"}},
       {"--gpus", asked.gpus != 0, {"nccl"}},
       {"--operation", !asked.operation.empty(), {"nccl"}},
       {"--skip-impossible", asked.skip_impossible, {"kernels"}},
       {"--system", !asked.system.empty(), {"nccl"}},
       {"--out", !asked.out.empty(), {"nccl", "kernels", of_networks}},
       {"--svg", !asked.svg.empty(), {"nccl"}},
       {"--json", !asked.json.empty(), {"roofline", "kernels", "nccl", "training", of_networks, of_launch}}});
  if (networks) return fit_nccl_networks(asked);
  if (launch) return fit_nccl_launch(asked);
  if (what == "nccl") return fit_nccl_logs(asked);
  if (what == "kernels") return fit_kernels(asked);
  if (what == "training") return fit_training(asked.json);
  return what == "all" ? fit_everything() : fit_rooflines(asked);
}

const RegisterVerb registered_fit{"fit", "fit constants to measurements", fit};

}  // namespace
}  // namespace trainyard
