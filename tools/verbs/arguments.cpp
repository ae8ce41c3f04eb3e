#include "tools/verbs/arguments.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "models/reading/catalog.hpp"
#include "models/reading/shipped_files.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "sim/json_text.hpp"
#include "sim/process/output.hpp"
#include "sim/process/terminal.hpp"
#include "sim/units.hpp"
#include "tools/reports/table.hpp"

namespace trainyard {

namespace {

struct Output {
  std::string flag;
  const std::string* file;
  bool or_folder;
};

int whole_number(const std::string& flag, const std::string& text, int least, int most) {
  const std::optional<std::int64_t> number = find_integer(text);
  if (!number || *number <= std::numeric_limits<int>::min() || *number > std::numeric_limits<int>::max())
    throw UserError(fmt::format("{} {}: a whole number expected", flag, text.empty() ? "\"\"" : text));
  if (*number >= least && *number <= most) return static_cast<int>(*number);
  const std::string limits = most == std::numeric_limits<int>::max()
                                 ? fmt::format("{} or more", least)
                                 : fmt::format("{} {} {}", least, most == least + 1 ? "or" : "to", most);
  throw UserError(fmt::format("{} {}: {} expected", flag, *number, limits));
}

/// Receives the description of the verb whose words this thread would read next. Null: nobody asks for it.
thread_local VerbDescription* g_description = nullptr;

/// Breaks the lines of a help text at 120 columns. Descriptions continue in their column; commands stay whole.
std::string break_help_lines(const std::string& help) {
  constexpr std::size_t width = 120, description_column = 30;
  std::string text;
  std::istringstream in(help);
  for (std::string line; std::getline(in, line);)
    text += line.starts_with("  trainyard ")
                ? line + "\n"
                : hanging_lines(line, width, line.starts_with(" ") ? description_column : 0);
  return text;
}

/// Rewrites CLI11's error about the number of arguments in terms of values.
std::string count_error(const std::string& text) {
  const std::string flag = text.substr(0, text.find(':'));
  return text.ends_with("missing") ? flag + ": a value expected" : flag + ": given more than once";
}

}  // namespace

struct Arguments::Impl {
  CLI::App app;
  std::vector<std::string> flags{"--help", "--quiet", "--markdown", "--progress"};
  bool quiet = false, markdown = false, progress = false;
  std::vector<Output> outputs;
  PlannedOutputs planned;
  std::string verb;
  std::vector<std::string> words;  // the parsed words; names of flags have '-', not '_'
  std::optional<Node> document;
  VerbDescription description;

  void describe(const std::string& name, ArgumentDescription::Kind kind, const std::string& help,
                const std::vector<std::string>& choices = {}) {
    description.arguments.push_back({name.substr(name.find(',') + 1), kind, help, choices});  // "-b,--minbytes"
  }
  explicit Impl(const std::string& summary) : app(summary) {}
  CLI::Option* add(CLI::Option* option, const std::string& flag, const std::string& placeholder) {
    flags.push_back(flag);
    if (!placeholder.empty()) option->type_name(placeholder);
    return option;
  }
  void apply_output_flags() const {
    if (markdown) write_tables_as_markdown();
    if (progress) want_progress(ProgressLines::always);
    if (!quiet) return;
    be_quiet();
    const auto is_given = [](const Output& o) { return !o.file->empty(); };
    if (std::ranges::any_of(outputs, is_given) && leaves_stdout_free()) drop_stdout();
  }
  bool leaves_stdout_free() const {
    return std::ranges::none_of(outputs, [](const Output& o) { return *o.file == "-"; });
  }
  /// Throws UserError if an output cannot be written, or if two outputs go to the same file.
  void check_outputs() {
    for (auto output = outputs.begin(); output != outputs.end(); ++output) {
      const std::string& file = *output->file;
      std::error_code ignored;
      if (file.empty() || (output->or_folder && std::filesystem::is_directory(file, ignored))) continue;
      check_writable(file);
      planned.add(output->flag, file);
      const auto same = std::find_if(outputs.begin(), output, [&file](const Output& o) { return *o.file == file; });
      if (same == output || file == "/dev/null") continue;
      throw UserError(
          file == "-"
              ? fmt::format("trainyard {}: {} - and {} - would both write to stdout", verb, same->flag, output->flag)
              : fmt::format("trainyard {}: {} and {} would both write {}", verb, same->flag, output->flag, file));
    }
  }
};

Arguments::Arguments(const std::string& verb, const std::string& summary, const std::string& example)
    : impl_(std::make_unique<Impl>(summary)) {
  impl_->verb = verb;
  impl_->description.summary = summary;
  impl_->app.name("trainyard " + verb);
  impl_->app.footer("Example:\n  trainyard " + example);
  impl_->app.set_help_flag("--help,-h", "show this text");
  impl_->app.add_flag("--quiet", impl_->quiet, "print no progress, and nothing on stdout if a file is written");
  impl_->app.add_flag("--progress", impl_->progress,
                      "print a line of progress on stderr every 10 s if that is no terminal (default: after a minute)");
  impl_->app.add_flag("--markdown", impl_->markdown, "write tables as Markdown");
}
Arguments::~Arguments() = default;

void Arguments::positional(const std::string& name, std::string& value, const std::string& help, bool required) {
  impl_->app.add_option(name, value, help)->required(required)->type_name("");
  impl_->describe(name, ArgumentDescription::Kind::text, help);
  impl_->description.arguments.back().required = required;
}
void Arguments::positionals(const std::string& name, std::vector<std::string>& values, const std::string& help) {
  impl_->app.add_option(name, values, help)->type_name("");
  impl_->describe(name, ArgumentDescription::Kind::texts, help);
}
void Arguments::option(const std::string& flag, std::string& value, const std::string& placeholder,
                       const std::string& help) {
  impl_->add(impl_->app.add_option(flag, value, help), flag, placeholder);
  impl_->describe(flag, ArgumentDescription::Kind::text, help);
}
void Arguments::option(const std::string& flag, int& value, const std::string& placeholder, const std::string& help,
                       int least, int most) {
  const auto read = [=, &value](const std::string& text) { value = whole_number(flag, text, least, most); };
  CLI::Option* option = impl_->app.add_option_function<std::string>(flag, read, help);
  // Flags of counts have 0 or a negative number for "not given", which their help explains.
  if (value > 0) option->default_str(std::to_string(value));
  impl_->add(option, flag, placeholder);
  impl_->describe(flag, ArgumentDescription::Kind::whole_number, help);
}
void Arguments::option(const std::string& flag, std::optional<int>& value, const std::string& placeholder,
                       const std::string& help, int least, int most) {
  const auto read = [=, &value](const std::string& text) { value = whole_number(flag, text, least, most); };
  impl_->add(impl_->app.add_option_function<std::string>(flag, read, help), flag, placeholder);
  impl_->describe(flag, ArgumentDescription::Kind::whole_number, help);
}
void Arguments::option(const std::string& flag, double& value, const std::string& placeholder, const std::string& help,
                       double least, double most) {
  const auto read = [=, &value](const std::string& text) { value = number_between(flag, text, least, most); };
  impl_->add(impl_->app.add_option_function<std::string>(flag, read, help), flag, placeholder);
  impl_->describe(flag, ArgumentDescription::Kind::number, help);
}
void Arguments::choice(const std::string& flag, std::string& value, const std::vector<std::string>& names,
                       const std::string& placeholder, const std::string& help) {
  const auto read = [=, &value](const std::string& text) {
    if (std::ranges::find(names, text) == names.end())
      throw UserError(fmt::format("{} {}: unknown{}", flag, text, hint(text, names)));
    value = text;
  };
  impl_->add(impl_->app.add_option_function<std::string>(flag, read, help), flag, placeholder);
  impl_->describe(flag, ArgumentDescription::Kind::text, help, names);
}
void Arguments::output(const std::string& flag, std::string& file, const std::string& help, bool or_folder) {
  const auto read = [flag, &file](const std::string& text) {
    if (text.empty()) throw UserError(fmt::format("{} \"\": the name of a file expected (- is stdout)", flag));
    file = text;
  };
  impl_->add(impl_->app.add_option_function<std::string>(flag, read, help), flag, "FILE");
  impl_->describe(flag, ArgumentDescription::Kind::text, help);
  impl_->outputs.push_back({flag, &file, or_folder});
  impl_->description.arguments.back().is_output = true;
}
void Arguments::repeated_flag(const std::string& flag, std::vector<std::string>& values, const std::string& placeholder,
                              const std::string& help) {
  // Each flag takes one value. Otherwise `--set a=1 FILE` would take FILE as a value.
  impl_->add(impl_->app.add_option(flag, values, help)
                 ->expected(1)
                 ->allow_extra_args(false)
                 ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll),
             flag, placeholder);
  impl_->describe(flag, ArgumentDescription::Kind::texts, help);
}
void Arguments::flag(const std::string& flag, bool& value, const std::string& help) {
  impl_->add(impl_->app.add_flag(flag, value, help), flag, "");
  impl_->describe(flag, ArgumentDescription::Kind::flag, help);
}

void Arguments::take(const VerbQuestion& question) {
  for (const auto& [name, text] : question.options) impl_->app.get_option(name)->add_result(text);
  for (const auto& [name, text] : question.options) impl_->app.get_option(name)->run_callback();
  impl_->document = question.document;
  impl_->check_outputs();
}

bool Arguments::leaves_stdout_free() const { return impl_->leaves_stdout_free(); }

const std::optional<Node>& Arguments::document() const { return impl_->document; }

std::vector<std::string> Arguments::command_without(const std::vector<std::string>& flags) const {
  const auto contains = [](const auto& all, const std::string& name, auto text) {
    return std::ranges::any_of(all, [&](const auto& item) { return text(item) == name; });
  };
  std::vector<std::string> command{impl_->verb};
  for (std::size_t i = 0; i < impl_->words.size(); ++i) {
    const std::string& word = impl_->words[i];
    const std::string name = word.substr(0, word.find('='));
    if (!contains(flags, name, [](const std::string& flag) { return flag; }) &&
        !contains(impl_->outputs, name, [](const Output& output) { return output.flag; })) {
      command.push_back(word);
      continue;
    }
    const bool takes_value = impl_->app.get_option(name)->get_expected_min() > 0;
    if (takes_value && name.size() == word.size()) ++i;
  }
  return command;
}

VerbDescription describe_verb(const std::function<void()>& run_verb) {
  VerbDescription description;
  g_description = &description;
  try {
    run_verb();
  } catch (...) {
    g_description = nullptr;
    throw;
  }
  g_description = nullptr;
  return description;
}

bool Arguments::parse(const std::vector<std::string>& words) {
  if (VerbDescription* description = std::exchange(g_description, nullptr)) {
    *description = impl_->description;
    return false;
  }
  impl_->words = words;
  for (std::string& word : impl_->words)
    if (word.starts_with("--")) {
      const auto end = word.begin() + static_cast<std::ptrdiff_t>(std::min(word.find('='), word.size()));
      std::replace(word.begin() + 2, end, '_', '-');
    }
  std::vector<std::string> reversed(impl_->words.rbegin(), impl_->words.rend());  // CLI11 reads from the end
  try {
    impl_->app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    print(break_help_lines(impl_->app.help()));
    return false;
  } catch (const CLI::ExtrasError& e) {
    const std::vector<std::string> unread = impl_->app.remaining();
    const std::string word = unread.empty() ? "" : unread.front();
    if (word.starts_with("-"))
      throw UserError(fmt::format("trainyard {}: unknown flag {}{}", impl_->verb, word, hint(word, impl_->flags)));
    throw UserError(
        fmt::format("trainyard {}: unexpected argument \"{}\" (trainyard {} --help)", impl_->verb, word, impl_->verb));
  } catch (const CLI::ArgumentMismatch& e) {
    throw UserError(
        fmt::format("trainyard {}: {} (trainyard {} --help)", impl_->verb, count_error(e.what()), impl_->verb));
  } catch (const CLI::ParseError& e) {
    throw UserError(fmt::format("trainyard {}: {} (trainyard {} --help)", impl_->verb, e.what(), impl_->verb));
  }
  impl_->check_outputs();
  impl_->apply_output_flags();
  return true;
}

namespace {

/// True if a line of a YAML text is more than blanks and a comment.
bool has_content(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (const std::size_t first = line.find_first_not_of(" \t\r"); first != std::string::npos && line[first] != '#')
      return true;
  return false;
}

/// Returns true if a text is a power, such as "2 MW".
bool is_power(const std::string& text) try {
  parse_power(text);
  return true;
} catch (const UserError&) {
  return false;
}

}  // namespace

std::pair<std::string, std::string> prices_override(const std::string& file) {
  std::error_code ignored;
  const std::filesystem::path found =
      std::filesystem::exists(file, ignored) ? std::filesystem::path(file) : shipped_scenario(file).value_or(file);
  if (!std::filesystem::exists(found, ignored)) throw UserError(fmt::format("--prices {}: no such file", file));
  const std::string extension = found.extension().string();
  if ((extension != ".yaml" && extension != ".yml" && extension != ".json") ||
      !std::filesystem::is_regular_file(found, ignored))
    throw UserError(fmt::format(
        "--prices {}: expected a file of prices (.yaml, .json), such as scenarios/prices-example.yml", file));
  if (!has_content(read_file(found)))
    throw UserError(
        fmt::format("{}:1:1: nothing but blanks and comments; expected the keys of prices, as "
                    "scenarios/prices-example.yml has them",
                    found.string()));
  // A plain name needs no quotes, which a table would write three times.
  const std::string name = found.string();
  const bool is_plain = std::ranges::all_of(name, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '/' || c == '-';
  });
  return {"prices", is_plain ? name : "\"" + name + "\""};
}

Overrides parse_overrides(const std::vector<std::string>& sets, const std::string& prices) {
  Overrides overrides = parse_overrides(sets);
  if (!prices.empty()) overrides.insert(overrides.begin(), prices_override(prices));
  return overrides;
}

void set_prices(Node& document, const std::string& file) {
  if (file.empty()) return;
  const auto [field, value] = prices_override(file);
  set_field(document, field, value);
}

void set_site(Node& document, const std::string& site) {
  if (std::error_code ignored; std::filesystem::is_regular_file(site, ignored))
    set_field(document, "site", "\"" + site + "\"");
  else if (is_power(site))
    set_field(document, "site", "{power: " + site + "}");
  else if (!site.empty() && std::isdigit(static_cast<unsigned char>(site.front())) != 0)
    throw UserError(fmt::format("--site {}: expected a power such as 2 MW, the name of a site or a file; known: {}",
                                site, fmt::join(Catalog().names("site"), ", ")));
  else if (!site.empty())
    set_field(document, "site", parse_override(site, "--site"));
}

void write_json(const std::string& file, const nlohmann::json& answer) {
  if (!file.empty()) write_atomically(file, json_text(answer, 2) + "\n");
}
void write_json(const std::string& file, const nlohmann::ordered_json& answer) {
  if (!file.empty()) write_atomically(file, json_text(answer, 2) + "\n");
}

void set_from_flag(Node& map, const char* key, const std::string& flag, const std::string& text) {
  if (!text.empty()) set_field(map, key, parse_override(text, flag + " " + text));
}

double number_between(const std::string& flag, const std::string& text, double least, double most) {
  const double value = read_flag(flag, text, parse_number);
  if (value < least || value > most)
    throw UserError(fmt::format("{} {}: {} to {:.0f} expected", flag, text, least, most));
  return value;
}

std::vector<std::string> comma_list(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t end = std::min(text.find(',', from), text.size());
    parts.push_back(text.substr(from, end - from));
    from = end + 1;
  }
  return parts;
}

}  // namespace trainyard
