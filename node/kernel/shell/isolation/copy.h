/* Copies of a session. */

#ifndef LOCUS_COPY_H
#define LOCUS_COPY_H

struct private_view {
	int keep[3];          /* descriptors that stay as they are, or -1 */
	int disk_error;       /* errno if the disk could not be isolated, else 0 */
	int processes_error;  /* the same for processes */
};

/* Makes the new process independent of its original: open files get offsets of their own.
   With read_only set it also gets a private view of the disk over the folders (see
   cover), it is confined, and its pipes and sockets are closed. */
void enter_copy(struct private_view *view, int read_only, const char *folders);

/* Makes the private view of the disk. The folders are one per line, the most important one
   first. The line of a folder in one of them that is not to be covered starts with "=" if
   the copy may only read it, and with "+" if it may also write it; a copy needs such a
   folder to reach a named pipe or a socket. Returns 0 or an errno. */
int cover(const char *folders);

/* Irrevocably keeps this process, and all that it starts, from affecting other processes
   and the objects that processes share. Returns 0 or an errno. */
int confine(void);

/* Gives up CAP_SYS_ADMIN, so that code cannot unmount the view. Returns 0 or an errno. Code
   that makes a user namespace has the capability again in that namespace, but there these
   mounts are locked. An ordinary user gives up all capabilities: it had none of use before
   the view was made. */
int hold_fast(void);

/* Moves a descriptor to a high number, away from code that closes or reuses low ones. */
int raise_fd(int fd);

/* Reopens regular files; closes pipes and sockets if close_streams is set. */
void reopen_files(const int *keep, int count, int close_streams);

#endif
