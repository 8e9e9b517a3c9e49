#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "copy.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

int fork_here(void)
{
	/* The copy is a child of the session's parent, so that wait in the session does not
	   see it. */
	long pid = syscall(SYS_clone, (unsigned long)CLONE_PARENT | SIGCHLD, 0UL, 0UL, 0UL, 0UL);
	if (pid < 0)
		pid = fork();
	return pid == 0;
}

int own_pidfd(void)
{
	return (int)syscall(SYS_pidfd_open, getpid(), 0);
}

/* Makes the OOM killer prefer the copy to the session. */
static void expendable(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	ssize_t n = write(fd, "1000", 4);
	(void)n; /* if refused, the copy is not preferred */
	close(fd);
}

void enter_copy(struct private_view *view, int read_only, const char *folders)
{
	view->disk_error = view->processes_error = 0;
	if (read_only) {
		expendable();
		view->disk_error = cover(folders);
	}
	reopen_files(view->keep, 3, read_only);
	if (read_only)
		view->processes_error = confine();
}
