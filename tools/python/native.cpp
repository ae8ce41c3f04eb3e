// The C++ part of the Python module. It runs verbs, each on a thread of its own.
#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <chrono>
#include <new>
#include <utility>

#include "models/reading/document_text.hpp"
#include "models/reading/program_version.hpp"
#include "sim/error.hpp"
#include "sim/process/parallel.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

namespace py = pybind11;

using Options = std::vector<std::pair<std::string, std::string>>;
/// A document in place of a file: the name of the file, and its content as JSON.
using NamedDocument = std::pair<std::string, std::string>;

/// Waits for a call without Python's lock, passes its progress on, and ends it at Ctrl-C.
std::string waited_answer(std::function<std::string()> work, const std::function<void(const std::string&)>& progress) {
  constexpr std::chrono::milliseconds check_interval{50};  // for Ctrl-C
  const py::gil_scoped_release others_may_run;
  BackgroundCall call(std::move(work));
  for (bool is_over = false; !is_over;) {
    is_over = call.over_within(check_interval);
    const py::gil_scoped_acquire lock;
    for (const std::string& line : call.take_progress())
      if (progress) progress(line);
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
  return call.answer();
}

std::string ask(const std::string& verb, const Options& options, const std::optional<NamedDocument>& document,
                const std::function<void(const std::string&)>& progress) {
  return waited_answer(
      [&] {
        VerbQuestion question{options, {}};
        if (document) {
          question.document = parse_json_document(document->second, document->first);
          question.keyed_name = document->first;
        }
        return answer_program(verbs().find(verb, {}), question);
      },
      progress);
}

std::pair<int, std::string> command(const std::vector<std::string>& words,
                                    const std::function<void(const std::string&)>& progress) {
  if (words.empty()) throw UserError("command: the name of a verb expected");
  int code = kGood;
  const std::string text = waited_answer(
      [&] {
        const CaughtOutput screen;
        code = verbs().find(words.front(), Place::named("command")).run({words.begin() + 1, words.end()});
        if (code == kInterrupted) throw Interruption();
        return screen.text;
      },
      progress);
  return {code, text};
}

void translate(std::exception_ptr thrown) {
  const auto bad_input = [](const char* text) {
    PyErr_SetString(py::module_::import("trainyard").attr("Error").ptr(), text);
  };
  try {
    std::rethrow_exception(thrown);
  } catch (const UserError& e) {
    bad_input(e.what());
  } catch (const MachineLimit& e) {
    bad_input(e.what());
  } catch (const std::bad_alloc&) {
    bad_input("trainyard: not enough memory for this run");
  } catch (const Interruption& e) {
    PyErr_SetString(PyExc_KeyboardInterrupt, e.what());
  }
}

}  // namespace
}  // namespace trainyard

PYBIND11_MODULE(_native, module) {
  namespace py = pybind11;
  module.doc() = "Verbs of trainyard that answer programs.";
  module.def("ask", &trainyard::ask, py::arg("verb"), py::arg("options"), py::arg("document") = py::none(),
             py::arg("progress") = py::none(),
             "Returns the text that the verb writes with --json. Options: texts by flag. Document: a file's name, and "
             "its content as JSON.");
  module.def("command", &trainyard::command, py::arg("words"), py::arg("progress") = py::none(),
             "Runs a verb with the words of its command line. Returns its exit code and what it prints.");
  module.attr("version") = trainyard::program_version();
  py::register_exception_translator(&trainyard::translate);
}
