# The functions of a session in a POSIX shell such as dash. The structure is that of
# session.bash. The differences:
#
# Such a shell cannot read a number of bytes, and it reads pipes byte by byte, so the code
# is in a file, c and the number of the call. Each of our lines is enclosed in two
# characters that are in no IFS. The shell does not know its own pid, so it reads /proc.
# "command" keeps an error in eval, a special builtin, from ending the shell.
#
# Special builtins take precedence over the caller's functions, and so does anything called
# through "command"; a function of the caller named "command" is removed. Where our text is
# parsed later, a backslash prevents the caller's aliases from being expanded.

__locus_nl='
'
__locus_last=0 __locus_flags= __locus_trace= __locus_call= __locus_child= __locus_user_exit=
# The condition of the if sets $? to the status of the last call; as a condition it is
# exempt from errexit.
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
      # Drops the shell's message about the intermediate process, which the node kills.
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

# Sets our trap on SIGINT if the caller has removed all traps on it.
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
    # If code has made it impossible to open files, the session ends.
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

# Removes the two enclosing characters from the line that was read.
__locus_bare() {
  __locus_head=${__locus_head#?}
  __locus_head=${__locus_head%?}
}

# Restores the options that the last call left on, except tracing, and its status.
__locus_begin() {
  [ "$__locus_op" = r ] || return 0
  [ -z "$__locus_flags" ] || set "-$__locus_flags"
  return "$__locus_last"
}

# Restores tracing as the first command of the code, so that our own code is not traced.
__locus_retrace() {
  set -x
  case $- in *e*) ;; *) return "$__locus_last" ;; esac
}

# Saves the status and the options that a call has left, and turns off options that would
# disturb our code.
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
  case $__locus_opts in *d*) __locus_dump ;; esac
  __locus_say d "$__locus_seq" "$__locus_last"
  __locus_call= # only now: a trap may have left the shell before the reply
}

# The file n has the names of functions that programs seem to have defined.
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
  } >|"$__locus_dir/state" 2>/dev/null
}

__locus_adopt() {
  __locus_self
  command trap __locus_interrupt INT
  [ -z "$__locus_child" ] || __locus_take_traps
  __locus_dir=${__locus_child:-$__locus_dir} __locus_child=
  __locus_disk=0 __locus_processes=0
  case ${__locus_opts-} in *p*) __locus_isolate ;; esac
  command trap "$__locus_exit" EXIT
  __locus_call=
  __locus_say h "$__locus_processes" "$__locus_disk"
}

# Makes the preloaded library isolate this process, which says with which errors.
__locus_isolate() {
  __locus_head=fork __locus_disk=255 __locus_processes=255
  case $__locus_opts in *c*) __locus_head=copy ;; esac
  command read -r __locus_head <"$__locus_dir/isolate-$__locus_head" || return
  __locus_bare
  __locus_disk=${__locus_head% *} __locus_processes=${__locus_head#* }
}

# Sets the traps that another process has saved, even if an alias is named trap.
__locus_take_traps() {
  __locus_head=$(command alias trap 2>/dev/null)
  [ -z "$__locus_head" ] || command unalias trap
  command . "$__locus_dir/traps"
  [ -z "$__locus_head" ] || command eval "\\alias $__locus_head"
}

# Saves the traps of a process that the code leaves.
__locus_depart() {
  __locus_end "$@"
  command trap >|"$__locus_dir/traps"
}

# Starts the subshell that continues the session.
__locus_renew() {
  __locus_self
  __locus_take_traps
  command trap "$__locus_exit" EXIT
  command alias exit >/dev/null 2>&1 || command alias exit=__locus_leave
  __locus_close
}

# Replaces exit, by an alias, in a process that continues after an exit: there an exit
# without a status would have the status of the first one.
__locus_leave() { exit "${1-$?}"; }

# Replaces trap, by an alias, once a program seems to set an EXIT trap.
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
      # A subshell does not have our EXIT trap.
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
