# The functions of a zsh session. session.bash tells the shape of it all; what
# differs here:
#
# A zsh that has been told to exit cannot be told again, so a copy made at that
# moment is of no use as a session. Instead the state is written to the file
# carry, as records that a fresh session evaluates one by one.
#
# Options that a function changes are its own (emulate -L), so those of the caller
# need no saving.

zmodload zsh/system zsh/parameter

__locus_loop='until __locus_next; do true; eval "$__locus_code"; { __locus_status=$?; if [[ $__locus_opts == *t* ]]; then builtin trap >|"$__locus_dir/traps"; fi; __locus_done $__locus_status } 2>/dev/null; if [[ -n $__locus_again ]]; then trap "$__locus_exit" EXIT; __locus_again=; fi; done'
__locus_traps_text='trap "$__locus_exit" EXIT; trap "$__locus_int" INT; eval "$__locus_traps"; '
__locus_exit='__locus_leave $? "$@"'
__locus_int='[[ -z $__locus_call ]] || builtin exit 130'

__locus_say() {
  builtin printf '\n%s %s %s %s %s .\n' "$__locus_token" "$1" "$2" "$3" "$__locus_pid" >"$__locus_dir/rep"
}

__locus_next() {
  emulate -L zsh
  unsetopt allexport errexit errreturn nounset xtrace verbose multibyte
  if [[ -n $__locus_call ]]; then __locus_done 0 2>/dev/null; fi
  while true; do
    __locus_read || { __locus_left=1; return 0; }
    case $__locus_op in
    r)
      __locus_call=$__locus_seq
      exec <"$__locus_in" >"$__locus_dir/o$__locus_out" 2>"$__locus_dir/e$__locus_out"
      return 1
      ;;
    f)
      __locus_child=$__locus_code
      __locus_keep_traps
      # The process between is killed, which must not count as an error.
      __locus_code='if [[ -o errexit ]]; then __locus_strict=errexit; unsetopt errexit; else __locus_strict=; fi; ( :; ( if [[ -n $__locus_strict ]]; then setopt errexit; fi; __locus_dir=$__locus_child; eval "$__locus_traps_text"; __locus_adopt; eval "$__locus_loop" ); : ); if [[ -n $__locus_strict ]]; then setopt errexit; fi'
      return 1
      ;;
    l)
      __locus_child=$__locus_code
      __locus_code='__locus_load; for __locus_record in "${(@)__locus_records}"; do eval "$__locus_record"; done 2>/dev/null; __locus_loaded'
      return 1
      ;;
    s)
      __locus_dump
      __locus_say s $__locus_seq 0
      ;;
    *)
      __locus_left=1
      eval "$__locus_user_exit"
      return 0
      ;;
    esac
  done
}

__locus_read() {
  emulate -L zsh
  unsetopt allexport errexit errreturn nounset xtrace verbose multibyte
  local part
  integer left
  {
    while ! sysread -i 0 -s 64 __locus_head; do
      [[ -p $__locus_dir/req ]] || return 1
    done
    __locus_op=$__locus_head[1]
    __locus_seq=$(( 10#$__locus_head[3,12] ))
    left=$(( 10#$__locus_head[14,23] ))
    __locus_opts=$__locus_head[25,32]
    __locus_out=$(( 10#$__locus_head[35,44] ))
    if [[ $__locus_op == r ]]; then builtin export __locus_caller=$__locus_head[46,63]; fi
    __locus_in=/dev/null
    if [[ $__locus_opts == *i* ]]; then __locus_in=$__locus_dir/i$__locus_seq; fi
    __locus_code=
    while (( left > 0 )); do
      if sysread -i 0 -s $(( left > 65536 ? 65536 : left )) part; then
        __locus_code+=$part
        left=$(( left - $#part ))
      elif [[ ! -p $__locus_dir/req ]]; then
        return 1
      fi
    done
  } <"$__locus_dir/req"
}

__locus_done() {
  emulate -L zsh
  unsetopt allexport errexit errreturn nounset xtrace verbose
  exec </dev/null >/dev/null 2>&1
  if [[ -n $__locus_call ]]; then
    __locus_call=
    if [[ $__locus_opts == *t* ]]; then __locus_keep_exit; fi
    if [[ $__locus_opts == *d* ]]; then __locus_dump; fi
    __locus_say d $__locus_seq $1
  fi
}

# Keeps a caller's EXIT trap that has taken the place of ours. The loop lists the
# traps and sets ours again, as a function has an EXIT trap of its own.
__locus_keep_exit() {
  __locus_traps="$(<"$__locus_dir/traps")"
  () {
    trap() {
      if [[ $3 == EXIT && $2 != $__locus_exit ]]; then __locus_user_exit=$2 __locus_again=1; fi
    }
    eval "$__locus_traps"
    unfunction trap
  }
}

# Keeps what trap lists as text. It cannot be asked in a subshell.
__locus_keep_traps() {
  builtin trap >|"$__locus_dir/traps"
  __locus_traps="$(<"$__locus_dir/traps")"
}

__locus_dump() {
  {
    builtin print -rN -- "$PWD"
    builtin printf '\0'
    builtin print -rN -- "${(@)${(@kv)parameters}/#/=}"
    builtin printf '\0'
    builtin typeset -p
    builtin printf '\0\0'
    builtin print -rN -- "${(@)${(@kv)functions}/#/=}"
    builtin printf '\0'
    builtin print -rN -- "${(@)${(@kv)aliases}/#/=}"
    builtin printf '\0'
  } >>"$__locus_dir/state" 2>/dev/null
}

__locus_adopt() {
  __locus_pid=$sysparams[pid]
  __locus_call= __locus_left= __locus_again=
  zshexit_functions=(__locus_hook)
  __locus_say h 0 0
}

# Comes after the EXIT trap, so it matters only where that is not ours. A
# subshell of the caller's has it too.
__locus_hook() {
  local status_=$?
  if [[ $sysparams[pid] == $__locus_pid && -z $__locus_left ]]; then __locus_leave $status_; fi
}

# Writes the state down, in the order in which it must be evaluated.
__locus_leave() {
  typeset -gA __locus_after
  __locus_after=("${(@kv)options}")
  emulate -L zsh
  unsetopt allexport errexit errreturn nounset xtrace verbose
  exec </dev/null >/dev/null 2>&1
  if [[ -n $__locus_left ]]; then return; fi
  __locus_left=1 __locus_status=$1
  shift
  __locus_keep_traps
  {
    builtin print -rN -- "set -- ${(qq)@}" "cd -q -- ${(qq)PWD}" "umask $(umask)"
    builtin print -rN -- "__locus_call=$__locus_call __locus_seq=$__locus_seq __locus_opts=${(qq)__locus_opts} __locus_status=$__locus_status"
    builtin print -rN -- "__locus_user_exit=${(qq)__locus_user_exit}"
    for __locus_head in "${(@k)parameters}"; do
      case $__locus_head in
      __locus_* | zshexit_functions | [!a-zA-Z_]* | 0 | _ | argv | status | pipestatus | PWD | OLDPWD | SHLVL) continue ;;
      UID | EUID | GID | EGID | USERNAME | RANDOM | SECONDS | LINENO | ERRNO | HISTCMD | TRY_BLOCK_* | COLUMNS | LINES | watch | WATCH | WATCHFMT | LOGCHECK) continue ;;
      esac
      case $parameters[$__locus_head] in
      *hideval* | *local* | *readonly*special*) continue ;;
      esac
      builtin print -rN -- "$(builtin typeset -p $__locus_head)"
    done
    for __locus_head in "${(@k)functions}"; do
      if [[ $__locus_head == (__locus_*|trap) ]]; then continue; fi
      builtin print -rN -- "functions[${(q)__locus_head}]=${(qq)functions[$__locus_head]}"
    done
    for __locus_table in aliases galiases saliases; do
      for __locus_head in "${(@kP)__locus_table}"; do
        builtin print -rN -- "${__locus_table}[${(q)__locus_head}]=${(qq)${(P)__locus_table}[$__locus_head]}"
      done
    done
    builtin print -rN -- "$__locus_traps"
    for __locus_head in "${(@k)__locus_after}"; do
      case $__locus_head in
      errexit | errreturn | nounset | xtrace | verbose | exec | interactive | login | monitor | privileged | restricted | shinstdin | singlecommand) continue ;;
      esac
      if [[ $__locus_after[$__locus_head] != $__locus_before[$__locus_head] ]]; then
        builtin print -rN -- "options[$__locus_head]=$__locus_after[$__locus_head]"
      fi
    done
    for __locus_head in nounset xtrace verbose errreturn errexit; do
      if [[ $__locus_after[$__locus_head] == on ]]; then builtin print -rN -- "setopt $__locus_head"; fi
    done
  } >|"$__locus_dir/carry"
  __locus_say x $__locus_seq $__locus_status
  # The node ends this process.
  while [[ -p $__locus_dir/req ]]; do sysread -i 0 __locus_head <"$__locus_dir/req"; done
}

__locus_load() {
  emulate -L zsh
  unsetopt allexport errexit errreturn nounset xtrace verbose
  __locus_records=("${(@0)$(<"$__locus_child/carry")}")
}

__locus_loaded() {
  __locus_records=()
  __locus_again=1
  __locus_done $__locus_status
}

__locus_signals=(HUP INT QUIT USR1 USR2 TERM ALRM WINCH CONT URG IO PROF VTALRM)

__locus_watch() {
  __locus_pid=$sysparams[pid]
  for __locus_head in $__locus_signals; do
    builtin trap "__locus_say k $__locus_head 0" $__locus_head
  done
}

__locus_park() {
  while [[ -p $__locus_dir/req ]]; do sysread -i 0 __locus_head <"$__locus_dir/req"; done
}

typeset -A __locus_before
__locus_before=("${(@kv)options}")
