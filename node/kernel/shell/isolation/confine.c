/* Keeps a copy from affecting other processes and what processes share. */

#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "copy.h"

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#endif
#ifndef SYS_landlock_restrict_self
#define SYS_landlock_restrict_self 446
#endif

/* Limits signals and tracing to this process and those that it starts, by Landlock's
   scopes. */
static int scope(void)
{
	struct {
		uint64_t files, network, scoped;
	} rules = { 0, 0, 1 << 0 | 1 << 1 }; /* abstract sockets, signals */
	int fd = (int)syscall(SYS_landlock_create_ruleset, &rules, sizeof rules, 0);
	if (fd < 0)
		return errno;
	int error = syscall(SYS_landlock_restrict_self, fd, 0) < 0 ? errno : 0;
	close(fd);
	return error;
}

/* The AUDIT_ARCH constant of this machine. */
#if defined __x86_64__ && !defined __ILP32__
#define ARCHITECTURE 0xC000003Eu
#elif defined __aarch64__ && !defined __ILP32__ && defined __AARCH64EL__
#define ARCHITECTURE 0xC00000B7u
#endif

#ifdef ARCHITECTURE

struct instruction {
	uint16_t code;
	uint8_t then, otherwise;
	uint32_t value;
};

enum { LOAD = 0x20, EQUAL = 0x15, AT_LEAST = 0x35, END = 0x06 };
enum { NUMBER_AT = 0, ARCHITECTURE_AT = 4 };
enum { FILTER = 1, SPEC_ALLOW = 4 };

#define ARGUMENT(n) (16 + 8 * (n))
#define ALLOW 0x7FFF0000u
#define REFUSE (0x00050000u | EPERM)
#define NO_SUCH_CALL (0x00050000u | ENOSYS)
#define KILL 0x80000000u
/* The x32 ABI of x86_64 has other numbers, which would bypass the filter. */
#define X32 0x40000000u

#define REFUSED(nr) { EQUAL, 0, 1, nr }, { END, 0, 0, REFUSE }
/* Allows a call if argument n is 0 or this process's pid. */
#define ONLY_OWN(n) \
	{ LOAD, 0, 0, ARGUMENT(n) }, { EQUAL, 1, 0, 0 }, { EQUAL, 0, 1, own }, { END, 0, 0, ALLOW }, { END, 0, 0, REFUSE }
#define OWN(nr) { EQUAL, 0, 5, nr }, ONLY_OWN(0)
/* The same for calls whose first argument must be kind, which means one process, and whose
   second argument is the pid. */
#define OWN_OF_KIND(nr, kind) \
	{ EQUAL, 0, 8, nr }, { LOAD, 0, 0, ARGUMENT(0) }, { EQUAL, 1, 0, kind }, { END, 0, 0, REFUSE }, ONLY_OWN(1)
/* prlimit without a new value only reads, and is allowed for any process. */
#define OWN_LIMITS(nr) \
	{ EQUAL, 0, 10, nr }, { LOAD, 0, 0, ARGUMENT(2) }, { EQUAL, 0, 3, 0 }, \
	{ LOAD, 0, 0, ARGUMENT(2) + 4 }, { EQUAL, 0, 1, 0 }, { END, 0, 0, ALLOW }, ONLY_OWN(0)

/* Refuses what Landlock does not cover: the calls that change another process's scheduling
   or limits, and keyrings, which are shared with the session. */
static int filter(void)
{
	uint32_t own = (uint32_t)getpid();
	struct instruction lines[] = {
		{ LOAD, 0, 0, ARCHITECTURE_AT }, { EQUAL, 1, 0, ARCHITECTURE }, { END, 0, 0, KILL },
		{ LOAD, 0, 0, NUMBER_AT }, { AT_LEAST, 0, 1, X32 }, { END, 0, 0, NO_SUCH_CALL },
		REFUSED(SYS_add_key), REFUSED(SYS_request_key), REFUSED(SYS_keyctl),
		OWN(SYS_sched_setparam), OWN(SYS_sched_setscheduler), OWN(SYS_sched_setaffinity), OWN(SYS_sched_setattr),
		OWN_OF_KIND(SYS_setpriority, 0), OWN_OF_KIND(SYS_ioprio_set, 1),
		OWN_LIMITS(SYS_prlimit64),
		{ END, 0, 0, ALLOW },
	};
	struct {
		unsigned short length;
		struct instruction *lines;
	} program = { sizeof lines / sizeof *lines, lines };
	return syscall(SYS_seccomp, FILTER, SPEC_ALLOW, &program) < 0 ? errno : 0;
}

#else

static int filter(void)
{
	return ENOSYS;
}

#endif

int confine(void)
{
	/* The copy gets its own System V objects and message queues. */
	int objects = unshare(CLONE_NEWIPC) < 0 ? errno : 0;
	int held = hold_fast();
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return errno;
	int scoped = scope(), filtered = filter();
	return objects ? objects : held ? held : scoped ? scoped : filtered;
}
