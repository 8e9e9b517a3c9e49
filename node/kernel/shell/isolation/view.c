/* A copy's private view of the disk: everything is read-only, and each writable folder is
   covered by an overlay whose changes end with the copy. */

#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "copy.h"

#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif

/* The first character of a line with a folder that is not covered. */
enum { READABLE = '=', WRITABLE = '+' };

/* A folder that is not covered. */
struct open_folder {
	const char *path;
	int writable, fd;
};

/* The size of each file, and of all files together, that assemble copies, in bytes. */
enum { MOST_EACH = 1 << 20, MOST_COPIED = 16 << 20 };

enum { MOST_FOLDERS = 16, MOST_OPEN = 2, MOST_ENTRIES = 1000, RECURSIVE = 0x8000, RDONLY = 1 };

/* Mount options for overlays, best first. redirect_dir allows folders to be renamed, and
   needs privileges outside of user namespaces; userxattr works inside them; volatile omits
   syncing, which disposable data does not need. */
static const char *const ways[] = { ",redirect_dir=on,volatile", ",userxattr,volatile", ",userxattr", "" };

/* The inode of the initial user namespace's file, which is the same in every Linux. */
#define INITIAL_NAMESPACE 0xEFFFFFFDu

/* The first of the ways that can work here. A refused one takes the system a millisecond. */
static size_t first_way(void)
{
	struct stat info;
	return stat("/proc/self/ns/user", &info) == 0 && info.st_ino != INITIAL_NAMESPACE;
}

static int write_file(const char *name, const char *text)
{
	int fd = open(name, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t n = write(fd, text, strlen(text));
	close(fd);
	return n < 0 ? -1 : 0;
}

/* Enters a mount namespace. Root keeps its user namespace, which has all its users. An
   ordinary user may be allowed to mount in this one, but has not all capabilities that an
   overlay takes; a new one gives it these. */
static int new_namespace(void)
{
	if (geteuid() == 0) {
		if (unshare(CLONE_NEWNS) == 0)
			return 0;
		if (errno != EPERM)
			return -1;
	}
	char uids[64], gids[64];
	snprintf(uids, sizeof uids, "%d %d 1", (int)getuid(), (int)getuid());
	snprintf(gids, sizeof gids, "%d %d 1", (int)getgid(), (int)getgid());
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return -1;
	if (write_file("/proc/self/setgroups", "deny") < 0 || write_file("/proc/self/uid_map", uids) < 0)
		return -1;
	return write_file("/proc/self/gid_map", gids);
}

static int overlay(const char *target, int lower, int scratch, int number)
{
	char data[256], all[320];
	snprintf(data, sizeof data,
		"lowerdir=/proc/self/fd/%d,upperdir=/proc/self/fd/%d/upper%d,workdir=/proc/self/fd/%d/work%d",
		lower, scratch, number, scratch, number);
	for (size_t i = first_way(); i < sizeof ways / sizeof *ways; i++) {
		snprintf(all, sizeof all, "%s%s", data, ways[i]);
		if (mount("overlay", target, "overlay", MS_NOSUID | MS_NODEV, all) == 0)
			return 0;
		if (errno != EPERM && errno != EINVAL)
			return -1;
	}
	return -1;
}

/* Copies a regular file of at most that many bytes. Returns its length, or -1 if it is not
   copied. */
static long copied(const char *source, const char *place, const struct stat *info, long most)
{
	char block[32 << 10];
	long length = 0;
	ssize_t n = -1;
	if (!S_ISREG(info->st_mode) || info->st_size > most)
		return -1;
	int from = open(source, O_RDONLY | O_CLOEXEC), to = from < 0 ? -1 : open(place, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	while (to >= 0 && length <= most && (n = read(from, block, sizeof block)) > 0 && write(to, block, (size_t)n) == n)
		length += n;
	if (to >= 0 && (n != 0 || length > most)) {
		unlink(place);
		length = -1;
	} else if (to >= 0) {
		struct timespec times[] = { info->st_atim, info->st_mtim };
		/* fchown fails if the owner is not mapped in this user namespace. */
		n = fchown(to, info->st_uid, info->st_gid);
		fchmod(to, info->st_mode & 07777);
		futimens(to, times);
	} else {
		length = -1;
	}
	if (from >= 0)
		close(from);
	if (to >= 0)
		close(to);
	return length;
}

/* Covers a folder that cannot be the lower layer of an overlay, such as one that contains
   locked mounts, by a new file system with copies of its small files. Every other entry is
   bind-mounted read-only. New entries can be made. */
static int assemble(const char *target, int lower)
{
	struct stat info;
	char data[32], source[PATH_MAX], place[PATH_MAX], text[PATH_MAX];
	if (fstat(lower, &info) < 0)
		return -1;
	snprintf(data, sizeof data, "mode=%o", (unsigned)info.st_mode & 07777);
	snprintf(source, sizeof source, "/proc/self/fd/%d", lower);
	DIR *entries = opendir(source);
	if (!entries)
		return -1;
	if (mount("scratch", target, "tmpfs", MS_NOSUID | MS_NODEV, data) < 0) {
		closedir(entries);
		return -1;
	}
	struct dirent *entry;
	long room = MOST_COPIED;
	for (int left = MOST_ENTRIES; left > 0 && (entry = readdir(entries)); left--) {
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		snprintf(source, sizeof source, "/proc/self/fd/%d/%s", lower, entry->d_name);
		snprintf(place, sizeof place, "%s/%s", target, entry->d_name);
		if (lstat(source, &info) < 0)
			continue; /* it was removed meanwhile */
		if (S_ISLNK(info.st_mode)) {
			ssize_t n = readlink(source, text, sizeof text - 1);
			text[n > 0 ? n : 0] = '\0';
			if (n > 0 && symlink(text, place) < 0)
				continue;
			continue;
		}
		long length = copied(source, place, &info, room < MOST_EACH ? room : MOST_EACH);
		if (length >= 0) {
			room -= length;
			continue;
		}
		int made = S_ISDIR(info.st_mode) ? mkdir(place, 0700) : mknod(place, S_IFREG | 0600, 0);
		if (made == 0)
			mount(source, place, NULL, MS_BIND | MS_REC, NULL);
	}
	closedir(entries);
	return 0;
}

static int parts(int scratch, int number, int lower)
{
	char name[32];
	struct stat info;
	snprintf(name, sizeof name, "work%d", number);
	if (mkdirat(scratch, name, 0700) < 0)
		return -1;
	snprintf(name, sizeof name, "upper%d", number);
	if (mkdirat(scratch, name, 0700) < 0 || fstat(lower, &info) < 0)
		return -1;
	/* The upper folder's owner and mode become those of the overlay's root, so they must be
	   those of the lower folder. The owner may not be mapped in this user namespace. */
	if (fchownat(scratch, name, info.st_uid, info.st_gid, 0) < 0 && errno != EINVAL && errno != EPERM)
		return -1;
	return fchmodat(scratch, name, info.st_mode & 07777, 0);
}

static int depth(const char *path)
{
	int n = 0;
	for (; *path; path++)
		n += *path == '/';
	return n;
}

static int shallower(const void *a, const void *b)
{
	return depth(*(char *const *)a) - depth(*(char *const *)b);
}

/* Splits the lines into the real paths of existing folders, each once, and the folders that
   are not covered. */
static int folders_of(char *text, char **found, struct open_folder *uncovered)
{
	int count = 0, open_ones = 0;
	char *rest = NULL;
	for (char *line = strtok_r(text, "\n", &rest); line && count < MOST_FOLDERS; line = strtok_r(NULL, "\n", &rest)) {
		char real[PATH_MAX];
		struct stat info;
		if (line[0] == READABLE || line[0] == WRITABLE) {
			if (open_ones < MOST_OPEN)
				uncovered[open_ones++] = (struct open_folder){ line + 1, line[0] == WRITABLE, -1 };
			continue;
		}
		if (!realpath(line, real) || stat(real, &info) < 0 || !S_ISDIR(info.st_mode))
			continue;
		int known = 0;
		for (int i = 0; i < count; i++)
			known |= !strcmp(found[i], real);
		if (!known)
			found[count++] = strdup(real);
	}
	return count;
}

/* Sets or clears mount attributes. */
static int set_attributes(const char *path, unsigned flags, uint64_t set, uint64_t clear)
{
	struct {
		uint64_t set, clear, propagation, userns;
	} attributes = { set, clear, 0, 0 };
	return (int)syscall(SYS_mount_setattr, AT_FDCWD, path, flags, &attributes, sizeof attributes);
}

/* Mounts folders over their overlays again: sockets and named pipes in them cannot be
   reached through an overlay. If this fails, so does what needs the folder. */
static void uncover(const struct open_folder *folders)
{
	char source[64];
	for (int i = 0; i < MOST_OPEN; i++) {
		if (folders[i].fd < 0)
			continue;
		snprintf(source, sizeof source, "/proc/self/fd/%d", folders[i].fd);
		if (mount(source, folders[i].path, NULL, MS_BIND, NULL) == 0 && folders[i].writable)
			set_attributes(folders[i].path, 0, 0, RDONLY);
		close(folders[i].fd);
	}
}

/* Covers each folder. On failure it returns how many are covered. */
static int cover_each(char **folders, const int *lowers, int count, int scratch, const char *first)
{
	for (int i = 0; i < count; i++) {
		if (parts(scratch, i, lowers[i]) < 0)
			return i;
		if (overlay(folders[i], lowers[i], scratch, i) == 0)
			continue;
		if (errno != EINVAL || !strcmp(folders[i], first) || assemble(folders[i], lowers[i]) < 0)
			return i;
	}
	return count;
}

static int make_read_only(char **folders, int count)
{
	if (set_attributes("/", RECURSIVE, RDONLY, 0) < 0)
		return -1;
	for (int i = 0; i < count; i++)
		if (set_attributes(folders[i], 0, 0, RDONLY) < 0)
			return -1;
	return 0;
}

/* Covers all folders and makes everything else read-only. On failure none is covered. */
static int cover_all(char **folders, const int *lowers, int count, const char *first)
{
	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return -1;
	/* The overlay of the first folder hides the scratch file system, which is reachable only
	   by its descriptor. */
	if (mount("scratch", first, "tmpfs", MS_NOSUID | MS_NODEV, "mode=700") < 0)
		return -1;
	int scratch = open(first, O_PATH | O_DIRECTORY | O_CLOEXEC), covered = 0;
	if (scratch >= 0) {
		scratch = raise_fd(scratch);
		covered = cover_each(folders, lowers, count, scratch, first);
	}
	if (scratch >= 0 && covered == count && make_read_only(folders, count) == 0) {
		close(scratch);
		return 0;
	}
	int error = errno;
	if (scratch >= 0)
		close(scratch);
	while (covered > 0)
		umount2(folders[--covered], MNT_DETACH);
	umount2(first, MNT_DETACH);
	errno = error;
	return -1;
}

/* Opens folders by their paths. Returns 0 or an errno. */
static int open_all(char **folders, int *fds, int count)
{
	for (int i = 0; i < count; i++) {
		fds[i] = open(folders[i], O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (fds[i] < 0) {
			int error = errno;
			while (i > 0)
				close(fds[--i]);
			return error;
		}
		fds[i] = raise_fd(fds[i]);
	}
	return 0;
}

int cover(const char *lines)
{
	char here[PATH_MAX], *folders[MOST_FOLDERS];
	struct open_folder uncovered[MOST_OPEN] = { { .fd = -1 }, { .fd = -1 } };
	char *text = strdup(lines);
	int error = 0, known = getcwd(here, sizeof here) != NULL;
	int count = text ? folders_of(text, folders, uncovered) : 0;
	if (new_namespace() < 0)
		return errno;
	const char *first = count > 0 ? folders[0] : "/";
	qsort(folders, (size_t)count, sizeof *folders, shallower);
	for (int i = 0; i < MOST_OPEN; i++) {
		if (uncovered[i].path)
			uncovered[i].fd = open(uncovered[i].path, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (uncovered[i].fd >= 0)
			uncovered[i].fd = raise_fd(uncovered[i].fd);
	}
	int lowers[MOST_FOLDERS];
	error = open_all(folders, lowers, count);
	if (error == 0) {
		if (count > 0 && cover_all(folders, lowers, count, first) < 0)
			error = errno;
		for (int i = 0; i < count; i++)
			close(lowers[i]);
	}
	uncover(uncovered);
	if ((!known || chdir(here) < 0) && chdir(first) < 0 && !error)
		error = errno;
	for (int i = 0; i < count; i++)
		free(folders[i]);
	free(text);
	return error;
}

enum { SYS_ADMIN = 21, CAPABILITIES = 0x20080522 };

int hold_fast(void)
{
	struct {
		uint32_t version;
		int pid;
	} header = { CAPABILITIES, 0 };
	struct {
		uint32_t effective, permitted, inheritable;
	} held[2];
	/* Without CAP_SYS_ADMIN there is nothing to drop, and dropping it would fail. */
	if (syscall(SYS_capget, &header, held) < 0)
		return errno;
	if (!(held[0].permitted & 1u << SYS_ADMIN))
		return 0;
	if (geteuid() == 0) {
		/* Only root gets capabilities of the bounding set by an exec. */
		if (prctl(PR_CAPBSET_DROP, SYS_ADMIN, 0, 0, 0) < 0)
			return errno;
		held[0].effective &= ~(1u << SYS_ADMIN);
		held[0].permitted &= ~(1u << SYS_ADMIN);
		held[0].inheritable &= ~(1u << SYS_ADMIN);
	} else {
		memset(held, 0, sizeof held);
	}
	/* Capabilities that are no longer permitted and inheritable are no longer ambient. */
	return syscall(SYS_capset, &header, held) < 0 ? errno : 0;
}
