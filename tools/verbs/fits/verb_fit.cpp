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
  fit_kernels({{table("gemm.csv"), table("attention.csv")}, "", "", "", true});
  part("fit roofline: efficiencies of kernels without a shape");
  fit_rooflines(tables.string(), "", "");
  NcclFitRequest nccl;
  part("fit nccl --networks: NCCL between nodes");
  fit_nccl_networks(nccl);
  part("fit nccl --launch: what a thread of the host takes for a call");
  fit_nccl_launch(nccl);
  part("fit nccl: NCCL in one node");
  nccl.files = {table("nccl.csv")};
  fit_nccl_logs(nccl);
  part("validate horovod --fit: a step of Horovod over TCP");
  ValidationRequest horovod;
  horovod.fit = true;
  validate_horovod(horovod);
  part("fit training: what is fitted to measured steps");
  return fit_training("");
}

int fit(const std::vector<std::string>& words) {
  Arguments arguments(
      "fit", "Fits constants of the catalog to measurements, on one half of them, and judges them on the other.",
      "fit roofline --data DIR --gpu a100-sxm4-80gb\n  trainyard fit nccl all_reduce.log --svg fit.svg");
  std::string what, data;
  NcclFitRequest nccl;
  arguments.positional(
      "WHAT", what,
      "roofline: efficiencies and launch floor of kernels; kernels: matrix products by their shape, and attention; "
      "nccl: NCCL's protocols on one kind of GPU; training: what is fitted to measured runs, to all of them again; "
      "all: every fit from the tables and runs that come along, one after the other (a minute or two)");
  arguments.positionals("FILE", nccl.files, "nccl: nccl.csv, or logs of nccl-tests; kernels: gemm.csv, attention.csv");
  arguments.option("--data", data, "DIR",
                   "roofline: folder of the tables gemm.csv and attention.csv (default: TRAINYARD_DATA)");
  arguments.option("--gpu", nccl.gpu, "NAME",
                   "roofline: only this GPU; default: all in the tables. nccl: the GPU of the catalog that the "
                   "log is of, where its name does not tell; of nccl.csv only this one");
  arguments.option("--gpus", nccl.gpus, "N", "nccl: number of GPUs, if the log does not state it");
  arguments.option("--operation", nccl.operation, "NAME", "nccl: such as all_reduce, if the log does not state it");
  bool networks = false, launch = false, skip = false;
  arguments.flag("--skip-impossible", skip, "kernels: leave out rows that are faster than the chip's peak");
  arguments.flag("--networks", networks,
                 "nccl: the networks between nodes, from two tables of systems and sweeps (default: those that come "
                 "along); --out is a folder");
  arguments.flag("--launch", launch,
                 "nccl: what a thread of the host takes to launch a call on a GPU, from the same two tables");
  arguments.option("--system", nccl.system, "NAME", "nccl: of a table of sweeps, this system");
  arguments.output("--out", nccl.out,
                   "nccl, kernels: the catalog entry (FILE.yaml; - is stdout; of nccl a folder takes one file a GPU)",
                   true);
  arguments.output("--svg", nccl.svg, "nccl: every curve, measured and fitted, as a picture");
  arguments.output("--json", nccl.json, "write the fits as JSON; - is stdout");
  if (!arguments.parse(words)) return kGood;
  const std::vector<std::string> known{"roofline", "kernels", "nccl", "training", "all"};
  if (std::find(known.begin(), known.end(), what) == known.end())
    throw UserError(fmt::format("trainyard fit: cannot fit \"{}\"{}", what, hint(what, known)));
  const bool of_other_fits = !nccl.files.empty() || !nccl.gpu.empty() || nccl.gpus != 0 || !nccl.operation.empty() ||
                             !nccl.system.empty() || !nccl.out.empty() || !nccl.svg.empty() || !data.empty() ||
                             networks || launch || skip;
  if (what == "training") {
    if (of_other_fits) throw UserError("trainyard fit training: takes no files, and no flag but --json");
    return fit_training(nccl.json);
  }
  if (what == "all") {
    if (of_other_fits || !nccl.json.empty()) throw UserError("trainyard fit all: takes no files and no flags");
    return fit_everything();
  }
  if (skip && what != "kernels") throw UserError("trainyard fit: --skip-impossible: only with fit kernels");
  if (what == "nccl" && !data.empty()) throw UserError("trainyard fit nccl: --data: only with fit roofline");
  if (networks && (what != "nccl" || !nccl.svg.empty() || !nccl.gpu.empty() || nccl.gpus != 0 ||
                   !nccl.operation.empty() || !nccl.system.empty()))
    throw UserError("trainyard fit: --networks: only with fit nccl, FILE, --out and --json");
  if (launch && (what != "nccl" || networks || !nccl.svg.empty() || !nccl.out.empty() || !nccl.gpu.empty() ||
                 nccl.gpus != 0 || !nccl.operation.empty() || !nccl.system.empty()))
    throw UserError("trainyard fit: --launch: only with fit nccl, FILE and --json");
  if (networks) return fit_nccl_networks(nccl);
  if (launch) return fit_nccl_launch(nccl);
  if (what == "nccl") return fit_nccl_logs(nccl);
  if (what == "kernels") {
    if (!nccl.svg.empty() || !nccl.operation.empty() || nccl.gpus != 0 || !nccl.system.empty() || !data.empty())
      throw UserError("trainyard fit kernels: --data, --gpus, --operation, --system, --svg: not with fit kernels");
    return fit_kernels({nccl.files, nccl.gpu, nccl.out, nccl.json, skip});
  }
  if (!nccl.files.empty() || !nccl.out.empty() || !nccl.svg.empty() || !nccl.operation.empty() || nccl.gpus != 0 ||
      !nccl.system.empty())
    throw UserError("trainyard fit roofline: FILE, --gpus, --operation, --system, --out, --svg: only with fit nccl");
  return fit_rooflines(data, nccl.gpu, nccl.json);
}

const RegisterVerb registered_fit{"fit", "fit constants to measurements", fit};

}  // namespace
}  // namespace trainyard
