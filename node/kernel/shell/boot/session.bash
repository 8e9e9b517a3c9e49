# The functions of a bash session without the loadable builtin. They stay defined in the
# session; all names start with __locus_.
#
# __locus_dir is the directory of the control FIFOs req and rep; each reply must start with
# __locus_token. The loop runs at the top level, not in a function, because declare would
# make local variables there.

# The caller may have defined functions and aliases of any name. So everything except
# reserved words is called through "builtin", and aliases are off while our text is parsed.

__locus_last=0 __locus_flags= __locus_trace= __locus_call= __locus_child= __locus_user_exit=
__locus_aliases=1

# The code is evaluated on line 1 of the loop, so line numbers are the caller's. The
# condition of the if sets $? to the status of the last call; as a condition it is exempt
# from errexit. The loop ends when __locus_next returns 0, or when the code has turned
# execution off (set -n), which would spin in a while loop.
__locus_loop='until __locus_next; do if { __locus_begin; } 2>/dev/null; then builtin eval "$__locus_code"; else builtin eval "$__locus_code"; fi; { __locus_done "$?" "$-"; } 2>/dev/null; done'

# The EXIT trap, for when the code leaves the shell (exit, set -e, a fatal expansion): a
# subshell continues the session, and the node kills this process.
__locus_exit='{ __locus_depart "$?" "$-"; } 2>/dev/null; ( __locus_renew; \builtin eval "$__locus_loop" )'

# The trap on SIGINT, which the node sends to the shell and its foreground children.
__locus_interrupt() {
  [[ -z $__locus_call ]] || builtin exit 130
}

__locus_say() {
  builtin printf '\n%s %s %s %s %s .\n' "$__locus_token" "$1" "$2" "$3" "$BASHPID" >"$__locus_dir/rep"
}

# Reads requests: a header of 64 bytes, then the code. Returns 1 when there is code to
# evaluate and 0 when the session has to end.
__locus_next() {
  if [[ -n $__locus_call ]]; then __locus_done 0 "$-" 2>/dev/null; fi
  while [[ 1 ]]; do
    __locus_read || { builtin trap - EXIT; builtin return 0; }
    case $__locus_op in
    r)
      __locus_call=$__locus_seq
      if [[ $__locus_opts == *k* ]]; then
        builtin trap -p INT >|"$__locus_dir/traps"
        [[ -s $__locus_dir/traps ]] || builtin trap __locus_interrupt INT
      fi
      if [[ -n $__locus_trace ]]; then __locus_code="{ __locus_retrace; } 2>/dev/null; $__locus_code"; fi
      exec <"$__locus_in" >"$__locus_dir/o$__locus_out" 2>"$__locus_dir/e$__locus_out"
      builtin return 1
      ;;
    f)
      # The node kills the intermediate process once the copy has sent its hello.
      __locus_child=$__locus_code
      builtin trap -p >|"$__locus_dir/traps"
      __locus_code='( __locus_op=f; ( __locus_adopt; builtin eval "$__locus_loop" ); __locus_op=f )'
      builtin return 1
      ;;
    s)
      __locus_dump
      __locus_say s "$__locus_seq" 0
      ;;
    *)
      builtin trap - EXIT
      builtin eval "$__locus_user_exit"
      builtin return 0
      ;;
    esac
  done
}

__locus_read() {
  builtin local __locus_head __locus_bytes
  {
    builtin read -r -N 64 __locus_head || builtin return
    __locus_op=${__locus_head:0:1}
    __locus_seq=$((10#${__locus_head:2:10}))
    __locus_bytes=$((10#${__locus_head:13:10}))
    __locus_opts=${__locus_head:24:8}
    __locus_out=$((10#${__locus_head:34:10}))
    if [[ $__locus_op == r ]]; then builtin export __locus_caller=${__locus_head:45:18}; fi
    __locus_code=
    __locus_in=/dev/null
    if [[ $__locus_opts == *i* ]]; then __locus_in=$__locus_dir/i$__locus_seq; fi
    if [[ $__locus_opts == *t* ]] && ! builtin declare -F trap >/dev/null; then __locus_wrap_trap; fi
    if ((__locus_bytes)); then
      if [[ $__locus_opts == *w* ]] && ! builtin local LC_ALL=C 2>/dev/null; then
        # LC_ALL is readonly, so read would count characters and not bytes.
        __locus_code=$(builtin command -p head -c "$__locus_bytes"; builtin printf .)
        __locus_code=${__locus_code%.}
      else
        builtin read -r -N "$__locus_bytes" __locus_code || builtin return
      fi
    fi
  } <"$__locus_dir/req"
}

# Restores the options that the last call left on, except tracing, and its status.
__locus_begin() {
  if [[ $__locus_op != r ]]; then builtin return 0; fi
  if [[ -n $__locus_aliases ]]; then builtin shopt -s expand_aliases; fi
  if [[ -n $__locus_flags ]]; then builtin set "-$__locus_flags"; fi
  builtin return "$__locus_last"
}

# Restores tracing as the first command of the code, so that our own code is not traced.
__locus_retrace() {
  builtin set -x
  if [[ $- != *e* ]]; then builtin return "$__locus_last"; fi
}

# Saves the status and the options that a call has left, and turns off options that would
# disturb our code. "exec" is called without "builtin", whose redirections would not last.
# So functions of the caller named "builtin" or "exec" are removed.
__locus_end() {
  if unset -f builtin; command unset -f builtin; then [[ 1 ]]; fi >/dev/null 2>&1
  builtin set +aeux +v
  builtin unset -f exec
  if [[ $__locus_op != r ]]; then builtin return; fi
  __locus_last=$1 __locus_flags=${2//[^aeuv]/} __locus_trace=${2//[^x]/} __locus_aliases=
  if [[ :$BASHOPTS: == *:expand_aliases:* ]]; then __locus_aliases=1; fi
  builtin shopt -u expand_aliases
}

__locus_done() {
  __locus_end "$@"
  __locus_close
}

__locus_close() {
  exec </dev/null >/dev/null 2>&1
  if [[ -n $__locus_call ]]; then
    [[ $__locus_opts != *d* ]] || __locus_dump
    __locus_say d "$__locus_seq" "$__locus_last"
    __locus_call= # only now: a trap may have left the shell before the reply
  fi
}

__locus_dump() {
  {
    builtin pwd
    builtin printf '\0'
    builtin declare -p
    builtin printf '\0'
    builtin declare -F
    builtin printf '\0'
    builtin declare -f
    builtin printf '\0'
    builtin alias -p
    builtin printf '\0'
  } >|"$__locus_dir/state" 2>/dev/null
}

# Starts a new session or copy, in its own process.
__locus_adopt() {
  __locus_pid=$BASHPID
  builtin trap __locus_interrupt INT
  if [[ -n $__locus_child ]]; then __locus_take_traps; fi
  __locus_dir=${__locus_child:-$__locus_dir} __locus_child=
  builtin trap "$__locus_exit" EXIT
  __locus_call=
  __locus_say h 0 0
}

# Sets the traps that another process has saved, even if a function is named trap.
__locus_take_traps() {
  builtin local mine=
  if builtin declare -F trap >/dev/null; then
    mine=$(builtin declare -f trap)
    builtin unset -f trap
  fi
  builtin source "$__locus_dir/traps"
  builtin eval "$mine"
}

# Saves the traps of a process that the code leaves.
__locus_depart() {
  __locus_end "$@"
  builtin trap -p >|"$__locus_dir/traps"
}

# Starts the subshell that continues the session. If the code left from inside a function,
# that function's local variables would hide the session's for ever, so they are removed.
__locus_renew() {
  __locus_pid=$BASHPID
  __locus_take_traps
  builtin trap "$__locus_exit" EXIT
  # This function's own frame is the first.
  if ((${#FUNCNAME[@]} > 1)); then __locus_unhide; fi
  __locus_close
}

# Unsetting a caller's local variable from a called function uncovers the variable that it
# hid. The global one is marked by the attribute t, which has no effect on variables.
__locus_unhide() {
  builtin mapfile -t __locus_names <<<"$(builtin compgen -v)"
  for __locus_name in "${__locus_names[@]}"; do
    case $__locus_name in
    __locus_* | BASH* | FUNCNAME | GROUPS | DIRSTACK | PIPESTATUS | EUID | UID | PPID | SHELLOPTS | RANDOM | SRANDOM | SECONDS | LINENO | EPOCH* | OPT* | COMP_WORDBREAKS | HISTCMD | _) builtin continue ;;
    esac
    builtin declare -n __locus_ref=$__locus_name
    if [[ ${__locus_ref@a} != *[rt]* ]]; then
      builtin declare -g +n -t "$__locus_name" 2>/dev/null
      __locus_limit=64
      while [[ ${__locus_ref@a} != *t* ]] && ((__locus_limit--)); do
        builtin unset -v "$__locus_name" || builtin break
      done
      if [[ -v $__locus_name ]] || [[ ${__locus_ref@a} == *[aA]* ]]; then
        builtin declare -g +t "$__locus_name" 2>/dev/null
      else
        builtin unset -v "$__locus_name"
      fi
    fi
    builtin unset -n __locus_ref
  done
}

# Defines a function trap that keeps the caller's EXIT trap apart from ours, except in
# subshells, which do not have ours. The first program that seems to set an EXIT trap
# causes the definition.
__locus_wrap_trap() {
  trap() {
    if (($# == 0)) || [[ $BASHPID != "$__locus_pid" ]] || [[ $1 == -[lp]* ]]; then builtin trap "$@"; builtin return; fi
    if [[ $1 == -- ]]; then builtin shift; fi
    builtin local action="$1" spec
    builtin local -a rest; rest=()
    if (($# == 1)); then action=- ; else builtin shift; fi
    for spec in "$@"; do
      case $spec in
      EXIT | exit | SIGEXIT | 0)
        case $action in
        -) __locus_user_exit= ;;
        "$__locus_exit") ;;
        *) __locus_user_exit=$action ;;
        esac
        ;;
      *) rest+=("$spec") ;;
      esac
    done
    if ((${#rest[@]})); then builtin trap -- "$action" "${rest[@]}"; fi
  }
}

# The root is the dormant process that $$ names. It reports the signals that it receives to
# the node, which forwards them.
__locus_signals='HUP INT QUIT USR1 USR2 TERM ALRM WINCH CONT URG IO PROF VTALRM'

__locus_watch() {
  for __locus_name in $__locus_signals; do
    builtin trap "__locus_say k $__locus_name 0" "$__locus_name"
  done
}

__locus_park() {
  while [[ -p $__locus_dir/req ]]; do builtin read -r -N 64 REPLY <"$__locus_dir/req"; done
}
