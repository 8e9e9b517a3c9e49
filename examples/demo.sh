#!/usr/bin/env bash
# One node does the main job, on real input: the Go toolchain's own sources, which
# are there wherever Locus was built. Every command is shown with what it printed,
# and the run fails where it does not print what it is meant to show.
#
# usage: examples/demo.sh [PATH-OF-LOCUS]
set -euo pipefail

locus=$(realpath "${1:-bin/locus}")
data=$(mktemp -d "${TMPDIR:-/tmp}/locus-demo.XXXXXX")
src=$(go env GOROOT)/src
export LOCUS_DATA=$data
node=

finish() {
  if [ -n "$node" ]; then
    kill -TERM "$node" 2>/dev/null || true
    wait "$node" 2>/dev/null || true
  fi
  rm -rf "$data"
}
trap finish EXIT

fail() {
  printf 'demo: %s\n' "$*" >&2
  exit 1
}
title() { printf '\n== %s\n\n' "$*"; }
say() { printf '# %s\n' "$*"; }

# show ARG... runs a command of locus and prints it with its output, which is also
# left in $out. A non-zero exit status is part of the story and is told.
show() {
  local arg line=
  for arg in "$@"; do
    case $arg in
      *\'*) line+=" \"$arg\"" ;;
      *[!A-Za-z0-9_./:=-]* | '') line+=" '$arg'" ;;
      *) line+=" $arg" ;;
    esac
  done
  printf '$ locus%s\n' "$line"
  local status=0
  out=$("$locus" "$@" 2>&1) || status=$?
  [ -z "$out" ] || printf '%s\n' "$out"
  [ "$status" -eq 0 ] || printf '(exit status %d)\n' "$status"
  printf '\n'
}
# expect WANT fails unless the last output has it in it.
expect() {
  case $out in
    *"$1"*) ;;
    *) fail "expected '$1' in: $out" ;;
  esac
}

title "A node starts"
"$locus" up --http 127.0.0.1:0 --listen 127.0.0.1:0 --log-level warn >"$data/ready" &
node=$!
for _ in $(seq 400); do
  [ -s "$data/ready" ] && break
  kill -0 "$node" 2>/dev/null || fail "the node did not start"
  sleep 0.05
done
say "locus up"
cat "$data/ready"

title "1. A shell lists the files: bash, stateless"
show exec -l bash "cd $src && ls -d net/*/ | head -3 && find . -name '*.go' | wc -l"
expect net/http/

title "2. A session loads them: python, stateful, session 'go'"
show exec -m stateful -s go "
from collections import Counter
from pathlib import Path
src = Path('$src')
lines = Counter()
for f in src.rglob('*.go'):
    if f.is_file():
        lines[f.relative_to(src).parts[0]] += f.read_text(errors='replace').count(chr(10))
lines.most_common(3)"
expect runtime
loaded=$("$locus" exec -m read_only -s go '[len(lines), sum(lines.values())]')

title "3. A read-only call tries a reshape that would spoil it"
show exec -m read_only -s go "
for name in list(lines):
    if name != 'net':
        del lines[name]
lines"
expect "{'net':"
say "It saw everything and changed nothing:"
show exec -m read_only -s go '[len(lines), sum(lines.values())]'
expect "$loaded"

title "4. A stateless check knows nothing of the session"
show exec "'lines' in globals()"
expect False

title "A refusal, and its mend"
show exec -m stateless -s go 'lines["net"]'
expect stateless_with_session
say "The suggestion makes the call valid. What was meant reads the session:"
show exec -m read_only -s go 'lines["net"]'

title "The session's process is killed, and the caller is told"
pid=$("$locus" exec -m stateful -s go 'import os; os.getpid()')
show exec -l bash "kill -9 $pid"
say "A call that only reads is not served from an empty session:"
show exec -m read_only -s go 'lines["net"]'
expect session_lost
say "A stateful one gets the session rebuilt, and hears what was lost:"
show exec -m stateful -s go "'lines' in globals()"
expect process_died

title "What there is now"
show sessions list
