#!/usr/bin/env bash
# One node does the main job, on real input: the Go toolchain's own sources, which
# are there wherever Locus was built. Every command is shown with what it printed.
#
# usage: examples/demo.sh PATH-OF-LOCUS
set -euo pipefail

locus=$(realpath "${1:-bin/locus}")
data=$(mktemp -d "${TMPDIR:-/tmp}/locus-demo.XXXXXX")
goroot=$(go env GOROOT)
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

title() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
say() { printf '\n# %s\n' "$*"; }
# show CMD... prints the command and runs it. A non-zero status is part of the
# story and is told.
show() {
  printf '$ locus'
  printf ' %q' "$@" | sed "s/\\$'\(.*\)'/'\1'/; s/\\\\n/\n    /g"
  printf '\n'
  local status=0
  "$locus" "$@" || status=$?
  [ "$status" -eq 0 ] || printf '(exit status %d)\n' "$status"
}
# expect WANT GOT... fails the demo when what came is not what it shows.
expect() {
  case "$2" in
    *"$1"*) ;;
    *) printf 'demo: expected %q in: %s\n' "$1" "$2" >&2; exit 1 ;;
  esac
}

title "A node"
"$locus" up --http 127.0.0.1:0 --listen 127.0.0.1:0 --log-level warn >"$data/ready" &
node=$!
for _ in $(seq 200); do
  [ -s "$data/ready" ] && break
  kill -0 "$node" 2>/dev/null || { echo "demo: the node did not start" >&2; exit 1; }
  sleep 0.05
done
cat "$data/ready"

title "1. A shell lists the files (bash, stateless)"
show exec -l bash "cd $goroot/src && ls -d net/*/ | head -5 && find . -name '*.go' | wc -l"

title "2. A session loads them (python, stateful, session \"go\")"
show exec -m stateful -s go "
import pathlib, collections
root = pathlib.Path('$goroot/src')
lines = collections.Counter()
for f in root.rglob('*.go'):
    lines[f.relative_to(root).parts[0]] += f.read_bytes().count(b'\\n')
sum(lines.values())"
before=$("$locus" exec -m read_only -s go 'len(lines), sum(lines.values())')

title "3. A read-only call tries a reshape that would spoil it"
show exec -m read_only -s go "
for name in list(lines):
    if lines[name] < 50_000:
        del lines[name]
lines.most_common(3)"
say "the session is as it was:"
show exec -m read_only -s go "len(lines), sum(lines.values())"
expect "$before" "$("$locus" exec -m read_only -s go 'len(lines), sum(lines.values())')"

title "4. A stateless check sees nothing of it"
show exec "'lines' in globals()"

title "A refusal, and its mend"
show exec -m stateless -s go "lines" || true
refusal=$("$locus" --json exec -m stateless -s go "lines" || true)
expect '"code":"stateless_with_session"' "$(printf '%s' "$refusal" | tr -d ' \n')"
show exec -m read_only -s go "lines.most_common(1)"

title "The session's process is killed"
pid=$("$locus" exec -m stateful -s go 'import os; os.getpid()')
show exec -l bash "kill -9 $pid"
say "a call that may only read is not served from an empty session:"
show exec -m read_only -s go "lines" || true
say "a stateful call gets the session rebuilt, and is told what was lost:"
show exec -m stateful -s go "'lines' in globals()"
lost=$("$locus" --json sessions list)
expect '"session_name":"go"' "$(printf '%s' "$lost" | tr -d ' \n')"

title "What there is now"
show sessions list
show status
