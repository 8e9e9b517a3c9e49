# The functions of a session of a POSIX shell such as dash. session.bash tells the
# shape of it all; what differs here:
#
# Such a shell cannot read a number of bytes and reads pipes byte by byte, so the
# code comes in a file, c and the number of the call. Lines of ours stand between two
# signs that no IFS takes away. It cannot tell its own pid, which /proc can. The prefix
# "command" keeps an error in eval, a special builtin, from ending the shell.
#
# Special builtins come before the caller's functions, and so does what "command"
# calls. That name itself no function of the caller's can keep. Where a text of ours
# is read late, a backslash keeps the caller's aliases away.

__locus_nl='
'
__locus_last=0 __locus_flags= __locus_trace= __locus_call= __locus_child= __locus_user_exit=
# The condition gives the code the status of the last call; that it is a condition
# keeps errexit from ending the shell.
__locus_loop='until __locus_next; do
  if { __locus_begin; } 2>/dev/null; then \command eval "$__locus_code"; else \command eval "$__locus_code"; fi
  { __locus_done "$?" "$-"; } 2>/dev/null
done'
__locus_exit='{ __locus_depart "$?" "$-"; } 2>/dev/null; ( __locus_renew; \eval "$__locus_loop" )'

__locus_interrupt() {
  [ -z "$__locus_call" ] || exit 130
}

__locus_say() {
  command printf '\n%s %s %s %s %s .\n' "$__locus_token" "$1" "$2" "$3" "$__locus_pid" >"$__locus_dir/rep"
}

__locus_self() {
  command read -r __locus_pid </proc/self/stat
  __locus_pid=${__locus_pid%% *}
}

__locus_next() {
  [ -z "$__locus_call" ] || __locus_done 0 "$-" 2>/dev/null
  while :; do
    __locus_read || { command trap - EXIT; return 0; }
    case $__locus_op in
    r)
      __locus_call=$__locus_seq
      case $__locus_opts in *k*) __locus_keep_interrupt ;; esac
      [ -z "$__locus_trace" ] || __locus_code="{ __locus_retrace; } 2>/dev/null; $__locus_code"
      exec <"$__locus_in" >"$__locus_dir/o$__locus_out" 2>"$__locus_dir/e$__locus_out"
      return 1
      ;;
    f)
      # What the shell says of the process between is for nobody.
      exec 2>/dev/null
      __locus_child=$__locus_code
      command trap >|"$__locus_dir/traps"
      __locus_code='( __locus_op=f; ( __locus_adopt; \eval "$__locus_loop" ); __locus_op=f )'
      return 1
      ;;
    s)
      __locus_dump
      __locus_say s "$__locus_seq" 0
      ;;
    *)
      command trap - EXIT
      command eval "$__locus_user_exit"
      return 0
      ;;
    esac
  done
}

# Sets our trap on SIGINT where the caller has taken away its own.
__locus_keep_interrupt() {
  command trap >|"$__locus_dir/traps"
  while command read -r __locus_head; do
    case $__locus_head in *"' INT") return ;; esac
  done <"$__locus_dir/traps"
  command trap __locus_interrupt INT
}

# A trap that runs while the shell waits for a request makes read fail.
__locus_read() {
  until command read -r __locus_head <"$__locus_dir/req"; do
    # Nor can anything be opened where code has forbidden it: then this is the end.
    [ -p "$__locus_dir/req" ] && command : <"$__locus_dir/req" || return 1
  done
  __locus_bare
  __locus_op=${__locus_head%% *}
  __locus_head=${__locus_head#* }
  __locus_seq=${__locus_head%% *}
  __locus_head=${__locus_head#* }
  __locus_bytes=${__locus_head%% *}
  __locus_head=${__locus_head#* }
  __locus_opts=${__locus_head%% *}
  __locus_head=${__locus_head#* }
  __locus_out=${__locus_head%% *}
  case $__locus_op in r) command export __locus_caller="${__locus_head#* }" ;; esac
  __locus_in=/dev/null
  __locus_code=
  case $__locus_opts in *i*) __locus_in=$__locus_dir/i$__locus_seq ;; esac
  case $__locus_opts in *t*) command alias trap=__locus_trap ;; esac
  case $__locus_bytes,$__locus_opts in
  0,*) ;;
  *l*)
    while command read -r __locus_head; do
      __locus_bare
      __locus_code=$__locus_code$__locus_head$__locus_nl
    done <"$__locus_dir/c$__locus_seq"
    __locus_code=${__locus_code%"$__locus_nl"}
    ;;
  *) __locus_code=$(command -p cat "$__locus_dir/c$__locus_seq") ;;
  esac
}

# Takes the two signs off the line that was read.
__locus_bare() {
  __locus_head=${__locus_head#?}
  __locus_head=${__locus_head%?}
}

# Turns the options on that the last call left on, all but tracing, and gives its
# status.
__locus_begin() {
  [ "$__locus_op" = r ] || return 0
  [ -z "$__locus_flags" ] || set "-$__locus_flags"
  return "$__locus_last"
}

# Turns tracing on as the first command of the code, so that nothing of ours is traced.
__locus_retrace() {
  set -x
  case $- in *e*) ;; *) return "$__locus_last" ;; esac
}

# Takes down the status and the options that a call has left, and turns off those that
# would disturb us.
__locus_end() {
  set +aeu +xv
  unset -f command
  [ "$__locus_op" = r ] || return 0
  __locus_last=$1 __locus_flags= __locus_trace=
  case $2 in *a*) __locus_flags=a ;; esac
  case $2 in *e*) __locus_flags=${__locus_flags}e ;; esac
  case $2 in *u*) __locus_flags=${__locus_flags}u ;; esac
  case $2 in *v*) __locus_flags=${__locus_flags}v ;; esac
  case $2 in *x*) __locus_trace=x ;; esac
}

__locus_done() {
  __locus_end "$@"
  __locus_close
}

__locus_close() {
  exec </dev/null >/dev/null 2>&1
  [ -n "$__locus_call" ] || return 0
  __locus_call=
  case $__locus_opts in *d*) __locus_dump ;; esac
  __locus_say d "$__locus_seq" "$__locus_last"
}

# The names in the file n are those that programs seem to have given to functions.
__locus_dump() {
  {
    command pwd
    command printf '\0'
    set
    command printf '\0'
    alias
    command printf '\0'
    if [ -s "$__locus_dir/n" ]; then
      while command read -r __locus_head; do command -V "$__locus_head"; done <"$__locus_dir/n"
    fi
    command printf '\0'
  } >>"$__locus_dir/state" 2>/dev/null
}

__locus_adopt() {
  __locus_self
  command trap __locus_interrupt INT
  [ -z "$__locus_child" ] || __locus_take_traps
  __locus_dir=${__locus_child:-$__locus_dir} __locus_child=
  command trap "$__locus_exit" EXIT
  __locus_call=
  __locus_say h 0 0
}

# Sets the traps that another process has listed, past an alias of that name.
__locus_take_traps() {
  __locus_head=$(command alias trap 2>/dev/null)
  [ -z "$__locus_head" ] || command unalias trap
  command . "$__locus_dir/traps"
  [ -z "$__locus_head" ] || command eval "\\alias $__locus_head"
}

# The last words of a process that the code has left.
__locus_depart() {
  __locus_end "$@"
  command trap >|"$__locus_dir/traps"
}

# The first words of the one that goes on instead.
__locus_renew() {
  __locus_self
  __locus_take_traps
  command trap "$__locus_exit" EXIT
  command alias exit >/dev/null 2>&1 || command alias exit=__locus_leave
  __locus_close
}

# Stands in for exit, by an alias, in a process that goes on after an exit: there
# an exit without a status would have that of the first.
__locus_leave() { exit "${1-$?}"; }

# Stands in for trap, by an alias, once a program seems to set an EXIT trap.
__locus_trap() {
  case ${1-} in
  --) shift ;;
  esac
  case $#,${1-} in
  0,* | *,-*[!-]*) command trap "$@"; return ;;
  1,*) set -- - "$1" ;;
  esac
  __locus_action=$1
  __locus_result=0
  shift
  for __locus_head; do
    case $__locus_head in
    EXIT | 0)
      # A subshell has no trap of ours.
      command read -r __locus_bytes </proc/self/stat
      case ${__locus_bytes%% *},$__locus_action in
      "$__locus_pid",*) ;;
      *) command trap -- "$__locus_action" EXIT; continue ;;
      esac
      case $__locus_action in
      -) __locus_user_exit= ;;
      "$__locus_exit") ;;
      *) __locus_user_exit=$__locus_action ;;
      esac
      ;;
    *) command trap -- "$__locus_action" "$__locus_head" || __locus_result=$? ;;
    esac
  done
  return "$__locus_result"
}

__locus_signals='HUP INT QUIT USR1 USR2 TERM ALRM WINCH CONT URG IO PROF VTALRM'

__locus_watch() {
  __locus_self
  for __locus_head in $__locus_signals; do
    command trap "__locus_say k $__locus_head 0" "$__locus_head"
  done
}

__locus_park() {
  while [ -p "$__locus_dir/req" ]; do command read -r __locus_head <"$__locus_dir/req"; done
}
