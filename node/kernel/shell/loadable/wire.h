/* Packets between the node and a shell. */

#ifndef LOCUS_WIRE_H
#define LOCUS_WIRE_H

#include <stddef.h>

enum { HEAD = 64, TOKEN = 32, CALLER = 18, MOST_FDS = 4, MOST_INLINE = 32 << 10 };

struct request {
	char op;
	unsigned long seq;
	size_t size;     /* of the code */
	char options[10];
	char caller[CALLER + 1];
	int fds[MOST_FDS];
	int count;       /* of the descriptors */
	char *code;      /* from xmalloc, NUL-terminated */
};

/* Waits for a request. Returns 1, or 0 at the end of the connection, or -1 if a signal
   came first. */
int receive(int control, struct request *r);

int has_option(const struct request *r, char option);

struct cost {
	long long cpu;       /* microseconds */
	long resident;       /* peak, in KiB */
	unsigned long forks;
};

/* Reports the end of a call, and the shell's resource usage since its start. */
void report(int control, const char *token, unsigned long seq, int status, const struct cost *cost);

/* Sends a reply, with a descriptor or -1. */
void say(int control, const char *token, char kind, unsigned long seq, int status, int fd);

#endif
