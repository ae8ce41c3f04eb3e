#include "tools/verbs/study_shares.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "models/reading/shipped_files.hpp"
#include "sim/error.hpp"
#include "sim/json_text.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

const std::vector<std::string> kShareFlags{"--points", "--out", "--shard", "--slurm", "--tasks", "--submit"};

/// Quotes the text so that a shell reads it as one word.
std::string shell_word(const std::string& text) {
  const std::string plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=,:@%+";
  if (!text.empty() && text.find_first_not_of(plain) == std::string::npos) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

/// Quotes the text so that an #SBATCH line reads it as one word. There, % begins a pattern and is doubled.
std::string sbatch_word(const std::string& text) {
  std::string word;
  for (const char c : text) word += c == '%' ? "%%" : c == '"' ? "\\\"" : std::string(1, c);
  return shell_word(text) == text ? word : '"' + word + '"';
}

/// A job array of Slurm. Its tasks are the shards. The tasks run in the folder of the command, so relative paths hold.
struct SlurmJob {
  std::string folder;  ///< folder of the script, of the logs and of the files of points
  int tasks = 1;
  std::vector<std::string> command;  ///< the verb and its words
  std::string from = std::filesystem::current_path().string();

  std::string points_of(const std::string& task) const { return shell_word(folder + "/points-") + task + ".jsonl"; }

  /// The command line that merges the shards.
  std::string merge_command() const {
    const std::string all = tasks > 1 ? fmt::format("{{1..{}}}", tasks) : "1";
    const std::string& verb = command.front();
    const char* format = verb == "sweep" ? "csv" : "json";
    return fmt::format("cd {} && {} merge {} --{} {}", shell_word(from), shell_word(program_file().string()),
                       points_of(all), format, shell_word(fmt::format("{}/{}.{}", folder, verb, format)));
  }

  /// The batch script for `sbatch`. It runs the program that is running now.
  std::string script() const {
    std::string words;
    for (const std::string& word : command) words += " " + shell_word(word);
    return fmt::format(
        "#!/bin/bash\n"
        "#SBATCH --job-name=trainyard-{5}\n"
        "#SBATCH --array=1-{0}\n"
        "#SBATCH --ntasks=1\n"
        "#SBATCH --output={1}/task-%a.log\n"
        "#SBATCH --requeue\n"
        "# A task that is started again resumes from its file of points. When all tasks are done:\n"
        "#   {2}\n"
        "cd {7} || exit\n"
        "exec {3}{4} --shard \"$SLURM_ARRAY_TASK_ID/{0}\" --points {6}\n",
        tasks, sbatch_word(folder), merge_command(), shell_word(program_file().string()), words, command.front(),
        points_of("\"$SLURM_ARRAY_TASK_ID\""), shell_word(from));
  }
};

/// Throws UserError if a path has a control character, which would end a line of the script, or a backslash, which Slurm
/// reads as an escape. `folder`: the value of --slurm.
void require_plain(const SlurmJob& job, const std::string& folder) {
  for (const std::string& path : {job.folder, job.from, program_file().string()})
    if (std::ranges::any_of(path, [](char c) { return std::iscntrl(static_cast<unsigned char>(c)) != 0 || c == '\\'; }))
      throw UserError(fmt::format(
          "--slurm {}: {} has a control character or a backslash in it, which no path of a batch script can have",
          json_string(folder), json_string(path)));
}

void submit_script(const std::string& script) {
  std::fflush(stdout);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::execlp("sbatch", "sbatch", script.c_str(), nullptr);
    complain("sbatch: not found; is this a machine of a Slurm cluster?");
    ::_exit(kBadInput);
  }
  int status = 0;
  if (pid < 0 || ::waitpid(pid, &status, 0) != pid || status != 0)
    throw UserError("--submit: sbatch did not take the job");
}

}  // namespace

void StudyShares::declare(Arguments& arguments, const std::string& part) {
  arguments.output("--points,--out", points,
                   fmt::format("keep each finished {} as a line of this file, and resume from it", part));
  arguments.option(
      "--shard", shard, "I/N",
      fmt::format("do only every N-th {}, from the I-th on, and write them to --points (see merge)", part));
  arguments.option("--slurm", slurm, "FOLDER",
                   "write a batch script for a Slurm job array into this folder, and run nothing");
  arguments.option("--tasks", tasks, "N",
                   "with --slurm: number of tasks of the job array (default 8, or as many as there are parts)", 1);
  arguments.flag("--submit", submit, "with --slurm: submit the script with sbatch");
}

StudyShard StudyShares::requested_shard(bool outputs) const {
  if (submit && slurm.empty()) throw UserError("--submit: only with --slurm");
  if (points == "-") throw UserError("--points -: a file expected");
  if (shard.empty()) return {};
  if (points.empty() || outputs) throw UserError("--shard: with --points FILE alone; merge makes the answer");
  return parse_study_shard(shard);
}

int StudyShares::write_slurm_job(const Arguments& arguments, std::size_t most) const {
  constexpr std::size_t usual = 8;
  const int count = tasks > 0 ? tasks : static_cast<int>(std::min(usual, most));
  if (static_cast<std::size_t>(count) > most)
    throw UserError(fmt::format("--tasks {}: 1 to {} expected, the number of parts of the job", tasks, most));
  const SlurmJob job{std::filesystem::absolute(slurm).string(), count, arguments.command_without(kShareFlags)};
  require_plain(job, slurm);
  std::error_code failed;
  std::filesystem::create_directories(job.folder, failed);
  if (failed) throw UserError(fmt::format("--slurm {}: {}", slurm, failed.message()));
  const std::string script = fmt::format("{}/{}.sbatch", job.folder, job.command.front());
  write_atomically(script, job.script());
  print(fmt::format("{}\nthen: {}\n", script, job.merge_command()));
  if (submit) submit_script(script);
  return kGood;
}

int StudyShares::interrupted_search() const {
  complain(points.empty()
               ? "interrupted (with --points FILE a search can be resumed)"
               : fmt::format("interrupted: run the same command again to resume ({} keeps what is known)", points));
  return kInterrupted;
}

void StudyShares::finish(const Arguments& arguments) const {
  finish_journal(points, arguments.command_without(kShareFlags), parse_study_shard(shard));
}

}  // namespace trainyard
