// The part of the Python module that is not Python: it hands calls to worker processes and waits for them.
#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "models/reading/program_version.hpp"
#include "sim/process/child.hpp"
#include "sim/process/fork_server.hpp"
#include "tools/python/verb_call.hpp"

namespace trainyard {
namespace {

namespace py = pybind11;

constexpr int kSignalMs = 50;  // between looks for Ctrl-C

/// One for the interpreter, and one more in a process that it forks; not ended before the interpreter is, which closes its
/// channel: then it ends by itself.
ForkServer& workers_of_python() {
  static ForkServer* workers = nullptr;
  static pid_t owner = 0;
  if (workers && owner == ::getpid()) return *workers;
  owner = ::getpid();
  workers = new ForkServer(answer_call, processors());  // what was there is the parent's
  return *workers;
}

/// With the lock of the interpreter; without it while it waits.
std::string ask_worker(const std::string& question, const std::function<void(const std::string&)>& progress) {
  ForkServer& workers = workers_of_python();
  ForkServer::Job job = [&] {
    const py::gil_scoped_release others_may_run;
    return workers.ask(question);
  }();
  for (bool over = false; !over;) {
    {
      const py::gil_scoped_release others_may_run;
      over = job.over_within(kSignalMs);
    }
    for (const std::string& note : job.take_notes())
      if (progress) progress(note);
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();  // the worker ends with the job
  }
  if (const std::optional<std::string> answer = job.answer()) return *answer;
  throw std::runtime_error("the simulation died");
}

}  // namespace
}  // namespace trainyard

PYBIND11_MODULE(_native, module) {
  module.doc() = "Worker processes that run verbs of trainyard.";
  module.def("ask", &trainyard::ask_worker, pybind11::arg("question"), pybind11::arg("progress") = nullptr,
             "Runs a verb in a worker process; question and answer are JSON (tools/python/verb_call.hpp).");
  module.attr("version") = trainyard::program_version();
}
