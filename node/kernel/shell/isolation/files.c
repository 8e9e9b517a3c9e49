#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "copy.h"

int raise_fd(int fd)
{
	static const int floors[] = { 2000, 500, 60 };
	for (size_t i = 0; i < sizeof floors / sizeof *floors; i++) {
		int high = fcntl(fd, F_DUPFD_CLOEXEC, floors[i]);
		if (high >= 0) {
			close(fd);
			return high;
		}
	}
	return fd;
}

/* Reopens the file of a descriptor by its path, which goes through this process's mounts.
   A file without a path is reopened through the descriptor; in a read-only copy only if
   it was open for reading, because its writes would reach the session's file. */
static int open_again(int fd, int flags, int read_only)
{
	char link[64], name[PATH_MAX];
	struct stat now, then;
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, name, sizeof name - 1);
	flags &= ~(O_CREAT | O_EXCL | O_TRUNC | O_NOCTTY);
	if (n > 0) {
		name[n] = '\0';
		int again = open(name, flags | O_CLOEXEC | O_NOCTTY);
		if (again >= 0 && fstat(again, &now) == 0 && fstat(fd, &then) == 0 && (read_only || now.st_ino == then.st_ino))
			return again;
		if (again >= 0)
			close(again);
	}
	if (read_only && (flags & O_ACCMODE) != O_RDONLY)
		return -1;
	return open(link, flags | O_CLOEXEC);
}

static void reopen(int fd, int close_streams)
{
	struct stat info;
	int flags = fcntl(fd, F_GETFL), keeps = fcntl(fd, F_GETFD);
	if (flags < 0 || keeps < 0 || fstat(fd, &info) < 0)
		return;
	if (S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode)) {
		if (close_streams)
			close(fd);
		return;
	}
	if (!S_ISREG(info.st_mode))
		return;
	off_t at = lseek(fd, 0, SEEK_CUR);
	int again = open_again(fd, flags, close_streams);
	if (again < 0) {
		if (close_streams)
			close(fd);
		return;
	}
	if (at > 0)
		lseek(again, at, SEEK_SET);
	dup3(again, fd, keeps & FD_CLOEXEC ? O_CLOEXEC : 0);
	close(again);
}

void reopen_files(const int *keep, int count, int close_streams)
{
	DIR *open_ones = opendir("/proc/self/fd");
	if (!open_ones)
		return;
	struct dirent *entry;
	while ((entry = readdir(open_ones))) {
		int fd = atoi(entry->d_name), ours = entry->d_name[0] == '.' || fd == dirfd(open_ones);
		for (int i = 0; i < count; i++)
			ours |= fd == keep[i];
		if (!ours)
			reopen(fd, close_streams);
	}
	closedir(open_ones);
}
