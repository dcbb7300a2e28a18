#!/bin/sh
# Installs what building, testing and the tour need and what is missing, on
# Debian 12, Ubuntu 24.04 and their like. Does nothing when everything is there.
set -eu

missing=""
need() { missing="$missing $1"; }

have_command() { command -v "$1" >/dev/null 2>&1; }

have_header() {
  if have_command c++; then
    echo "#include <$1>" | c++ -std=c++20 -E -x c++ - >/dev/null 2>&1
  else
    [ -e "/usr/include/$1" ]
  fi
}

# Not every python3 can load extensions; the distribution's can, and the tests prefer it.
have_python() {
  for python in /usr/bin/python3 python3; do
    have_command "$python" &&
      "$python" -c 'import sqlite3; sqlite3.Connection.enable_load_extension' 2>/dev/null &&
      return
  done
  return 1
}

have_module() {
  [ -x /usr/bin/python3 ] && /usr/bin/python3 -c "import $1" 2>/dev/null
}

have_command c++ || need g++
have_command cmake || need cmake
have_command ninja || need ninja-build
have_command sqlite3 || need sqlite3
have_python || need python3
# The tests of the Python package, and those that get other hosts and extensions, do without, where these are
# not easily had.
for module in numpy pytest click pip; do
  have_module $module || ! have_command apt-get || need python3-$module
done
have_header sqlite3ext.h || need libsqlite3-dev
have_header doctest/doctest.h || need doctest-dev
have_header hwy/highway.h || need libhwy-dev
[ -n "$missing" ] || exit 0

give_up() {
  echo "set-up: $1" >&2
  echo "set-up: please install the equivalents of these Debian packages:$missing" >&2
  exit 1
}

have_command apt-get || give_up "there is no apt-get here"
sudo=""
if [ "$(id -u)" != 0 ]; then
  have_command sudo || give_up "installing needs root, and there is no sudo"
  sudo="sudo"
fi

echo "set-up: installing$missing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# A fresh container has no package lists; a broken third-party source must not stop the rest.
$sudo apt-get update >"$log" 2>&1 || true
# shellcheck disable=SC2086  # the list of packages is meant to be split
if ! $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
    $missing >>"$log" 2>&1; then
  tail -n 20 "$log" >&2
  give_up "apt-get could not install them"
fi
