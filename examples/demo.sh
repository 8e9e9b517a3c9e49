#!/usr/bin/env bash
# Prints a transcript of Locus at work, and fails if a command does not print what it
# should.
#
# Part one: one node. Programs work on real files (the Go toolchain's sources, which exist
# wherever Locus was built) and in an environment with a real package.
# Part two: three nodes form a mesh, and the node that owns a session is killed.
#
# usage: examples/demo.sh [PATH-OF-LOCUS]
set -euo pipefail

locus=$(realpath "${1:-bin/locus}")
data=$(mktemp -d "${TMPDIR:-/tmp}/locus-demo.XXXXXX")
src=$(go env GOROOT)/src
export LOCUS_DATA=$data/1
declare -A nodes=() # process by number

finish() {
  for n in "${!nodes[@]}"; do
    kill -TERM "${nodes[$n]}" 2>/dev/null || true
    wait "${nodes[$n]}" 2>/dev/null || true
  done
  rm -rf "$data"
}
trap finish EXIT

fail() {
  printf 'demo: %s\n' "$*" >&2
  exit 1
}
title() { printf '\n== %s\n\n' "$*"; }
say() { printf '# %s\n' "$*"; }

# show ARG... runs a locus command, prints it with its output and any non-zero exit
# status, and leaves the output in $out.
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
# expect WANT fails unless the last output contains it.
expect() {
  case $out in
    *"$1"*) ;;
    *) fail "expected '$1' in: $out" ;;
  esac
}

# up N ARG... starts node N and waits until it serves.
up() {
  local n=$1
  shift
  mkdir -p "$data/$n"
  "$locus" up --data "$data/$n" --http 127.0.0.1:0 --listen 127.0.0.1:0 --fast --log-level error "$@" >"$data/$n/ready" &
  nodes[$n]=$!
  for _ in $(seq 600); do
    [ -s "$data/$n/ready" ] && break
    kill -0 "${nodes[$n]}" 2>/dev/null || fail "node $n did not start"
    sleep 0.05
  done
  cat "$data/$n/ready"
}
# at N KEY prints the value of KEY in node N's ready line.
at() { sed -n "s/.*\b$2=\([^ ]*\).*/\1/p" "$data/$1/ready"; }

title "A node starts"
say "locus up"
up 1

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

title "3. A read-only call modifies its copy"
show exec -m read_only -s go "
for name in list(lines):
    if name != 'net':
        del lines[name]
lines"
expect "{'net':"
say "The session is unchanged:"
show exec -m read_only -s go '[len(lines), sum(lines.values())]'
expect "$loaded"

title "4. A stateless call sees nothing of the session"
show exec "'lines' in globals()"
expect False

title "A refusal, and its correction"
show exec -m stateless -s go 'lines["net"]'
expect stateless_with_session
say "The suggestion makes the call valid. To read the session, use read_only:"
show exec -m read_only -s go 'lines["net"]'

title "The session's process is killed, and the caller is told"
pid=$("$locus" exec -m stateful -s go 'import os; os.getpid()')
show exec -l bash "kill -9 $pid"
say "A read-only call is not served from an empty session:"
show exec -m read_only -s go 'lines["net"]'
expect session_lost
say "A stateful call has the session rebuilt, and is told what was lost:"
show exec -m stateful -s go "'lines' in globals()"
expect process_died

title "The same four kinds of call in an environment"
cat >"$data/pyproject.toml" <<'END'
[project]
name = "tables"
version = "1"
dependencies = ["pandas"]
END
say "pyproject.toml asks for pandas:"
show venv add -f "$data/pyproject.toml" --name tables
expect 1
say "The first call builds it, once for all sessions, and shows the progress:"
show exec --venv 1 -m stateful -s table "
import pandas as pd
from pathlib import Path
frame = pd.DataFrame([(f.parts[len(Path('$src').parts)], f.stat().st_size) for f in Path('$src').rglob('*.go') if f.is_file()], columns=['package', 'bytes'])
frame.groupby('package').bytes.sum().nlargest(3)"
expect cmd
rows=$("$locus" exec --venv 1 -m read_only -s table 'len(frame)')
show exec --venv 1 -m read_only -s table "frame.drop(frame.index[1:]).shape"
expect '[1, 2]'
show exec --venv 1 -m read_only -s table 'del frame["bytes"]; list(frame)'
expect "['package']"
show exec --venv 1 -m read_only -s table 'len(frame), list(frame)'
expect "[$rows, ['package', 'bytes']]"
show exec --venv 1 "'frame' in globals()"
expect False
say "A shell has no environments, and says so:"
show exec -l bash --venv 1 'ls'
expect venv_with_shell

title "A stored function brings its own environment"
cat >"$data/summary.py" <<'END'
def summary(sizes: list[int]) -> dict:
    """How the sizes are spread, by pandas."""
    import pandas
    return pandas.Series(sizes).describe().round(1).to_dict()
END
say "summary.py, which uses pandas:"
show fn add -f "$data/summary.py" --venv 1
expect summary
say "A session without pandas calls it:"
show exec -m stateful -s go "
from pathlib import Path
sizes = [f.stat().st_size for f in Path('$src/net').glob('*.go')]
spread = await functions.summary(sizes)
spread['max'] == max(sizes), spread['count']"
expect '[True, '

title "The sessions so far"
show sessions list

title "Part two: two more nodes join, each with its own token"
token=$("$locus" token create --role node 2>/dev/null)
say "locus up --join $(at 1 listen) --token ${token:0:12}..."
up 2 --join "$(at 1 listen)" --token "$token"
token=$("$locus" token create --role node 2>/dev/null)
say "locus up --join $(at 2 listen) --token ${token:0:12}..."
up 3 --join "$(at 2 listen)" --token "$token"
printf '\n'
for _ in $(seq 600); do
  out=$("$locus" nodes)
  [ "$(grep -c -e voter -e leader <<<"$out")" -eq 3 ] && break
  sleep 0.05
done
show nodes
expect leader

title "A session lives on one node, and every node answers for it"
show exec -m stateful -s plan "steps = ['read', 'think', 'write']; len(steps)"
owner=$("$locus" sessions list --json | sed -n 's/.*"session_name":"plan"[^}]*"node":"\([^"]*\)".*/\1/p')
export LOCUS_TOKEN
LOCUS_TOKEN=$(cat "$data/1/default.token")
for n in 1 2 3; do
  [ "$(at $n node)" = "$owner" ] && dead=$n || alive=$n
done
say "It lives on node $dead. Through node $alive:"
export LOCUS_SERVER
LOCUS_SERVER=http://$(at $alive http)
show exec -m read_only -s plan "steps[-1]"
expect write

title "Node $dead is killed"
say "kill -9 ${nodes[$dead]}"
kill -9 "${nodes[$dead]}"
wait "${nodes[$dead]}" 2>/dev/null || true
say "The next call waits until the node is declared lost, and is told what was lost:"
show exec -m stateful -s plan "'steps' in globals()"
expect node_expired
show sessions list
expect "$(at $alive node)"
show nodes
expect expired
