#!/bin/sh
# Makes or updates the development environment DIR, whole or not at all: it is filled under another name and renamed at the end.
# PYTHON names the interpreter; without it the first one on PATH that is new enough is taken, and if there is none, uv is asked.
set -eu
cd "$(dirname "$0")/.."
venv=$1
new=$venv.new
tools=$venv.tools

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }
can_make_environments() { "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; }
describe() { "$1" -c 'import sys; print("%d.%d at %s" % (sys.version_info[0], sys.version_info[1], sys.argv[1]))' "$1" 2>/dev/null; }
say() { echo "modelyard: $*" >&2; }
fail() { say "$*"; exit 1; }

clean_up() { rm -rf "$new" "$tools"; }
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
clean_up

# uv takes the user's settings for pip (variables and pip.conf: index, proxy, a company's certificates) as it does where images
# are built. Any Python can tell them, also one that is too old for the rest.
take_settings() {
  if settings=$("$1" -c 'import runpy, sys; runpy.run_path(sys.argv[1], run_name="__main__")' \
    src/modelyard/local/images/installer.py 2>/dev/null); then
    eval "$settings"
  fi
}

fill() {  # fill UV ENVIRONMENT
  "$1" pip sync --quiet --python "$2/bin/python" requirements.lock
  "$1" pip install --quiet --python "$2/bin/python" --no-deps --no-build-isolation --editable .
}

if new_enough "$venv/bin/python" && [ -x "$venv/bin/uv" ]; then
  take_settings "$venv/bin/python"
  fill "$venv/bin/uv" "$venv"
  exit 0
fi

python='' found='' helper=''
for name in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11 python}; do
  path=$(command -v "$name") || continue
  version=$(describe "$path") || continue
  found=${found:-$version}
  if new_enough "$path"; then
    python=$path
    break
  fi
  helper=${helper:-$path}
done

# The uv of our lock fills the environment; one that is installed helps out where an interpreter cannot make environments.
if can_make_environments "${python:-$helper}"; then
  needs_own_uv=yes
elif uv=$(command -v uv); then
  needs_own_uv=
elif [ -n "$python" ]; then
  fail "$python cannot make virtual environments: install the package python3-venv (Debian, Ubuntu) or uv"
else
  fail "needs Python 3.11 or newer, found ${found:-none}; install one, or name it: make PYTHON=/path/to/python3.12"
fi
[ -n "$python" ] || say "needs Python 3.11 or newer, found ${found:-none}; asking uv for Python 3.12"

take_settings "${python:-$helper}"
if [ -n "$needs_own_uv" ]; then
  "${python:-$helper}" -m venv "$tools"
  "$tools/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes --requirement tools/uv.lock
  uv=$tools/bin/uv
fi
# Relocatable: nothing in it may remember the name under which it was filled.
"$uv" venv --quiet --relocatable --python "${python:-3.12}" "$new" \
  || fail "could not make an environment with Python ${python:-3.12}; name another one: make PYTHON=/path/to/python3.12"
[ -n "${python:-$helper}" ] || take_settings "$new/bin/python"
fill "$uv" "$new"
if [ -e "$venv" ] || [ -h "$venv" ]; then
  say "replacing $venv, whose Python is gone, too old or without our packages"
  rm -rf "$venv"
fi
mv "$new" "$venv"
