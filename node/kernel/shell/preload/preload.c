/* A library that is preloaded into the root of sh and zsh sessions. It isolates a copy of
   the session when the copy's shell asks for it, by opening a certain name in the copy's
   directory. Neither the shell nor what it starts sees the library in the environment, and
   it is not loaded into other programs. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "copy.h"

#define SETTINGS "__locus_isolation"

/* The descriptor of this library's file, which has no name in the container. */
enum { LIBRARY = 3 };

/* The name of the pipe for replies in a kernel's directory. */
#define REPLIES "rep"

/* The directory of the family, and the folders as cover takes them. */
static char *family, *folders;

/* $$ of the session, and of its copies; and this copy's own pid, or 0. */
static pid_t root, self;

__attribute__((constructor)) static void start(void)
{
	const char *settings = getenv(SETTINGS);
	if (!settings)
		return;
	family = strdup(settings);
	folders = family ? strchr(family, '\n') : NULL;
	if (folders)
		*folders++ = '\0';
	root = getpid();
	unsetenv(SETTINGS);
	unsetenv("LD_PRELOAD");
	close(LIBRARY);
}

/* Isolates this process, if path is DIRECTORY/isolate-copy, or makes its open files its own,
   if it is DIRECTORY/isolate-fork. The directory is the copy's own, below the family's.
   There is no such file; a program that opens it isolates only its own shell. Returns a
   descriptor from which the shell reads the errors of the disk and of the processes; or -1
   for any other path. */
static int requested(const char *path, int flags)
{
	const char *slash = path && folders ? strrchr(path, '/') : NULL;
	if (!slash || strncmp(path, family, strlen(family)))
		return -1;
	int read_only = !strcmp(slash, "/isolate-copy");
	if (!read_only && strcmp(slash, "/isolate-fork"))
		return -1;
	struct private_view view = { .keep = { -1, -1, -1 } };
	char *lines = NULL, *replies = NULL;
	int directory = (int)(slash - path);
	if (asprintf(&lines, "%s\n+%.*s", folders, directory, path) < 0 ||
		asprintf(&replies, "%.*s/" REPLIES, directory, path) < 0)
		_exit(1);
	enter_copy(&view, read_only, lines);
	/* A copy that cannot reply must end, or the node would wait for it. */
	int check = (int)syscall(SYS_openat, AT_FDCWD, replies, O_WRONLY | O_NONBLOCK | O_CLOEXEC, 0);
	if (check < 0)
		_exit(1);
	close(check);
	free(lines);
	free(replies);
	if (read_only)
		self = getpid();
	int errors = memfd_create("isolation", flags & O_CLOEXEC ? MFD_CLOEXEC : 0);
	if (errors < 0)
		_exit(1);
	/* Like every line that a shell reads, it has a character at both ends that is in no IFS. */
	dprintf(errors, "\1%d %d\1\n", view.disk_error, view.processes_error);
	lseek(errors, 0, SEEK_SET);
	return errors;
}

static int open_file(const char *path, int flags, mode_t mode)
{
	int fd = requested(path, flags);
	return fd >= 0 ? fd : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

static mode_t mode_of(int flags, va_list rest)
{
	return flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0;
}

#pragma GCC visibility push(default)

/* The C library's functions by which shells open files. */

int open(const char *path, int flags, ...)
{
	va_list rest;
	va_start(rest, flags);
	mode_t mode = mode_of(flags, rest);
	va_end(rest);
	return open_file(path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
	va_list rest;
	va_start(rest, flags);
	mode_t mode = mode_of(flags, rest);
	va_end(rest);
	return open_file(path, flags | O_LARGEFILE, mode);
}

int __open_2(const char *path, int flags) { return open_file(path, flags, 0); }

int __open64_2(const char *path, int flags) { return open_file(path, flags | O_LARGEFILE, 0); }

/* A copy that signals $$ means itself. It cannot reach the process of that pid. */
int kill(pid_t pid, int signal)
{
	return (int)syscall(SYS_kill, self && pid == root ? self : pid, signal);
}

#pragma GCC visibility pop
