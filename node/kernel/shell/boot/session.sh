# The functions of a session of a POSIX shell such as dash. session.bash tells the
# shape of it all; what differs here:
#
# Such a shell cannot read a number of bytes and reads pipes byte by byte, so the
# code comes in a file, c and the number of the call. It cannot tell its own pid,
# which /proc can. The prefix "command" keeps an error in eval, a special builtin,
# from ending the shell.

__locus_nl='
'
__locus_loop='until __locus_next; do eval "$__locus_flags"; command eval "$__locus_code"; { __locus_done "$?"; } 2>/dev/null; done'
__locus_exit='__locus_status=$? __locus_shopt=$-; command trap >|"$__locus_dir/traps"; ( __locus_renew; eval "$__locus_loop" )'
__locus_int='command [ -z "${__locus_call-}" ] || exit 130'

__locus_say() {
  command printf '\n%s %s %s %s %s .\n' "$__locus_token" "$1" "$2" "$3" "$__locus_pid" >"$__locus_dir/rep"
}

__locus_self() {
  command read -r __locus_pid </proc/self/stat
  __locus_pid=${__locus_pid%% *}
}

__locus_next() {
  if command [ -n "${__locus_call-}" ]; then __locus_done 0 2>/dev/null; fi
  while :; do
    __locus_read || { command trap - EXIT; return 0; }
    case $__locus_op in
    r)
      __locus_call=$__locus_seq
      exec <"$__locus_in" >"$__locus_dir/o$__locus_out" 2>"$__locus_dir/e$__locus_out"
      return 1
      ;;
    f)
      # What the shell says of the process between is for nobody.
      exec 2>/dev/null
      __locus_child=$__locus_code
      command trap >|"$__locus_dir/traps"
      __locus_parent=$__locus_dir
      __locus_code='( :; ( __locus_dir=$__locus_child; __locus_adopt; eval "$__locus_loop" ); : )'
      __locus_flags=
      return 1
      ;;
    s)
      __locus_dump
      __locus_say s "$__locus_seq" 0
      ;;
    *)
      command trap - EXIT
      command eval "${__locus_user_exit-}"
      return 0
      ;;
    esac
  done
}

# A trap that runs while the shell waits for a request makes read fail.
__locus_read() {
  until command read -r __locus_head <"$__locus_dir/req"; do
    # Nor can anything be opened where code has forbidden it: then this is the end.
    command [ -p "$__locus_dir/req" ] && command : <"$__locus_dir/req" || return 1
  done
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
  if command [ "$__locus_bytes" -gt 2000 ]; then
    __locus_code=$(command -p cat "$__locus_dir/c$__locus_seq")
  elif command [ "$__locus_bytes" -gt 0 ]; then
    while IFS= command read -r __locus_head; do
      __locus_code=$__locus_code$__locus_head$__locus_nl
    done <"$__locus_dir/c$__locus_seq"
    __locus_code=$__locus_code$__locus_head
  fi
}

__locus_done() {
  __locus_shopt=$-
  __locus_close "$1"
}

__locus_close() {
  set +aeu +xv
  exec </dev/null >/dev/null 2>&1
  case $__locus_shopt in
  *a*)
    # Nothing but unset takes back that a variable is exported.
    __locus_flags=$__locus_shopt
    unset __locus_shopt
    __locus_shopt=$__locus_flags
    unset __locus_flags __locus_status
    __locus_flags="set -a;"
    ;;
  *) __locus_flags= ;;
  esac
  case $__locus_shopt in *e*) __locus_flags="$__locus_flags set -e;" ;; esac
  case $__locus_shopt in *u*) __locus_flags="$__locus_flags set -u;" ;; esac
  case $__locus_shopt in *v*) __locus_flags="$__locus_flags set -v;" ;; esac
  case $__locus_shopt in *x*) __locus_flags="$__locus_flags set -x;" ;; esac
  if command [ -n "${__locus_call-}" ]; then
    __locus_call=
    case $__locus_opts in *d*) __locus_dump ;; esac
    __locus_say d "$__locus_seq" "$1"
  fi
}

# The names in the file n are those that programs seem to have given to functions.
__locus_dump() {
  {
    command printf '%s\0' "$PWD"
    set
    command printf '\0'
    alias
    command printf '\0'
    if command [ -s "$__locus_dir/n" ]; then
      while command read -r __locus_head; do command -V "$__locus_head"; done <"$__locus_dir/n"
    fi
    command printf '\0'
  } >>"$__locus_dir/state" 2>/dev/null
}

__locus_adopt() {
  __locus_self
  command trap "$__locus_int" INT
  if command [ -n "${__locus_parent-}" ]; then command . "$__locus_parent/traps"; fi
  command trap "$__locus_exit" EXIT
  __locus_call=
  __locus_say h 0 0
}

__locus_renew() {
  set +aeu +xv
  exec </dev/null >/dev/null 2>&1
  __locus_self
  command . "$__locus_dir/traps"
  command trap "$__locus_exit" EXIT
  command alias exit=__locus_leave
  __locus_close "$__locus_status"
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
  while command [ -p "$__locus_dir/req" ]; do command read -r __locus_head <"$__locus_dir/req"; done
}
