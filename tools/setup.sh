# shellcheck shell=bash
# tools/trainyard and tools/test source this file. It installs missing packages and builds what is out of date.
#
# All messages go to stderr, so that a command's own output stays clean. The environment may set
#   TRAINYARD_BUILD           the folder of the builds (default: build/ in the repository)
#   TRAINYARD_SKIP_PACKAGES   1: install nothing; you provide what run_packages and test_packages name
set -euo pipefail

repository=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd -P)
builds=$(realpath -m "${TRAINYARD_BUILD:-$repository/build}")

# shellcheck disable=SC2034  # the lists are for the scripts that source this
run_packages=(cmake ninja-build g++ libsimgrid-dev libeigen3-dev libboost-graph-dev libfmt-dev libyaml-cpp-dev
  nlohmann-json3-dev libcli11-dev libpugixml-dev libprotozero-dev libjs-chart.js libcpp-httplib-dev
  zlib1g-dev libsqlite3-dev libmd4c-dev libmd4c-html0-dev)
# shellcheck disable=SC2034
python_packages=(python3-dev pybind11-dev)
# shellcheck disable=SC2034
test_packages=(catch2 libbenchmark-dev lowdown python3-pip python3-setuptools python3-wheel "${python_packages[@]}")

say() { printf 'trainyard: %s\n' "$*" >&2; }
fail() {
  say "$*"
  exit 1
}

# locked NAME COMMAND...: runs COMMAND while it holds the lock NAME. Other processes that need this lock wait.
locked() {
  local name=$1 lock
  shift
  mkdir -p "$builds"
  exec {lock}>"$builds/.$name.lock"
  flock -n "$lock" || {
    say "waiting for another process ($name)"
    flock "$lock"
  }
  "$@"
  exec {lock}>&-
}

# missing_packages PACKAGE...: prints the packages that are not installed.
missing_packages() {
  local package status
  local -A installed=()
  while read -r status package; do
    [[ $status != installed ]] || installed[$package]=1
  done < <(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null)
  for package; do [[ -n ${installed[$package]:-} ]] || echo "$package"; done
}

# ensure_packages PACKAGE...: installs the packages that are missing.
ensure_packages() {
  [[ ${TRAINYARD_SKIP_PACKAGES:-} != 1 ]] || return 0
  if ! command -v apt-get >/dev/null; then
    fail "this system has no apt-get: install the equivalents of Debian 12's $*, then set TRAINYARD_SKIP_PACKAGES=1"
  fi
  if [[ -n $(missing_packages "$@") ]]; then locked packages install_packages "$@"; fi
}

install_packages() {
  local missing as_root=() log=$builds/packages.log
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]})) || return 0
  if ((EUID != 0)); then
    command -v sudo >/dev/null ||
      fail "these packages are missing, and installing them takes root or sudo: ${missing[*]}"
    as_root=(sudo)
  fi

  say "installing ${missing[*]}"
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Acquire::Retries=3
    -o DPkg::Lock::Timeout=600 -o Dpkg::Use-Pty=0)
  local install=("${apt[@]}" install -y --no-install-recommends "${missing[@]}")
  : >"$log"
  # Tries the existing package lists first, and fetches fresh ones if that fails.
  if compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null && "${install[@]}" &>>"$log" </dev/null; then return; fi
  "${apt[@]}" update &>>"$log" </dev/null || true
  "${install[@]}" &>>"$log" </dev/null || {
    tail -n 20 "$log" >&2
    fail "could not install ${missing[*]} (whole output: $log)"
  }
}

# parallel_jobs: prints how many compilers may run at the same time: one for each core, with 1.7 GB of memory each.
parallel_jobs() {
  local jobs kilobytes limit
  jobs=$(nproc)
  kilobytes=$(awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo 2>/dev/null) || true
  limit=$(cat /sys/fs/cgroup/memory.max 2>/dev/null) || true
  if [[ $limit =~ ^[0-9]+$ ]] && ((limit / 1024 < ${kilobytes:-limit})); then kilobytes=$((limit / 1024)); fi
  if [[ -n $kilobytes ]] && ((kilobytes / 1700000 < jobs)); then jobs=$((kilobytes / 1700000)); fi
  echo $((jobs > 0 ? jobs : 1))
}

# ensure_built DIR [-DOPTION=VALUE...] TARGET...: configures DIR if it has other options, and builds the targets. Options
# that are not named keep their values in DIR.
ensure_built() {
  mkdir -p "$builds"
  locked "${1##*/}" configure_and_build "$@"
}

configure_and_build() {
  local dir=$1 word options=() targets=()
  shift
  for word; do
    if [[ $word == -D* ]]; then options+=("$word"); else targets+=("$word"); fi
  done

  # A build of another folder or generator is configured from scratch.
  local fresh=()
  configured_with "$dir" "-DCMAKE_HOME_DIRECTORY=$repository" "-DCMAKE_CACHEFILE_DIR=$dir" -DCMAKE_GENERATOR=Ninja ||
    fresh=(--fresh)
  if ((${#fresh[@]})) || [[ ! -f $dir/build.ninja ]] || ! configured_with "$dir" "${options[@]}"; then
    say "configuring $dir"
    mkdir -p "$dir"
    cmake "${fresh[@]}" -G Ninja -S "$repository" -B "$dir" "${options[@]}" &>"$dir/configure.log" || {
      cat "$dir/configure.log" >&2
      fail "could not configure $dir"
    }
  fi
  ninja_quietly -C "$dir" -j "$(parallel_jobs)" "${targets[@]}" || fail "could not build ${targets[*]} in $dir"
}

# configured_with DIR -DNAME=VALUE...: succeeds if the cache of DIR has these values.
configured_with() {
  local cache=$1/CMakeCache.txt option line
  shift
  [[ -f $cache ]] || return 1
  for option; do
    option=${option#-D}
    line=$(grep -m 1 "^${option%%=*}:" "$cache") || return 1
    [[ ${line#*=} == "${option#*=}" ]] || return 1
  done
}

# ninja_quietly ARGUMENT...: runs ninja with its progress and errors on stderr, and prints nothing if nothing is out of date.
ninja_quietly() {
  NINJA_STATUS='[%f/%t, %es] ' ninja "$@" 2>&1 |
    sed -u -e '/^ninja: Entering directory/d' -e '/^ninja: no work to do/d' -e '/Re-checking globbed/d' >&2
}
