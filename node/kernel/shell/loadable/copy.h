/* Copies of a session. */

#ifndef LOCUS_COPY_H
#define LOCUS_COPY_H

struct private_view {
	int keep[3];          /* descriptors that are ours */
	int disk_error;       /* errno of what keeps the disk from being isolated */
	int processes_error;  /* the same for other processes */
};

/* Forks; gives 1 in the copy. The copy is not a child of the session. */
int fork_here(void);

/* Makes the new process independent of its original: open files get positions of
   their own, and with read_only set, the disk a private view over the folders (one
   a line; one behind "=" stays as it is, read-only), a fence around what it can do to other processes, and pipes
   and sockets are closed. */
void enter_copy(struct private_view *view, int read_only, const char *folders);

int own_pidfd(void);

/* Covers the folders; gives 0 or an errno. */
int cover(const char *folders);

/* Keeps this process, and all that it starts, from others and from the objects that
   processes share, for good; gives 0 or an errno. */
int raise_fence(void);

/* Gives up the power to take the view apart; gives 0 or an errno. In a user namespace of
   its own code gets the power back, but there the mounts of this one are locked
   together. */
int hold_fast(void);

/* Opens regular files anew; closes pipes and sockets if asked to. */
void reopen_files(const int *keep, int count, int close_streams);

#endif
