# The functions of a zsh session. The structure is that of session.bash. The differences:
#
# A zsh that exits cannot exit a second time, so a subshell of it cannot continue the
# session. Instead the state is written to the file carry, as records that a fresh session
# evaluates one by one.
#
# emulate -L makes options local to our functions. Some of the caller's options must be off
# earlier: xtrace itself, aliases, since our text is parsed later, and ksharrays, with
# which the options cannot be listed. They are turned off by expansions in the arguments
# of our functions, which happen before the command is traced.
#
# Everything except reserved words is called through "builtin", because the caller may have
# defined functions of any name.

zmodload zsh/system zsh/parameter

# The condition of the if sets $? to the status of the last call; as a condition it is
# exempt from errexit.
__locus_loop='until __locus_next "$?" "${options[xtrace]}" "${options[aliases]}" ${options[xtrace]::=off} ${options[aliases]::=off}; do
  options[aliases]=$__locus_expand
  if __locus_was; then builtin eval "$__locus_code"; else builtin eval "$__locus_code"; fi
  __locus_end "$?" "${options[xtrace]}" "${options[aliases]}" ${options[xtrace]::=off} ${options[aliases]::=off}
  case $__locus_opts in *t*) builtin trap >|"$__locus_dir/traps" ;; esac
  __locus_done
  case $__locus_again in 1) builtin trap "$__locus_exit" EXIT; __locus_again= ;; esac
done'
# Starts a process that serves requests. It sets traps outside functions, in which traps are
# local.
__locus_serve='__locus_adopt; builtin trap "$__locus_exit" EXIT; builtin trap __locus_interrupt INT; builtin eval "$__locus_traps"; __locus_greet; builtin eval "$__locus_loop"'
__locus_exit='__locus_leave "$?" "${options[xtrace]}" "${options[ksharrays]}" ${options[xtrace]::=off} ${options[ksharrays]::=off} "$@"'
__locus_aliases=on __locus_trace=off __locus_last=0 __locus_child= __locus_traps=

__locus_interrupt() {
  if [[ -n $__locus_call ]]; then builtin exit 130; fi
}

__locus_was() { builtin return "$__locus_last" }

# Removes a function of the caller named "builtin".
__locus_free() {
  if (( ${+functions[builtin]} )); then unfunction builtin; fi
  if (( ${+functions[builtin]} )); then unset -f builtin; fi
}

# Moves a function of the caller named trap to __locus_mine, until __locus_show_trap.
__locus_hide_trap() {
  __locus_mine=
  if (( ${+functions[trap]} )); then
    __locus_mine=$functions[trap]
    builtin unfunction trap
  fi
}

__locus_show_trap() {
  if [[ -n $__locus_mine ]]; then functions[trap]=$__locus_mine; fi
  __locus_mine=
}

__locus_say() {
  builtin printf '\n%s %s %s %s %s .\n' "$__locus_token" "$1" "$2" "$3" "$__locus_pid" >"$__locus_dir/rep"
}

__locus_next() {
  if [[ -n $__locus_call ]]; then __locus_end "$1" "$2" "$3"; fi
  builtin emulate -L zsh
  builtin unsetopt aliases allexport errexit errreturn nounset xtrace verbose multibyte
  if [[ -n $__locus_call ]]; then __locus_done; fi
  while (( 1 )); do
    __locus_expand=off
    __locus_read || { __locus_left=1; builtin return 0; }
    case $__locus_op in
    r)
      __locus_call=$__locus_seq
      __locus_expand=$__locus_aliases
      if [[ $__locus_opts == *k* ]]; then __locus_keep_interrupt; fi
      if [[ $__locus_trace == on ]]; then __locus_code='\builtin set -x; '$__locus_code; fi
      builtin exec <"$__locus_in" >"$__locus_dir/o$__locus_out" 2>"$__locus_dir/e$__locus_out"
      builtin return 1
      ;;
    f)
      __locus_child=$__locus_code
      __locus_keep_traps
      # The node kills the intermediate process, which must not count as an error.
      __locus_code='__locus_strict="options[errexit]=${options[errexit]} options[errreturn]=${options[errreturn]}"; options[errexit]=off options[errreturn]=off; ( __locus_mine=; ( builtin eval "$__locus_strict"; builtin eval "$__locus_serve" ); __locus_mine= ); builtin eval "$__locus_strict"'
      builtin return 1
      ;;
    l)
      __locus_child=$__locus_code
      __locus_code='__locus_load; for __locus_record in "${(@)__locus_records}"; do builtin eval "$__locus_record"; done 2>/dev/null; __locus_loaded'
      builtin return 1
      ;;
    s)
      __locus_dump
      __locus_say s $__locus_seq 0
      ;;
    *)
      __locus_left=1
      builtin eval "$__locus_user_exit"
      builtin return 0
      ;;
    esac
  done
}

# Sets our trap on SIGINT if the caller has removed all traps on it.
__locus_keep_interrupt() {
  builtin trap >|"$__locus_dir/traps"
  local set_="$(<"$__locus_dir/traps")"
  if [[ $set_ != *"' INT"* && $set_ != *TRAPINT* ]]; then
    builtin unsetopt localtraps
    builtin trap __locus_interrupt INT
  fi
}

__locus_read() {
  builtin emulate -L zsh
  builtin unsetopt aliases allexport errexit errreturn nounset xtrace verbose multibyte
  local part
  integer left
  {
    while ! builtin sysread -i 0 -s 64 __locus_head; do
      [[ -p $__locus_dir/req ]] || builtin return 1
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
      if builtin sysread -i 0 -s $(( left > 65536 ? 65536 : left )) part; then
        __locus_code+=$part
        left=$(( left - $#part ))
      elif [[ ! -p $__locus_dir/req ]]; then
        builtin return 1
      fi
    done
  } <"$__locus_dir/req"
}

# Saves the status of a call and the options that it has left. The output still goes to the
# call.
__locus_end() {
  __locus_free
  builtin emulate -L zsh
  builtin unsetopt aliases allexport errexit errreturn nounset
  case $__locus_op in
  r) __locus_last=$1 __locus_trace=$2 __locus_aliases=$3 ;;
  esac
}

__locus_done() {
  builtin emulate -L zsh
  builtin unsetopt aliases allexport errexit errreturn nounset xtrace verbose
  builtin exec </dev/null >/dev/null 2>&1
  if [[ -n $__locus_call ]]; then
    if [[ $__locus_opts == *t* ]]; then __locus_keep_exit; fi
    if [[ $__locus_opts == *d* ]]; then __locus_dump; fi
    __locus_say d $__locus_seq $__locus_last
    __locus_call= # only now: a trap may have left the shell before the reply
  fi
}

# Saves a caller's EXIT trap that has replaced ours. The loop itself lists the traps and
# sets ours again, because EXIT traps are local to functions.
__locus_keep_exit() {
  __locus_traps="$(<"$__locus_dir/traps")"
  __locus_hide_trap
  () {
    trap() {
      if [[ $3 == EXIT && $2 != $__locus_exit ]]; then __locus_user_exit=$2 __locus_again=1; fi
    }
    builtin eval "$__locus_traps"
    builtin unfunction trap
  }
  __locus_show_trap
}

# Saves the output of trap as text. In a subshell trap would list nothing.
__locus_keep_traps() {
  builtin trap >|"$__locus_dir/traps"
  __locus_traps="$(<"$__locus_dir/traps")"
}

__locus_dump() {
  builtin emulate -L zsh
  builtin unsetopt aliases allexport errexit errreturn nounset
  # A DEBUG trap of the caller would write into the dump.
  builtin trap - DEBUG
  {
    builtin pwd
    builtin printf '\0\0'
    builtin print -rN -- "${(@)${(@kv)parameters}/#/=}"
    builtin printf '\0'
    builtin typeset -p
    builtin printf '\0\0'
    builtin print -rN -- "${(@)${(@kv)functions}/#/=}"
    builtin printf '\0'
    # Without arguments print would write an empty item.
    if (( $#aliases )); then builtin print -rN -- "${(@)${(@kv)aliases}/#/=}"; fi
    builtin printf '\0'
  } >|"$__locus_dir/state" 2>/dev/null
}

__locus_adopt() {
  builtin emulate -L zsh
  builtin unsetopt aliases allexport errexit errreturn nounset xtrace verbose
  __locus_pid=$sysparams[pid]
  __locus_dir=${__locus_child:-$__locus_dir}
  __locus_call= __locus_left= __locus_again= __locus_child=
  zshexit_functions=(__locus_hook)
  # Otherwise every copy would draw the same numbers.
  if [[ $parameters[RANDOM] == *special* && $parameters[RANDOM] != *readonly* ]]; then
    RANDOM=$(( RANDOM ^ __locus_pid ))
  fi
  __locus_disk=0 __locus_processes=0
  if [[ $__locus_opts == *p* ]]; then __locus_isolate; fi
  __locus_hide_trap
}

__locus_greet() {
  __locus_show_trap
  __locus_say h $__locus_processes $__locus_disk
}

# Makes the preloaded library isolate this process, which says with which errors.
__locus_isolate() {
  __locus_head=fork __locus_disk=255 __locus_processes=255
  if [[ $__locus_opts == *c* ]]; then __locus_head=copy; fi
  builtin sysopen -r -u __locus_fd -- "$__locus_dir/isolate-$__locus_head" || builtin return
  builtin sysread -i $__locus_fd __locus_head
  builtin exec {__locus_fd}<&-
  __locus_head=${__locus_head//$'\1'}
  __locus_disk=${__locus_head% *} __locus_processes=${${__locus_head#* }%$'\n'}
}

# Runs after the EXIT trap, so it has an effect only if that is not ours. Subshells of the
# caller run it too.
__locus_hook() {
  () { if [[ $sysparams[pid] == $__locus_pid && -z $__locus_left ]]; then __locus_leave "$@"; fi } "$?" "${options[xtrace]}" "${options[ksharrays]}" ${options[xtrace]::=off} ${options[ksharrays]::=off}
}

# Saves the state, in the order in which it must be evaluated.
__locus_leave() {
  __locus_free
  typeset -gA __locus_after=("${(@kv)options}")
  builtin emulate -L zsh
  builtin unsetopt aliases allexport errexit errreturn nounset xtrace verbose
  builtin exec </dev/null >/dev/null 2>&1
  if [[ -n $__locus_left ]]; then builtin return; fi
  __locus_left=1 __locus_last=$1 __locus_trace=$2 __locus_after[ksharrays]=$3
  builtin shift 5
  __locus_keep_traps
  {
    builtin print -rN -- "builtin set -- ${(j: :)${(@qq)@}}" "builtin cd -q -- ${(qq)$(builtin pwd)}" "builtin umask $(builtin umask)"
    builtin print -rN -- "__locus_call=$__locus_call __locus_seq=$__locus_seq __locus_opts=${(qq)__locus_opts} __locus_last=$__locus_last"
    builtin print -rN -- "__locus_trace=$__locus_trace __locus_aliases=$__locus_after[aliases]"
    builtin print -rN -- "__locus_user_exit=${(qq)__locus_user_exit}"
    for __locus_head in "${(@k)parameters}"; do
      case $__locus_head in
      __locus_* | zshexit_functions | [!a-zA-Z_]* | 0 | _ | argv | status | pipestatus | PWD | OLDPWD | SHLVL) builtin continue ;;
      UID | EUID | GID | EGID | USERNAME | RANDOM | SECONDS | LINENO | ERRNO | HISTCMD | TRY_BLOCK_* | COLUMNS | LINES | watch | WATCH | WATCHFMT | LOGCHECK) builtin continue ;;
      esac
      case $parameters[$__locus_head] in
      *hideval* | *local* | *readonly*special*) builtin continue ;;
      esac
      builtin print -rN -- "$(builtin typeset -p $__locus_head)"
    done
    # Traps come before functions, because a function could be named trap.
    builtin print -rN -- "$__locus_traps"
    for __locus_head in "${(@k)functions}"; do
      if [[ $__locus_head == __locus_* ]]; then builtin continue; fi
      builtin print -rN -- "functions[${(q)__locus_head}]=${(qq)functions[$__locus_head]}"
    done
    builtin print -rN -- "builtin unalias -a"
    for __locus_table in aliases galiases saliases; do
      for __locus_head in "${(@kP)__locus_table}"; do
        builtin print -rN -- "${__locus_table}[${(q)__locus_head}]=${(qq)${(P)__locus_table}[$__locus_head]}"
      done
    done
    for __locus_head in "${(@k)__locus_after}"; do
      case $__locus_head in
      aliases | errexit | errreturn | nounset | xtrace | verbose | exec | interactive | login | monitor | privileged | restricted | shinstdin | singlecommand) builtin continue ;;
      esac
      if [[ $__locus_after[$__locus_head] != $__locus_before[$__locus_head] ]]; then
        builtin print -rN -- "options[$__locus_head]=$__locus_after[$__locus_head]"
      fi
    done
    for __locus_head in nounset verbose errreturn errexit; do
      if [[ $__locus_after[$__locus_head] == on ]]; then builtin print -rN -- "builtin setopt $__locus_head"; fi
    done
  } >|"$__locus_dir/carry"
  __locus_say x $__locus_seq $__locus_last
  # The node kills this process.
  while [[ -p $__locus_dir/req ]]; do builtin sysread -i 0 __locus_head <"$__locus_dir/req"; done
}

__locus_load() {
  builtin emulate -L zsh
  builtin unsetopt aliases allexport errexit errreturn nounset xtrace verbose
  __locus_records=("${(@0)$(<"$__locus_child/carry")}")
}

__locus_loaded() {
  __locus_records=() __locus_child=
  __locus_again=1
}

__locus_signals=(HUP INT QUIT USR1 USR2 TERM ALRM WINCH CONT URG IO PROF VTALRM)

__locus_watch() {
  __locus_pid=$sysparams[pid]
  for __locus_head in $__locus_signals; do
    builtin trap "__locus_say k $__locus_head 0" $__locus_head
  done
}

__locus_park() {
  while [[ -p $__locus_dir/req ]]; do builtin sysread -i 0 __locus_head <"$__locus_dir/req"; done
}

typeset -A __locus_before
__locus_before=("${(@kv)options}")
