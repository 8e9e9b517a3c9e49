/* A builtin that turns bash into a session. It receives programs from the node and runs
   them with the shell's parse_and_execute, in the shell's own process. What would end the
   shell (exit, errexit, a failed expansion) jumps to the loop here and ends only the
   program. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "bash.h"
#include "caller.h"
#include "copy.h"
#include "wire.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

/* The limit of nested function calls, beyond which a program fails. Without a limit it
   would overflow the stack. */
enum { MOST_NESTED = 3000 };

enum { LAST_FD = 2 };

static int control = -1, state = -1, nothing = -1;
static char token[TOKEN + 1];

/* The call that runs. */
static struct request call;
static int at_work;

static pid_t self;

/* The number of forks. A call without a fork cannot have left a process that has its
   output open. */
static unsigned long forks;
static void catch_exit(void);

static void standard(const int *fds)
{
	fflush(stdout);
	fflush(stderr);
	clearerr(stdout);
	clearerr(stderr);
	for (int i = 0; i <= LAST_FD; i++)
		dup2(fds[i], i);
}

static void quiet(void)
{
	const int fds[] = { nothing, nothing, nothing };
	standard(fds);
}

/* Runs one of the shell's builtins, even if a function has its name. */
static void list(int (*builtin)(WORD_LIST *), const char *option)
{
	WORD_LIST *words = make_word_list(make_word(option), NULL);
	builtin(words);
	putchar('\0');
	dispose_words(words);
}

/* Raises the limit of file sizes as far as possible, and ignores SIGXFSZ, so that a limit
   which the program has set does not kill the shell during a dump. */
static void lift_file_limit(struct rlimit *limit, struct sigaction *action)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN };
	sigaction(SIGXFSZ, &ignore, action);
	getrlimit(RLIMIT_FSIZE, limit);
	struct rlimit most = { limit->rlim_max, limit->rlim_max };
	setrlimit(RLIMIT_FSIZE, &most);
}

/* Writes the state to the state file, which the node has emptied: the working directory,
   variables, names and bodies of functions, aliases. */
static void dump(void)
{
	struct rlimit limit;
	struct sigaction action;
	lift_file_limit(&limit, &action);
	int fds[] = { nothing, state, nothing };
	int status = last_command_exit_value;
	char directory[4096];
	lseek(state, 0, SEEK_SET);
	standard(fds);
	if (!getcwd(directory, sizeof directory))
		directory[0] = '\0';
	fputs(directory, stdout);
	putchar('\0');
	list(declare_builtin, "-p");
	list(declare_builtin, "-F");
	list(declare_builtin, "-f");
	list(alias_builtin, "-p");
	quiet();
	last_command_exit_value = status;
	setrlimit(RLIMIT_FSIZE, &limit);
	sigaction(SIGXFSZ, &action, NULL);
}

/* Resets the shell's internal state after a program, which a jump may have interrupted. */
static void restore(int jumped)
{
	if (jumped) {
		while (parse_and_execute_level > 0)
			parse_and_execute_cleanup(-1);
		run_unwind_protects();
		reset_parser();
	}
	read_but_dont_execute = 0;
	loop_level = breaking = continuing = funcnest = variable_context = 0;
	return_catch_flag = executing_list = executing_builtin = 0;
	comsub_ignore_return = evalnest = sourcelevel = running_trap = 0;
	builtin_ignoring_errexit = 0;
	redirection_undo_list = NULL;
	interrupt_state = 0;
	if (funcnest_max == 0)
		funcnest_max = MOST_NESTED;
	if (!signal_is_trapped(SIGINT))
		set_signal_handler(SIGINT, sigint_sighandler);
}

static void begin(void)
{
	int fds[] = { nothing, nothing, nothing };
	/* The node takes a shell whose output is not /dev/null for one that can be interrupted. */
	interrupt_state = 0;
	at_work = 1;
	int input = has_option(&call, 'i') && call.count == 3;
	if (input)
		fds[0] = call.fds[2];
	if (call.count >= 2) {
		fds[1] = call.fds[0];
		fds[2] = call.fds[1];
	}
	standard(fds);
	for (int i = 0; i < call.count; i++)
		close(call.fds[i]);
	name_caller(call.caller);
	/* The trace of a program (set -x) starts with a single +, as in a script. */
	indirection_level = 0;
}

/* The CPU time in microseconds and the peak resident size in KiB, of the shell and of the
   children that it has reaped. */
static struct cost cost_so_far(void)
{
	struct rusage own, children;
	getrusage(RUSAGE_SELF, &own);
	getrusage(RUSAGE_CHILDREN, &children);
	const struct timeval *times[] = { &own.ru_utime, &own.ru_stime, &children.ru_utime, &children.ru_stime };
	struct cost c = { 0, own.ru_maxrss > children.ru_maxrss ? own.ru_maxrss : children.ru_maxrss, forks };
	for (int i = 0; i < 4; i++)
		c.cpu += (long long)times[i]->tv_sec * 1000000 + times[i]->tv_usec;
	return c;
}

static void count_fork(void) { forks++; }

static void finish(int status)
{
	sigset_t interrupts, before;
	sigemptyset(&interrupts);
	sigaddset(&interrupts, SIGINT);
	sigprocmask(SIG_BLOCK, &interrupts, &before);
	at_work = 0;
	quiet();
	if (has_option(&call, 'd'))
		dump();
	last_command_exit_value = status;
	struct cost cost = cost_so_far();
	report(control, token, call.seq, status & 0xff, &cost);
	sigprocmask(SIG_SETMASK, &before, NULL);
}

/* Without this every copy would draw the same numbers from RANDOM. */
static void seed_random(void)
{
	SHELL_VAR *random = find_variable("RANDOM");
	if (!random || !random->assign_func || random->attributes & ATT_READONLY)
		return;
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	char seed[32];
	snprintf(seed, sizeof seed, "%ld", now.tv_nsec ^ (long)getpid() << 12);
	random->assign_func(random, seed, -1, NULL);
}

/* Forks. Returns 1 in the copy, which is not a child of the session. */
static int fork_here(void)
{
	/* The copy is a child of the session's parent, so that wait in the session does not
	   see it. */
	long pid = syscall(SYS_clone, (unsigned long)CLONE_PARENT | SIGCHLD, 0UL, 0UL, 0UL, 0UL);
	if (pid < 0)
		pid = fork();
	return pid == 0;
}

static int own_pidfd(void)
{
	return (int)syscall(SYS_pidfd_open, getpid(), 0);
}

/* Forks a copy. In the copy it sets up the process and sends the hello. */
static void copy(void)
{
	if (call.count != 2 || !fork_here())
		return;
	struct private_view view = { .keep = { -1, -1, nothing } };
	close(control);
	close(state);
	control = raise_fd(call.fds[0]);
	state = raise_fd(call.fds[1]);
	call.count = 0;
	view.keep[0] = control;
	view.keep[1] = state;
	self = dollar_dollar_pid = getpid();
	without_job_control();
	seed_random();
	enter_copy(&view, has_option(&call, 'c'), call.code);
	int pidfd = own_pidfd();
	say(control, token, 'h', (unsigned long)view.processes_error, view.disk_error & 0xff, pidfd);
	if (pidfd >= 0)
		close(pidfd);
}

/* Receives one request and executes it. */
static void step(void)
{
	int got = receive(control, &call);
	if (got < 0) {
		run_pending_traps();
		return;
	}
	if (got == 0)
		_exit(0);
	switch (call.op) {
	case 'r':
		begin();
		char *code = call.code;
		call.code = NULL;
		parse_and_execute(code, "bash", SEVAL_NONINT | SEVAL_NOHIST | SEVAL_RESETLINE);
		return;
	case 'f':
		copy();
		for (int i = 0; i < call.count; i++)
			close(call.fds[i]);
		break;
	case 's':
		dump();
		say(control, token, 's', call.seq, 0, -1);
		break;
	case 'b':
		if (call.count != 1 || call.size != TOKEN)
			_exit(1);
		memcpy(token, call.code, TOKEN);
		state = raise_fd(call.fds[0]);
		say(control, token, 'h', 0, 0, -1);
		break;
	default:
		quiet();
		run_exit_trap();
		_exit(0);
	}
	xfree(call.code);
	call.code = NULL;
}

/* Some errors, such as a syntax error under errexit, make the shell call exit. In the
   session's own process that must end only the program. */
static void caught(int status)
{
	if (getpid() != self)
		return;
	catch_exit();
	last_command_exit_value = status;
	siglongjmp(top_level, EXITPROG);
}

#ifdef __GLIBC__
static void leaving(int status, void *unused)
{
	(void)unused;
	caught(status);
}

static void catch_exit(void) { on_exit(leaving, NULL); }
#else
static void leaving(void) { caught(last_command_exit_value); }

static void catch_exit(void) { atexit(leaving); }
#endif

static int serve(WORD_LIST *words)
{
	(void)words;
	if (control >= 0)
		return EXECUTION_FAILURE; /* called by a program */
	control = raise_fd(4);
	close(3);
	nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (nothing < 0)
		return EXECUTION_FAILURE;
	nothing = raise_fd(nothing);
	quiet();
	/* This function never returns, so what its callers would restore is dropped. A shell
	   started with -c would replace itself by its last command; clearing startup_state
	   prevents that. */
	clear_unwind_protect_list(0);
	parse_and_execute_level = 0;
	startup_state = 0;
	restore(0);
	self = getpid();
	catch_exit();
	pthread_atfork(NULL, count_fork, NULL);
	for (;;) {
		int jump = sigsetjmp(top_level, 0);
		if (jump == 0)
			step();
		/* A jump preserves only static variables. */
		static int status;
		status = last_command_exit_value;
		if (jump == DISCARD && status == 0)
			status = EXECUTION_FAILURE;
		restore(jump);
		if (at_work)
			finish(status);
	}
}

static char *const help[] = { "Serves the node's requests.", NULL };

struct builtin locus_session_struct = {
	"locus_session", serve, BUILTIN_ENABLED, help, "locus_session", NULL,
};
